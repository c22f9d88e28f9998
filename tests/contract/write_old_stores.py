"""Write `tests/data/stores`: run it once for a new schema, never to change a file that is there.

    PYTHONPATH=src python -m tests.contract.write_old_stores

The first had every kind of entry; a new schema's is the one before it, brought up to date. With it goes what the present code
reads in it: look at what changes there.
"""

import base64
import gzip
import json
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import openai

from infold import Session, SessionSettings, open_store, wrap
from infold.stores.lifecycle import migrations_for

from .old_stores import DATA, EXPECTED, HISTORIES, read_store

WINDOW = 8_000
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(200))).decode()
NOTES = "The work went on step by step, each part was looked at, and what the user asked for above still holds."


class Clock:
    """Time that passes between requests alone."""

    def __init__(self) -> None:
        self.value = 1_700_000_000_000

    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        return self.value


CLOCK = Clock()


def write_stores() -> None:
    """Write the file of today's schema from the newest of an older one, or all anew if there is none; then what is read."""
    DATA.mkdir(exist_ok=True)
    schema = len(migrations_for("sqlite"))
    older = [path for path in sorted(DATA.glob("schema-*.sqlite3.gz")) if path.name < f"schema-{schema}."]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"schema-{schema}"
        if older:
            path.write_bytes(gzip.decompress(older[-1].read_bytes()))
            open_store(str(path)).close()
        else:
            HISTORIES.write_bytes(gzip.compress(json.dumps(_write_today(path)).encode(), mtime=0))
        _keep(path, schema)
    with TemporaryDirectory() as folder:
        found = read_store(DATA / f"schema-{schema}.sqlite3.gz", Path(folder))
    EXPECTED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _keep(path: Path, schema: int) -> None:
    """Put a copy of the database, without its free pages, among the data."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(
            "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE; VACUUM; PRAGMA journal_mode = WAL"
        )
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript("PRAGMA wal_checkpoint(TRUNCATE)")
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    (DATA / f"schema-{schema}.sqlite3.gz").write_bytes(gzip.compress(copy.read_bytes(), mtime=0))


def _write_today(path: Path) -> dict[str, Any]:
    """Write sessions with every kind of entry; return the history of each and how it is kept."""
    made: dict[str, Any] = {}
    with open_store(str(path)) as store:
        for wire in ("openai-chat", "openai-responses", "anthropic-messages", "gemini"):
            made[wire] = _acts(store, wire)
        for policy in ("opencode-1.1.23", "opencode-1.1.57", "turn-window"):
            made[policy] = _by_policy(store, policy)
        made["ahead"] = _ahead(store)
        for tenant in ("ada", "grace"):
            made[f"{tenant}/shared"] = _of_tenant(store, tenant)
        _forked(store)
    return made


def _settings(wire: str, **given: Any) -> SessionSettings:
    options = {"window": WINDOW, "format": wire, "now_ms": CLOCK.now_ms, "environ": {}, "recall": True}
    return SessionSettings(**{**options, "summariser": lambda _: NOTES, **given})


def _acts(store: Any, wire: str) -> dict[str, Any]:
    """Everything a caller can do in one session."""
    items: list[Any] = []
    with Session(store, wire, _settings(wire)) as session:
        for step in range(16):
            _step(session, wire, items, step)
            match step:
                case 2:
                    session.pin("0.0")
                    session.pin("2.0")
                    session.title("Count the ships")
                    session.title("The first wish", message_id="m0")
                case 5:
                    session.compact("the tide tables")
                case 7:
                    session.undo()
                case 3:
                    session.unpin("2.0")
                case 9:
                    items.append(_user(wire, "Look at the lighthouse."))
                    session.prepare(items)
                    items[-1] = _user(wire, "No, look at the pier instead.")
                    session.prepare(items)
                    _record(session, wire, items, [_said(wire, "The pier is fine.")])
                case 11:
                    items.append(_user(wire, "Go on with the next harbour."))
                    session.prepare(items)
                    session.recover({"error": {"message": "prompt is too long: 5900 tokens > 5000 maximum"}})
                    _record(session, wire, items, [_said(wire, "I go on.")])
                case _:
                    pass
    return {"items": items, "format": wire, "policy": "infold", "window": WINDOW}


def _by_policy(store: Any, policy: str) -> dict[str, Any]:
    """Fold by the rules of a source document, whose checkpoints hold the messages of the compaction."""
    wire, window = "openai-chat", 128_000
    items: list[Any] = []
    with Session(store, policy, _settings(wire, policy=policy, window=window)) as session:
        for step in range(9):
            _step(session, wire, items, step)
            if step in (4, 8):
                session.compact()
    return {"items": items, "format": wire, "policy": policy, "window": window}


def _ahead(store: Any) -> dict[str, Any]:
    """Fold with a summary that was written before it was needed."""
    wire = "openai-chat"
    items: list[Any] = []
    with Session(store, "ahead", _settings(wire, background=True)) as session:
        for step in range(20):
            _step(session, wire, items, step, lines=16)
            while any(thread.name in ("infold-ahead", "infold-summariser") for thread in threading.enumerate()):
                time.sleep(0.001)
    return {"items": items, "format": wire, "policy": "infold", "window": WINDOW}


def _of_tenant(store: Any, tenant: str) -> dict[str, Any]:
    wire = "openai-chat"
    items: list[Any] = []
    with Session(store, "shared", _settings(wire), tenant=tenant) as session:
        for step in range(2):
            _step(session, wire, items, step)
        session.title(f"What {tenant} counts")
    return {"items": items, "format": wire, "policy": "infold", "window": WINDOW}


def _forked(store: Any) -> None:
    """Send two histories with a common beginning through a wrapped client, which keeps a session for each."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        message = {"role": "assistant", "content": "All is well."}
        return httpx2.Response(
            200,
            json={
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            },
        )

    transport = httpx2.MockTransport(answer)
    client = openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1", http_client=httpx2.Client(transport=transport))
    settings = SessionSettings(window=WINDOW, now_ms=CLOCK.now_ms, environ={})
    wrapped = wrap(client, settings, store=store, tenant="forks")
    common: list[Any] = [{"role": "user", "content": "Count the ships of every harbour."}]
    for tail in ("Begin in the north.", "Begin in the south."):
        items = [*common]
        for text in (tail, "Go on.", "And then?"):
            items += [{"role": "assistant", "content": "All is well."}, {"role": "user", "content": text}]
            wrapped.chat.completions.create(model="gpt-4o", messages=items)


