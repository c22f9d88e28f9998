"""A project's files: globs as models write them, and what git ignores."""

from pathlib import Path
from time import thread_time

import pytest

from infold.agent.tools.project_files import (
    LONGEST_GLOB,
    MOST_GLOBS,
    Glob,
    expand_braces,
    ignored_names,
    is_ignored,
    list_files,
)


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
        ("[z-a]", [], ["z"]),
    ],
)
def test_globs_mean_what_is_expected(glob: str, fits: list[str], fits_not: list[str]) -> None:
    """A star stays within a folder, two do not; without a slash a glob means names anywhere; a folder left out goes whole."""
    pattern = Glob(glob)

    assert [path for path in (*fits, *fits_not) if pattern.matches(path)] == fits


def test_braces_are_choices() -> None:
    """Each choice is a glob of its own, also of several braces, in bounded number."""
    assert expand_braces("a{1,2}{x,y}") == ("a1x", "a1y", "a2x", "a2y")
    assert expand_braces("a}b{") == ("a}b{",)
    assert len(expand_braces("{a,b}" * 10)) == MOST_GLOBS


@pytest.mark.parametrize(
    "glob", ["*a" * 60 + "b", "**/a/" * 30 + "b", "[" * LONGEST_GLOB, "{" * LONGEST_GLOB, "[*" * 500]
)
def test_no_glob_takes_long(glob: str) -> None:
    """B41: the time of a match grows with the lengths of glob and path, whatever stars stand in it."""
    began = thread_time()
    pattern = Glob(glob)
    assert not any(pattern.matches(path) for path in ("a" * 250, "a/" * 120 + "a"))

    assert thread_time() - began < 2


def test_ignored_names_are_known(repository: Path) -> None:
    """Ignored names are returned, but not those that a rule includes again, and unusual names work."""
    (repository / 'sp ace"é\n.log').touch()
    names = ["src", "build", "debug.log", "kept.log", 'sp ace"é\n.log']

    assert ignored_names(names, repository) == {"build", "debug.log", 'sp ace"é\n.log'}


def test_inside_an_ignored_folder_all_is_shown(repository: Path) -> None:
    """Inside an ignored folder everything is listed."""
    assert is_ignored(repository / "build")
    assert not is_ignored(repository)
    assert ignored_names(["made.py"], repository / "build") == frozenset()
    assert list(list_files(repository / "build")) == ["made.py"]


def test_without_a_repository_nothing_is_ignored(root: Path) -> None:
    """Where git has no say all files count, but for git's own."""
    (root / "b" / ".git").mkdir(parents=True)
    for path in ("b/2.log", "a", "b/.git/x"):
        (root / path).touch()

    assert ignored_names(["a"], root) == frozenset()
    assert list(list_files(root)) == ["a", "b/2.log"]


def test_a_repository_that_git_refuses_is_walked(root: Path) -> None:
    """Where there is a `.git` that git does not understand, files are listed all the same."""
    (root / ".git").write_text("nonsense")
    (root / "a").touch()

    assert ignored_names(["a"], root) == frozenset()
    assert sorted(list_files(root)) == [".git", "a"]
