"""`wrap(client)`: the same client, its requests kept inside the window.

The client's own HTTP transport is wrapped: what the SDK sends is parsed, made to fit and sent on; what comes back is passed on as
it arrives and recorded. A refusal for size is recovered once, inside the request. What infold cannot manage is sent as it is.
Works for the clients of OpenAI (chat completions, Responses) and of Anthropic (Messages, also on Bedrock with an API key and on
Vertex), sync and async, streamed or not.
"""

from importlib import import_module
from typing import Any, TypeVar, cast

from infold.errors import UsageError, kind_of
from infold.ports import FullStore
from infold.session.settings import SessionSettings
from infold.wiring import open_store

Client = TypeVar("Client")

_SYNC = ("OpenAI", "Anthropic", "AnthropicBedrock", "AnthropicBedrockMantle", "AnthropicVertex")
KNOWN = (*_SYNC, *(f"Async{name}" for name in _SYNC))

TRANSPORT = "infold.wrapper.transport"
"""Imported when a client is wrapped, so that `infold.wrap` can be imported without the SDKs' HTTP library."""


def wrap(
    client: Client,
    settings: SessionSettings | None = None,
    *,
    store: FullStore | str = "memory",
    session: str | None = None,
    tenant: str = "",
) -> Client:
    """Return a client of the same kind that keeps every session inside its model's window.

    Sessions are recognised by their histories; `session`, or the header `x-infold-session` of a request, names one. `store` is
    where they are stored; one that is given by its address is closed with the client. `settings` say how to keep them: the model
    is each request's own unless they name one, and writes the summaries unless they name another summariser. Wrapping again
    replaces the earlier wrap. Raise `UsageError` for a client of another kind, or one whose SDK is too old.
    """
    with_options = getattr(client, "with_options", None)
    kind = next((kind.__name__ for kind in type(client).__mro__ if kind.__name__ in KNOWN), "")
    if not kind or with_options is None:
        raise UsageError(f"cannot wrap {kind_of(client)}; pass a client of {', '.join(KNOWN)}")
    transport = _import_transport(kind)
    inner = transport.http_client_of(client)
    opened = open_store(store) if isinstance(store, str) else store
    on_close = getattr(opened, "close", None) if isinstance(store, str) else None
    http_client = transport.wrap_http_client(
        inner, opened, settings or SessionSettings(), tenant=tenant, session=session, on_close=on_close
    )
    return cast(Client, with_options(http_client=http_client))


def _import_transport(kind: str) -> Any:
    try:
        return import_module(TRANSPORT)
    except ModuleNotFoundError as error:
        extra = "anthropic" if "Anthropic" in kind else "openai"
        raise UsageError(
            f"wrapping the {kind} needs {error.name}, which a current version of its SDK sends through; "
            f"pip install --upgrade 'infold[{extra}]'"
        ) from error