# One step in each format: a wish, a call, its result, an answer.


def _step(session: Session, wire: str, items: list[Any], step: int, *, lines: int = 0) -> None:
    items.append(_user(wire, f"Count the ships of harbour {step}. Always keep tide table {step}.", image=step % 5 == 1))
    session.prepare(items)
    _record(session, wire, items, _called(wire, step))
    many = lines or (400 if step == 6 else 4 + step % 4 * 10)
    items.append(_result(wire, step, f"09:14 harbour {step}: ship {step} is late, see src/routes/r{step}.py\n" * many))
    session.prepare(items)
    _record(session, wire, items, [_said(wire, f"Harbour {step} has {step + 3} ships.")])


def _record(session: Session, wire: str, items: list[Any], said: list[Any]) -> None:
    """Record a reply whose usage is that of a small request, and add it to the history."""
    CLOCK.value += 9_000
    items += said
    size = 900 + len(items) * 20
    match wire:
        case "openai-chat":
            usage: dict[str, Any] = {"prompt_tokens": size, "completion_tokens": 20, "total_tokens": size + 20}
            session.record({"choices": [{"message": said[0], "finish_reason": "stop"}], "usage": usage})
        case "openai-responses":
            session.record(
                {"status": "completed", "output": said, "usage": {"input_tokens": size, "output_tokens": 20}}
            )
        case "anthropic-messages":
            usage = {"input_tokens": size, "output_tokens": 20, "cache_read_input_tokens": 10}
            session.record({"type": "message", "stop_reason": "end_turn", **said[0], "usage": usage})
        case _:
            usage = {"promptTokenCount": size, "candidatesTokenCount": 20, "totalTokenCount": size + 20}
            session.record({"candidates": [{"content": said[0], "finishReason": "STOP"}], "usageMetadata": usage})


def _user(wire: str, text: str, *, image: bool = False) -> Any:
    match wire:
        case "openai-chat":
            shown = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
            return {"role": "user", "content": [{"type": "text", "text": text}, *(shown if image else [])]}
        case "openai-responses":
            shown = [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]
            return {"role": "user", "content": [{"type": "input_text", "text": text}, *(shown if image else [])]}
        case "anthropic-messages":
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            return {
                "role": "user",
                "content": [{"type": "text", "text": text}, *([{"type": "image", "source": source}] if image else [])],
            }
        case _:
            return {
                "role": "user",
                "parts": [{"text": text}, *([{"inlineData": {"mimeType": "image/png", "data": PNG}}] if image else [])],
            }


def _called(wire: str, step: int) -> list[Any]:
    arguments = {"command": f"cat harbour{step}.txt"}
    match wire:
        case "openai-chat":
            call = {"name": "bash", "arguments": json.dumps(arguments)}
            return [
                {
                    "role": "assistant",
                    "content": "Reading.",
                    "tool_calls": [{"id": f"c{step}", "type": "function", "function": call}],
                }
            ]
        case "openai-responses":
            thought = {"type": "reasoning", "id": f"rs_{step}", "summary": [], "encrypted_content": "gAAAA" + "x" * 40}
            return [
                thought,
                {"type": "function_call", "call_id": f"c{step}", "name": "bash", "arguments": json.dumps(arguments)},
            ]
        case "anthropic-messages":
            thought = {"type": "thinking", "thinking": f"Let me see {step}.", "signature": "s" * 40}
            return [
                {
                    "role": "assistant",
                    "content": [thought, {"type": "tool_use", "id": f"c{step}", "name": "bash", "input": arguments}],
                }
            ]
        case _:
            asked = {"id": f"c{step}", "name": "bash", "args": arguments}
            return [{"role": "model", "parts": [{"functionCall": asked, "thoughtSignature": "c2ln"}]}]


def _result(wire: str, step: int, text: str) -> Any:
    match wire:
        case "openai-chat":
            return {"role": "tool", "tool_call_id": f"c{step}", "content": text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": f"c{step}", "output": text}
        case "anthropic-messages":
            result = {"type": "tool_result", "tool_use_id": f"c{step}", "content": text, "is_error": step == 4}
            return {"role": "user", "content": [result]}
        case _:
            return {
                "role": "user",
                "parts": [{"functionResponse": {"id": f"c{step}", "name": "bash", "response": {"output": text}}}],
            }


def _said(wire: str, text: str) -> Any:
    match wire:
        case "openai-responses":
            return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        case "gemini":
            return {"role": "model", "parts": [{"text": text}]}
        case _:
            return {
                "role": "assistant",
                "content": [{"type": "text", "text": text}] if wire == "anthropic-messages" else text,
            }


if __name__ == "__main__":
    write_stores()
