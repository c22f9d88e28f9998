"""Each module says what it offers."""

import importlib
import re
from importlib.metadata import version
from inspect import getdoc, getmembers, isclass, isroutine

import pytest

import infold

from .layers import bound_names, public_names, stated_exports
from .sources import Source, modules


@pytest.mark.parametrize("source", modules(), ids=lambda source: source.name)
def test_stated_names_exist(source: Source) -> None:
    """Every name in `__all__` is made or imported by the module, or given when asked for."""
    stated, bound = stated_exports(source.text) or [], bound_names(source.text)
    missing = [name for name in stated if name not in bound]
    if "__getattr__" in bound:
        module = importlib.import_module(source.name)
        missing = [name for name in missing if not hasattr(module, name)]

    assert missing == []


def test_package_names_are_sorted() -> None:
    """What `infold` itself offers is in plain sorted order."""
    offered = list(getattr(infold, "__all__", []))

    assert offered == sorted(set(offered))


def test_the_version_is_that_of_the_package() -> None:
    """`infold.__version__` is the installed version, and `dir` shows it."""
    assert infold.__version__ == version("infold")
    assert {"__version__", "__name__", "fit"} <= set(dir(infold))


def test_public_help_names_no_requirement() -> None:
    """What `help` shows of the public names speaks to users, who know no ids of requirements."""
    public = [getattr(infold, name) for name in infold.__all__]
    shown = [*public, *(member for cls in public if isclass(cls) for _, member in getmembers(cls, isroutine))]
    named = {doc for thing in shown if REQUIREMENT.search(doc := getdoc(thing) or "")}

    assert named == set()


REQUIREMENT = re.compile(r"\b[ABIS]\d{1,2}(\.\d+)?\b")


def test_exports_are_read_as_written() -> None:
    """The reader tells a missing `__all__` from an empty one and refuses one it cannot read."""
    assert stated_exports("x = 1") is None
    assert stated_exports("__all__: list[str] = []") == []
    assert stated_exports('__all__ = ["b", "a"]') == ["b", "a"]
    with pytest.raises(ValueError, match="list of strings"):
        stated_exports('__all__ = "name"')


def test_public_names_are_those_a_module_makes() -> None:
    """Functions, classes and values count; imports and private names do not."""
    source = (
        "import re\nfrom x import y\n_hidden = 1\nA, B = 1, 2\nC: int = 3\ndef f(): ...\nclass D: ...\nif A:\n    E = 1"
    )

    assert public_names(source) == {"A", "B", "C", "D", "E", "f"}
    assert bound_names(source) == {"A", "B", "C", "D", "E", "f", "re", "y", "_hidden"}
