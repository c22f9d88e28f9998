"""The shell tool."""

from pathlib import Path

import msgspec
import pytest

from infold.agent.tools.shell import SHELL, ShellArguments
from infold.agent.tools.tool import Done, ToolFailed, Wish

from .conftest import Ran, Wished


def test_a_command_gives_what_it_said(root: Path, ran: Ran) -> None:
    """S5.5: a command runs at the project's root; its output is whole, and success needs no words."""
    (root / "a.txt").write_text("x\n")

    assert ran(SHELL, command="ls; echo done") == Done("a.txt\ndone", exit_status=0)


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ("echo no >&2; exit 3", "no\n[exit status 3]", 3),
        ("true", "[no output]", 0),
        ("false", "[no output]\n[exit status 1]", 1),
        ("kill -9 $$", "[no output]\n[exit status 137]", 137),
        ("printf 'a\\0b'", "a\ufffdb", 0),
        (
            r"printf '\033[1;31mred\033[0m \033]8;;http://x\033\\link\033]8;;\a [1m \033[2K\033(Bend'",
            "red link [1m end",
            0,
        ),
        (r"printf '\033[0m\n'", "[no output]", 0),
        (r"printf 'a\r\n10%%\r20%%\n'", "a\r\n10%\r20%", 0),
    ],
)
def test_how_it_went_is_told(ran: Ran, command: str, output: str, status: int) -> None:
    """Nothing said and an exit status other than 0 are told in words too, because a model sees only those."""
    assert ran(SHELL, command=command) == Done(output, exit_status=status)


@pytest.mark.slow
def test_the_time_limit_is_told(ran: Ran) -> None:
    """A command that takes too long is stopped, and the model is told what it could do."""
    done = ran(SHELL, command="echo begun; sleep 60", timeout_seconds=1)

    assert done.exit_status == 124
    assert done.output.startswith("begun\n[stopped after 1 seconds")
    assert "timeout_seconds" in done.output


def test_what_still_runs_is_told(ran: Ran) -> None:
    """A server in the background does not hold the call, and the model is told to send its output to a file."""
    done = ran(SHELL, command="sleep 0.3 & echo up")

    assert done.output.startswith("up\n[something it started still runs")
    assert done.exit_status == 0


def test_a_folder_may_be_given(root: Path, ran: Ran, wished: Wished) -> None:
    """A command runs in the folder that is named, and the wish says so as a command would."""
    (root / "my folder").mkdir()

    assert ran(SHELL, command="pwd", folder="my folder").output.endswith("/my folder")
    assert wished(SHELL, command="pwd", folder="my folder") == Wish("shell", "cd 'my folder' && pwd")
    with pytest.raises(ToolFailed, match="there is no nowhere"):
        ran(SHELL, command="pwd", folder="nowhere")


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd",
        "cp x ../y",
        "ls ~",
        "tar --file=/etc/hosts",
        "cat < /etc/hosts",
        "cd .. && ls",
        "cat '/etc/passwd'",
    ],
)
def test_paths_outside_are_noticed(wished: Wished, command: str) -> None:
    """A command that names something outside the project wishes for that."""
    assert wished(SHELL, command=command).outside


@pytest.mark.parametrize(
    "command",
    [
        "ls src",
        "grep /api/v1 x.py",
        "make > /dev/null 2>&1",
        "git diff main..topic",
        "echo a/../b",
        "sed s/a/b/ x",
        "echo /",
    ],
)
def test_what_only_looks_like_a_path_is_let_be(root: Path, wished: Wished, command: str) -> None:
    """Addresses, ranges and expressions are no paths outside; the root of all folders alone is one."""
    assert wished(SHELL, command=command).outside is (command == "echo /")


def test_a_folder_outside_is_outside(wished: Wished) -> None:
    """Where a command runs counts too."""
    assert wished(SHELL, command="ls", folder="..").outside


@pytest.mark.parametrize("command", ["", "  \n", "a\0b"])
def test_no_command_is_refused(ran: Ran, command: str) -> None:
    """What cannot be run is told in words."""
    with pytest.raises(ToolFailed, match="no command"):
        ran(SHELL, command=command)


def test_the_limit_has_a_limit() -> None:
    """Ten minutes are the most that may be asked for."""
    with pytest.raises(msgspec.ValidationError, match="600"):
        msgspec.convert({"command": "x", "timeout_seconds": 601}, ShellArguments)
