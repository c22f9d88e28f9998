"""`infold diff` shows what a session changed on disk."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from infold.cli.diff import _print_patch

from .stored_sessions import KITE, infold, keep, kite_entries, painted

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_into_a_pipe_goes_a_patch_that_git_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S6.1: the bare patch on stdout, files that are no text included, and the totals on stderr."""
    root = painted(tmp_path)
    monkeypatch.chdir(root)
    told = infold(tmp_path, "diff", "last")
    command = ["git", "apply", "--reverse", "-"]
    subprocess.run(command, cwd=root, input=told.stdout_bytes, check=True, capture_output=True)

    assert told.stderr == "2 files changed, 1 line added, 0 lines deleted\n"
    assert "+two\tred\n" in told.stdout
    assert {path.name: path.read_text() for path in root.iterdir()} == {"kite.py": "one\n"}


def test_stat_is_files_and_lines(tmp_path: Path) -> None:
    """A line for each file, then the totals."""
    painted(tmp_path)
    lines = [line.split() for line in infold(tmp_path, "diff", KITE, "--stat").stdout.splitlines()]

    assert lines == [
        ["kite.png", "+0", "-0"],
        ["kite.py", "+1", "-0", "+"],
        ["2", "files", "changed,", "1", "line", "added,", "0", "lines", "deleted"],
    ]


def test_one_turn_can_be_chosen(tmp_path: Path) -> None:
    """S6.1: the turn that a user message began, by its number; another number is told which there are."""
    painted(tmp_path)

    assert "kite.py" in infold(tmp_path, "diff", KITE, "--message", 0).stdout
    assert "\n0 files changed" in infold(tmp_path, "diff", KITE, "--message", 7).stderr
    assert "the newest are: 0, 7" in infold(tmp_path, "diff", KITE, "--message", 3).stderr


def test_a_patch_of_another_folder_is_told(tmp_path: Path) -> None:
    """Before it is applied in the wrong place, the right one is named; stdout has the patch alone."""
    root = painted(tmp_path)
    told = infold(tmp_path, "diff", KITE)

    assert told.stderr.startswith(f"session {KITE} belongs to another folder, {root}\n")
    assert told.stdout.startswith("diff --git")


def test_json_has_the_contents(tmp_path: Path) -> None:
    """S6.1: each file's difference with its contents before and after; with --stat without them."""
    painted(tmp_path)
    page = json.loads(infold(tmp_path, "diff", KITE, "--json").stdout)
    short = json.loads(infold(tmp_path, "diff", KITE, "--json", "--stat", "--message", 0).stdout)

    assert (page["session"], page["message"], page["totals"]) == (
        KITE,
        None,
        {"files": 2, "additions": 1, "deletions": 0},
    )
    assert page["files"][1] == {
        "file": "kite.py", "before": "one\n", "after": "one\ntwo\tred\n", "additions": 1, "deletions": 0
    }  # fmt: skip
    assert short["message"] == 0
    assert set(short["files"][0]) == {"file", "additions", "deletions"}


def test_a_session_without_snapshots_is_told(tmp_path: Path) -> None:
    """There is nothing to compare, and that is no error."""
    keep(tmp_path, {KITE: kite_entries()})
    told = infold(tmp_path, "diff", KITE)

    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr.startswith("nothing to compare")


def test_snapshots_that_are_gone_are_told(tmp_path: Path) -> None:
    """Where the folder of snapshots was removed, one line says so."""
    painted(tmp_path)
    shutil.rmtree(tmp_path / ".local" / "share" / "infold" / "snapshots")
    told = infold(tmp_path, "diff", KITE)

    assert told.exit_code == 1
    assert "cannot be read" in told.stderr


def test_a_terminal_gets_colours_and_no_bytes(tmp_path: Path) -> None:
    """Lines are coloured by what they are; of a file that is no text there is its name alone."""
    painted(tmp_path)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="standard", width=80)
    _print_patch(console, infold(tmp_path, "diff", KITE).stdout_bytes + b"diff --git a/x b/x\n+\x1b[2J\n")
    lines = screen.getvalue().splitlines()

    assert "\x1b[32m+two    red\x1b[0m" in lines
    assert "\x1b[36m@@ -1 +1,2 @@\x1b[0m" in lines
    assert "GIT binary patch" in lines
    assert not any("literal" in line for line in lines)
    assert lines[-1] == "\x1b[32m+?[2J\x1b[0m"
