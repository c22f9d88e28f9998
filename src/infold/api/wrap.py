"""`wrap(client)`: the same client, its requests kept inside the window on their way.

The client's own HTTP transport is the place: what the SDK sends is read, made to fit and sent on; what comes back is passed on as
it arrives and heard. A refusal for size is recovered once, inside the request. What infold cannot manage goes through as it is.
Works for `OpenAI`, `AsyncOpenAI`, `Anthropic` and `AsyncAnthropic`: chat completions, Responses and Messages, streamed or not.
"""

from typing import TypeVar, cast

import httpx2

from infold.api.passages import AsyncPassages, Passages
from infold.api.session_settings import SessionSettings
from infold.api.transports import AsyncInfoldTransport, InfoldTransport
from infold.core.events import Event
from infold.errors import UsageError
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
    """A client of the same kind that keeps every conversation inside its model's window.

    Sessions are told apart by their histories; `session`, or the header `x-infold-session` of a request, names one. `store` is
    where they live. `settings` say how; the model is each request's own unless they name one, and writes the summaries unless
    they name another summariser. Raises `UsageError` for a client of another kind.
    """
    inner = getattr(client, "_client", None)
    with_options = getattr(client, "with_options", None)
    if not any(kind.__name__ in KNOWN for kind in type(client).__mro__) or with_options is None:
        raise UsageError(f"cannot wrap a {type(client).__name__}; pass a client of {', '.join(KNOWN)}")
    given = settings or SessionSettings()
    terms = (open_store(store) if isinstance(store, str) else store, given, tenant)
    tell = given.on_event or _ignore
    if isinstance(inner, httpx2.AsyncClient):
        transport = AsyncInfoldTransport(inner, AsyncPassages(*terms), tell, session)
        http: object = httpx2.AsyncClient(transport=transport, timeout=inner.timeout)
    elif isinstance(inner, httpx2.Client):
        http = httpx2.Client(transport=InfoldTransport(inner, Passages(*terms), tell, session), timeout=inner.timeout)
    else:
        raise UsageError(
            f"the {type(client).__name__} sends through no httpx2 client; use a current version of its SDK"
        )
    return cast(Client, with_options(http_client=http))


def _ignore(event: Event) -> None:
    del event
