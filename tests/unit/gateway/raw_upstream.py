"""An upstream that says whatever bytes a test wants, and keeps whatever bytes it was sent."""

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Event, Lock, Thread
from types import TracebackType

from msgspec import Struct

POLL_SECONDS = 0.02


class RawRequest(Struct, frozen=True):
    """A request as it came, its headers in order and in their own spelling."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of that name, if there is one."""
        return next((value for key, value in self.headers if key.lower() == name), None)


class Pause(Struct, frozen=True):
    """Silence for so long, or until the server stops."""

    seconds: float


Script = Callable[[RawRequest], Iterable[bytes | Pause]]
"""What is written to the connection, which then ends; raw, status line and all."""


def whole(body: bytes, *, status: bytes = b"200 OK", headers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """A whole response that is JSON unless it says otherwise."""
    framing = [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    given = [(b"content-type", b"application/json"), *headers, *framing]
    return b"HTTP/1.1 " + status + b"\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in given) + b"\r\n" + body


def begun(*headers: tuple[bytes, bytes], media_type: bytes = b"text/event-stream") -> bytes:
    """The beginning of a response that ends with its connection."""
    given = [(b"content-type", media_type), (b"connection", b"close"), *headers]
    return b"HTTP/1.1 200 OK\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in given) + b"\r\n"


class RawUpstream:
    """Serves a script on loopback while the block runs."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._requests: list[RawRequest] = []
        self._lock = Lock()
        self._server: _Listener
        self._thread: Thread

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> tuple[RawRequest, ...]:
        """All requests so far."""
        with self._lock:
            return tuple(self._requests)

    @property
    def lost(self) -> int:
        """How many connections went away while something was still to be said."""
        return self._server.lost

    def __enter__(self) -> "RawUpstream":
        self._server = _Listener(self._answer)
        self._thread = Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), name="raw upstream")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        self._thread.join()

    def _answer(self, request: RawRequest) -> Iterable[bytes | Pause]:
        with self._lock:
            self._requests.append(request)
        return self._script(request)


class _Listener(ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, answer: Script) -> None:
        self.answer = answer
        self.stopping = Event()
        self.lost = 0
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]  # TCP
        """Remember the connection."""
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]  # the same
        """Forget it."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """A client that went away is counted."""
        self.lost += 1

    def stop(self) -> None:
        """End every connection, and wait for their threads."""
        self.stopping.set()
        self.shutdown()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def handle_one_request(self) -> None:
        """One request by any method; the connection ends with its answer."""
        self.close_connection = True  # also where there is no request
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            return
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = RawRequest(self.command, self.path, tuple(self.headers.items()), body)
        for piece in self.server.answer(request):
            if isinstance(piece, Pause):
                self.server.stopping.wait(piece.seconds)
            else:
                self.wfile.write(piece)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
