"""The recorded requests of real agents: each run is one session, whatever its agent injects, dates, marks or asks beside it.

`tests/e2e/agents/record.py` made the recordings: two tasks in one session. OpenCode asks for a title, and its reminder of the
first task is gone in the second; with Anthropic's interface cache marks move; Codex opens with messages that it injects.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from infold.api.session_settings import SessionSettings
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.ports import SessionKey
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.stores.memory import MemoryStore

from .talks import no_model, record

RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "agents").glob("*.jsonl"))
NAMES = ("headers", "prompt_cache_key", "client_metadata", "metadata")
"""By what an agent may name its session, in a recorded request or its body."""

WINDOW = 200_000
TENANT = "tenant"


class Asked(Struct, frozen=True):
    """A recorded request and the reply it got."""

    path: str
    is_main: bool
    headers: Mapping[str, str]
    body: dict[str, Any]
    reply: dict[str, Any]


class Played(Struct, frozen=True):
    """The sessions that the requests of a recording went to, of the agent's own loop and beside it."""

    main: tuple[str, ...]
    beside: tuple[str, ...]
    store: MemoryStore

    @property
    def kept(self) -> frozenset[str]:
        """The sessions that are in the store; a nameless request without a reply has none."""
        return frozenset(stored.key.session_id for stored in self.store.sessions(TENANT))


def recorded(path: Path, *, named: bool) -> Iterator[Asked]:
    """The requests of a recording; nameless, nothing in them says which session they are of."""
    for line in path.read_bytes().splitlines():
        asked = msgspec.json.decode(line, type=Asked)
        body = {field: value for field, value in asked.body.items() if named or field not in NAMES}
        yield msgspec.structs.replace(asked, body=body, headers=asked.headers if named else {})


def played(path: Path, *, named: bool) -> Played:
    """The sessions of a recording in a store of its own."""
    return sessions_of(MemoryStore(), recorded(path, named=named))


def sessions_of(store: MemoryStore, requests: Iterable[Asked]) -> Played:
    """Take requests in as a gateway would, each with its reply."""
    pool = SessionPool(store, SessionSettings(window=WINDOW), TENANT)
    went: list[tuple[bool, str]] = []
    for asked in requests:
        exchange = request_of(asked)
        managed = pool.begin(exchange, no_model)
        assert managed.content == exchange.raw
        record(managed, msgspec.json.encode(asked.reply))
        went.append((asked.is_main, managed.session.log.session_id))
    return Played(
        tuple(name for is_main, name in went if is_main), tuple(name for is_main, name in went if not is_main), store
    )


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.stem)
def recording(request: pytest.FixtureRequest) -> Path:
    """Each of the recordings."""
    path = request.param
    assert isinstance(path, Path)
    return path


def test_all_agents_were_recorded() -> None:
    """There are recordings of three agents, two of them by two interfaces."""
    assert [path.stem.partition("-")[0] for path in RECORDINGS] == ["codex", "opencode", "opencode", "pi", "pi"]


def test_a_run_is_one_session(recording: Path) -> None:
    """All requests of an agent's own loop go to one session, over both of its tasks; a nameless one is known by its reply."""
    named, nameless = played(recording, named=True), played(recording, named=False)
    names_itself = not recording.stem.startswith("pi")

    assert len(set(named.main[0 if names_itself else 1 :])) == 1
    assert len(set(nameless.main[1:])) == 1
    assert all(len(went.kept & set(went.main)) == 1 for went in (named, nameless))


def test_what_is_asked_beside_goes_elsewhere(recording: Path) -> None:
    """A title request never joins the session of the work it is a title for."""
    for named in (True, False):
        went = played(recording, named=named)

        assert not went.kept & set(went.beside) & set(went.main)
        assert bool(went.beside) == recording.stem.startswith("opencode")


def test_nothing_is_taken_back_or_doubled(recording: Path) -> None:
    """What moves in an agent's requests changes nothing: the session holds each message once, and nothing but messages."""
    for named in (True, False):
        went = played(recording, named=named)
        last = [asked for asked in recorded(recording, named=named) if asked.is_main][-1]

        entries = [entry for _, entry in went.store.newest_first(SessionKey(TENANT, SessionId(went.main[-1])))]

        assert all(isinstance(entry, MessageEntry) for entry in entries)
        assert len(entries) == len(request_of(last).history.messages) + 1


def test_a_changed_head_is_another_session(recording: Path) -> None:
    """A run that begins with another task is not taken for the one before, though its agent calls both by one name."""
    store = MemoryStore()
    first = sessions_of(store, recorded(recording, named=True))
    second = sessions_of(store, map(other_task, recorded(recording, named=True)))

    assert not set(first.main) & set(second.main) & second.kept


def other_task(asked: Asked) -> Asked:
    """The same request of a run that was told to count boats."""
    body = msgspec.json.decode(msgspec.json.encode(asked.body).replace(b"Count the ships", b"Count the boats"))
    return msgspec.structs.replace(asked, body=body)


def request_of(asked: Asked) -> ParsedRequest:
    """A request as a gateway reads it."""
    exchange = parse_request(asked.path, asked.headers, msgspec.json.encode(asked.body))
    assert isinstance(exchange, ParsedRequest)
    return exchange
