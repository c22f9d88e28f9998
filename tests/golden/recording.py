"""Keep what a session sends, asks and stores as bytes that can be digested, and compared line by line where they differ."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import msgspec

from infold import InfoldError, Session, SessionSettings

from .inputs import History
from .internals import summary
from .wires import WIRES, exchanges, reply_body

START_MS = 1_700_000_000_000
STEP_MS = 7_000
LONGEST_SECONDS = 30
NOTES = "The work went on step by step, each part was looked at, and what the user asked for above still holds; part {} is done."
CHINESE = "工作正在逐步进行，各部分都已检查。以上要求仍然有效，请继续完成剩下的部分，第{}部分已完成。"
UNUSABLE = "Sure."


class Clock:
    """A clock that moves when it is told to, so that the number of its readings does not matter."""

    def __init__(self) -> None:
        self.value = START_MS

    def step(self) -> None:
        """Let time pass."""
        self.value += STEP_MS

    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        return self.value


class Scribe:
    """A summariser that keeps each request, and gives an unusable answer to every fourth one."""

    def __init__(self, name: str) -> None:
        self.requests: list[bytes] = []
        self._text = CHINESE if name == "chinese" or ".zh" in name else NOTES

    def __call__(self, request: Any) -> Any:
        """Answer a request for a summary."""
        fields = {name: getattr(request, name) for name in ("system", "messages", "output_tokens", "shares_prefix")}
        self.requests.append(msgspec.json.encode(fields))
        count = len(self.requests)
        return summary(UNUSABLE if count % 4 == 3 else self._text.format(count))


class Requests:
    """What was sent: for each request the digest of its exact bytes, and the items that the one before did not have."""

    def __init__(self, brought: list[Any]) -> None:
        self._brought = {id(item) for item in brought}
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._before: set[bytes] = set()
        self.lines: list[bytes] = []
        self.written: dict[bytes, None] = {}
        self.bytes = 0

    def add(self, messages: list[Any]) -> None:
        """Take in one request."""
        items = [self._encoded(item) for item in messages]
        whole = b"[" + b",".join(items) + b"]"
        self.bytes = len(whole)
        self.lines.append(f"request {sha256(whole).hexdigest()} {len(whole)}".encode())
        self.lines += [item for item in items if item not in self._before]
        self._before = set(items)
        brought = self._brought
        self.written.update((code, None) for item, code in zip(messages, items, strict=True) if id(item) not in brought)

    def fail(self, error: InfoldError) -> None:
        """Take in that there was no request."""
        self.lines.append(f"error {type(error).__name__}".encode())

    def _encoded(self, item: Any) -> bytes:
        known = self._known.get(id(item))
        if known is None:
            known = self._known[id(item)] = (item, msgspec.json.encode(item))  # the item is kept, so that its id is
        return known[1]


def session_cases(history: History, settings: SessionSettings, store: Any) -> dict[str, bytes]:
    """Live through a history, and return what was sent, what infold wrote of it, what was asked and what is stored."""
    clock, scribe = Clock(), Scribe(history.name)
    settings = msgspec.structs.replace(settings, format=history.format, now_ms=clock.now_ms, environ={})
    if settings.summariser is not None:
        settings = msgspec.structs.replace(settings, summariser=scribe)
    sent = Requests(history.items)
    with Session(store, "golden", settings) as session:
        for number, exchange in enumerate(exchanges(WIRES[history.format], history.items)):
            clock.step()
            try:
                with _background_ended():
                    ready = session.prepare(exchange.sent, system=history.system, tools=history.tools)
                sent.add(ready.messages)
                clock.step()
                if exchange.reply:
                    body = reply_body(WIRES[history.format], exchange.reply, sent_bytes=sent.bytes, number=number)
                    with _background_ended():
                        session.record(body)
            except InfoldError as error:
                sent.fail(error)
                break
    return sections(sent, scribe, stored_entries(store))


def sections(sent: Requests, scribe: Scribe, entries: list[bytes]) -> dict[str, bytes]:
    """Return the kinds of what a session did, each as lines; a kind without lines is left out."""
    folds = [entry for entry in map(json.loads, entries) if entry["entry"] == "checkpoint"]
    kinds = {
        "requests": sent.lines,
        "written": list(sent.written),
        "summary-requests": scribe.requests,
        "checkpoints": [fold["text"].encode() for fold in folds],
        "entries": entries,
    }
    return {kind: b"\n".join(lines) + b"\n" for kind, lines in kinds.items() if lines}


def stored_entries(store: Any) -> list[bytes]:
    """Return the entries of a store's sessions, encoded, in order."""
    keys = sorted(session.key for tenant in store.tenants() for session in store.sessions(tenant))
    return [msgspec.json.encode(entry) for key in keys for _, entry in reversed(list(store.newest_first(key)))]


@contextmanager
def _background_ended() -> Iterator[None]:
    """Wait at the end for the threads begun meanwhile, so that a summary written in the background is always there in time.

    The thread that writes to a database goes on and is not waited for.
    """
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + LONGEST_SECONDS
    while any("writer" not in thread.name for thread in set(threading.enumerate()) - before):
        assert time.monotonic() < deadline, "a thread in the background does not end"
        time.sleep(0.0005)
