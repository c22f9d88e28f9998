"""What the tools of the MCP server do."""

import pytest

from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.core.tokens import estimate
from infold.errors import BrokenInput, UnknownReference, UnknownSession, UsageError
from infold.mcp.tools import MOST_SESSIONS, TOOLS, RecallTools, ToolListing
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, numbered, result, user


class Ticking:
    """A clock that goes on by a minute whenever it is asked."""

    def __init__(self) -> None:
        self.minutes = 0

    def now_ms(self) -> int:
        """The next minute of the first of January 2026."""
        self.minutes += 1
        return 1_767_225_600_000 + self.minutes * 60_000


def keep(store: MemoryStore, session: str, *said: str, tenant: str = "") -> None:
    """A session in which these things were said, each answered by a tool."""
    drafts = [draft for text in said for draft in (user(text), calls("bash"), result(output=f"heard: {text}"))]
    entries = [MessageEntry(message) for message in numbered(drafts)]
    store.append(SessionKey(tenant, SessionId(session)), entries, expected=0)


@pytest.fixture
def store() -> MemoryStore:
    """Two sessions of nobody in particular, and one of ada's."""
    kept = MemoryStore(Ticking())
    keep(kept, "ferry", "the harbour key is quay-4711")
    keep(kept, "kites", "sixteen red kites")
    keep(kept, "secret", "the harbour key is under the mat", tenant="ada")
    return kept


def test_the_last_changed_session_is_meant(store: MemoryStore) -> None:
    """B6: where neither the server nor the call names a session, it is the one that grew last."""
    assert "sixteen red kites" in RecallTools(store).call("recall", {"query": "kites"})
    assert RecallTools(store).call("recall", {"query": "harbour key"}).startswith("Nothing")


@pytest.mark.parametrize(
    ("session", "arguments"),
    [
        ("ferry", {"query": "harbour key"}),
        ("", {"query": "harbour key", "session": "ferry"}),
        ("kites", {"query": "0.0", "session": "ferry"}),
    ],
)
def test_a_session_can_be_named(store: MemoryStore, session: str, arguments: dict[str, object]) -> None:
    """B6: the server may be started for one session, and a call may name another."""
    assert "quay-4711" in RecallTools(store, session=session).call("recall", arguments)


def test_a_part_is_read(store: MemoryStore) -> None:
    """B6: read takes a handle, and nothing that would be a search."""
    assert RecallTools(store).call("read", {"handle": "[2.0]"}) == "[2.0] bash {}\nheard: sixteen red kites"
    assert RecallTools(store).call("read", {"handle": "2.0+7"}).endswith("\nsixteen red kites")
    for handle in ("kites", "", "2", "2.0 0.0", "99.0"):
        with pytest.raises(UnknownReference):
            RecallTools(store).call("read", {"handle": handle})


def test_sessions_are_listed(store: MemoryStore) -> None:
    """B6, B28: a tenant's own, the last changed first, with size and time, and which one is meant."""
    assert RecallTools(store).call("sessions", {}) == (
        "2026-01-01 00:02 UTC, 3 entries, 1 kB: kites\n"
        "2026-01-01 00:01 UTC, 3 entries, 1 kB: ferry\n\n"
        "Where no session is named, the first of these is meant."
    )
    assert RecallTools(store, session="ferry").sessions().endswith("\n\nWhere no session is named, ferry is meant.")
    assert "kites" not in RecallTools(store, tenant="ada").sessions()


def test_the_one_tenant_of_a_gateway_need_not_be_named() -> None:
    """B6, B28: where the store has one tenant's sessions they are meant; of several none, until the server is started for one."""
    store = MemoryStore(Ticking())
    keep(store, "kites", "sixteen red kites", tenant="ada")
    alone = RecallTools(store).call("recall", {"query": "kites"})
    keep(store, "ferry", "the harbour key is quay-4711", tenant="eve")

    assert "sixteen red kites" in alone
    for name in ("recall", "sessions"):
        with pytest.raises(UsageError, match="sessions of 2 tenants; start infold mcp with --tenant"):
            RecallTools(store).call(name, {"query": "kites"})
    assert "quay-4711" in RecallTools(store, tenant="eve").call("recall", {"query": "harbour key"})


def test_a_long_list_of_sessions_is_bounded() -> None:
    """B6: the list is no longer than an answer may be, and has one session at least."""
    store = MemoryStore(Ticking())
    for number in range(MOST_SESSIONS + 10):
        keep(store, f"session-{number}", "hello")

    assert RecallTools(store, budget_tokens=100_000).sessions().count("entries") == MOST_SESSIONS
    assert 1 < RecallTools(store, budget_tokens=200).sessions().count("entries") < 10
    assert estimate(RecallTools(store, budget_tokens=200).sessions(), "features") <= 200
    assert RecallTools(store, budget_tokens=1).sessions().count("entries") == 1


def test_an_answer_keeps_to_its_budget(store: MemoryStore) -> None:
    """B6: the server's own bound holds for what is read and what is found."""
    keep(store, "long", *(f"kite number {number} flew over the hill" for number in range(200)))
    for query in ("kite hill", "0.0 2.0 3.0 5.0 6.0"):
        assert estimate(RecallTools(store, budget_tokens=60).call("recall", {"query": query}), "features") <= 60


def test_what_is_not_there_is_told(store: MemoryStore) -> None:
    """B6: a session, a tenant's first session, a tool and a query that are missing are told apart."""
    with pytest.raises(UnknownSession, match="list the sessions"):
        RecallTools(store, session="gone").call("recall", {"query": "kites"})
    with pytest.raises(UnknownSession):
        RecallTools(store, tenant="ada").call("recall", {"query": "kites", "session": "kites"})
    for name in ("recall", "sessions"):
        with pytest.raises(UsageError, match="no session in this store yet"):
            RecallTools(store, tenant="eve").call(name, {"query": "kites"})
    with pytest.raises(UsageError, match="call recall, read, sessions"):
        RecallTools(store).call("write", {})
    with pytest.raises(BrokenInput, match="no query"):
        RecallTools(store).call("recall", {"session": "kites"})


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: str(tool.name))
def test_every_tool_can_be_called_as_it_says(store: MemoryStore, tool: ToolListing) -> None:
    """B6: each tool that is listed answers when it is given what its schema demands."""
    fitting = {"query": "kites", "handle": "0.0"}
    demanded = tool.arguments.get("required", [])

    assert RecallTools(store).call(tool.name, {name: fitting[name] for name in demanded})


def test_a_compaction_can_be_asked_for(store: MemoryStore) -> None:
    """B20: the call is answered and changes nothing here: what acts on it is the gateway that sees it."""
    before = [list(store.newest_first(one.key)) for one in store.sessions("")]

    assert RecallTools(store).call("compact", {"focus": "the kites"}).startswith("Noted.")
    assert RecallTools(store).call("compact", {}).startswith("Noted.")
    assert RecallTools(store).media("compact", {"query": "0.0"}) == ()
    assert [list(store.newest_first(one.key)) for one in store.sessions("")] == before
