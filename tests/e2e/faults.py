"""A life of a session in which exactly one effect fails, and what must hold afterwards.

Every effect passes a trap: the store's appends, reads and locks, the summariser, and whoever is told. The trap springs at the
n-th of them, before it is carried out or after it, when nobody learns that it was. Only the caller's own calls are counted as
acknowledged: what a call took in before it returned must be there, and nothing may be there twice.
"""

import re
from asyncio import Future, ensure_future, to_thread
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, get_ident
from time import sleep
from typing import Any, Literal, NamedTuple, TypeVar

from tests.support.provider_rules import problems

from infold.core.entries import Entry, MessageEntry
from infold.core.events import Event as Happened
from infold.core.load import load
from infold.core.logged_message import Rendering
from infold.core.messages import OWN_IDS, SessionId
from infold.core.recall import Document, Hit
from infold.core.summary_request import SummaryRequest
from infold.formats.registry import OPENAI_CHAT
from infold.ports import FullStore, SessionKey, StoredSession
from infold.session.report import Ready
from infold.session.settings import SessionSettings

__all__ = [
    "LIMIT_TOKENS",
    "MODES",
    "Abort",
    "CancellingTrap",
    "Mode",
    "Move",
    "Trap",
    "TrappedStore",
    "check_lock",
    "check_messages",
    "check_ready",
    "key_of",
    "moves",
    "next_prompt",
    "settings",
]

WINDOW = 4_096
LIMIT_TOKENS = WINDOW - int(WINDOW * 0.15)
WAIT_SECONDS, MOMENT_SECONDS, MOST_LOOKS = 10, 0.01, 300
RULE = "Port the parser. Never touch vendor/."
NOTES = "The parser was ported part by part with make, and all went well."
REFUSAL = {"error": {"message": "Input is too long for requested model.", "code": "context_length_exceeded"}}

Item = dict[str, Any]
Mode = Literal["whole", "new"]
Outcome = TypeVar("Outcome")
MODES: tuple[Mode, ...] = ("whole", "new")


class Abort(BaseException):
    """A process that is told to end."""


class Trap:
    """Counts effects, and raises at one of them, before or after it is carried out; without a number it only counts."""

    def __init__(
        self, at: int | None = None, *, late: bool = False, error: Callable[[], BaseException] = Abort
    ) -> None:
        self.passed: list[str] = []
        self.sprung = False
        self.settled = Event()
        self._at = at
        self._late = late
        self._error = error

    @contextmanager
    def around(self, effect: str) -> Iterator[None]:
        """Pass with an effect."""
        self.passed.append(effect)
        here = len(self.passed) == self._at
        try:
            if here and not self._late:
                self.spring()
            yield
            if here and self._late:
                self.spring()
        finally:
            if here:
                self.settled.set()

    def spring(self) -> None:
        """Raise."""
        self.sprung = True
        raise self._error()

    async def watch(self, call: Awaitable[Outcome]) -> Outcome:
        """Await a call that may pass here."""
        return await call


class CancellingTrap(Trap):
    """A trap that cancels the task instead; an effect in a thread is carried out all the same, with nobody waiting for it."""

    def __init__(self, at: int, *, late: bool) -> None:
        super().__init__(at, late=late)
        self._ended = Event()
        self._thread = 0
        self._task: Future[Any] | None = None

    def spring(self) -> None:
        """Cancel whoever waits, and see that nobody does any more."""
        self.sprung, task = True, self._task
        assert task is not None
        if get_ident() == self._thread:
            task.cancel()
        else:
            task.get_loop().call_soon_threadsafe(task.cancel)
            self._ended.wait(MOMENT_SECONDS)  # a task may also wait for what it has begun

    async def watch(self, call: Awaitable[Outcome]) -> Outcome:
        """Await a call as a task of its own; if it is cancelled, wait for what it left behind."""
        self._thread = get_ident()
        self._task = task = ensure_future(call)
        task.add_done_callback(lambda _: self._ended.set() if self.sprung else None)
        try:
            return await task
        finally:
            if self.sprung:
                assert await to_thread(self.settled.wait, WAIT_SECONDS), "the effect did not end"


class TrappedStore:
    """A store whose appends, reads and locks pass a trap."""

    def __init__(self, store: FullStore, trap: Trap) -> None:
        self._store = store
        self._trap = trap

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append through the trap."""
        with self._trap.around("append"):
            return self._store.append(key, entries, expected=expected)

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Read through the trap."""
        with self._trap.around("load"):
            return self._store.newest_first(key, before=before)

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[bool]:
        """Take the lock through the trap, and give it back through it; a lock is given back in any case."""
        with self._store.hold(key) as held:
            with self._trap.around("hold"):
                pass
            yield held
        with self._trap.around("release"):
            pass

    def tenants(self) -> Sequence[str]:
        """As the store has them."""
        return self._store.tenants()

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """As the store has them."""
        return self._store.sessions(tenant)

    def delete(self, key: SessionKey) -> None:
        """As the store does it."""
        self._store.delete(key)

    def expire(self, older_than_ms: int) -> int:
        """As the store does it."""
        return self._store.expire(older_than_ms)

    def trim(self, max_bytes: int) -> int:
        """As the store does it."""
        return self._store.trim(max_bytes)

    def search(self, key: SessionKey, query: str, *, most: int) -> Sequence[Hit]:
        """As the store has it."""
        return self._store.search(key, query, most=most)

    def read(self, key: SessionKey, handle: str) -> Document:
        """As the store has it."""
        return self._store.read(key, handle)


