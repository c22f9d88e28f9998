"""Run a program to its end or to a time limit, with bounded output.

A program runs in its own process group, which is killed as a whole at the limit and on an interrupt. Processes that left that
group (`setsid`, a daemon) are not killed.
"""

import ctypes
import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import which
from threading import current_thread, main_thread
from time import monotonic
from typing import Any

from msgspec import Struct

from infold.catalogue.lookup import shipped_table
from infold.settings.schema import has_password

MOST_BYTES = 8 * 1024 * 1024
"""Bytes of output that are kept; of a longer one, the first and the last half of this."""

TICK_SECONDS = 0.1
"""After this much silence a program that has ended counts as done, even if its children still hold the pipe."""

LINGER_SECONDS = 0.5
"""How long to read from the children of a program that has ended, at most."""

GRACE_SECONDS = 0.5
"""How long a program may take to end after `SIGTERM`, before it is killed."""

PIECE_BYTES = 65_536

SIGNALLED = 128
"""Added to the number of the signal that ended a program, to give its exit status as shells do."""

QUIET = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Variables that keep programs from using colours, pagers and prompts."""


TOKEN_VARIABLES = frozenset(
    {
        *("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_ADMIN_KEY", "AZURE_OPENAI_AD_TOKEN"),
        *("AWS_BEARER_TOKEN_BEDROCK", "HF_TOKEN", "HUGGINGFACE_TOKEN", "HUGGINGFACEHUB_API_TOKEN"),
        *("HUGGING_FACE_HUB_TOKEN", "REPLICATE_API_TOKEN", "CLOUDFLARE_AI_TOKEN", "COPILOT_TOKEN"),
    }
)
OTHER_PROVIDERS = frozenset(
    {
        *("GEMINI", "CLAUDE", "AZURE_OPENAI", "AZURE_AI", "VERTEX_AI", "AI_GATEWAY", "LITELLM", "OLLAMA", "CO"),
        *("VOYAGE", "HUGGINGFACE", "TOGETHERAI", "TOGETHER_AI", "FIREWORKS_AI", "MOONSHOTAI", "KIMI", "QWEN"),
        *("ZHIPUAI", "ZHIPU", "PORTKEY", "HELICONE", "CODESTRAL", "NVIDIA_NIM", "BASETEN", "ANYSCALE", "OPENCODE"),
        *("LLM", "OPENAI_COMPATIBLE"),
    }
)
"""Providers with an `<PROVIDER>_API_KEY` in addition to those in the catalogue."""

_SET_DUMPABLE = 4
"""`PR_SET_DUMPABLE` of Linux's `prctl`."""

_OWN_SECRET = re.compile(r"TOKEN|SECRET|KEY|PASSWORD")


class ProcessResult(Struct, frozen=True):
    """The output of a program, stdout and stderr in order, and its exit status, `None` if the time limit ended it.

    `is_left_running`: it ended, but a process that it started still holds its output.
    """

    output: str
    exit_status: int | None
    is_left_running: bool = False


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of an installed program, or `None`.

    Relative folders of `PATH`, such as `./node_modules/.bin`, are skipped: there the program would be the project's.
    """
    folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if folder.startswith(os.sep)]
    return which(name, path=os.pathsep.join(folders)) if folders else None


def command_environment(environ: Mapping[str, str], passed: Collection[str] | None) -> dict[str, str]:
    """Return the environment for a command: without keys of model providers and infold's own secrets.

    `passed` names variables to keep all the same; `None` keeps everything.
    """
    return {
        name: value for name, value in environ.items() if passed is None or name in passed or not _is_key(name, value)
    }


def hide_process() -> None:
    """Keep other processes of the same user from reading this one: its first environment, which holds keys, and its memory.

    Linux alone has this; root is not kept out. A program that this process starts can be read again, so none is given keys.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def _is_key(name: str, value: str) -> bool:
    if name.startswith("INFOLD_"):
        return _OWN_SECRET.search(name) is not None or has_password(value)
    provider, _, _ = name.partition("_API_KEY")
    return name in TOKEN_VARIABLES or (provider != name and provider in _providers())


@cache
def _providers() -> frozenset[str]:
    return frozenset({entry.provider.upper().replace("-", "_") for entry in shipped_table().models}) | OTHER_PROVIDERS


def run_process(
    command: Sequence[str],
    folder: Path,
    *,
    limit_seconds: float,
    most_bytes: int = MOST_BYTES,
    environ: Mapping[str, str] | None = None,
    on_interrupt: Callable[[str], None] = lambda _: None,
) -> ProcessResult:
    """Run a program in a folder, with no input; raise `OSError` if it cannot be started.

    `environ` defaults to the environment of this process, without keys. An exception while waiting, such as
    `KeyboardInterrupt`, kills the program's whole group and is raised again, after `on_interrupt` got the output so far.
    """
    process: subprocess.Popen[bytes] | None = None
    output = _Output(most_bytes)
    try:
        with defer_signals():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**(command_environment(os.environ, ()) if environ is None else environ), **QUIET},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return _wait(process, output, monotonic() + limit_seconds)
    except BaseException:
        if process is not None:
            on_interrupt(output.text())
            _stop(process)
        raise
    finally:
        if process is not None and process.stdout is not None:
            process.stdout.close()


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals while a program is being started and cannot be stopped yet; only a main thread gets any."""
    deferred: list[int] = []
    before: dict[int, Any] = {}
    try:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                before[number] = signal.signal(number, lambda number, _: deferred.append(number))
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, signal.SIG_DFL if handler is None else handler)
    for late in deferred:
        signal.raise_signal(late)


def _wait(process: subprocess.Popen[bytes], output: "_Output", deadline: float) -> ProcessResult:
    is_closed = _read_output(process, output, deadline)
    try:
        status = process.wait(max(0.0, deadline - monotonic()))
    except subprocess.TimeoutExpired:
        _stop(process)
        return ProcessResult(output.text(), None)
    return ProcessResult(output.text(), SIGNALLED - status if status < 0 else status, not is_closed)


def _read_output(process: subprocess.Popen[bytes], output: "_Output", deadline: float) -> bool:
    """Read until the pipe closes, the program ends, or the time is up; return whether the pipe closed."""
    assert process.stdout is not None
    ended = False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - monotonic()) > 0:
            if selector.select(min(left, TICK_SECONDS)):
                piece = os.read(process.stdout.fileno(), PIECE_BYTES)
                if not piece:
                    return True
                output.add(piece)
            elif ended:
                return False
            if not ended and process.poll() is not None:
                ended, deadline = True, min(deadline, monotonic() + LINGER_SECONDS)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a program and all of its group: by `SIGTERM` first, then by `SIGKILL` whatever happens meanwhile."""
    try:
        _signal_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    finally:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Output:
    """The beginning and the end of an output, in bounded memory."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._kept = bytearray()
        self._dropped = 0

    def add(self, piece: bytes) -> None:
        self._kept += piece
        if len(self._kept) > 3 * self._half:
            self._shorten()

    def text(self) -> str:
        """Return what was kept, with a note where something is missing."""
        self._shorten()
        if not self._dropped:
            return self._kept.decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._kept[: self._half], self._kept[self._half :]))
        note = f"\n[{self._dropped:,} bytes of output left out here; write it to a file to see all of it]\n"
        return head + note + tail

    def _shorten(self) -> None:
        over = max(0, len(self._kept) - 2 * self._half)
        self._dropped += over
        del self._kept[self._half : self._half + over]
