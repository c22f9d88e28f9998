"""What the public names read in a database: the sessions, their entries, the next request, exports, recall and media."""

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from infold import InfoldError, Ready, Session, SessionSettings, open_store
from infold.__main__ import main

DATA = Path(__file__).parents[1] / "data" / "stores"
HISTORIES = DATA / "histories.json.gz"
EXPECTED = DATA / "expected.json"
LONGEST = 100
"""Characters of a value that are kept whole; of a longer one its beginning, its length and its digest are."""
QUERIES = ("harbour late", "tide table 3", "pier", "0.0", "2.0", "6.0+100")
NOW_MS = 1_800_000_000_000


def read_store(file: Path, folder: Path) -> dict[str, Any]:
    """Read everything in a copy of a database."""
    path = folder / "sessions.db"
    path.write_bytes(gzip.decompress(file.read_bytes()))
    histories = json.loads(gzip.decompress(HISTORIES.read_bytes()))
    found: dict[str, Any] = {}
    with open_store(str(path)) as store:
        for tenant in store.tenants():
            for stored in list(store.sessions(tenant)):
                name = f"{tenant}/{stored.key.session_id}".lstrip("/")
                entries = [msgspec.json.encode(entry) for _, entry in store.newest_first(stored.key)][::-1]
                found[name] = {
                    "listed": [stored.entries, stored.stored_bytes, stored.changed_ms],
                    "entries": [_shortened(entry.decode()) for entry in entries],
                    "exports": {
                        shape: _exported(path, tenant, stored.key.session_id, shape)
                        for shape in ("markdown", "jsonl", "opencode")
                    },
                    **_session(store, stored.key.session_id, tenant, histories.get(name)),
                }
    return found


def _session(store: Any, session_id: str, tenant: str, history: dict[str, Any] | None) -> dict[str, Any]:
    """Read a session through its own methods, the request that continues its history last, since it writes."""
    kept = history or {"format": "openai-chat", "policy": "infold", "window": 8_000, "items": []}
    settings = SessionSettings(
        window=kept["window"],
        policy=kept["policy"],
        format=kept["format"],
        recall=True,
        now_ms=lambda: NOW_MS,
        environ={},
    )
    with Session(store, session_id, settings, tenant=tenant) as session:
        recalled = {query: _tried(session.recall, query) for query in QUERIES}
        media = {handle: _tried(session.media, handle) for handle in (f"{number}.1" for number in range(60))}
        view = _tried(session.prepare, kept["items"]) if history else None
    return {
        "recall": {query: _shortened(text) for query, text in recalled.items()},
        "media": {
            handle: [sha256(one.data).hexdigest() for one in found]
            for handle, found in media.items()
            if not isinstance(found, str)
        },
        "view": _items(view.messages) if isinstance(view, Ready) else view,
    }


def _items(messages: list[Any]) -> list[str]:
    return [_shortened(json.dumps(item, ensure_ascii=False)) for item in messages]


def _tried(read: Callable[[Any], Any], given: Any) -> Any:
    """Return what is read, or the name of the error that says there is nothing."""
    try:
        return read(given)
    except InfoldError as error:
        return f"error {type(error).__name__}"


def _exported(path: Path, tenant: str, session_id: str, shape: str) -> str:
    """Return what `infold export` writes."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    given = ["export", session_id, "--to", shape, "--store", str(path), "--tenant", tenant]
    status: object = 0
    with redirect_stdout(out), _command_line(given):
        try:
            main()
        except SystemExit as ended:
            status = ended.code
    assert not status, f"infold {' '.join(given)} ended with {status}"
    assert isinstance(out.buffer, io.BytesIO)
    return _shortened(out.buffer.getvalue().decode())


@contextmanager
def _command_line(arguments: list[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = ["infold", *arguments]
    try:
        yield
    finally:
        sys.argv = before


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… {len(text)} characters, sha256 {sha256(text.encode()).hexdigest()[:32]}"
