"""The bus: typed subscriptions, and callbacks that cannot break a session."""

import logging
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, get_args

import pytest

from infold.core.events import Clipped, Compacted, Event, Exceeded, Pruned, Restored, StubRepeated
from infold.errors import UsageError
from infold.observers import Bus
from infold.observers.bus import MOST_ERRORS

from .events import EVENTS, SECRET

COMPACTED = next(event for event in EVENTS if isinstance(event, Compacted))


def told(bus: Bus) -> None:
    """Tell a bus of one event of each kind."""
    for event in EVENTS:
        bus.observe(event)


def test_the_events_below_are_all_there_are() -> None:
    """B22: the tests of observers look at every kind of event."""
    assert [type(event) for event in EVENTS] == [kind for kind in get_args(Event) if kind in map(type, EVENTS)]
    assert len(EVENTS) == len(get_args(Event))


def test_a_callback_hears_its_kind_alone() -> None:
    """S8.3: who subscribed to a kind of event is called with events of that kind, typed as such."""
    bus = Bus()
    freed: list[int] = []
    bus.subscribe(Pruned, lambda event: freed.append(event.freed_tokens))
    told(bus)

    assert freed == [900]


def test_several_kinds_are_heard_together() -> None:
    """S8.3: a pair, a triple or a longer tuple of kinds is heard by one callback, in the order they happen."""
    bus = Bus()
    pair: list[int] = []
    triple: list[str] = []
    more: list[Event] = []
    bus.subscribe((Pruned, Clipped), lambda event: pair.append(event.tokens_after))
    bus.subscribe((Restored, Pruned, Exceeded), lambda event: triple.append(event.session_id))
    bus.subscribe((Pruned, Clipped, Compacted, Restored), more.append)
    told(bus)

    assert pair == [150, 150]
    assert triple == ["s", "s", "s"]
    assert [type(event) for event in more] == [Pruned, Clipped, Compacted, Restored]


def test_all_events_can_be_heard() -> None:
    """S8.3: who subscribes to `Event` hears everything."""
    bus = Bus()
    heard: list[Event] = []
    bus.subscribe(Event, heard.append)
    told(bus)

    assert tuple(heard) == EVENTS


def test_compactions_have_a_short_way() -> None:
    """S8.3, S3.7: `on_compacted` calls back after each compaction, with what it did."""
    bus = Bus()
    heard: list[Compacted] = []
    stop = bus.on_compacted(heard.append)
    told(bus)
    stop()
    told(bus)

    assert heard == [COMPACTED]


def test_a_subscription_can_be_ended() -> None:
    """S8.3: the callable that subscribing gives ends that subscription, once, and no other of the same callback."""
    bus = Bus()
    heard: list[Compacted] = []
    stop = bus.on_compacted(heard.append)
    bus.on_compacted(heard.append)
    bus.observe(COMPACTED)
    stop()
    stop()
    bus.observe(COMPACTED)

    assert heard == [COMPACTED] * 3


def test_a_callback_may_end_itself() -> None:
    """A callback that unsubscribes while it is called keeps nobody else from hearing the event."""
    bus = Bus()
    heard: list[str] = []

    def once(_: Compacted) -> None:
        heard.append("once")
        stop()

    stop = bus.on_compacted(once)
    bus.on_compacted(lambda _: heard.append("always"))
    bus.observe(COMPACTED)
    bus.observe(COMPACTED)

    assert heard == ["once", "always", "always"]


@pytest.mark.parametrize("kinds", [int, (Pruned, int), (), None, "pruned", int | str, Pruned | int, COMPACTED])
def test_what_is_no_event_is_refused(kinds: Any) -> None:
    """Subscribing to what will never happen is an error that says where events are found."""
    with pytest.raises(UsageError, match=r"infold\.core\.events"):
        Bus().subscribe(kinds, print)


class Later:
    """Something whose call must be awaited."""

    async def __call__(self, event: Event) -> None:
        """Do nothing, later."""


async def later(event: Event) -> None:
    """Do nothing, later."""


@pytest.mark.parametrize("callback", [later, Later()])
def test_what_must_be_awaited_is_refused(callback: Callable[[Event], object]) -> None:
    """An `async def` would never run, so subscribing it is an error."""
    with pytest.raises(UsageError, match="plain function"):
        Bus().subscribe(Event, callback)


def failing(event: Event) -> None:
    """Raise with something a session said."""
    raise ValueError(SECRET)


def test_a_failing_callback_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """S8.3: others hear the event, the failure is kept and logged, and neither repeats what a session said."""
    bus = Bus()
    heard: list[StubRepeated] = []
    bus.subscribe(Event, failing)
    bus.subscribe(StubRepeated, heard.append)
    with caplog.at_level(logging.WARNING, logger="infold"):
        bus.observe(StubRepeated("s", "m4"))
    (failure,) = bus.errors

    assert heard == [StubRepeated("s", "m4")]
    assert (failure.callback, failure.event, failure.error) == ("failing", "stub-repeated", "ValueError")
    assert failure.place.startswith(f"{__file__}:")
    assert [record.getMessage() for record in caplog.records] == [
        f"failing raised ValueError at {failure.place} on stub-repeated"
    ]
    assert SECRET not in caplog.text + repr(bus.errors)


def test_a_callback_without_a_name_is_named_by_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A callable object that fails is told by the name of its class."""
    bus = Bus()
    bus.subscribe(Event, partial(failing))
    bus.observe(COMPACTED)

    assert [failure.callback for failure in bus.errors] == ["partial"]


def test_failures_are_kept_within_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    """A callback that always fails does not fill the memory: the newest failures are kept."""
    bus = Bus()
    bus.subscribe(Event, failing)
    for _ in range(MOST_ERRORS):
        bus.observe(COMPACTED)
    bus.observe(StubRepeated("s", "m4"))

    assert len(bus.errors) == MOST_ERRORS
    assert bus.errors[-1].event == "stub-repeated"


def test_an_interruption_passes_through() -> None:
    """What is not an error of the callback ends the call, as it would anywhere."""

    def interrupted(event: Compacted) -> None:
        raise KeyboardInterrupt

    bus = Bus()
    bus.on_compacted(interrupted)
    with pytest.raises(KeyboardInterrupt):
        bus.observe(COMPACTED)
    assert bus.errors == ()


def test_threads_may_use_one_bus() -> None:
    """Sessions of many threads tell one bus, while callbacks come and go, and nothing is lost."""
    bus = Bus()
    heard: list[Compacted] = []
    bus.on_compacted(heard.append)

    def use() -> None:
        for _ in range(200):
            stop = bus.subscribe(Event, lambda _: None)
            bus.observe(COMPACTED)
            stop()

    threads = [Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(heard) == 800
    assert bus._subscriptions[0].kinds == (Compacted,)
    assert len(bus._subscriptions) == 1
