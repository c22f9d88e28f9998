"""Gateways on real sockets: in a thread of this process, or in a process of their own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from starlette.types import ASGIApp

from infold.gateway.request_body import GatewayLimits
from infold.gateway.server import Server

__all__ = ["WORKER", "Worker", "ended", "serving", "worker"]

WORKER = Path(__file__).with_name("gateway_worker.py")
LONGEST_WAIT = 60.0


@contextmanager
def serving(app: ASGIApp, limits: GatewayLimits = GatewayLimits()) -> Iterator[str]:
    """The address of an application that runs in a thread, as `infold serve` would run it."""
    server = Server(app, limits)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="gateway")
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


class Worker:
    """A gateway in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        self.url = next((line.strip() for line in process.stdout if line.startswith("http://")), "")
        assert self.url, f"the gateway ended with {process.wait(LONGEST_WAIT)}"

    @property
    def most_megabytes(self) -> int:
        """The most memory that it ever held."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self.process.kill()
        self.process.wait(LONGEST_WAIT)

    def terminate(self) -> None:
        """Ask it to end."""
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def worker(store: str, upstream: str, **variables: str) -> Iterator[Worker]:
    """A gateway of its own process on that store and that upstream, ended with the block."""
    command = [sys.executable, str(WORKER), store, upstream]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
    ) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """How a process ended: its status, and what it said since it was last read."""
    out, errors = process.communicate(timeout=LONGEST_WAIT)
    return process.returncode, out, errors
