"""The only module that names concrete adapters: a place in, a store out.

Nothing heavy loads until it is asked for: adapters are found by name through one table.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import cast

from infold.catalogue import Known, lookup
from infold.core.messages import ModelRef
from infold.engine.asking import AsyncSummariser, Summariser
from infold.errors import UsageError, kind_of
from infold.models.embedded import EmbeddedModel
from infold.ports import Clock, FullStore, Model, OpenedStore
from infold.settings import StoreLimits
from infold.settings.schema import POSTGRES_SCHEMES, STORE_HELP, store_path, store_problem
from infold.stores.lifecycle import SystemClock

EMBEDDED = "embedded"
"""The name under which the small model that comes in a package is asked for."""

DAY_MS = 86_400_000

_ADAPTERS = {
    "memory": ("infold.stores.memory", "MemoryStore"),
    "sqlite": ("infold.stores.sqlite", "SqliteStore"),
    "postgres": ("infold.stores.postgres", "PostgresStore"),
}


def open_store(place: str, *, busy_seconds: float | None = None) -> OpenedStore:
    """The store at a place: `memory`, a file's path, `sqlite:PATH` or a `postgresql://` address.

    Close it, or use it in a `with` block. `busy_seconds` is how long a file that another process writes is waited for, if not
    as long as the store itself would. Raises `UsageError` where the place is none or its extra is not installed, `StoreBroken`
    where it cannot be opened.
    """
    place = located(place)
    if place == "memory":
        return cast(OpenedStore, _adapter("memory")())
    if place.startswith(POSTGRES_SCHEMES):
        return cast(OpenedStore, _adapter("postgres")(place))
    waiting = {} if busy_seconds is None else {"busy_seconds": busy_seconds}
    return cast(OpenedStore, _adapter("sqlite")(Path(place), **waiting))


def located(place: str) -> str:
    """A place without `sqlite:` and `~`, as everybody can use it; raises `UsageError` for what is none."""
    if not place or not isinstance(place, str):
        raise UsageError(f"no store is named{f' by {place!r}' if place else ''}; {STORE_HELP}")
    problem = store_problem(place)
    if problem:
        raise UsageError(f"{problem}; {STORE_HELP}")
    return place if place == "memory" or place.startswith(POSTGRES_SCHEMES) else str(store_path(place))


def _adapter(name: str) -> type:
    module, attribute = _ADAPTERS[name]
    try:
        return cast(type, getattr(import_module(module), attribute))
    except ModuleNotFoundError as error:
        remedy = f"pip install 'infold[{name}]'"
        raise UsageError(f"a {name} store needs {error.name}, which is not installed; {remedy}") from error


_MODELS = {
    "anthropic": ("infold.models.anthropic", "AnthropicMessages", "anthropic"),
    "embedded": ("infold.models.openai", "EmbeddedChat", "openai"),
    "google": ("infold.models.google", "GoogleGemini", "google"),
    "openai": ("infold.models.openai", "OpenAIResponses", "openai"),
    "openai-chat": ("infold.models.openai", "OpenAIChat", "openai"),
}
"""Who is asked through which adapter, and the extra it needs; every other provider speaks OpenAI's chat interface somewhere."""


def summariser_for(given: AsyncSummariser | str | None) -> Summariser | None:
    """A summariser as given, or the one that asks the model of this name.

    Raises `UsageError` for what cannot be called and where an extra is missing, `KeyRefused` where there is no key.
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
    """The model of this name, at an address of its own if one is given, for as long as a block needs it.

    `provider/model` says who is asked (anthropic, google, openai, openai-chat); a bare name is looked up in the catalogue, and
    what is at an address of its own is taken to speak OpenAI's chat interface. `embedded` is the model that comes along.
    Raises `UsageError` where nobody knows whom to ask or an extra is missing, `KeyRefused` where there is no key.
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
            f"nobody knows who offers {name!r}; put one of {known} and a slash before it, or give the address of a server "
            "that speaks OpenAI's chat interface with --base-url"
        )
    yield _model(provider, bare, url)


def _provider_of(name: str, url: str) -> tuple[str, str]:
    """Who offers a model, and what it is called there."""
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
    try:
        return cast("Callable[..., Model]", getattr(import_module(module), attribute))
    except ModuleNotFoundError as error:
        remedy = f"pip install 'infold[{extra}]', or name another model"
        raise UsageError(f"{name} needs {error.name}, which is not installed; {remedy}") from error


def embedded_model() -> EmbeddedModel:
    """The small model that comes in a package, to be run while a block does."""
    return EmbeddedModel()


def keep_within(store: FullStore, limits: StoreLimits) -> int:
    """Delete the sessions of a store that are beyond the limits that are set, first by age, then by size (B27); how many."""
    gone = 0
    if limits.max_age_days is not None:
        gone += store.expire(limits.max_age_days * DAY_MS)
    if limits.max_bytes is not None:
        gone += store.trim(limits.max_bytes)
    return gone


def system_clock() -> Clock:
    """The clock of the machine."""
    return SystemClock()
