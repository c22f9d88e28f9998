"""Every public name is on the page of the Python API, which is what signatures and docstrings say."""

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import get_args

import infold
from infold import errors
from infold.core.events import Event

from .sources import PROJECT


def _loaded() -> ModuleType:
    """The program beside the docs; `docs` is no package."""
    spec = spec_from_file_location("api_reference", PROJECT / "docs" / "api_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE: str = _loaded().page()


def test_the_page_is_fresh() -> None:
    """`docs/reference/api.md` is what `docs/api_reference.py --write` would write now."""
    assert (PROJECT / "docs" / "reference" / "api.md").read_text("utf-8") == PAGE


def test_every_public_name_has_a_section() -> None:
    """What `infold` exports, each event and each error has a heading and a description, once."""
    names = {*infold.__all__, *(event.__name__ for event in get_args(Event))}
    names |= {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.InfoldError)
    }

    assert [name for name in sorted(names) if PAGE.count(f"\n### {name}\n") != 1] == []
    assert "```\n\n\n" not in PAGE


def test_signatures_are_as_written() -> None:
    """Fields of a value, defaults and awaited methods are shown; private members are not."""
    assert 'policy: str | Policy = "infold",' in PAGE
    assert "await AsyncSession.open(" in PAGE
    assert "Session.window_tokens: int" in PAGE
    assert "Fitted(messages: list[Any], report: Report)" in PAGE
    assert "._" not in PAGE.replace("infold._", "")
