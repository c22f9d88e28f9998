"""Who hears what happens."""

import asyncio
from threading import Thread

from infold.core.events import Event, FailedOpen
from infold.gateway.event_hub import MOST_WAITING, EventHub


def event(number: int) -> FailedOpen:
    """One of several events."""
    return FailedOpen("s", f"problem {number}")


async def heard(hub: EventHub, most: int) -> list[Event]:
    """So many events, or all until they end."""
    found: list[Event] = []
    async for _, one in hub.subscribe():
        found.append(one)
        if len(found) == most:
            break
    return found


async def begun(hub: EventHub, most: int) -> "asyncio.Task[list[Event]]":
    """A listener that has begun to listen."""
    task = asyncio.create_task(heard(hub, most))
    await asyncio.sleep(0)
    return task


def test_a_listener_hears_what_happens_from_then_on() -> None:
    """Events come in order, also from other threads, and are counted whoever listens."""

    async def listen() -> list[Event]:
        hub.observe(event(0))
        task = await begun(hub, 2)
        hub.observe(event(1))
        thread = Thread(target=hub.observe, args=(event(2),))
        thread.start()
        thread.join()
        return await task

    hub = EventHub()

    assert asyncio.run(listen()) == [event(1), event(2)]
    assert "infold_failed_open_total 3" in hub.metrics.text()


def test_a_page_hears_whose_session_it_is() -> None:
    """B28: two tenants' sessions may have one id; who listens can tell them apart."""

    async def listen() -> list[str | None]:
        events = hub.subscribe()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for tenant in ("one", "two", None):
            hub.observe(event(1), tenant)
        return [(await first)[0], (await anext(events))[0], (await anext(events))[0]]

    hub = EventHub()

    assert asyncio.run(listen()) == ["one", "two", None]


def test_a_listener_that_sleeps_misses_the_oldest() -> None:
    """A page that does not listen costs bounded memory."""

    async def listen() -> list[Event]:
        events = hub.subscribe()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for number in range(MOST_WAITING + 5):
            hub.observe(event(number))
        await first
        return [(await anext(events))[1] for _ in range(3)]

    hub = EventHub()

    assert asyncio.run(listen()) == [event(number) for number in (6, 7, 8)]


def test_closing_lets_all_listeners_go() -> None:
    """The gateway ends without waiting for pages; who comes later is let go at once."""

    async def listen() -> list[list[Event]]:
        tasks = [await begun(hub, 9) for _ in range(2)]
        hub.observe(event(1))
        await asyncio.sleep(0)
        hub.close()
        return [await task for task in (*tasks, await begun(hub, 9))]

    hub = EventHub()

    assert asyncio.run(listen()) == [[event(1)], [event(1)], []]


def test_a_listener_whose_loop_is_gone_is_no_trouble() -> None:
    """An event after the end of a loop reaches nobody and breaks nothing."""

    async def leave() -> object:
        events = hub.subscribe()
        task = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        task.cancel()
        return events

    hub = EventHub()
    asyncio.run(leave())
    hub.observe(event(1))
    hub.close()

    assert hub.bus.errors == ()
