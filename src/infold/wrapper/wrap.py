"""`wrap(client)`: the same client, its requests kept inside the window.

The client's own HTTP transport is wrapped: what the SDK sends is parsed, made to fit and sent on; what comes back is passed on as
it arrives and recorded. A refusal for size is recovered once, inside the request. What infold cannot manage is sent as it is.
Works for the clients of OpenAI (chat completions, Responses), of Anthropic (Messages, also on Bedrock with an API key and on
Vertex) and of Google (google-genai), sync and async, and for boto3's client of Bedrock (Converse), streamed or not.
"""

from functools import partial
from importlib import import_module
from typing import Any, TypeVar, Unpack, cast

from infold.errors import UsageError, kind_of
from infold.ports import FullStore
from infold.session.settings import SessionKeywords, SessionSettings, check_store, settings_with
from infold.wiring import open_store

Client = TypeVar("Client")

_SYNC = ("OpenAI", "Anthropic", "AnthropicBedrock", "AnthropicBedrockMantle", "AnthropicVertex")
_COPIED = {"BedrockRuntime": "wrap_boto3", "Client": "wrap_google"}
"""Clients that are copied, and by what; boto3 makes the class of its clients, google-genai's has the name of many others."""
_EXTRAS = {"BedrockRuntime": "bedrock", "Client": "google"}
_GOOGLE = "google.genai"
KNOWN = (*_SYNC, *(f"Async{name}" for name in _SYNC), "google-genai", "boto3 (bedrock-runtime)")

TRANSPORT, CLIENTS = "infold.wrapper.transport", "infold.wrapper.clients"
"""Imported when a client is wrapped, so that `infold.wrap` can be imported without the SDKs' HTTP library."""


def wrap(
    client: Client,
    settings: SessionSettings | None = None,
    *,
    store: FullStore | str = "memory",
    session: str | None = None,
    tenant: str = "",
    **keywords: Unpack[SessionKeywords],
) -> Client:
    """Return a client of the same kind that keeps every session inside its model's window.

    Sessions are recognised by their histories; `session`, or the header `x-infold-session` of a request, names one. `store` is
    where they are stored; one that is given by its address is closed with the client. `settings`, or the same as keywords
    (`window="200k"`, `policy=…`), say how to keep them: the model is each request's own unless they name one, and writes the
    summaries unless they name another summariser. Wrapping again replaces the earlier wrap. Raise `UsageError` for a client of
    another kind, or one whose SDK is too old.
    """
    kind = _kind_of(client)
    if not kind:
        raise UsageError(f"cannot wrap {kind_of(client)}; pass a client of {', '.join(KNOWN)}")
    chosen = settings_with(settings, keywords, "wrap()")
    transport = _import(TRANSPORT, kind)
    inner = None if kind in _COPIED else transport.http_client_of(client)
    opened = open_store(store) if isinstance(store, str) else check_store(store)
    wrap_http = partial(
        transport.wrap_http_client,
        store=opened,
        settings=chosen,
        tenant=tenant,
        session=session,
        on_close=getattr(opened, "close", None) if isinstance(store, str) else None,
    )
    if kind in _COPIED:
        return cast(Client, getattr(_import(CLIENTS, kind), _COPIED[kind])(client, wrap_http))
    return cast(Client, cast(Any, client).with_options(http_client=wrap_http(inner)))


def _kind_of(client: object) -> str:
    """Return the name of the class of clients that this one is of; empty if it cannot be wrapped."""
    kinds = [kind for kind in type(client).__mro__ if kind.__name__ != "Client" or kind.__module__.startswith(_GOOGLE)]
    known = (*_COPIED, *(KNOWN if hasattr(type(client), "with_options") else ()))
    return next((kind.__name__ for kind in kinds if kind.__name__ in known), "")


def _import(name: str, kind: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(kind, "anthropic" if "Anthropic" in kind else "openai")
        raise UsageError(
            f"wrapping the {kind} needs {error.name}, which a current version of its SDK sends through; "
            f"pip install --upgrade 'infold[{extra}]'"
        ) from error
