"""Snapshots of real working trees, compared with git's own view of them."""

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infold import Session
from infold.agent.snapshots import LARGEST_BYTES, Snapshots, sum_diffs
from infold.agent.trust import default_snapshot_folder
from infold.core.messages import (
    AssistantMessage,
    MessageId,
    StepFinishPart,
    StepStartPart,
    TextPart,
    Usage,
    UserMessage,
    WorkPath,
)
from infold.errors import UsageError
from infold.ports import FileDiff

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty project's folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def snapshots(root: Path, tmp_path: Path) -> Snapshots:
    """Snapshots of that folder."""
    return Snapshots(root, tmp_path / "place")


def git(folder: Path, *words: str) -> str:
    """git as the project's user runs it."""
    ended = subprocess.run(["git", *IDENTITY, *words], cwd=folder, capture_output=True, text=True, check=True)
    return ended.stdout


def write(folder: Path, **files: str) -> None:
    """Files by name, `__` standing for a slash and `_` for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(diffs: tuple[FileDiff, ...]) -> list[str]:
    """The files of differences."""
    return [one.file for one in diffs]


def changed(snapshots: Snapshots, act: Callable[[], object]) -> tuple[FileDiff, ...]:
    """What an act changes between a snapshot before it and one after."""
    before = snapshots.take()
    act()
    after = snapshots.take()
    assert before, snapshots.note
    assert after, snapshots.note
    return snapshots.diff(before, after)


def test_a_change_has_its_lines(root: Path, snapshots: Snapshots) -> None:
    """S6.1: file, contents before and after, additions and deletions; unchanged files are left out."""
    write(root, a_txt="one\ntwo\n", same_txt="x\n")
    found = changed(snapshots, lambda: write(root, a_txt="one\n2\nthree\n", sub__b_txt="new\n"))

    assert found == (
        FileDiff("a.txt", "one\ntwo\n", "one\n2\nthree\n", 2, 1),
        FileDiff("sub/b.txt", "", "new\n", 1, 0),
    )


def test_nothing_changed_is_the_same_snapshot(root: Path, snapshots: Snapshots) -> None:
    """A tree is identified by its content: taken twice it has one id, even if a file was rewritten with the same
    content."""
    write(root, a_txt="one\n")
    first = snapshots.take()
    write(root, a_txt="one\n")

    assert snapshots.take() == first
    assert snapshots.diff(first, first) == ()
    assert snapshots.patch(first, first) == b""


def test_a_rename_is_a_deletion_and_an_addition(root: Path, snapshots: Snapshots) -> None:
    """A file that moved is deleted there and added here."""
    write(root, old_txt="a\nb\n")
    found = changed(snapshots, lambda: (root / "old.txt").rename(root / "new.txt"))

    assert found == (FileDiff("new.txt", "", "a\nb\n", 2, 0), FileDiff("old.txt", "a\nb\n", "", 0, 2))


def test_what_is_no_text_has_no_lines(root: Path, snapshots: Snapshots) -> None:
    """A binary file has only its name; text in another encoding counts as text."""

    def act() -> None:
        (root / "kite.png").write_bytes(b"\x89PNG\0\1")
        (root / "latin.txt").write_bytes(b"caf\xe9\n")

    assert changed(snapshots, act) == (FileDiff("kite.png"), FileDiff("latin.txt", "", "caf\ufffd\n", 1, 0))


def test_kinds_may_change(root: Path, snapshots: Snapshots) -> None:
    """A file becomes a folder, a folder a file, a link a file, and a file executable."""
    write(root, a="x\n", b__c="y\n", run_sh="z\n")
    (root / "link").symlink_to("a")

    def act() -> None:
        (root / "a").unlink()
        shutil.rmtree(root / "b")
        (root / "link").unlink()
        write(root, a__in="x\n", b="y\n", link="file\n")
        (root / "run.sh").chmod(0o755)

    found = {one.file: (one.additions, one.deletions) for one in changed(snapshots, act)}

    assert found == {"a": (0, 1), "a/in": (1, 0), "b": (1, 0), "b/c": (0, 1), "link": (1, 1), "run.sh": (0, 0)}


def test_odd_names_are_names(root: Path, snapshots: Snapshots) -> None:
    """Line breaks, quotes, spaces, other scripts, a leading dash and bytes of no encoding."""
    odd = ["line\nbreak", 'quo"te', " space ", "文件.txt", "-n", "tab\there", ":(top)x", os.fsdecode(b"\xff")]
    found = changed(snapshots, lambda: [(root / name).write_text("x\n") for name in odd])

    assert sorted(names(found)) == sorted([*odd[:-1], "\ufffd"])
    assert sum_diffs(found).additions == len(odd)


@pytest.mark.slow
def test_counts_are_those_of_git(root: Path, snapshots: Snapshots) -> None:
    """S6.1: files and lines are as `git diff --numstat` has them, whatever was done in between."""
    git(root, "init", "--quiet")
    write(
        root,
        **{f"part{n % 7}__file{n}_py": f"line\n{n}\n" * (n % 5 + 1) for n in range(60)},
        _gitattributes="*.dat -diff\n",
    )
    (root / "pixel.png").write_bytes(b"\0\1")
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "-m", "first")

    def act() -> None:
        for n in range(0, 60, 3):
            path = root / f"part{n % 7}" / f"file{n}.py"
            path.write_text(path.read_text().replace("line", "changed", 2) + "end\n" * (n % 4))
        (root / "part1" / "file1.py").unlink()
        (root / "pixel.png").write_bytes(b"\0\2")
        write(root, new__one_py="a\nb\n", table_dat="1\n2\n")

    found = changed(snapshots, act)
    git(root, "add", "-A")
    message = git(root, "diff", "--cached", "--numstat", "--no-renames").splitlines()
    counts = {
        path: (0, 0) if added == "-" else (int(added), int(deleted))
        for added, deleted, path in (line.split("\t") for line in message)
    }

    assert {one.file: (one.additions, one.deletions) for one in found} == counts
    assert counts["table.dat"] == (0, 0)


def test_what_git_leaves_out_is_left_out(root: Path, snapshots: Snapshots) -> None:
    """.gitignore at every level and .git/info/exclude are respected, also as they change."""
    git(root, "init", "--quiet")
    (root / ".git" / "info" / "exclude").write_text("private.txt\n")
    write(root, _gitignore="*.log\n", sub___gitignore="build\n")
    act = lambda: write(root, a_log="x", private_txt="x", sub__build__c="x", sub__d="x", later_txt="x")  # noqa: E731

    assert names(changed(snapshots, act)) == ["later.txt", "sub/d"]
    (root / ".git" / "info" / "exclude").write_text("")
    assert names(changed(snapshots, lambda: None)) == []
    before = snapshots.take()
    assert names(snapshots.diff(before, snapshots.take())) == []
    assert "private.txt" in names(snapshots.diff(EMPTY, before))


EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree of nothing, which git always knows."""


