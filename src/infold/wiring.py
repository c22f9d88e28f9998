"""The only module that names concrete adapters of stores and models.

Adapters are imported when they are first used, by name through one table.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from infold.catalogue import Known, lookup
from infold.core.messages import ModelRef
from infold.errors import UsageError, kind_of
from infold.models.embedded import REMEDY, EmbeddedModel, is_installed
from infold.ports import AsyncSummariser, Clock, FileDiff, FullStore, Model, OpenedStore, SessionKey, Summariser
from infold.settings import StoreLimits
from infold.settings.schema import POSTGRES_SCHEMES, STORE_HELP, store_path, store_problem
from infold.stores.lifecycle import SystemClock

EMBEDDED = "embedded"
"""The name of the small model that comes in a package."""

DAY_MS = 86_400_000

_STORES = {
    "memory": ("infold.stores.memory", "MemoryStore"),
    "sqlite": ("infold.stores.sqlite", "SqliteStore"),
    "postgres": ("infold.stores.postgres", "PostgresStore"),
}


def open_store(place: str, *, busy_seconds: float | None = None) -> OpenedStore:
    """Open the store at a location: `memory`, a file's path, `sqlite:PATH` or a `postgresql://` address.

    Close it, or use it in a `with` block. `busy_seconds` is how long to wait for a file that another process writes; by
    default the store decides. Raise `UsageError` if the location is invalid or its extra is not installed,
    `StoreBroken` if it cannot be opened.
    """
    place = located(place)
    if place == "memory":
        return _store("memory")()
    if place.startswith(POSTGRES_SCHEMES):
        return _store("postgres")(place)
    waiting = {} if busy_seconds is None else {"busy_seconds": busy_seconds}
    return _store("sqlite")(Path(place), **waiting)


def located(place: str) -> str:
    """Return a location without `sqlite:` and `~`; raise `UsageError` for an invalid one."""
    if not place or not isinstance(place, str):
        raise UsageError(f"no store is named{f' by {place!r}' if place else ''}; {STORE_HELP}")
    problem = store_problem(place)
    if problem:
        raise UsageError(f"{problem}; {STORE_HELP}")
    return place if place == "memory" or place.startswith(POSTGRES_SCHEMES) else str(store_path(place))


def _store(name: str) -> Callable[..., OpenedStore]:
    store: Callable[..., OpenedStore] = _adapter(*_STORES[name], f"a {name} store", f"pip install 'infold[{name}]'")
    return store


def _adapter(module: str, attribute: str, user: str, remedy: str) -> Any:
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise UsageError(f"{user} needs {error.name}, which is not installed; {remedy}") from error


_MODELS = {
    "anthropic": ("infold.models.anthropic", "AnthropicMessages", "anthropic"),
    "embedded": ("infold.models.openai", "EmbeddedChat", "openai"),
    "google": ("infold.models.google", "GoogleGemini", "google"),
    "openai": ("infold.models.openai", "OpenAIResponses", "openai"),
    "openai-chat": ("infold.models.openai", "OpenAIChat", "openai"),
}
"""Providers, their adapters and extras; every other provider has OpenAI's chat interface somewhere."""


def summariser_for(given: AsyncSummariser | str | None) -> Summariser | None:
    """Return the given summariser, or one that asks the model of this name.

    Raise `UsageError` if it cannot be called or an extra is missing, `KeyRefused` if there is no key.
    """
    if given is not None and not isinstance(given, str) and not callable(given):
        raise UsageError(
            f"the summariser is {kind_of(given)}; give a function from a request to text, or the name of a model"
        )
    if not isinstance(given, str):
        return cast("Summariser | None", given)
    provider, name = _provider_of(given, "")
    return _model(provider if provider in ("anthropic", "google") else "openai-chat", name, "").summarise


@contextmanager
def open_model(name: str, url: str = "") -> Iterator[Model]:
    """Open the model of this name, at `url` if given, for a `with` block.

    `provider/model` names the provider (anthropic, google, openai, openai-chat); a bare name is looked up in the catalogue,
    and a model at `url` is assumed to have OpenAI's chat interface. `embedded` is the model that comes in a package. Raise
    `UsageError` if the provider is unknown or an extra is missing, `KeyRefused` if there is no key.
    """
    if name == EMBEDDED:
        with embedded_model() as server:
            chat: Callable[[str], Model] = _adapter_of("embedded", name)
            yield chat(server.url)
        return
    provider, bare = _provider_of(name, url)
    if provider not in _MODELS:
        known = ", ".join(sorted(_MODELS.keys() - {EMBEDDED}))
        raise UsageError(
            f"unknown provider for model {name!r}; put one of {known} and a slash before it, or give the address of a server "
            "with OpenAI's chat interface by --base-url"
        )
    yield _model(provider, bare, url)


def _provider_of(name: str, url: str) -> tuple[str, str]:
    """Return a model's provider, and its name there."""
    prefix, slash, rest = name.partition("/")
    if slash and prefix in _MODELS:
        return prefix, rest
    if url:
        return "openai-chat", name
    known = lookup(name)
    return (known.entry.provider if isinstance(known, Known) else ""), name


def _model(provider: str, name: str, url: str) -> Model:
    made: Callable[..., Model] = _adapter_of(provider, name)
    return made(ModelRef(provider.partition("-")[0], name), url=url)


def _adapter_of(provider: str, name: str) -> Callable[..., Model]:
    module, attribute, extra = _MODELS[provider]
    remedy = f"pip install 'infold[{extra}]', or name another model"
    adapter: Callable[..., Model] = _adapter(module, attribute, name, remedy)
    return adapter


def embedded_model() -> EmbeddedModel:
    """Return the small model that comes in a package, to be run in a `with` block."""
    return EmbeddedModel()


def embedded_remedy() -> str:
    """Return the line that installs the embedded model; empty if it is installed."""
    return "" if is_installed() else REMEDY


def keep_within(store: FullStore, limits: StoreLimits) -> int:
    """Delete the sessions of a store that exceed its limits, first by age, then by size; return how many."""
    gone = 0
    if limits.max_age_days is not None:
        gone += store.expire(limits.max_age_days * DAY_MS)
    if limits.max_bytes is not None:
        gone += store.trim(limits.max_bytes)
    return gone


_DIFFS, _SNAPSHOT_FOLDER = (
    ("infold.agent.snapshots", "session_diffs"),
    ("infold.agent.trust", "default_snapshot_folder"),
)


def session_diffs(store: FullStore, key: SessionKey, message: int | None) -> tuple[FileDiff, ...]:
    """Return what a session changed in its project, or one of its turns, by the agent's snapshots.

    Raise `UsageError` for a number that is not a user message's, or if the snapshots are no longer kept.
    """
    user, remedy = "comparing snapshots", "pip install 'infold[agent]'"
    diffs, folder = (_adapter(*one, user, remedy) for one in (_DIFFS, _SNAPSHOT_FOLDER))
    found: tuple[FileDiff, ...] = diffs(store, key, message, folder(os.environ))
    return found


def system_clock() -> Clock:
    """Return the machine's clock."""
    return SystemClock()
