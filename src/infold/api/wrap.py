"""`wrap(client)`: the same client, its requests kept inside the window on their way.

The client's own HTTP transport is the place: what the SDK sends is read, made to fit and sent on; what comes back is passed on as
it arrives and heard. A refusal for size is recovered once, inside the request. What infold cannot manage goes through as it is.
Works for `OpenAI`, `AsyncOpenAI`, `Anthropic` and `AsyncAnthropic`: chat completions, Responses and Messages, streamed or not.
"""

from importlib import import_module
from typing import Any, TypeVar, cast

from infold.errors import UsageError, kind_of
from infold.ports import FullStore
from infold.session.settings import SessionSettings
from infold.wiring import open_store

Client = TypeVar("Client")

KNOWN = ("OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic")

CLIENTS = "infold.api.clients"
"""Found by name when a client is wrapped, so that the name `wrap` can be had without what the SDKs send through."""


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
    `UsageError` for a client of another kind, or one whose SDK is too old.
    """
    with_options = getattr(client, "with_options", None)
    kind = next((kind.__name__ for kind in type(client).__mro__ if kind.__name__ in KNOWN), "")
    if not kind or with_options is None:
        raise UsageError(f"cannot wrap {kind_of(client)}; pass a client of {', '.join(KNOWN)}")
    clients = _clients(kind)
    inner = clients.inner_of(client)
    given = settings or SessionSettings()
    opened = open_store(store) if isinstance(store, str) else store
    end = getattr(opened, "close", _nothing) if isinstance(store, str) else _nothing
    return cast(
        Client, with_options(http_client=clients.wrapped(inner, (opened, given, tenant), session=session, end=end))
    )


def _clients(kind: str) -> Any:
    try:
        return import_module(CLIENTS)
    except ModuleNotFoundError as error:
        extra = "anthropic" if "Anthropic" in kind else "openai"
        raise UsageError(
            f"wrapping the {kind} needs {error.name}, which a current version of its SDK sends through; "
            f"pip install --upgrade 'infold[{extra}]'"
        ) from error


def _nothing() -> None:
    pass
