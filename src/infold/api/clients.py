"""The HTTP clients that a wrapped SDK client sends through; each sends on through the one the SDK had."""

from collections.abc import Callable
from typing import Any

import httpx2

from infold.api.passages import AsyncPassages, Passages
from infold.api.transports import AsyncInfoldTransport, InfoldTransport
from infold.core.events import Event
from infold.errors import UsageError
from infold.observers.bus import Bus
from infold.ports import FullStore
from infold.session.settings import SessionSettings


class _Wrapped(httpx2.Client):
    """Sends through infold what would go through `inner`."""

    def __init__(self, inner: httpx2.Client, transport: InfoldTransport) -> None:
        super().__init__(transport=transport, **_kept(inner))
        self.inner = inner


class _AsyncWrapped(httpx2.AsyncClient):
    """The same for async clients."""

    def __init__(self, inner: httpx2.AsyncClient, transport: AsyncInfoldTransport) -> None:
        super().__init__(transport=transport, **_kept(inner))
        self.inner = inner


def inner_of(client: object) -> httpx2.Client | httpx2.AsyncClient:
    """What an SDK client sends through, without an earlier wrap; raises `UsageError` where that is something else."""
    inner = getattr(client, "_client", None)
    inner = inner.inner if isinstance(inner, _Wrapped | _AsyncWrapped) else inner
    if not isinstance(inner, httpx2.Client | httpx2.AsyncClient):
        raise UsageError(
            f"the {type(client).__name__} sends through no httpx2 client; use a current version of its SDK and, where you "
            "give it an http_client, one of httpx2"
        )
    return inner


def wrapped(
    inner: httpx2.Client | httpx2.AsyncClient,
    terms: tuple[FullStore, SessionSettings, str],
    *,
    session: str | None,
    end: Callable[[], None],
) -> _Wrapped | _AsyncWrapped:
    """A client that sends through infold what would go through `inner`; `end` is called when it is closed."""
    bus = Bus()  # a callback that raises must not keep a request from going out
    on_event = terms[1].on_event
    if on_event is not None:
        bus.subscribe(Event, on_event)
    if isinstance(inner, httpx2.AsyncClient):
        passages = AsyncPassages(*terms)
        return _AsyncWrapped(inner, AsyncInfoldTransport(inner, passages, bus.observe, session=session, end=end))
    return _Wrapped(inner, InfoldTransport(inner, Passages(*terms), bus.observe, session=session, end=end))


def _kept(inner: httpx2.Client | httpx2.AsyncClient) -> dict[str, Any]:
    """What a client adds to the requests that it builds; all else of it happens where it sends them."""
    return {
        "timeout": inner.timeout,
        "headers": inner.headers,
        "params": inner.params,
        "cookies": inner.cookies,
    }