def test_a_folder_inside_a_repository_is_its_own_tree(root: Path, tmp_path: Path) -> None:
    """Of a larger repository only the root's folder is taken, by the ignore files above it too; paths are the root's."""
    git(root, "init", "--quiet")
    write(root, _gitignore="*.log\n/app/out\n", app__a_py="x\n", other__b_py="y\n")
    snapshots = Snapshots(root / "app", tmp_path / "place")
    act = lambda: write(root, app__c_log="", app__out__d="", app__e_py="e\n", other__b_py="z\n")  # noqa: E731

    assert names(changed(snapshots, act)) == ["e.py"]


def test_a_folder_that_a_repository_ignores_stands_alone(root: Path, tmp_path: Path) -> None:
    """Who keeps a home folder in git and ignores the rest still works on the rest; its own ignore files count."""
    git(root, "init", "--quiet")
    write(root, _gitignore="app\n", app___gitignore="*.log\n", app__a_py="x\n")
    snapshots = Snapshots(root / "app", tmp_path / "place")

    assert names(changed(snapshots, lambda: write(root, app__a_py="y\n", app__b_log="", b_py=""))) == ["a.py"]


def test_files_of_a_folder_inside_a_repository_may_change_and_go(root: Path, tmp_path: Path) -> None:
    """S6.1: files that existed before are compared as well, not only new ones."""
    git(root, "init", "--quiet")
    write(root, app__a_py="x\n", app__deep__b_py="b\n", app__c_py="c\n", a_py="x\n")
    snapshots = Snapshots(root / "app", tmp_path / "place")

    def act() -> None:
        write(root, app__a_py="y\n", app__deep__b_py="bb\n", a_py="z\n")
        (root / "app" / "c.py").unlink()

    assert names(changed(snapshots, act)) == ["a.py", "c.py", "deep/b.py"]


