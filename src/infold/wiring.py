"""The only module that names concrete adapters: a place in, a store out.

Nothing heavy loads until it is asked for: adapters are found by name through one table.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from infold.core.judge import Told
from infold.core.summary import SummaryRequest
from infold.engine.asking import AsyncSummariser, Summariser
from infold.errors import UsageError
from infold.models.embedded import EmbeddedModel
from infold.ports import FullStore

__all__ = ["embedded_model", "open_store", "summariser_for"]

_ADAPTERS = {
    "memory": ("infold.stores.memory", "MemoryStore"),
    "sqlite": ("infold.stores.sqlite", "SqliteStore"),
    "postgres": ("infold.stores.postgres", "PostgresStore"),
}


def open_store(place: str) -> FullStore:
    """The store at a place: `memory`, a file's path, `sqlite:PATH` or a `postgresql://` address.

    Raises `UsageError` where the place is empty or its extra is not installed, `StoreBroken` where it cannot be opened.
    """
    if not place:
        raise UsageError("no store is named; give 'memory', the path of a file, or a postgresql:// address")
    if place == "memory":
        return cast(FullStore, _adapter("memory")())
    if place.startswith(("postgresql://", "postgres://")):
        return cast(FullStore, _adapter("postgres")(place))
    return cast(FullStore, _adapter("sqlite")(Path(place.removeprefix("sqlite:"))))


def _adapter(name: str) -> type:
    module, attribute = _ADAPTERS[name]
    try:
        return cast(type, getattr(import_module(module), attribute))
    except ModuleNotFoundError as error:
        remedy = f"pip install 'infold[{name}]'"
        raise UsageError(f"a {name} store needs {error.name}, which is not installed; {remedy}") from error


_MODELS = {
    "anthropic": ("infold.models.anthropic", "summariser"),
    "openai": ("infold.models.openai", "summariser"),
}
"""Who is asked through which module; every other provider speaks OpenAI's chat interface at an address of its own."""


def summariser_for(given: AsyncSummariser | str | None) -> Summariser | None:
    """A summariser as given, or the one that asks the model of this name; raises `UsageError` where that is not possible."""
    if not isinstance(given, str):
        return cast("Summariser | None", given)
    provider = "anthropic" if "claude" in given else "openai"
    module, attribute = _MODELS[provider]
    try:
        made: Callable[[str], Callable[[SummaryRequest], Told]] = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        remedy = f"pip install 'infold[{provider}]', or pass a callable"
        raise UsageError(f"a summary by {given} needs {error.name}, which is not installed; {remedy}") from error
    return made(given)


def embedded_model() -> EmbeddedModel:
    """The small model that comes in a package, to be run while a block does."""
    return EmbeddedModel()
