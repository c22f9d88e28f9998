"""`infold serve` as a user starts it: a process of its own, on a free port, with a store that can be read afterwards."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["serving"]

END_SECONDS = 20
_ADDRESS = re.compile(r"listening on (http://\S+)")


@contextmanager
def serving(folder: Path, upstream: str, window: int, **variables: str) -> Iterator[str]:
    """The address of a gateway to that upstream, for models of that window, with these settings; it ends with the block."""
    command = [sys.executable, "-m", "infold", "serve", "--port", "0", "--store", str(folder / "sessions.sqlite3")]
    named = [f"--upstream={provider}={upstream}" for provider in ("openai", "anthropic", "gemini")]
    with subprocess.Popen(
        [*command, *named, "--window", str(window)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield _address(process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    found = next((known[1] for line in process.stdout if (known := _ADDRESS.search(line))), "")
    assert found, f"the gateway did not start: {process.communicate()[1]}"
    return found
