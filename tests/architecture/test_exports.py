"""What the package offers exists, is sorted and is documented."""

import importlib
import re
from collections.abc import Iterator
from importlib.metadata import version
from inspect import getdoc, getmembers, isclass, isroutine

import pytest

import infold
from infold import errors, ports

from .layers import bound_names, stated_exports
from .sources import Source, modules


@pytest.mark.slow
def test_stated_names_are_sorted() -> None:
    """An `__all__`, where a module has one, is in plain sorted order, without duplicates."""
    stated = {source.name: stated_exports(source.text) or [] for source in modules()}
    found = [module for module, names in stated.items() if names != sorted(set(names))]

    assert found == [], "\n".join(found)


@pytest.mark.slow
def test_stated_names_exist() -> None:
    """Every name in an `__all__` is made or imported by its module, or given by its `__getattr__`."""
    found = [f"{source.name}.{name}" for source in modules() for name in missing_names(source)]

    assert found == [], "\n".join(found)


def missing_names(source: Source) -> list[str]:
    """Return the names that a module states and does not have."""
    stated, bound = stated_exports(source.text) or [], bound_names(source.text)
    missing = [name for name in stated if name not in bound]
    if "__getattr__" in bound:
        module = importlib.import_module(source.name)
        missing = [name for name in missing if not hasattr(module, name)]
    return missing


def test_package_names_are_sorted() -> None:
    """What `infold` itself offers is in plain sorted order."""
    offered = list(getattr(infold, "__all__", []))

    assert offered == sorted(set(offered))


def test_the_version_is_that_of_the_package() -> None:
    """`infold.__version__` is the installed version, and `dir` shows it."""
    assert infold.__version__ == version("infold")
    assert {"__version__", "__name__", "fit"} <= set(dir(infold))


def test_public_names_are_documented() -> None:
    """The names of `infold`, the ports and the errors have docstrings, and so do the methods that these classes define."""
    named = {**vars(ports), **vars(errors), **{name: getattr(infold, name) for name in infold.__all__}}
    ours = {name: thing for name, thing in named.items() if str(getattr(thing, "__module__", "")).startswith("infold.")}
    found = [bare for name, thing in ours.items() if not name.startswith("_") for bare in undocumented(name, thing)]

    assert found == [], "\n".join(found)


def undocumented(name: str, thing: object) -> Iterator[str]:
    """Yield what has no docstring: a function or a class, and the public methods and properties in its body."""
    if (isclass(thing) or isroutine(thing)) and not thing.__doc__:
        yield name
    for member, value in vars(thing).items() if isclass(thing) else ():
        is_method = isroutine(value) or isinstance(value, property)
        if is_method and not member.startswith("_") and not value.__doc__:
            yield f"{name}.{member}"


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


def test_missing_docstrings_are_reported() -> None:
    """A class, a method and a property without a docstring are each named; private members are not."""

    class Bare:
        def method(self) -> None: ...

        @property
        def value(self) -> int:
            return 1

        def _private(self) -> None: ...

    assert [*undocumented("Bare", Bare)] == ["Bare", "Bare.method", "Bare.value"]
    assert [*undocumented("VALUE", 1)] == []


def test_bound_names_are_made_or_imported() -> None:
    """Functions, classes, values and imports count, private ones too."""
    source = (
        "import re\nfrom x import y\n_hidden = 1\nA, B = 1, 2\nC: int = 3\ndef f(): ...\nclass D: ...\nif A:\n    E = 1"
    )

    assert bound_names(source) == {"A", "B", "C", "D", "E", "f", "re", "y", "_hidden"}
