"""Session settings and plugins as the settings of the process have them: files, environment and command line."""

from collections.abc import Sequence

from infold.plugins.runner import installed_plugins
from infold.session.settings import SessionSettings
from infold.settings import Settings


def settings_from(
    process: Settings,
    *,
    model: str | None = None,
    agent: str | None = None,
    preset: str = "",
    window: int = 0,
    plugins: Sequence[object] = (),
) -> SessionSettings:
    """Return the session settings that the settings of the process give for a model and an agent.

    `preset` and `window` come from a command line and win over the settings of that name.
    """
    terms = process.for_session(model=model, agent=agent, preset=preset, window=window)
    return SessionSettings(
        model=model or process.model,
        window=terms.window_tokens,
        policy=terms.policy,
        summariser=terms.summariser,
        background=terms.background,
        native=terms.native,
        recall=False,
        plugins=plugins,
        environ=process.variables,
        media_limit_bytes=process.store_limits.media_bytes or 0,
        recovers=terms.recovers,
        cache_seconds=terms.cache_seconds,
        prices=terms.prices,
        defer_tools=terms.defer_tools,
    )


def plugins_from(process: Settings) -> tuple[object, ...]:
    """Return the plugins that the settings of the process enable, not yet imported; raise `UsageError` for an unknown name."""
    bundled = installed_plugins(["seven-sections"]) if process.plugins.seven_sections else ()
    return (*installed_plugins(process.plugins.enabled), *bundled)
