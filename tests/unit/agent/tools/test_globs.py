"""Globs as models write them."""

import re

import pytest

from infold.agent.tools.globs import MOST_GLOBS, glob_pattern, without_braces


@pytest.mark.parametrize(
    ("glob", "fits", "fits_not"),
    [
        ("*.py", ["a.py", "src/deep/a.py"], ["a.pyc", "a/py"]),
        ("src/*.py", ["src/a.py"], ["src/deep/a.py", "a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("**/test_?.py", ["test_a.py", "x/test_b.py"], ["test_ab.py"]),
        ("src/**", ["src/a", "src/b/c"], ["a"]),
        ("*.{js,ts}", ["a.js", "x/a.ts"], ["a.jsx"]),
        ("./src/[a-c].py", ["src/a.py"], ["src/d.py"]),
        ("[!a-c].py", ["d.py"], ["a.py"]),
        ("a+b(1).txt", ["a+b(1).txt"], ["aab1.txt"]),
        ("[", ["["], ["x"]),
        ("/src/*.py", ["src/a.py"], ["x/src/a.py"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
        ("!*.{py,md}", ["a.js", "x/a.pyc"], ["a.py", "x/a.md"]),
        ("!src/**", ["a.py", "x/src/a"], ["src/a", "src/b/c"]),
        ("!src", ["a.py", "x/srcs/a"], ["src", "src/a", "x/src/b/c"]),
        ("!src/", ["a.py"], ["src/a", "x/src/b"]),
        ("!x/{src,lib}", ["src/a", "x/a"], ["x/src/a", "x/lib/b/c"]),
        ("!", ["a.py", "x/a"], []),
    ],
)
def test_globs_mean_what_is_expected(glob: str, fits: list[str], fits_not: list[str]) -> None:
    """A star stays within a folder, two do not; without a slash a glob means names anywhere; a folder left out goes whole."""
    pattern = glob_pattern(glob)

    assert [path for path in (*fits, *fits_not) if pattern.fullmatch(path)] == fits


def test_braces_are_choices() -> None:
    """Each choice is a glob of its own, also of several braces, in bounded number."""
    assert without_braces("a{1,2}{x,y}") == ("a1x", "a1y", "a2x", "a2y")
    assert without_braces("a}b{") == ("a}b{",)
    assert len(without_braces("{a,b}" * 10)) == MOST_GLOBS


def test_a_range_backwards_is_an_error() -> None:
    """What no expression can be is told by whoever makes one."""
    with pytest.raises(re.error):
        glob_pattern("[z-a]")
