"""What `fit` and `Session` make of a history, in every format, at three windows, by every preset."""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from infold import AsyncSession, InfoldError, Session, SessionSettings, fit, open_store
from infold import SessionSettings as Settings

from .inputs import LONG, History
from .recording import Clock, Requests, Scribe, sections, session_cases
from .wires import WIRES, Wire, exchanges, refusal, reply_body, text_item, user_item

WINDOWS = (8_000, 32_000, 128_000)
SMALL_WINDOW = 600
"""For the histories of a few hundred tokens, which change nothing elsewhere."""
PRESETS = ("infold", "opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive", "turn-window")
STORED_WINDOW = 32_000
FULL = (*LONG, "chinese", "native")
"""The histories whose cases are counted one by one; the cases of each shorter one stand together."""

Cases = dict[str, bytes]


def _ask(_: object) -> str:
    """Stand for a summariser in settings; the recording one takes its place."""
    raise NotImplementedError


def variants(wire: Wire) -> dict[str, dict[str, Any]]:
    """Return the settings that a session is kept by, by name."""
    shared = {"model": wire.model, "shares_prefix": True}
    return {
        **{name: {"policy": name} for name in PRESETS},
        "infold-code": {"summariser": None},
        "infold-recall": {"recall": True, "recovers": True},
        "infold-shared": shared,
        "infold-shared-recall": {**shared, "recall": True, "recovers": True},
        "opencode-1.18-shared": {**shared, "policy": "opencode-1.18"},
        "infold-background": {"background": True},
    }


def fit_cases(histories: Iterable[History], *, together: bool) -> Cases:
    """Return what `fit` makes of histories; `together` has one case per format."""
    found: Cases = {}
    for history in histories:
        each = {f"{window}/{name}": made for window in _windows(history) for name, made in _fits(history, window)}
        found |= _gathered(history, each, together=together)
    return found


def _fits(history: History, window: int) -> Iterator[tuple[str, bytes]]:
    options: dict[str, dict[str, Any]] = {name: {"policy": name} for name in PRESETS}
    options["infold-model-recall"] = {"model": WIRES[history.format].model, "recall": True}
    options["infold-estimate"] = {"exact": False}
    for name, given in options.items():
        try:
            fitted = fit(
                history.items,
                window=window,
                system=history.system,
                tools=history.tools,
                format=history.format,
                environ={},
                **given,
            )
        except InfoldError as error:
            yield name, f"error {type(error).__name__}\n".encode()
        else:
            yield name, b"".join(msgspec.json.encode(item) + b"\n" for item in fitted.messages)


def sessions_cases(histories: Iterable[History], *, together: bool, names: tuple[str, ...] = ()) -> Cases:
    """Return what sessions do with histories: in memory by all settings (or those named), in SQLite by two of them."""
    found: Cases = {}
    for history in histories:
        each: Cases = {}
        for name, given in variants(WIRES[history.format]).items():
            if names and name not in names:
                continue
            for window in _windows(history):
                settings = Settings(**{"window": window, "summariser": _ask, **given})
                each |= _under(f"{window}/{name}", session_cases(history, settings, open_store("memory")))
        if not names:
            each |= _under("sqlite", _in_sqlite(history, Settings(window=STORED_WINDOW, summariser=_ask)))
            each |= _under("async", _awaited(history, Settings(window=STORED_WINDOW, summariser=_ask)))
        found |= _gathered(history, each, together=together)
    return found


def _windows(history: History) -> tuple[int, ...]:
    """Return the windows a history is kept in; those that it cannot fill add nothing."""
    match history.name:
        case "chinese" | "native":
            return WINDOWS[:2]
        case name if name in FULL or "/" in name:
            return WINDOWS
        case _:
            return (SMALL_WINDOW, *WINDOWS)


def _under(prefix: str, cases: Mapping[str, bytes]) -> Cases:
    return {f"{prefix}/{name}": content for name, content in cases.items()}


def _gathered(history: History, each: Cases, *, together: bool) -> Cases:
    if not together:
        return _under(history.format, each)
    return {history.format: b"".join(f"## {name}\n".encode() + content for name, content in each.items())}


def _in_sqlite(history: History, settings: SessionSettings) -> Cases:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "golden.sqlite3"
        with open_store(str(path)) as store:
            cases = session_cases(history, settings, store)
        return {**cases, **stored_rows(path)}


