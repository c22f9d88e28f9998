"""The demo as a user starts it: a process of its own, its output a pipe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def start(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `python -m infold demo` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "infold", "demo", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )


def test_the_demo_runs_plain_and_fast() -> None:
    """It needs no terminal and ends with the totals."""
    ended = start("--plain", "--fast")

    assert ended.returncode == 0
    assert "every request fits" in ended.stdout
    assert ended.stderr == ""


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """The session's file stood in a folder for temporary files, and is gone."""
    ended = start("--fast", "--window", "64k", TMPDIR=str(tmp_path))

    assert ended.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_gets_plain_lines_unasked() -> None:
    """Without a terminal there are no control characters in the output."""
    assert "\x1b" not in start("--window", "64k").stdout


def test_an_ascii_terminal_is_no_crash() -> None:
    """What the encoding cannot show becomes a question mark."""
    ended = start("--fast", "--window", "64k", PYTHONIOENCODING="ascii")

    assert ended.returncode == 0
    assert ended.stdout.isascii()


def test_a_failure_is_a_line_and_not_a_traceback() -> None:
    """Bad usage is told on stderr alone."""
    ended = start("--window", "tiny")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Traceback" not in ended.stderr
