"""The private repository of a project's snapshots: locating the project, and commands that fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infold.agent.git import Checkout, GitFailed
from infold.agent.snapshots import SnapshotRepository, locate_project

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> None:
    """Run git as a user does."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> SnapshotRepository:
    """Return a new repository."""
    made = SnapshotRepository(tmp_path / "place" / "one", os.environ, 10.0)
    with made.locked():
        made.prepare(Checkout(tmp_path, tmp_path))
    return made


def test_a_folder_in_no_repository_is_its_own_top(tmp_path: Path) -> None:
    """Without a repository nothing above the folder counts."""
    assert locate_project(tmp_path) == Checkout(tmp_path, tmp_path)


def test_a_linked_working_tree_shares_its_excludes(tmp_path: Path) -> None:
    """In a second working tree of a repository the excludes are the repository's, and the top is the tree's own."""
    main, second = tmp_path / "main", tmp_path / "second"
    main.mkdir()
    git(main, "init", "--quiet")
    git(main, "commit", "--quiet", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "--quiet", str(second))
    (second / "sub").mkdir()

    found, common = locate_project(second / "sub"), main / ".git"
    assert (found.top, found.prefix) == (second, "sub/")
    assert (found.index, found.excludes) == (common / "worktrees" / "second" / "index", common / "info" / "exclude")


def test_inside_a_repositorys_own_folder_there_is_no_tree(tmp_path: Path) -> None:
    """A folder of git's own is a folder like any other."""
    git(tmp_path, "init", "--quiet")

    assert locate_project(tmp_path / ".git") == Checkout(tmp_path / ".git", tmp_path / ".git")


def test_a_failure_has_gits_message(repository: SnapshotRepository) -> None:
    """The error has git's last line, and is not lasting."""
    with pytest.raises(GitFailed, match="Not a valid object name nonsense") as caught:
        repository.git("cat-file", "-p", "nonsense")

    assert not caught.value.is_lasting


def test_the_lock_ends_with_its_block(repository: SnapshotRepository) -> None:
    """It can be taken again, whatever happened inside."""
    with pytest.raises(GitFailed), repository.locked():
        repository.git("cat-file", "-p", "nonsense")
    with repository.locked():
        assert repository.git("rev-parse", "--is-bare-repository") == b"true\n"


def test_only_its_owner_reads_the_repository(repository: SnapshotRepository) -> None:
    """Other users have no access to it."""
    assert repository.folder.stat().st_mode & 0o077 == 0