def test_an_empty_folder_has_a_snapshot(root: Path, tmp_path: Path) -> None:
    """Nothing is a tree as well, in a repository or not."""
    git(root, "init", "--quiet")
    (root / "app").mkdir()

    assert Snapshots(root / "app", tmp_path / "place").take() == EMPTY
    assert Snapshots(root, tmp_path / "place").take() == EMPTY


def test_repositories_inside_are_left_out(root: Path, snapshots: Snapshots) -> None:
    """Nested clones and submodules are not part of a snapshot."""

    def act() -> None:
        write(root, vendor__lib__x_py="x\n", a_py="a\n")
        git(root / "vendor" / "lib", "init", "--quiet")
        git(root / "vendor" / "lib", "add", "-A")
        git(root / "vendor" / "lib", "commit", "--quiet", "-m", "x")

    assert names(changed(snapshots, act)) == ["a.py"]


def test_large_files_are_left_out(root: Path, snapshots: Snapshots) -> None:
    """A file over the size is not kept, and one that grows over it leaves the tree."""

    def grow(name: str) -> None:
        with (root / name).open("wb") as stream:
            stream.truncate(LARGEST_BYTES + 1)

    write(root, grows_bin="small\n")

    assert names(changed(snapshots, lambda: [*map(grow, ("grows.bin", "large.bin"))])) == ["grows.bin"]
    assert names(changed(snapshots, lambda: write(root, grows_bin="small\n"))) == ["grows.bin"]


