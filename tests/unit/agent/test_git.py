"""git on a repository of infold's own: what of a project it still knows, and what it does not."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from infold.agent.git import GitFailed, find_checkout, git_command, open_read_only, read_small_file
from infold.agent.instructions import load_instructions
from infold.agent.tools.processes import find_program
from infold.agent.tools.project_files import ignored_names, is_ignored, list_files
from infold.agent.tools.skill import find_skills
from infold.agent.tools.tool import Workspace
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import user

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> None:
    """git as a user runs it."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that ignores logs, and tracks one all the same."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("*.log\n")
    for name in ("a.py", "b.log", "kept.log", "sub/c.py"):
        (folder / name).write_text("x\n")
    git(folder, "add", "--force", "a.py", "kept.log")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_what_is_tracked_is_not_ignored(root: Path) -> None:
    """B41: without a look at the repository's settings, its index still says which ignored files count."""
    assert ignored_names(["a.py", "b.log", "kept.log"], root) == {"b.log"}
    assert list(list_files(root)) == [".gitignore", "a.py", "kept.log", "sub/c.py"]


def test_an_index_that_cannot_be_read_is_done_without(root: Path) -> None:
    """B41: with a damaged index the ignore rules alone decide; one in parts is read."""
    git(root, "update-index", "--split-index")
    assert list(list_files(root)) == [".gitignore", "a.py", "kept.log", "sub/c.py"]
    (root / ".git" / "index").write_bytes(b"DIRC nonsense")

    assert ignored_names(["a.py", "b.log"], root) == {"b.log"}
    assert list(list_files(root)) == [".gitignore", "a.py", "sub/c.py"]


def test_excludes_of_repository_and_user_count(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the repository's own exclude file and the user's ignore file leave out is left out; other settings are not read."""
    (root / ".git" / "info" / "exclude").write_text("sub/\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / "ignored").write_text("a.*\n")
    (home / ".gitconfig").write_text(f"[core]\n\texcludesFile = ~/ignored\n\tfsmonitor = touch {tmp_path}/fired\n")
    monkeypatch.setenv("HOME", str(home))

    assert is_ignored(root / "sub")
    assert ignored_names(["a.py", "a.txt"], root) == {"a.txt"}
    assert not (tmp_path / "fired").exists()


def test_a_pointer_leads_to_the_repository(root: Path, tmp_path: Path) -> None:
    """A linked working tree has its own index and shares the exclude rules; a broken pointer does not count as a
    repository."""
    second = tmp_path / "second"
    git(root, "worktree", "add", "--quiet", str(second))
    found = find_checkout(second)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").write_text("gitdir: nowhere\n")

    assert found is not None
    assert (found.top, found.index) == (second, root / ".git" / "worktrees" / "second" / "index")
    assert found.excludes == root / ".git" / "info" / "exclude"
    assert find_checkout(tmp_path / "other") is None
    assert find_checkout(root / ".git" / "info") is None


def test_the_made_repository_goes_with_its_block(root: Path) -> None:
    """Nothing is left behind by a command that reads."""
    with open_read_only(root) as found:
        assert found is not None
        own = Path(found.run("rev-parse", "--absolute-git-dir").decode().strip())
        assert own.is_dir()

    assert not own.exists()


def test_git_is_not_looked_for_in_relative_folders(root: Path) -> None:
    """B41: a relative folder in PATH counts for nothing, whatever is in it."""
    (root / "git").write_text("#!/bin/sh\n")
    (root / "git").chmod(0o755)

    assert find_program("git", {"PATH": ".:bin:"}) is None
    assert find_program("git", {"PATH": f".:{root}"}) == str(root / "git")
    with pytest.raises(GitFailed, match="not installed"):
        git_command(root, {"PATH": "."})


def test_modules_of_the_folder_are_not_imported(tmp_path: Path) -> None:
    """B41: `python -m infold` in a folder with modules named like dependencies imports none of them."""
    for name in ("click.py", "msgspec.py", "rich.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'fired')!r}, 'w')\n")
    ran = subprocess.run(
        [sys.executable, "-m", "infold", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "fired").exists()


def test_the_safe_spelling_imports_nothing_of_the_folder(tmp_path: Path) -> None:
    """B41: with `-P` Python does not look into the folder first, so that not even a module of infold's own name is imported."""
    for name in ("infold.py", "contextlib.py", "click.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'fired')!r}, 'w')\n")
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "infold", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "fired").exists()


def test_links_to_an_open_store_are_not_read(tmp_path: Path) -> None:
    """B31: a project whose files lead to the session's own database cannot make infold open and close it."""
    with closing(SqliteStore(tmp_path / "sessions.db")) as store:
        store.append(SessionKey("", SessionId("s")), (MessageEntry(user("hi")),), expected=0)
        for name in ("AGENTS.md", "exclude", "skill/SKILL.md"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).symlink_to(tmp_path / "sessions.db")

        assert read_small_file(tmp_path / "exclude") == b""
        assert find_skills(Workspace(tmp_path, (tmp_path,))) == ()
        assert "could not be read: it is a SQLite database in use" in load_instructions(Workspace(tmp_path)).text
