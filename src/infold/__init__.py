"""infold keeps an LLM agent's conversation inside its context window, and loses nothing."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infold.api.fit import Fitted, fit
    from infold.api.session import Ready, Session, SessionSettings
    from infold.core.budget import Window
    from infold.core.policy import Policy, remaining, share, tokens
    from infold.core.presets import preset
    from infold.errors import InfoldError, UsageError, WindowExceeded
    from infold.wiring import open_store

__all__ = [
    "Fitted",
    "InfoldError",
    "Policy",
    "Ready",
    "Session",
    "SessionSettings",
    "UsageError",
    "Window",
    "WindowExceeded",
    "fit",
    "open_store",
    "preset",
    "remaining",
    "share",
    "tokens",
]

_HOMES = {
    "Fitted": "infold.api.fit",
    "InfoldError": "infold.errors",
    "Policy": "infold.core.policy",
    "Ready": "infold.api.session",
    "Session": "infold.api.session",
    "SessionSettings": "infold.api.session",
    "UsageError": "infold.errors",
    "Window": "infold.core.budget",
    "WindowExceeded": "infold.errors",
    "fit": "infold.api.fit",
    "open_store": "infold.wiring",
    "preset": "infold.core.presets",
    "remaining": "infold.core.policy",
    "share": "infold.core.policy",
    "tokens": "infold.core.policy",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for, so that `import infold` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'infold' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
