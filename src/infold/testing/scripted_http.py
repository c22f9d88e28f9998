"""The scripted server's sockets: reads requests, sends what it is told to, and stops without leaving anything behind."""

import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from itertools import chain, cycle
from socketserver import ThreadingTCPServer
from threading import Event, Lock
from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from infold.testing.scripted_answers import Hang, Trouble

MISSING_BYTES = 100
"""How many bytes a false length promises beyond those that come."""

POLL_SECONDS = 0.02
"""How long the listener may take to notice that it is to stop."""

GARBAGE = (
    b": a comment\n\n",
    b'data: {"choices": [{"index": 0, "delta"\n\n',
    b'event: nonsense\ndata: {"type": "nonsense", "index": -1}\n\n',
    b"data: \xff\xfe\n\n",
    b"data: [3, null]\nretry: soon\n\n",
)
"""Events that no client can read, one before each that it can."""


class Arrived(Struct, frozen=True):
    """A request as bytes; the names of its headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Whole(Struct, frozen=True):
    """A response sent at once."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    trouble: Trouble = Trouble()


class Streamed(Struct, frozen=True):
    """A response sent event by event, each as soon as it is due."""

    events: tuple[bytes, ...]
    media_type: str = "text/event-stream"
    trouble: Trouble = Trouble()


Outgoing: TypeAlias = Whole | Streamed | Hang


class Listener(ThreadingTCPServer):
    """Listens on loopback, one thread a connection.

    `failures` are the errors of the script itself. `stop` wakes whoever waits, closes every connection and returns when the
    last thread has ended.
    """

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, respond: Callable[[Arrived], Outgoing]) -> None:
        self.respond = respond
        self.failures: list[BaseException] = []
        self.stopping = Event()
        self._connections: set[Any] = set()
        self._lock = Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    def listen(self) -> None:
        """Accept connections until `stop` is called from another thread."""
        self.serve_forever(POLL_SECONDS)

    def stop(self) -> None:
        """End every connection and wait for their threads."""
        self.stopping.set()
        self.shutdown()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, so that `stop` can close it."""
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what a script raised; that a client went away is no failure."""
        del request, client_address
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.failures.append(error)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def do_GET(self) -> None:
        self._exchange()

    def do_POST(self) -> None:
        self._exchange()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _exchange(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        outgoing = self.server.respond(Arrived(self.command, self.path, headers, self._body()))
        match outgoing:
            case Whole():
                self._wait(outgoing.trouble.delay_seconds)
                self._send(outgoing)
            case Streamed():
                self._wait(outgoing.trouble.delay_seconds)
                self._stream(outgoing)
            case Hang():
                self._wait(outgoing.seconds)
                self.close_connection = True
            case _:
                assert_never(outgoing)

    def _wait(self, seconds: float) -> None:
        if seconds and self.server.stopping.wait(seconds):
            raise ConnectionAbortedError("the server stops")

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = bytearray()
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _send(self, whole: Whole) -> None:
        length = len(whole.body) + MISSING_BYTES * whole.trouble.false_length
        given = {name.lower(): value for name, value in whole.headers.items()}
        self._begin(whole.status, {"content-type": "application/json", "content-length": str(length), **given})
        self.wfile.write(whole.body)
        self.close_connection = self.close_connection or whole.trouble.false_length

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, streamed: Streamed) -> None:
        trouble = streamed.trouble
        events = _troubled(streamed)
        has_length = trouble.false_length
        framing = {"content-length": str(sum(map(len, events)) + MISSING_BYTES)} if has_length else _CHUNKED
        self._begin(200, {"content-type": streamed.media_type, "cache-control": "no-cache", **framing})
        for event in events:
            self.wfile.write(event if has_length else b"%x\r\n%b\r\n" % (len(event), event))
            self._wait(trouble.chunk_delay_seconds)
        self.close_connection = has_length or _is_cut(trouble)
        if not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")


_CHUNKED = {"transfer-encoding": "chunked"}


def _is_cut(trouble: Trouble) -> bool:
    return trouble.cut_after_events is not None and trouble.error_event is None


def _troubled(streamed: Streamed) -> tuple[bytes, ...]:
    """The events that really come."""
    trouble, is_array = streamed.trouble, streamed.media_type == "application/json"
    events = streamed.events[: trouble.cut_after_events]
    if trouble.garbage and not is_array:
        events = tuple(chain.from_iterable(zip(cycle(GARBAGE), events, strict=False)))
    if trouble.error_event is None:
        return events
    error = msgspec.json.encode(trouble.error_event)
    return (*events, b",\r\n" + error + b"]" if is_array else b"event: error\ndata: " + error + b"\n\n")
