"""Long work shows that it goes on: a spinner in a terminal, and nothing anywhere else."""

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WINDOW = ("--window", "8k")
SEEN = {
    ("inspect",): ("reading", "counting"),
    ("compact", *WINDOW): ("reading", "compacting"),
    ("convert", "--to", "markdown"): ("reading", "writing markdown"),
    ("recall", "ferry"): ("reading", "searching"),
}
SPIN = "import time, infold.cli.render as render\nwith render.working('counting sheep'): time.sleep({seconds})"


def run(file: Path, verb: tuple[str, ...], *, stderr: int) -> "subprocess.CompletedProcess[bytes]":
    """A verb on a file, with its stderr there."""
    command = [sys.executable, "-m", "infold", verb[0], str(file), *verb[1:]]
    environ = {**os.environ, "TERM": "xterm", "FORCE_COLOR": "1"}
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, env=environ, timeout=60, check=True)


def read_all(source: int) -> str:
    """What is written to a terminal so far."""
    shown = b""
    while select.select([source], [], [], 0.1)[0]:
        shown += os.read(source, 65_536)
    return shown.decode()


def test_a_terminal_shows_the_work_and_keeps_nothing_of_it() -> None:
    """The words stand beside a spinner, and are wiped when the work is done."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", SPIN.format(seconds=0.2)],
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            check=True,
            timeout=60,
        )
        shown = read_all(ours)
    finally:
        os.close(ours)
        os.close(theirs)

    assert "counting sheep" in shown
    assert "\x1b[2K" in shown


@pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=[] if verb[0] == "recall" else pytest.mark.long) for verb in SEEN]
)
def test_each_verb_on_a_file_says_what_it_does(chat_file: Path, verb: tuple[str, ...]) -> None:
    """Each step has its words in a terminal; in a pipe there is nothing, whatever the environment asks for."""
    ours, theirs = pty.openpty()
    try:
        run(chat_file, verb, stderr=theirs)
        shown = read_all(ours)
    finally:
        os.close(ours)
        os.close(theirs)

    assert all(words in shown for words in SEEN[verb])
    assert not any(words.encode() in (run(chat_file, verb, stderr=subprocess.PIPE).stderr) for words in SEEN[verb])
