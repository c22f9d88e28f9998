"""Deliver the events of all sessions of the gateway, and what became of each request: to metrics, subscribers and open pages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from msgspec import Struct

from infold.core.events import Event
from infold.observers.bus import Bus
from infold.observers.metrics import Metrics

MOST_WAITING = 1_000
"""Events that may wait for a page that does not read them; then the oldest are dropped."""


class ServedRequest(Struct, frozen=True):
    """What became of a client's request: never what was said in it, nor its credential.

    `status` is 0 if the client disconnected before an answer. Tokens are as the provider reported them, `None` if it did not;
    `problem` is the kind of error of the upstream or of the gateway.
    """

    method: str
    path: str
    status: int
    duration_ms: int
    note: str = ""
    session_id: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    problem: str = ""


class EventHub:
    """Observes every session of the gateway; may be used from any thread."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.metrics = Metrics()
        self.bus.subscribe(Event, self.metrics.observe)
        self._on_request: list[Callable[[ServedRequest], None]] = []
        self._listeners: set[_Listener] = set()
        self._is_closed = False

    def observe(self, event: Event, tenant: str | None = None) -> None:
        """Deliver an event; pages also get the tenant of its session, if that is known."""
        self.bus.observe(event)
        for listener in tuple(self._listeners):
            listener.put((tenant, event))

    def subscribe_requests(self, on_request: Callable[[ServedRequest], None]) -> None:
        """Have a function called for every request that was relayed or refused, in the event loop."""
        self._on_request.append(on_request)

    def report(self, served: ServedRequest) -> None:
        """Deliver what became of a request."""
        for on_request in self._on_request:
            on_request(served)

    async def subscribe(self) -> AsyncIterator[tuple[str | None, Event]]:
        """Yield the events from now on, each with its tenant, until the hub is closed."""
        listener = _Listener(asyncio.get_running_loop())
        self._listeners.add(listener)
        try:
            while not self._is_closed and (event := await listener.queue.get()) is not None:
                yield event
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End all subscriptions: the gateway stops, and must not wait for pages that are open."""
        self._is_closed = True
        for listener in tuple(self._listeners):
            listener.put(None)


class _Listener:
    """One page that is open, and the events that wait for it; `None` is the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: asyncio.Queue[tuple[str | None, Event] | None] = asyncio.Queue(MOST_WAITING)
        self._loop = loop

    def put(self, event: tuple[str | None, Event] | None) -> None:
        """Put an event into the queue, from any thread; ignored if the loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: tuple[str | None, Event] | None) -> None:
        if self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(event)