def settings(trap: Trap, *, awaited: bool = False) -> SessionSettings:
    """A session whose summariser and whose observer pass the trap; nobody waits long for a lock that is not given back."""

    def notes(_: SummaryRequest) -> str:
        with trap.around("ask"):
            return NOTES

    async def notes_async(request: SummaryRequest) -> str:
        return notes(request)

    def hear(_: Happened) -> None:
        with trap.around("publish"):
            pass

    summariser = notes_async if awaited else notes
    return SessionSettings(
        window=WINDOW,
        summariser=summariser,
        summariser_tokens=32_000,
        summary_seconds=None,
        on_event=hear,
        patience_seconds=0.2,
    )


# The life: what the caller does, in order.

REPLIES = "ccc.c..cccccc.c"
"""What the model says in turn: `c` calls a tool, `.` ends the turn, and the person asks for more."""


class Move(NamedTuple):
    """One call on a session, the message it has the session take in, and how many replies there were before it."""

    verb: str
    given: tuple[Any, ...]
    takes_in: str = ""
    number: int = 0


def moves(mode: Mode) -> Iterator[Move]:
    """Turns with a pruning and compactions in them; a pin, a wish to compact, its undoing and a refusal among them."""
    for number in range(len(REPLIES)):
        yield prepares(mode, number)
        yield from (move._replace(number=number) for move in AMONG.get(number, ()))
        yield Move("record", (reply(number),), word_of(says(number)), number)
    yield prepares(mode, len(REPLIES))


AMONG = {
    2: (Move("pin", ("0.0",)),),
    5: (Move("compact", ("the parser",)), Move("undo", ())),
    10: (Move("recover", (REFUSAL,)),),
}
"""What a caller does between a request and its reply."""


def prepares(mode: Mode, number: int) -> Move:
    """The request before the reply of that number, which brings what the reply before led to."""
    new = follows(number)
    verb, items = ("prepare", whole(number)) if mode == "whole" else ("prepare_new", [new])
    return Move(verb, (items,), word_of(new), number)


def next_prompt(mode: Mode, number: int) -> Move:
    """What a person says after so many replies, whatever became of the last of them."""
    said = {"role": "user", "content": f"asks {LAST}: {RULE}"}
    verb, items = ("prepare", [*whole(number), said]) if mode == "whole" else ("prepare_new", [said])
    return Move(verb, (items,), word_of(said), number)


LAST = 99
"""The number of the next prompt, above all others."""


def whole(number: int) -> list[Item]:
    """The whole list before the reply of that number."""
    return [follows(0), *(item for step in range(number) for item in (says(step), follows(step + 1)))]


def follows(number: int) -> Item:
    """What comes before the reply of that number: a tool's answer of some seven hundred tokens, or a person's words."""
    if number == 0 or REPLIES[number - 1] == ".":
        return {"role": "user", "content": f"asks {number}: {RULE}"}
    return {
        "role": "tool",
        "tool_call_id": f"c{number - 1}",
        "content": f"result {number - 1}: all went well\n" * 70,
    }


def says(number: int) -> Item:
    """The reply of that number."""
    if REPLIES[number] == ".":
        return {"role": "assistant", "content": f"says {number}: that part is done."}
    function = {"name": "bash", "arguments": f'{{"command": "calls {number}"}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def reply(number: int) -> Item:
    """A provider's reply."""
    finish = "stop" if REPLIES[number] == "." else "tool_calls"
    return {"choices": [{"message": says(number), "finish_reason": finish}]}


# What must hold.


def key_of(name: str) -> SessionKey:
    """A session's key."""
    return SessionKey("", SessionId(name))


def check_messages(store: FullStore, key: SessionKey, acknowledged: Sequence[str]) -> None:
    """What was acknowledged is stored, nothing is stored twice, all in the order it was said; and the log can be read."""
    entries = [entry for _, entry in store.newest_first(key)][::-1]
    stored = [word for entry in entries if isinstance(entry, MessageEntry) and (word := word_of(entry.message))]

    assert [word for word in acknowledged if word not in stored] == [], "acknowledged and not there"
    assert stored == [word for word in SPOKEN if word in stored], "doubled or out of order"
    assert load(key.session_id, store.newest_first(key), Rendering()).next_sequence == len(entries)


def word_of(message: object) -> str:
    """The word by which one of the caller's messages is told from all others."""
    found = re.search(r"(?:asks|says|calls|result) \d+", str(message))
    return found[0] if found and not str(getattr(message, "id", "")).startswith(OWN_IDS) else ""


SPOKEN = [word for item in whole(len(REPLIES)) if (word := word_of(item))] + [f"asks {LAST}"]
"""Every word in the order of the life."""


def check_ready(ready: Ready) -> None:
    """The request fits, can be sent, and has the rule in it."""
    assert ready.gauge.upper_tokens <= LIMIT_TOKENS
    assert problems(OPENAI_CHAT, ready.messages) == ()
    assert RULE in str(ready.messages)


def check_lock(store: FullStore, key: SessionKey) -> None:
    """Nobody holds the session any more; a server may need a moment to see that a connection was closed."""
    assert any(is_free(store, key) for _ in range(MOST_LOOKS)), "the lock was not given back"


def is_free(store: FullStore, key: SessionKey) -> bool:
    """Whether the session can be held; where it cannot, a moment passes."""
    with store.hold(key) as free:
        if not free:
            sleep(MOMENT_SECONDS)
        return free