def test_secrets_are_left_out(root: Path, snapshots: Snapshots) -> None:
    """B41: a file that is likely to hold keys or passwords is not copied into a snapshot, nor shown in a diff."""
    before = snapshots.take()
    (root / "deep").mkdir()
    for name in (".env", "deep/server.pem", "deep/plain.txt"):
        (root / name).write_text("TOKEN=x\n")
    after = snapshots.take()

    assert [one.file for one in snapshots.diff(before, after)] == ["deep/plain.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_left_out(root: Path, snapshots: Snapshots) -> None:
    """An unreadable file or folder does not keep the rest from being taken."""

    def act() -> None:
        write(root, a="x", closed="x", shut__in="x")
        (root / "closed").chmod(0)
        (root / "shut").chmod(0)

    assert names(changed(snapshots, act)) == ["a"]
    (root / "shut").chmod(0o700)


def test_what_is_no_file_is_left_out(root: Path, snapshots: Snapshots) -> None:
    """A named pipe would be waited on for ever."""
    os.mkfifo(root / "pipe")

    assert names(changed(snapshots, lambda: write(root, a="x"))) == ["a"]


def test_the_users_git_is_not_touched(root: Path, tmp_path: Path) -> None:
    """Index, HEAD, configuration and hooks of the project are as before, and variables that steer git steer nothing."""
    git(root, "init", "--quiet")
    write(root, a="x\n")
    git(root, "add", "a")
    hook = root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {root}/hooked\n")
    hook.chmod(0o755)
    kept = {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}
    steered = {"GIT_DIR": str(root / ".git"), "GIT_INDEX_FILE": str(root / ".git" / "index")}
    snapshots = Snapshots(root, tmp_path / "place", environ={**os.environ, **steered})

    assert names(changed(snapshots, lambda: write(root, b="y\n"))) == ["b"]
    assert {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()} == kept


def test_the_place_may_be_inside_the_project(root: Path) -> None:
    """The folder with the snapshots is not part of them."""
    snapshots = Snapshots(root, root / "my [own] state!")

    assert names(changed(snapshots, lambda: write(root, a="x"))) == ["a"]


def test_a_repository_that_comes_later_is_noticed(root: Path, snapshots: Snapshots) -> None:
    """An agent may begin the project's repository itself; the snapshots before it can still be compared."""
    write(root, a="x\n")

    def act() -> None:
        git(root, "init", "--quiet")
        (root / ".git" / "info" / "exclude").write_text("hidden\n")
        write(root, hidden="x", b="y\n")

    assert names(changed(snapshots, act)) == ["b"]


@pytest.mark.slow
def test_several_may_take_at_once(root: Path, tmp_path: Path) -> None:
    """B14: takers of one tree wait for each other; each has a snapshot, and all have the same."""
    write(root, **{f"file{n}": f"{n}\n" for n in range(300)})
    with ThreadPoolExecutor(6) as pool:
        takers = [Snapshots(root, tmp_path / "place") for _ in range(6)]
        taken = list(pool.map(lambda one: one.take(), takers))

    assert len(set(taken)) == 1
    assert [one.note for one in takers] == [""] * 6


def test_a_lock_left_behind_is_no_obstacle(root: Path, snapshots: Snapshots, tmp_path: Path) -> None:
    """B13: a process that was killed in the middle of a snapshot leaves an index lock, which does not block the next."""
    write(root, a="x\n")
    snapshots.take()
    (repository,) = (path for path in (tmp_path / "place").iterdir() if path.is_dir())
    (repository / "index.lock").touch()

    assert names(changed(snapshots, lambda: write(root, b="x"))) == ["b"]


def test_only_its_owner_reads_the_repository(root: Path, snapshots: Snapshots, tmp_path: Path) -> None:
    """Other users have no access to it."""
    snapshots.take()
    (repository,) = (path for path in (tmp_path / "place").iterdir() if path.is_dir())

    assert repository.stat().st_mode & 0o077 == 0


def test_without_git_there_is_a_note(root: Path, tmp_path: Path) -> None:
    """A machine without git has no snapshots, and the agent goes on."""
    snapshots = Snapshots(root, tmp_path / "place", environ={"PATH": str(root)})

    assert snapshots.take() == snapshots.take() == ""
    assert "git cannot be run" in snapshots.note


def test_a_failure_that_passes_is_tried_again(root: Path, snapshots: Snapshots, tmp_path: Path) -> None:
    """A damaged repository is noted; once it is mended the next snapshot is taken, and the note is gone."""
    write(root, a="x\n")
    snapshots.take()
    (repository,) = (path for path in (tmp_path / "place").iterdir() if path.is_dir())
    index = (repository / "index").read_bytes()
    (repository / "index").write_bytes(b"DIRC nonsense")

    assert snapshots.take() == ""
    assert snapshots.note.startswith("no snapshot of ")
    (repository / "index").write_bytes(index)
    assert snapshots.take() != ""
    assert snapshots.note == ""


def test_objects_that_are_gone_are_a_note(root: Path, snapshots: Snapshots, tmp_path: Path) -> None:
    """A repository that lost what it held cannot make a tree of it, and says so."""
    write(root, a="x\n")
    snapshots.take()
    for stored in (tmp_path / "place").glob("*/objects/??/*"):
        stored.unlink()
    write(root, b="y\n")

    assert snapshots.take() == ""
    assert "error building trees" in snapshots.note


def test_a_place_that_cannot_be_written_is_a_note(root: Path, tmp_path: Path) -> None:
    """A file where the folder should be gives a note, by taking and by tidying."""
    (tmp_path / "file").touch()
    snapshots = Snapshots(root, tmp_path / "file")

    assert snapshots.take() == ""
    assert snapshots.note.startswith("no snapshot of ")
    snapshots.tidy()
    assert "were not tidied" in snapshots.note


def test_a_slow_snapshot_is_given_up(root: Path, tmp_path: Path) -> None:
    """A tree that takes too long gets no snapshot, and is not tried again."""
    snapshots = Snapshots(root, tmp_path / "place", timeout_seconds=0.0)

    assert snapshots.take() == ""
    assert "too long" in snapshots.note
    assert snapshots.take() == ""


@pytest.mark.parametrize("folder", [Path("/"), Path.home()], ids=["top", "home"])
def test_no_home_is_a_project(folder: Path, tmp_path: Path) -> None:
    """Started in the home folder or at the top of the disk, an agent does not read all of it."""
    snapshots = Snapshots(folder, tmp_path / "place")

    assert snapshots.take() == ""
    assert "not the folder of a project" in snapshots.note
    assert not (tmp_path / "place").exists()


def test_unknown_snapshots_are_refused(root: Path, snapshots: Snapshots) -> None:
    """Unknown snapshots and malformed ids are refused in one line; an empty one compares to nothing."""
    snapshots.take()

    assert snapshots.diff("", EMPTY) == snapshots.diff(EMPTY, "") == ()
    with pytest.raises(UsageError, match="cannot be read"):
        snapshots.diff("1" * 40, EMPTY)
    with pytest.raises(UsageError, match="Not snapshot ids"):
        snapshots.diff("--output=stolen", EMPTY)


def test_the_patch_is_gits_own(root: Path, snapshots: Snapshots) -> None:
    """The unified diff has names as they are, and can be read where the project is no more."""
    before = snapshots.take()
    write(root, 文_txt="x\n")
    after = snapshots.take()
    shutil.rmtree(root)

    assert "+++ b/文.txt\n@@ -0,0 +1 @@\n+x\n" in snapshots.patch(before, after).decode()


@pytest.mark.parametrize("folder", [".", "app"])
def test_the_patch_of_a_folder_inside_a_repository_can_be_taken_back(root: Path, tmp_path: Path, folder: str) -> None:
    """git finds the files by their names from the top of the repository, wherever in it the patch is taken back."""
    git(root, "init", "--quiet")
    write(root, app__a_py="x\n")
    snapshots = Snapshots(root / "app", tmp_path / "place")
    before = snapshots.take()
    write(root, app__a_py="y\n")
    (tmp_path / "patch").write_bytes(snapshots.patch(before, snapshots.take()))

    git(root / folder, "apply", "--reverse", str(tmp_path / "patch"))

    assert (root / "app" / "a.py").read_text() == "x\n"


@pytest.mark.slow
def test_tidying_keeps_what_is_new(root: Path, snapshots: Snapshots) -> None:
    """Packing loses none of this month's snapshots."""
    found = changed(snapshots, lambda: write(root, a="x\n"))
    after = snapshots.take()
    snapshots.tidy()

    assert snapshots.note == ""
    assert snapshots.diff(EMPTY, after) == found


def test_a_session_shows_what_it_changed(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S6.1: `Session.diffs` compares the snapshots of its steps, of all of them or of one turn."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    taken = Snapshots(root, default_snapshot_folder(os.environ))
    session = Session("memory", "s", window=8_000)
    for text in ("one", "two"):
        start = StepStartPart(taken.take())
        write(root, feed_py=f"{text}\n")
        end = StepFinishPart("stop", taken.take(), Usage())
        path = WorkPath(str(root), str(root))
        reply = AssistantMessage(MessageId("a"), (TextPart("Done."), start, end), path=path, finish="stop")
        session.add([UserMessage(MessageId("u"), (TextPart(text),)), reply])

    assert session.diffs() == (FileDiff("feed.py", "", "two\n", 1, 0),)
    assert session.diffs(2) == (FileDiff("feed.py", "one\n", "two\n", 1, 1),)
    with pytest.raises(UsageError, match="the newest are: 0, 2"):
        session.diffs(1)
