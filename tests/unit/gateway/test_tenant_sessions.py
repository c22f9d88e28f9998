"""Each request's session is found among its tenant's own."""

import gc
import weakref

import msgspec
import pytest

from infold.core.events import Event
from infold.gateway.event_hub import EventHub
from infold.gateway.tenants import MOST_LOGGED, MOST_OPEN, MOST_POOLS, TenantSessions
from infold.proxy.request import ParsedRequest, parse_request
from infold.stores.memory import MemoryStore

from ..proxy.talks import no_model, record  # noqa: TID252 - `tests` is no package to name
from .stage import CHAT, Item, chat, said, settings

REPLY = b'{"choices": [{"message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}]}'
TURN: list[Item] = [{"role": "user", "content": said(0)}, {"role": "assistant", "content": "yes"}]


def exchange(*messages: Item, model: str = "gpt-x", name: str = "s") -> ParsedRequest:
    """A request of a session of that name."""
    found = parse_request(CHAT, {"x-infold-session": name}, msgspec.json.encode(chat(list(messages), model=model)))
    assert isinstance(found, ParsedRequest)
    return found


def made(**variables: str) -> tuple[TenantSessions, list[Event]]:
    """The sessions, and the events that are published."""
    hub = EventHub()
    events: list[Event] = []
    hub.bus.subscribe(Event, events.append)
    return TenantSessions(MemoryStore(), settings(**{"INFOLD_WINDOW": "6000", **variables}), hub), events


def test_tenants_share_nothing() -> None:
    """B28: the same name and the same history are two sessions for two tenants."""

    def begin() -> list[int]:
        first = sessions.begin("ada", exchange(*TURN, *TURN[:1]), no_model)
        second = sessions.begin("eve", exchange(*TURN, *TURN[:1]), no_model)
        assert first.session is not second.session
        return [len(list(sessions.store.sessions(tenant))) for tenant in ("ada", "eve", "joe")]

    sessions, _ = made()

    assert begin() == [1, 1, 0]


def test_a_session_is_kept_open() -> None:
    """The next request of a session finds it as it stands; another model reads it from the store."""

    def begin() -> list[bool]:
        first = sessions.begin("ada", exchange(*TURN), no_model)
        again = sessions.begin("ada", exchange(*TURN, *TURN), no_model)
        other = sessions.begin("ada", exchange(*TURN, *TURN, model="other"), no_model)
        return [again.session is first.session, other.session is first.session, len(other.session.log.live) == 4]

    sessions, _ = made()

    assert begin() == [True, False, True]


def test_requests_may_have_a_window_of_their_own() -> None:
    """The window of a model that answers every request counts for requests, not for the settings of stored sessions."""
    sessions = TenantSessions(MemoryStore(), settings(), EventHub(), for_requests=settings(INFOLD_WINDOW="8192"))

    assert sessions.begin("ada", exchange(*TURN), no_model).session.window_tokens == 8_192
    assert sessions.settings_for("gpt-5").window is None


def test_what_happens_is_told() -> None:
    """B22: a compaction reaches whoever listens to the gateway."""

    def begin() -> None:
        messages = [message for number in range(40) for message in ({**TURN[0], "content": said(number)}, TURN[1])]
        sessions.begin("ada", exchange(*messages), no_model)

    sessions, events = made(INFOLD_WINDOW="3000")
    begin()

    assert [type(event).__name__ for event in events] == ["Compacted", "InstructionStubbed"]


def test_only_so_many_are_kept_open() -> None:
    """Tenants without number cost bounded memory; one that was let go is read again."""

    def begin() -> bool:
        first = sessions.begin("tenant 0", exchange(*TURN), no_model)
        for number in range(1, MOST_POOLS + 1):
            sessions.begin(f"tenant {number}", exchange(*TURN), no_model)
        again = sessions.begin("tenant 0", exchange(*TURN), no_model)
        return again.session is not first.session and again.session.log.next_sequence == first.session.log.next_sequence

    sessions, _ = made()

    assert begin()


def test_a_session_that_is_let_go_is_freed_at_once() -> None:
    """B17: it holds no reference to itself, so its memory does not wait for the garbage collector."""

    def begin() -> int:
        for number in range(MOST_OPEN + 20):
            managed = sessions.begin("ada", exchange(*TURN, *TURN[:1], name=f"s{number}"), no_model)
            record(managed, REPLY)
            seen.append(weakref.ref(managed.session))
        del managed
        return sum(session() is not None for session in seen)

    sessions, _ = made()
    seen: list[weakref.ref[object]] = []
    gc.collect()
    gc.disable()
    try:
        alive = begin()
    finally:
        gc.enable()

    assert alive == MOST_OPEN


@pytest.mark.parametrize(
    ("variables", "ahead"),
    [({}, True), ({"INFOLD_COMPACTION_BACKGROUND": "false"}, False), ({"INFOLD_COMPACTION_BACKGROUND": "true"}, True)],
)
def test_summaries_are_written_ahead(variables: dict[str, str], *, ahead: bool) -> None:
    """B18: in a gateway by default, unless the settings say otherwise."""
    sessions, _ = made(**variables)

    assert sessions.settings_for("gpt-x").background is ahead
    assert sessions.settings_for("").window == 6_000


@pytest.mark.parametrize(
    ("model", "variables", "told"),
    [
        ("our-deployment", {"INFOLD_WINDOW": ""}, 1),
        ("gpt-4o", {"INFOLD_WINDOW": ""}, 0),
        ("our-deployment", {"INFOLD_WINDOW": "64000"}, 0),
    ],
    ids=["unknown", "known", "set"],
)
def test_a_window_that_is_assumed_is_told_once(
    model: str, variables: dict[str, str], told: int, caplog: pytest.LogCaptureFixture
) -> None:
    """B11: an operator reads of a model that nobody knows, and what is assumed; of others there is nothing to read."""

    def begin() -> None:
        for tenant in ("ada", "eve"):
            sessions.begin(tenant, exchange(*TURN, model=model), no_model)

    sessions, _ = made(**variables)
    begin()

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == told
    assert all("'our-deployment'" in line and "32,768 tokens are assumed" in line for line in lines)


def test_no_client_fills_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever names a client makes up, the log has few of them, and none that is long."""

    def begin() -> None:
        for number in range(MOST_LOGGED + 5):
            sessions.begin("ada", exchange(*TURN, model=f"{number}\n" + "x" * 500), no_model)

    sessions, _ = made(INFOLD_WINDOW="")
    begin()

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == MOST_LOGGED
    assert all(len(line) < 300 and "\n" not in line for line in lines)
