"""Who hears what happens in the gateway: counters, traces, and the pages that are open."""

import asyncio
from collections.abc import AsyncIterator, Callable

from infold.core.events import Event
from infold.observers.bus import Bus
from infold.observers.metrics import Metrics

__all__ = ["Hub"]

MOST_WAITING = 1_000
"""Events that a page which does not listen may leave waiting; after that the oldest are let go."""


class Hub:
    """Observes every session of the gateway."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.metrics = Metrics()
        self.bus.subscribe(Event, self.metrics.observe)
        self.observe: Callable[[Event], None] = self.bus.observe

    async def subscribe(self) -> AsyncIterator[Event]:
        """The events from now on, for one listener in this loop."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)

        def put(event: Event) -> None:
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(event)

        end = self.bus.subscribe(Event, lambda event: loop.call_soon_threadsafe(put, event))
        try:
            while True:
                yield await waiting.get()
        finally:
            end()
