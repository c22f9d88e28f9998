"""`tests/unit/core` mirrors `src/infold/core`."""

from .sources import PROJECT, core_modules

UNIT = PROJECT / "tests" / "unit" / "core"

GENERATED = {"weights"}
"""Modules that are data written by a program; the module that reads them is tested."""

ACROSS_MODULES = "behaviour"
"""How a test module begins that proves something of several modules at once."""


def _names() -> set[str]:
    return {source.path.stem for source in core_modules()}


def test_each_module_has_its_tests() -> None:
    """Each module of the core has a test module of its name."""
    assert [name for name in sorted(_names() - GENERATED) if not (UNIT / f"test_{name}.py").exists()] == []


def test_each_test_module_has_its_module() -> None:
    """Each test module is named for a module of the core, with or without a topic after it, or for a behaviour."""
    named = {path.stem.removeprefix("test_") for path in UNIT.glob("test_*.py")}
    subjects = tuple(f"{name}_" for name in (*_names(), ACROSS_MODULES))

    assert [name for name in sorted(named) if name not in _names() and not name.startswith(subjects)] == []
