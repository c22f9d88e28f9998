"""`wrap(client)`: the same client, its requests kept inside the window on their way.

The client's own HTTP transport is the place: what the SDK sends is read, made to fit and sent on; what comes back is passed on as
it arrives and heard. A refusal for size is recovered once, inside the request. What infold cannot manage goes through as it is.
Works for `OpenAI`, `AsyncOpenAI`, `Anthropic` and `AsyncAnthropic`: chat completions, Responses and Messages, streamed or not.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import httpx2

from infold.api.passages import AsyncPassages, Passages
from infold.api.session_settings import SessionSettings
from infold.api.transports import AsyncInfoldTransport, InfoldTransport
from infold.core.events import Event
from infold.errors import UsageError
from infold.observers.bus import Bus
from infold.ports import FullStore
from infold.wiring import open_store

__all__ = ["wrap"]

Client = TypeVar("Client")

KNOWN = ("OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic")


def wrap(
    client: Client,
    settings: SessionSettings | None = None,
    *,
    store: FullStore | str = "memory",
    session: str | None = None,
    tenant: str = "",
) -> Client:
    """A client of the same kind that keeps every session inside its model's window.

    Sessions are told apart by their histories; `session`, or the header `x-infold-session` of a request, names one. `store` is
    where they live; one given by its place is closed with the client. `settings` say how: the model is each request's own unless
    they name one, and writes the summaries unless they name another summariser. Wrapping again replaces the earlier wrap. Raises
    `UsageError` for a client of another kind.
    """
    with_options = getattr(client, "with_options", None)
    if not any(kind.__name__ in KNOWN for kind in type(client).__mro__) or with_options is None:
        raise UsageError(f"cannot wrap a {type(client).__name__}; pass a client of {', '.join(KNOWN)}")
    inner = _unwrapped(getattr(client, "_client", None))
    if not isinstance(inner, httpx2.Client | httpx2.AsyncClient):
        raise UsageError(
            f"the {type(client).__name__} sends through no httpx2 client; use a current version of its SDK and, where you "
            "give it an http_client, one of httpx2"
        )
    given = settings or SessionSettings()
    opened = open_store(store) if isinstance(store, str) else store
    end = getattr(opened, "close", _nothing) if isinstance(store, str) else _nothing
    return cast(Client, with_options(http_client=_wrapped(inner, (opened, given, tenant), session=session, end=end)))


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


def _unwrapped(inner: object) -> object:
    return inner.inner if isinstance(inner, _Wrapped | _AsyncWrapped) else inner


def _wrapped(
    inner: httpx2.Client | httpx2.AsyncClient,
    terms: tuple[FullStore, SessionSettings, str],
    *,
    session: str | None,
    end: Callable[[], None],
) -> _Wrapped | _AsyncWrapped:
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


def _nothing() -> None:
    pass
