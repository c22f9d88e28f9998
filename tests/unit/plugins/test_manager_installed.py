"""Plugins are found by entry point: with distributions that are really there."""

import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest

from infold.core.events import Event, PluginFailed
from infold.core.messages import SessionId
from infold.core.summary_request import SEVEN_SECTIONS, Additions, instruction
from infold.errors import UsageError
from infold.plugins import PluginHooks, installed_plugins
from infold.ports import CompactionContext

OCCASION = CompactionContext(SessionId("s"), "trigger", (), 4, 90_000, 1_000_000)

SOURCE = """
from infold.core.summary_request import Additions
from infold.plugins import hook

@hook("session.compacting")
def notes(occasion):
    return Additions(contexts=(f"{__name__} on {occasion.session_id}",))
"""


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.modules: list[str] = []

    def install(self, name: str, source: str, entries: str) -> None:
        """Put a distribution there: a module of its name, and its entry points in the group of infold."""
        module = f"infold_test_{name}"
        (self._folder / f"{module}.py").write_text(source, "utf-8")
        metadata = self._folder / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
        (metadata / "entry_points.txt").write_text(f"[infold]\n{entries.format(module=module)}\n", "utf-8")
        self.modules.append(module)
        invalidate_caches()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder on the path, for the time of a test."""
    made = Site(tmp_path)
    sys.path.insert(0, str(tmp_path))
    yield made
    sys.path.remove(str(tmp_path))
    for module in made.modules:
        sys.modules.pop(module, None)


def additions(enabled: list[str] | None) -> tuple[Additions, list[Event]]:
    """What the plugins that are found add, and what is told of them."""
    told: list[Event] = []
    return PluginHooks(installed_plugins(enabled), told.append).additions(OCCASION), told


def test_plugins_are_found_by_entry_point(site: Site) -> None:
    """S8.4: a plugin that a distribution offers is found, by name, and asked."""
    site.install("kites", SOURCE, "kites = {module}")
    site.install("boats", SOURCE, "boats = {module}")

    assert [plugin.name for plugin in installed_plugins()] == ["boats", "kites"]
    assert additions(None) == (Additions(contexts=("infold_test_boats on s", "infold_test_kites on s")), [])


def test_only_chosen_plugins_are_asked_in_their_order(site: Site) -> None:
    """S8.4: naming plugins leaves out all others, and sets their order; a name given twice counts once."""
    for name in ("kites", "boats", "trains"):
        site.install(name, SOURCE, name + " = {module}")
    given, _ = additions(["trains", "seven-sections", "boats", "trains"])

    assert [text.split()[0] for text in given.contexts] == ["infold_test_trains", "Arrange", "infold_test_boats"]
    assert "infold_test_kites" not in sys.modules


def test_finding_imports_nothing(site: Site) -> None:
    """S8.4: a distribution's code is not run by looking for plugins."""
    site.install("kites", "raise SystemExit('was run')", "kites = {module}")

    assert [plugin.name for plugin in installed_plugins()] == ["kites"]


def test_a_broken_distribution_is_told_of(site: Site) -> None:
    """S8.4: one that fails to import, or lacks what its entry point names, is told of; the others are asked."""
    site.install("a", "import no_such_module_of_anybody", "a = {module}")
    site.install("b", SOURCE, "b = {module}:missing")
    site.install("c", SOURCE, "c = not a reference")
    site.install("d", SOURCE, "d = {module}")
    given, told = additions(None)

    assert given.contexts == ("infold_test_d on s",)
    assert [event.plugin for event in told if isinstance(event, PluginFailed)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [("kite", "did you mean 'kites'?"), ("zzz", "install it, or choose one of kites, seven-sections")],
)
def test_an_unknown_plugin_is_refused(site: Site, name: str, advice: str) -> None:
    """Choosing a plugin that nobody offers is an error that names the nearest one, or all there are."""
    site.install("kites", SOURCE, "kites = {module}")

    with pytest.raises(UsageError) as caught:
        installed_plugins([name])
    assert str(caught.value) == f"unknown plugin {name!r}; {advice}"


def test_an_object_can_be_offered(site: Site) -> None:
    """S8.4: an entry point may name a module, an object in it, or a class, which is made without arguments."""
    source = SOURCE.replace("\n@hook", "\nclass Notes:\n @hook").replace("\ndef notes(", "\n def notes(self, ")
    source = source.replace("    return", "  return")
    site.install("kites", source + "\nnotes = Notes()\n", "kind = {module}:Notes\nmade = {module}:notes")

    assert additions(None) == (Additions(contexts=("infold_test_kites on s",) * 2), [])


def test_a_lone_name_is_no_list() -> None:
    """A text is not taken letter by letter."""
    with pytest.raises(UsageError, match=r"plugins are a list of names; use \['seven-sections'\]"):
        installed_plugins("seven-sections")


def test_seven_sections_are_asked_for_only_by_name() -> None:
    """S3.5: named, the bundled plugin adds its headings to the summariser's instruction and decides nothing."""
    published: list[Event] = []
    hooks = PluginHooks(installed_plugins(["seven-sections"]), published.append)
    asked = instruction(hooks.additions(OCCASION))

    assert asked.endswith(SEVEN_SECTIONS)
    assert all(f"\n{number}. " in asked for number in range(1, 8))
    assert (hooks.decide(OCCASION), hooks.may_continue(SessionId("s"))) == (None, True)
    assert published == []
    assert "seven-sections" not in {plugin.name for plugin in installed_plugins()}
