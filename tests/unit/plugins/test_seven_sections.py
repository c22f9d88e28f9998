"""The bundled plugin."""

from infold.core.messages import SessionId
from infold.core.summary_request import SEVEN_SECTIONS, instruction
from infold.plugins import PluginHooks, installed_plugins, seven_sections
from infold.ports import Hooks, Occasion

OCCASION = Occasion(SessionId("s"), "trigger", (), None, 90_000, 100_000)


def never(event: object) -> None:
    """Nothing is to be told of."""
    raise AssertionError(event)


def test_the_seven_headings_are_asked_for() -> None:
    """S3.5: chosen by name, the plugin adds its headings to what the summariser is asked."""
    hooks: Hooks = PluginHooks(installed_plugins([seven_sections.NAME]), never)
    asked = instruction(hooks.additions(OCCASION))

    assert asked.endswith(SEVEN_SECTIONS)
    assert all(f"\n{number}. " in asked for number in range(1, 8))


def test_it_is_off_unless_it_is_chosen() -> None:
    """S3.5: without a choice the plugin is not among those that are found."""
    assert seven_sections.NAME not in {plugin.name for plugin in installed_plugins()}


def test_it_says_nothing_else() -> None:
    """The plugin neither vetoes nor decides."""
    hooks = PluginHooks([seven_sections], never)

    assert hooks.decide(OCCASION) is None
    assert hooks.may_continue(SessionId("s")) is True
