"""Every setting is documented, and the tables of its page are what the schema says."""

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from infold.core.policy import PREFIX, SWITCHES
from infold.settings import KEYS, Key

from .sources import PROJECT


def _loaded() -> ModuleType:
    """The program beside the docs; `docs` is no package."""
    spec = spec_from_file_location("settings_table", PROJECT / "docs" / "settings_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _loaded()
PAGE = (PROJECT / "docs" / "reference" / "settings.md").read_text("utf-8")


def test_the_tables_are_fresh() -> None:
    """S8.1: the page is what `docs/settings_table.py --write` would write now."""
    assert TABLE.current(PAGE) == PAGE


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_setting_is_documented(key: Key) -> None:
    """S8.1: its name, its variable and its aliases stand on the page."""
    assert all(f"`{name}`" in PAGE for name in (key.name, key.variable, *key.aliases))


@pytest.mark.parametrize("prefix", [PREFIX, "OPENCODE_"])
def test_switches_are_documented(prefix: str) -> None:
    """S8.2: each switch is named in both spellings."""
    assert all(f"`{prefix}{name}" in PAGE for name in SWITCHES)


def test_tables_stand_between_their_marks() -> None:
    """Only what is between the marks of its name changes; a page without them is an error."""
    mark = "<!-- {} keys: written by docs/settings_table.py -->"
    page = f"before\n{mark.format('begin')}\nold\n{mark.format('end')}\nafter"
    fresh = TABLE.refreshed(page, "keys", ["| a |", "| b |"])

    assert fresh == f"before\n{mark.format('begin')}\n\n| a |\n| b |\n\n{mark.format('end')}\nafter"
    with pytest.raises(ValueError, match="lacks"):
        TABLE.refreshed(page, "kinds", [])