def stored_rows(path: Path) -> Cases:
    """Return the entries and media of a database file, as they stand in its tables."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "SELECT tenant, id, sequence, stored FROM entries JOIN sessions ON number = session ORDER BY 1, 2, 3"
        ).fetchall()
        media = database.execute("SELECT digest, stored FROM media ORDER BY 1, 2").fetchall()
    entries = b"".join(f"{tenant}/{name}/{at} ".encode() + stored + b"\n" for tenant, name, at, stored in rows)
    kept = b"".join(f"{digest} {stored.hex()}\n".encode() for digest, stored in media)
    return {"rows": entries, **({"media": kept} if kept else {})}


def _awaited(history: History, settings: SessionSettings) -> Cases:
    """Live through a history with the async session."""
    clock, scribe, sent = Clock(), Scribe(history.name), Requests(history.items)
    wire, store = WIRES[history.format], open_store("memory")

    async def answer(request: object) -> Any:
        return scribe(request)

    async def live() -> None:
        given = msgspec.structs.replace(settings, summariser=answer, format=wire.name, now_ms=clock.now_ms, environ={})
        async with await AsyncSession.open(store, "golden", given) as session:
            for number, exchange in enumerate(exchanges(wire, history.items)):
                clock.step()
                try:
                    ready = await session.prepare(exchange.sent, system=history.system, tools=history.tools)
                    sent.add(ready.messages)
                    clock.step()
                    if exchange.reply:
                        await session.record(reply_body(wire, exchange.reply, sent_bytes=sent.bytes, number=number))
                except InfoldError as error:
                    sent.fail(error)
                    return

    asyncio.run(live())
    found = sections(sent, scribe, [])
    return {name: found[name] for name in ("requests", "summary-requests") if name in found}


QUERIES = (
    "route late harbour",
    "vendor",
    "timetable importer feed",
    "no such words at all qqq",
    "0.0",
    "2.0",
    "2.0+40",
    "999.9",
)


def acts_cases(history: History, path: Path) -> Cases:
    """Do in one stored session everything a caller can ask for, and return what is sent, asked, stored and recalled."""
    wire = WIRES[history.format]
    clock, scribe, sent = Clock(), Scribe(history.name), Requests(history.items)
    settings = Settings(
        window=16_000, summariser=scribe, recall=True, format=wire.name, now_ms=clock.now_ms, environ={}
    )
    told: list[str] = []
    steps = list(exchanges(wire, history.items[:120]))
    with open_store(str(path)) as store:
        with Session(store, "acts", settings) as session:
            for number, exchange in enumerate(steps):
                clock.step()
                sent.add(session.prepare(exchange.sent, system=history.system, tools=history.tools).messages)
                for act in _ACTS.get(number, ()):
                    _act(act, session, wire, sent)
                clock.step()
                if exchange.reply:
                    session.record(reply_body(wire, exchange.reply, sent_bytes=sent.bytes, number=number))
            _amend(session, wire, steps, sent)
            for query in QUERIES:
                told.append(f"## {query}")
                try:
                    told.append(session.recall(query))
                    told.append(session.recall(query, budget_tokens=300))
                except InfoldError as error:
                    told.append(f"error {type(error).__name__}")
        with Session(store, "acts", settings, tenant="other") as session:
            sent.add(session.prepare_new(history.items[:1], system=history.system).messages)
            sent.add(session.prepare_new([user_item(wire, "And then?")]).messages)
    return {**sections(sent, scribe, []), **stored_rows(path), "recall": "\n".join(told).encode()}


_ACTS: dict[int, tuple[str, ...]] = {
    3: ("pin", "title"),
    8: ("compact",),
    12: ("undo",),
    15: ("recover",),
    20: ("focus", "unpin"),
    25: ("compact", "undo", "compact"),
    30: ("recover",),
}


def _act(act: str, session: Session, wire: Wire, sent: Requests) -> None:
    """Do one thing; one that is impossible at this place is digested as its error."""
    try:
        match act:
            case "pin":
                session.pin("0.0")
                session.pin("2.0")
            case "unpin":
                session.unpin("2.0")
            case "title":
                session.title("Port the importer")
                session.title("The first wish", message_id="m0")
            case "compact":
                sent.add(session.compact().messages)
            case "focus":
                sent.add(session.compact("the open bugs of the importer").messages)
            case "undo":
                session.undo()
            case _:
                ready = session.recover(refusal(wire, size=15_500, limit=14_000))
                sent.add(ready.messages if ready else [])
    except InfoldError as error:
        sent.fail(error)


def _amend(session: Session, wire: Wire, steps: list[Any], sent: Requests) -> None:
    """Take back the end of the history and put something else in its place; then change its beginning, which is refused."""
    end = steps[-1].sent
    changed = [*end[:-1], user_item(wire, "No, leave that and look at the harbour first.")]
    for items in (changed, [*changed, text_item(wire, "Done."), user_item(wire, "Go on.")], changed[4:]):
        try:
            sent.add(session.prepare(items).messages)
        except InfoldError as error:
            sent.fail(error)
