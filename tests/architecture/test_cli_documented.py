"""Every verb is documented, and the page that lists them is what the command says of itself."""

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from infold.cli.main import VERBS

from .sources import PROJECT


def _loaded() -> ModuleType:
    """The program beside the docs; `docs` is no package."""
    spec = spec_from_file_location("cli_reference", PROJECT / "docs" / "cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE: str = _loaded().page()


def test_the_page_is_fresh() -> None:
    """`docs/reference/cli.md` is what `docs/cli_reference.py --write` would write now."""
    assert (PROJECT / "docs" / "reference" / "cli.md").read_text("utf-8") == PAGE


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_documented(verb: str) -> None:
    """Each verb has its section, and its help teaches by an example unless it takes no file."""
    section = PAGE.partition(f"## infold {verb}\n")[2].partition("\n## ")[0]

    assert f"Usage: infold {verb} " in section
    assert "Example" in section or verb == "demo"


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"demo"}))
def test_a_verb_is_shown_in_the_guide(verb: str) -> None:
    """One of the guides uses each verb at least once."""
    guides = "".join(path.read_text("utf-8") for path in sorted((PROJECT / "docs" / "guides").glob("*.md")))

    assert f"\ninfold {verb} " in guides
