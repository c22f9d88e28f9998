"""Each request's session is found among its tenant's own."""

import asyncio
import gc
import weakref
from threading import current_thread, main_thread

import msgspec
import pytest

from infold.api.exchanges import Exchange, Relayed, opened
from infold.core.events import Event
from infold.gateway.aside import LARGE_BYTES, AsidePassage
from infold.gateway.hub import Hub
from infold.gateway.tenancy import MOST_KEPT, MOST_OPEN, MOST_TOLD, Tenancy
from infold.stores.memory import MemoryStore

from .stage import CHAT, Item, chat, said, settings

REPLY = b'{"choices": [{"message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}]}'
TURN: list[Item] = [{"role": "user", "content": said(0)}, {"role": "assistant", "content": "yes"}]


def exchange(*messages: Item, model: str = "gpt-x", name: str = "s") -> Exchange:
    """A request of a session of that name."""
    found = opened(CHAT, {"x-infold-session": name}, msgspec.json.encode(chat(list(messages), model=model)))
    assert isinstance(found, Exchange)
    return found


async def nobody(_: bytes) -> Relayed:
    """Nobody is asked for summaries."""
    raise AssertionError("nobody is asked")


def made(**variables: str) -> tuple[Tenancy, list[Event]]:
    """A tenancy and what is told of it."""
    hub = Hub()
    events: list[Event] = []
    hub.bus.subscribe(Event, events.append)
    return Tenancy(MemoryStore(), settings(**{"INFOLD_WINDOW": "6000", **variables}), hub), events


def test_tenants_share_nothing() -> None:
    """B28: the same name and the same history are two sessions for two tenants."""

    async def begin() -> list[int]:
        first = await tenancy.begin("ada", exchange(*TURN, *TURN[:1]), nobody)
        second = await tenancy.begin("eve", exchange(*TURN, *TURN[:1]), nobody)
        assert first.session is not second.session
        return [len(list(tenancy.store.sessions(tenant))) for tenant in ("ada", "eve", "joe")]

    tenancy, _ = made()

    assert asyncio.run(begin()) == [1, 1, 0]


def test_a_session_is_kept_open() -> None:
    """The next request of a session finds it as it stands; another model reads it from the store."""

    async def begin() -> list[bool]:
        first = await tenancy.begin("ada", exchange(*TURN), nobody)
        again = await tenancy.begin("ada", exchange(*TURN, *TURN), nobody)
        other = await tenancy.begin("ada", exchange(*TURN, *TURN, model="other"), nobody)
        return [again.session is first.session, other.session is first.session, len(other.session.log.live) == 4]

    tenancy, _ = made()

    assert asyncio.run(begin()) == [True, False, True]


def test_a_large_request_is_worked_on_aside() -> None:
    """A request of many bytes never keeps the event loop, and is the same session to everyone else."""

    async def begin() -> None:
        small = await tenancy.begin("ada", exchange(*TURN), nobody)
        large = await tenancy.begin("ada", exchange(*TURN, {"role": "user", "content": "x " * LARGE_BYTES}), nobody)
        assert isinstance(large, AsidePassage)
        assert len(large.content) < LARGE_BYTES
        assert large.exchange.name == "s"
        reply = {"choices": [{"message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}]}
        await large.record(msgspec.json.encode(reply))
        assert large.session.log.next_sequence > small.session.log.next_sequence
        assert await tenancy.aside.run(current_thread) is not main_thread()
        await tenancy.close()

    tenancy, _ = made()
    asyncio.run(begin())


def test_what_happens_is_told() -> None:
    """B22: a compaction reaches whoever listens to the gateway."""

    async def begin() -> None:
        messages = [message for number in range(40) for message in ({**TURN[0], "content": said(number)}, TURN[1])]
        await tenancy.begin("ada", exchange(*messages), nobody)

    tenancy, events = made(INFOLD_WINDOW="3000")
    asyncio.run(begin())

    assert [type(event).__name__ for event in events] == ["Compacted", "InstructionStubbed"]


def test_only_so_many_are_kept_open() -> None:
    """Tenants without number cost bounded memory; one that was let go is read again."""

    async def begin() -> bool:
        first = await tenancy.begin("tenant 0", exchange(*TURN), nobody)
        for number in range(1, MOST_KEPT + 1):
            await tenancy.begin(f"tenant {number}", exchange(*TURN), nobody)
        again = await tenancy.begin("tenant 0", exchange(*TURN), nobody)
        return again.session is not first.session and again.session.log.next_sequence == first.session.log.next_sequence

    tenancy, _ = made()

    assert asyncio.run(begin())


def test_a_session_that_is_let_go_is_freed_at_once() -> None:
    """B17: it holds no reference to itself, so its memory does not wait for the garbage collector."""

    async def begin() -> int:
        for number in range(MOST_OPEN + 20):
            passage = await tenancy.begin("ada", exchange(*TURN, *TURN[:1], name=f"s{number}"), nobody)
            await passage.record(REPLY)
            seen.append(weakref.ref(passage.session))
        del passage
        return sum(session() is not None for session in seen)

    tenancy, _ = made()
    seen: list[weakref.ref[object]] = []
    gc.collect()
    gc.disable()
    try:
        alive = asyncio.run(begin())
    finally:
        gc.enable()

    assert alive == MOST_OPEN


@pytest.mark.parametrize(
    ("variables", "ahead"),
    [({}, True), ({"INFOLD_COMPACTION_BACKGROUND": "false"}, False), ({"INFOLD_COMPACTION_BACKGROUND": "true"}, True)],
)
def test_summaries_are_written_ahead(variables: dict[str, str], *, ahead: bool) -> None:
    """B18: in a gateway by default, unless the settings say otherwise."""
    tenancy, _ = made(**variables)

    assert tenancy.settings_for("gpt-x").background is ahead
    assert tenancy.settings_for("").window == 6_000


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

    async def begin() -> None:
        for tenant in ("ada", "eve"):
            await tenancy.begin(tenant, exchange(*TURN, model=model), nobody)

    tenancy, _ = made(**variables)
    asyncio.run(begin())

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == told
    assert all("'our-deployment'" in line and "32,768 tokens are assumed" in line for line in lines)


def test_no_client_fills_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever names a client makes up, the log has few of them, and none that is long."""

    async def begin() -> None:
        for number in range(MOST_TOLD + 5):
            await tenancy.begin("ada", exchange(*TURN, model=f"{number}\n" + "x" * 500), nobody)

    tenancy, _ = made(INFOLD_WINDOW="")
    asyncio.run(begin())

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == MOST_TOLD
    assert all(len(line) < 300 and "\n" not in line for line in lines)
