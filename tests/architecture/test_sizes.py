"""A reader can hold any file in the head: the sizes that style.md section 5 refuses."""

import ast
from collections.abc import Iterator

import pytest

from .sources import PROJECT, Source, modules

LONGEST_MODULE, LONGEST_FUNCTION, MOST_PARAMETERS = 800, 50, 6
LONGEST_TEST_MODULE = 800
EXEMPT = {("infold.api.fit", "fit")}
"""The front door: each of its options is a keyword a user may want."""


@pytest.mark.parametrize("source", modules(), ids=lambda source: source.name)
def test_module_is_within_the_sizes(source: Source) -> None:
    """No module over 800 lines, no function over 50, none with more than 6 parameters beside `self`."""
    exempt = tuple(function for module, function in EXEMPT if module == source.name)
    assert [found for found in oversized(source.text) if not found.startswith(exempt or "-")] == []


def test_test_modules_are_within_their_size() -> None:
    """No test module is over 800 lines."""
    long = [path for path in (PROJECT / "tests").rglob("*.py") if _lines(path.read_text("utf-8")) > LONGEST_TEST_MODULE]

    assert long == []


def oversized(source: str) -> Iterator[str]:
    """What of a module is too large, with its size."""
    lines = _lines(source)
    if lines > LONGEST_MODULE:
        yield f"module: {lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{node.name}, line {node.lineno}: {length} lines"
            count = _parameters(node)
            if count > MOST_PARAMETERS:
                yield f"{node.name}, line {node.lineno}: {count} parameters"


def test_oversized_code_is_told() -> None:
    """A long module, a long function and a long list of parameters are each reported; the limits themselves are not."""
    many = ", ".join("abcdefg")

    assert list(oversized("\n" * 801)) == ["module: 801 lines"]
    assert list(oversized("def f():\n" + "    x = 1\n" * 50)) == ["f, line 1: 51 lines"]
    assert list(oversized(f"def f({many}): ...")) == ["f, line 1: 7 parameters"]
    assert list(oversized(f"class A:\n    def f(self, *, {many}): ...")) == ["f, line 2: 7 parameters"]
    assert list(oversized("def f(a, b, c, *d, e, **f): ...\n" + "x = 1\n" * 599)) == []
    assert list(oversized("class A:\n    def f(self, a, b, c, d, e, f):\n" + "        x = 1\n" * 49)) == []


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    rest = [gathered for gathered in (given.vararg, given.kwarg) if gathered]
    return len([name for name in (*named, *rest) if name.arg not in ("self", "cls")])


def _lines(source: str) -> int:
    return source.count("\n")
