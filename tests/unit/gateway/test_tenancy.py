"""Each request's session is found among its tenant's own."""

import asyncio
from threading import current_thread, main_thread

import msgspec
import pytest

from infold.api.exchanges import Exchange, Relayed, opened
from infold.core.events import Event
from infold.gateway.aside import LARGE_BYTES, AsidePassage
from infold.gateway.hub import Hub
from infold.gateway.tenancy import MOST_KEPT, Tenancy
from infold.stores.memory import MemoryStore

from .stage import CHAT, Item, chat, said, settings

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


@pytest.mark.parametrize(
    ("variables", "ahead"),
    [({}, True), ({"INFOLD_COMPACTION_BACKGROUND": "false"}, False), ({"INFOLD_COMPACTION_BACKGROUND": "true"}, True)],
)
def test_summaries_are_written_ahead(variables: dict[str, str], *, ahead: bool) -> None:
    """B18: in a gateway by default, unless the settings say otherwise."""
    tenancy, _ = made(**variables)

    assert tenancy.settings_for("gpt-x").background is ahead
    assert tenancy.settings_for("").window == 6_000
