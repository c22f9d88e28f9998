"""Programs run to their end or to a limit."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from time import monotonic, sleep

import pytest

from infold.agent.git import git_command
from infold.agent.tools.processes import defer_signals, run_process


def shell(command: str) -> list[str]:
    """A command for the shell."""
    return ["/bin/sh", "-c", command]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int, seconds: float = 30.0) -> bool:
    """Whether a process ends soon."""
    until = monotonic() + seconds
    while is_alive(pid) and monotonic() < until:
        sleep(0.01)
    return not is_alive(pid)


def test_output_stands_in_order(tmp_path: Path) -> None:
    """Both streams are one, in the order in which they were written, in the folder that was given."""
    result = run_process(shell("echo one; echo two >&2; pwd; exit 3"), tmp_path, limit_seconds=10)

    assert result.output == f"one\ntwo\n{tmp_path}\n"
    assert (result.exit_status, result.is_left_running) == (3, False)


def test_there_is_nothing_to_read(tmp_path: Path) -> None:
    """A program that reads gets an end at once."""
    assert run_process(shell("cat; echo done"), tmp_path, limit_seconds=10).output == "done\n"


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    """Output that is not UTF-8 is still shown."""
    assert run_process(shell(r"printf 'caf\351\n'"), tmp_path, limit_seconds=10).output == "caf\ufffd\n"


@pytest.mark.parametrize("size", [99, 100, 101, 5_000, 300_000])
def test_of_much_output_both_ends_stay(tmp_path: Path, size: int) -> None:
    """What is within the bound stays whole; of more, the two halves of it, with a note of how much is missing."""
    text = "".join(f"{number % 10}" for number in range(size))
    (tmp_path / "text").write_text(text)
    result = run_process(["cat", "text"], tmp_path, limit_seconds=10, most_bytes=100)

    if size <= 100:
        assert result.output == text
    else:
        assert result.output.startswith(text[:50] + "\n[")
        assert result.output.endswith("]\n" + text[-50:])
        assert f"[{size - 100:,} bytes" in result.output


@pytest.mark.slow
def test_the_limit_ends_the_whole_group(tmp_path: Path) -> None:
    """At the limit everything that a program started is killed, also what does not listen to a request."""
    command = "trap '' TERM; sleep 300 & echo $! > child; echo begun; wait; wait; sleep 300"
    result = run_process(shell(command), tmp_path, limit_seconds=1)

    assert result.exit_status is None
    assert result.output == "begun\n"
    assert gone(int((tmp_path / "child").read_text()))


def test_a_flood_ends_at_the_limit(tmp_path: Path) -> None:
    """A program that never stops talking is stopped all the same."""
    begun = monotonic()
    result = run_process(["yes"], tmp_path, limit_seconds=0.5, most_bytes=1_000)

    assert result.exit_status is None
    assert "bytes of output left out here" in result.output
    assert monotonic() - begun < 30


def test_a_child_in_the_background_does_not_hold(tmp_path: Path) -> None:
    """A child that keeps the pipe open is left running, and is not waited for."""
    result = run_process(shell("sleep 300 & echo $!; exit 5"), tmp_path, limit_seconds=60)
    child = int(result.output)
    try:
        assert (result.exit_status, result.is_left_running) == (5, True)
        assert is_alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.slow
def test_a_talking_child_in_the_background_does_not_hold(tmp_path: Path) -> None:
    """Nor does one that goes on talking."""
    result = run_process(shell("yes & echo $! > child; exit 0"), tmp_path, limit_seconds=60, most_bytes=1_000)

    assert (result.exit_status, result.is_left_running) == (0, True)
    assert gone(int((tmp_path / "child").read_text()))  # the closed pipe ends `yes`


def test_a_closed_pipe_is_no_end(tmp_path: Path) -> None:
    """A program that closes its output is waited for all the same."""
    result = run_process(shell("exec >&- 2>&-; sleep 0.05; exit 4"), tmp_path, limit_seconds=10)

    assert result.exit_status == 4


@pytest.mark.slow
@pytest.mark.parametrize("command", ["echo $$ > child; sleep 300", "exec >&- 2>&-; echo $$ > child; sleep 300"])
def test_an_interrupt_passes_and_kills(tmp_path: Path, command: str, when_there: Callable[[Path], Timer]) -> None:
    """B13: an interrupt goes on its way once everything that ran is dead."""
    timer = when_there(tmp_path / "child")
    with pytest.raises(KeyboardInterrupt):
        run_process(shell(command), tmp_path, limit_seconds=60)
    timer.join()

    assert gone(int((tmp_path / "child").read_text()))


@pytest.mark.slow
def test_what_was_said_before_an_interrupt_is_left(tmp_path: Path, when_there: Callable[[Path], Timer]) -> None:
    """B13: an interrupted program's output so far is kept."""
    left: list[str] = []
    command = shell("echo halfway; sleep 0.3; echo now > ready; sleep 30")
    timer = when_there(tmp_path / "ready")
    with pytest.raises(KeyboardInterrupt):
        run_process(command, tmp_path, limit_seconds=20, on_interrupt=left.append)
    timer.join()

    assert left == ["halfway\n"]


@pytest.fixture
def when_there() -> Callable[[Path], Timer]:
    """Interrupts this process, as Ctrl-C does, once a file has something in it."""

    def begin(path: Path) -> Timer:
        def interrupt() -> None:
            until = monotonic() + 30
            while not (path.exists() and path.read_text().endswith("\n")) and monotonic() < until:
                pass
            os.kill(os.getpid(), signal.SIGINT)

        timer = Timer(0, interrupt)
        timer.start()
        return timer

    return begin


def test_an_interrupt_waits_for_a_program_to_be_started() -> None:
    """B13: an interrupt that comes while a program is being started is held until the program can be stopped."""
    started: list[str] = []

    def start() -> None:
        with defer_signals():
            signal.raise_signal(signal.SIGINT)
            started.append("program")

    with pytest.raises(KeyboardInterrupt):
        start()

    assert started
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_any_thread_may_run_a_program(tmp_path: Path) -> None:
    """Where no interrupt can come, none is waited for."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_process, ["echo", "hi"], tmp_path, limit_seconds=10).result().output == "hi\n"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """What cannot be started is an error of the system's."""
    with pytest.raises(FileNotFoundError):
        run_process(["no-such-program-anywhere"], tmp_path, limit_seconds=1)


def test_no_helper_program_is_given_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B41: git and the search get no keys either: a command in the background could read them from their environments."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")

    assert "sk-of-the-test" not in run_process(["env"], tmp_path, limit_seconds=5).output
    assert "sk-of-the-test" not in git_command(tmp_path, os.environ).environ.values()
