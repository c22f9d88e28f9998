"""Who hears what happens in the gateway: counters, traces, and the pages that are open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from infold.core.events import Event
from infold.observers.bus import Bus
from infold.observers.metrics import Metrics

MOST_WAITING = 1_000
"""Events that a page which does not listen may leave waiting; after that the oldest are let go."""


class Hub:
    """Observes every session of the gateway; may be told of events and closed from any thread."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.metrics = Metrics()
        self.bus.subscribe(Event, self.metrics.observe)
        self._listeners: set[_Listener] = set()
        self._is_closed = False

    def observe(self, event: Event, tenant: str | None = None) -> None:
        """Tell everybody of an event, and the pages also whose session it is of, if that is known."""
        self.bus.observe(event)
        for listener in tuple(self._listeners):
            listener.tell((tenant, event))

    async def subscribe(self) -> AsyncIterator[tuple[str | None, Event]]:
        """The events from now on, each with its tenant, for one listener in this loop; they end when the hub is closed."""
        listener = _Listener(asyncio.get_running_loop())
        self._listeners.add(listener)
        try:
            while not self._is_closed and (told := await listener.waiting.get()) is not None:
                yield told
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Let all listeners go: the gateway ends, and must not wait for pages that are open."""
        self._is_closed = True
        for listener in tuple(self._listeners):
            listener.tell(None)


class _Listener:
    """One page that listens, and what waits for it; nothing is the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.waiting: asyncio.Queue[tuple[str | None, Event] | None] = asyncio.Queue(MOST_WAITING)
        self._loop = loop

    def tell(self, told: tuple[str | None, Event] | None) -> None:
        """Put an event into the queue, from any thread; a loop that has ended listens no more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, told)

    def _put(self, told: tuple[str | None, Event] | None) -> None:
        if self.waiting.full():
            self.waiting.get_nowait()
        self.waiting.put_nowait(told)
