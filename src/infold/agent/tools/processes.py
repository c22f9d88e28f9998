"""Run a program to its end or to a time limit, and keep what it says within bounds.

A program runs in a process group of its own, which is killed as a whole at the limit and when somebody interrupts. What has
left that group (`setsid`, a daemon) is out of reach.
"""

import os
import re
import selectors
import signal
import subprocess
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
"""Bytes of output that are kept whole; of more, the first and the last half of this."""

TICK_SECONDS = 0.1
"""How long silence lasts before a program that has ended is taken at its word, though its children still hold the pipe."""

LINGER_SECONDS = 0.5
"""How long the children of a program that has ended are listened to, at most."""

GRACE_SECONDS = 0.5
"""How long a program may take to end when it is told to, before it is killed."""

PIECE_BYTES = 65_536

SIGNALLED = 128
"""What the number of a signal that ended a program is added to for its exit status, as shells have it."""

QUIET = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""What keeps programs from colours, pagers and questions."""


TOKENS = frozenset(
    {
        *("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_ADMIN_KEY", "AZURE_OPENAI_AD_TOKEN"),
        *("AWS_BEARER_TOKEN_BEDROCK", "HF_TOKEN", "HUGGINGFACE_TOKEN", "HUGGINGFACEHUB_API_TOKEN"),
        *("HUGGING_FACE_HUB_TOKEN", "REPLICATE_API_TOKEN", "CLOUDFLARE_AI_TOKEN", "COPILOT_TOKEN"),
    }
)
OTHERS = frozenset(
    {
        *(
            "GEMINI",
            "CLAUDE",
            "AZURE_OPENAI",
            "AZURE_AI",
            "VERTEX_AI",
            "AI_GATEWAY",
            "LITELLM",
            "OLLAMA",
            "CO",
            "VOYAGE",
        ),
        *("HUGGINGFACE", "TOGETHERAI", "TOGETHER_AI", "FIREWORKS_AI", "MOONSHOTAI", "KIMI", "QWEN", "ZHIPUAI", "ZHIPU"),
        *(
            "PORTKEY",
            "HELICONE",
            "CODESTRAL",
            "NVIDIA_NIM",
            "BASETEN",
            "ANYSCALE",
            "OPENCODE",
            "LLM",
            "OPENAI_COMPATIBLE",
        ),
    }
)
"""Variables with keys of model providers, next to `<PROVIDER>_API_KEY` of every provider in the catalogue."""

_OWN_SECRET = re.compile(r"TOKEN|SECRET|KEY|PASSWORD")


class Ran(Struct, frozen=True):
    """How a program ran: what it said, stdout and stderr in order; `exit_status` is none where the limit ended it.

    `is_left_running`: it ended, but something it started still holds its output.
    """

    output: str
    exit_status: int | None
    is_left_running: bool = False
    left_out_bytes: int = 0


def program_at(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of an installed program, or `None`.

    Folders of `PATH` that are relative, such as `./node_modules/.bin`, are skipped: there a project would bring the program.
    """
    folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if folder.startswith(os.sep)]
    return which(name, path=os.pathsep.join(folders)) if folders else None


def environment_for(environ: Mapping[str, str], passed: Collection[str] | None) -> dict[str, str]:
    """Return the environment for a command: without keys of model providers and secrets of infold's own.

    `passed` are variables to keep all the same; `None` keeps everything.
    """
    return {
        name: value for name, value in environ.items() if passed is None or name in passed or not _is_key(name, value)
    }


def _is_key(name: str, value: str) -> bool:
    if name.startswith("INFOLD_"):
        return _OWN_SECRET.search(name) is not None or has_password(value)
    provider, _, _ = name.partition("_API_KEY")
    return name in TOKENS or (provider != name and provider in _providers())


@cache
def _providers() -> frozenset[str]:
    """How the variables of the catalogue's providers begin."""
    return frozenset({entry.provider.upper().replace("-", "_") for entry in shipped_table().models}) | OTHERS


def run_process(
    command: Sequence[str],
    folder: Path,
    *,
    limit_seconds: float,
    most_bytes: int = MOST_BYTES,
    environ: Mapping[str, str] | None = None,
    leave: Callable[[str], None] = lambda _: None,
) -> Ran:
    """Run a program in a folder, with nothing to read; raises `OSError` where it cannot be started.

    `environ` is the process's own unless another is given. An exception that comes from outside, such as
    `KeyboardInterrupt`, ends the program's whole group and passes on; what the program had said by then is given to `leave`.
    """
    process: subprocess.Popen[bytes] | None = None
    kept = _Kept(most_bytes)
    try:
        with held_back_signals():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**(os.environ if environ is None else environ), **QUIET},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return _heard(process, kept, monotonic() + limit_seconds)
    except BaseException:
        if process is not None:
            leave(kept.text())
            _stop(process)
        raise
    finally:
        if process is not None and process.stdout is not None:
            process.stdout.close()


@contextmanager
def held_back_signals() -> Iterator[None]:
    """Lets an interrupt wait until a program that is being started can be stopped again; only a main thread gets any."""
    came: list[int] = []
    before: dict[int, Any] = {}
    try:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                before[number] = signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for held, handler in before.items():
            signal.signal(held, signal.SIG_DFL if handler is None else handler)
    for late in came:
        signal.raise_signal(late)


def _heard(process: subprocess.Popen[bytes], kept: "_Kept", deadline: float) -> Ran:
    is_closed = _listen(process, kept, deadline)
    try:
        status = process.wait(max(0.0, deadline - monotonic()))
    except subprocess.TimeoutExpired:
        _stop(process)
        return Ran(kept.text(), None, left_out_bytes=kept.left_out_bytes)
    return Ran(kept.text(), SIGNALLED - status if status < 0 else status, not is_closed, kept.left_out_bytes)


def _listen(process: subprocess.Popen[bytes], kept: "_Kept", deadline: float) -> bool:
    """Take in output until the pipe closes, the program ends, or the time is up; whether the pipe closed."""
    assert process.stdout is not None
    ended = False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - monotonic()) > 0:
            if selector.select(min(left, TICK_SECONDS)):
                piece = os.read(process.stdout.fileno(), PIECE_BYTES)
                if not piece:
                    return True
                kept.add(piece)
            elif ended:
                return False
            if not ended and process.poll() is not None:
                ended, deadline = True, min(deadline, monotonic() + LINGER_SECONDS)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a program and all of its group: told first, killed whatever happens meanwhile."""
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


class _Kept:
    """The beginning and the end of an output, in bounded room."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, piece: bytes) -> None:
        """Take in what comes next."""
        room = self._half - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._half:
            self._shorten()

    @property
    def left_out_bytes(self) -> int:
        """How much was between the beginning and the end."""
        return self._dropped + max(0, len(self._tail) - self._half)

    def text(self) -> str:
        """What was kept, as text, with a note where something is missing."""
        left_out = self.left_out_bytes
        self._shorten()
        if not left_out:
            return _decoded(self._head + self._tail)
        note = f"\n[{left_out:,} bytes of output left out here; write it to a file to see all of it]\n"
        return _decoded(self._head) + note + _decoded(self._tail)

    def _shorten(self) -> None:
        over = max(0, len(self._tail) - self._half)
        self._dropped += over
        del self._tail[:over]


def _decoded(content: bytearray) -> str:
    return content.decode("utf-8", "replace")
