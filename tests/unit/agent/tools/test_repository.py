"""What git knows of a folder."""

import subprocess
from pathlib import Path

from infold.agent.tools.project_files import ignored_names, is_ignored, list_files


def test_ignored_names_are_known(repository: Path) -> None:
    """What the rules ignore is told, not what they take in again, and no name is too strange."""
    (repository / 'sp ace"é\n.log').touch()
    names = ["src", "build", "debug.log", "kept.log", 'sp ace"é\n.log']

    assert ignored_names(names, repository) == {"build", "debug.log", 'sp ace"é\n.log'}


def test_inside_an_ignored_folder_all_is_shown(repository: Path) -> None:
    """Whoever looks into an ignored folder wants to see what is there."""
    assert is_ignored(repository / "build")
    assert not is_ignored(repository)
    assert ignored_names(["made.py"], repository / "build") == frozenset()
    assert list(list_files(repository / "build")) == ["made.py"]


def test_files_below_are_those_git_would_keep(repository: Path) -> None:
    """Known and new files are listed in order, ignored ones are not."""
    subprocess.run(["git", "-C", str(repository), "add", "src"], check=True)

    assert list(list_files(repository)) == [".gitignore", "README.md", "kept.log", "src/app.py", "src/deep/util.py"]
    assert list(list_files(repository / "src")) == ["app.py", "deep/util.py"]


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
