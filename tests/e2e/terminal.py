"""A terminal to look into: a program in tmux, keys that are typed to it, and what its screen shows."""

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from time import monotonic, sleep

__all__ = ["IS_THERE", "Terminal", "terminal"]

IS_THERE = which("tmux") is not None
LONGEST_WAIT = 30.0
POLL_SECONDS = 0.05
NOTING_STATUS = 'trap : INT; status=$1; shift; "$@"; echo $? >"$status"'
"""How the program is run: tmux itself does not always learn how one ended. An interrupt is the program's affair."""

SIZES = ("COLUMNS", "LINES")
"""Variables that would tell the size of another terminal."""


class Terminal:
    """One program in one tmux of its own; `status` is the file in which its exit status will stand."""

    def __init__(self, folder: Path) -> None:
        self.status = folder / "status"
        self._socket = folder / "socket"

    def tmux(self, *arguments: str) -> str:
        """What tmux says to a command."""
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST_WAIT).stdout

    def type(self, text: str, *keys: str) -> None:
        """Type a text as it is, then keys by their names."""
        if text:
            self.tmux("send-keys", "-l", text)
        if keys:
            self.tmux("send-keys", *keys)

    def say(self, text: str) -> None:
        """Type a line."""
        self.type(text, "Enter")

    def paste(self, text: str) -> None:
        """Paste a text, marked as such, as terminals do."""
        self.tmux("set-buffer", text)
        self.tmux("paste-buffer", "-p")

    @property
    def screen(self) -> str:
        """What the screen shows, and all that has scrolled away above it."""
        return self.tmux("capture-pane", "-p", "-S", "-5000").rstrip()

    @property
    def drawn(self) -> str:
        """What the screen alone shows, with its colours as escape sequences."""
        return self.tmux("capture-pane", "-p", "-e").rstrip()

    @property
    def process(self) -> int:
        """The id of the program, the only child of the shell that was started for it."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text("ascii"))

    def wait(self, *texts: str, without: str = "", times: int = 1) -> str:
        """The screen once it shows all these texts, so many times, and no more the other; fails if it does not for long."""
        deadline = monotonic() + LONGEST_WAIT
        while monotonic() < deadline:
            screen = self.screen
            if all(screen.count(text) >= times for text in texts) and not (without and without in screen):
                return screen
            sleep(POLL_SECONDS)
        raise AssertionError(f"{texts} did not come; the screen shows:\n{self.screen}")

    def wait_end(self) -> int:
        """The exit status, once the program has ended; a signal that killed it counts from 128 on, as shells have it."""
        deadline = monotonic() + LONGEST_WAIT
        while monotonic() < deadline:
            told = self.status.read_text("ascii") if self.status.exists() else ""
            if told.endswith("\n"):
                return int(told)
            sleep(POLL_SECONDS)
        raise AssertionError(f"the program did not end; the screen shows:\n{self.screen}")


@contextmanager
def terminal(
    command: Sequence[str], *, folder: Path, environ: Mapping[str, str], size: tuple[int, int] = (100, 40)
) -> Iterator[Terminal]:
    """A program in a terminal of that many columns and lines; ended with the block, with the tmux that was started for it."""
    with TemporaryDirectory() as beside:
        shown = Terminal(Path(beside))
        kept = [f"{name}={value}" for name, value in environ.items() if name not in SIZES]
        started = [
            "env",
            "-i",
            *kept,
            "TERM=tmux-256color",
            "sh",
            "-c",
            NOTING_STATUS,
            "sh",
            str(shown.status),
            *command,
        ]
        width, height = map(str, size)
        shown.tmux(
            *("set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "history-limit", "5000", ";"),
            *("new-session", "-d", "-x", width, "-y", height, "-c", str(folder), "exec " + shlex.join(started)),
        )
        try:
            yield shown
        finally:
            shown.tmux("kill-server")
