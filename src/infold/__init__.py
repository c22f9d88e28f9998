"""infold keeps an LLM agent's conversation inside its context window, and loses nothing."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from infold.api.async_session import AsyncSession
    from infold.api.fit import Fitted, fit
    from infold.api.session import Session
    from infold.api.session_settings import SessionSettings
    from infold.api.wrap import wrap
    from infold.core.budget import Window
    from infold.core.policy import Policy, preset, remaining, share, tokens
    from infold.engine.keeper import Ready
    from infold.engine.previewing import Preview
    from infold.errors import HistoryChanged, InfoldError, UsageError, WindowExceeded
    from infold.observers.bus import Bus
    from infold.plugins.hooks import hook
    from infold.plugins.runner import installed_plugins
    from infold.wiring import open_store

__all__ = [
    "AsyncSession",
    "Bus",
    "Fitted",
    "HistoryChanged",
    "InfoldError",
    "Policy",
    "Preview",
    "Ready",
    "Session",
    "SessionSettings",
    "UsageError",
    "Window",
    "WindowExceeded",
    "fit",
    "hook",
    "installed_plugins",
    "open_store",
    "preset",
    "remaining",
    "share",
    "tokens",
    "wrap",
]

_HOMES = {
    "AsyncSession": "infold.api.async_session",
    "Bus": "infold.observers.bus",
    "Fitted": "infold.api.fit",
    "HistoryChanged": "infold.errors",
    "InfoldError": "infold.errors",
    "Policy": "infold.core.policy",
    "Preview": "infold.engine.previewing",
    "Ready": "infold.engine.keeper",
    "Session": "infold.api.session",
    "SessionSettings": "infold.api.session_settings",
    "UsageError": "infold.errors",
    "Window": "infold.core.budget",
    "WindowExceeded": "infold.errors",
    "fit": "infold.api.fit",
    "hook": "infold.plugins.hooks",
    "installed_plugins": "infold.plugins.runner",
    "open_store": "infold.wiring",
    "preset": "infold.core.policy",
    "remaining": "infold.core.policy",
    "share": "infold.core.policy",
    "tokens": "infold.core.policy",
    "wrap": "infold.api.wrap",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for, so that `import infold` stays light."""
    if name == "__version__":
        return import_module("importlib.metadata").version("infold")
    if name not in _HOMES:
        raise AttributeError(f"module 'infold' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, and those of every module."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})
