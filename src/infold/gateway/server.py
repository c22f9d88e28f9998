"""The HTTP/1.1 server under the gateway: uvicorn with limits for connections, and clear answers where uvicorn has none.

The time to send a request's headers, to read a reply and to stay idle is limited here; that for a body, in `request_body`.
Connections above the limit are answered with 503, and bytes that are not HTTP/1.1 with the reason.
"""

import asyncio
import logging
import resource
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from infold.gateway.request_body import GatewayLimits, Refusal

DRAIN_SECONDS = 30
"""How long open streams may continue after the server was asked to stop."""

LINGER_SECONDS = 2.0
"""How long a refused client may still send before its connection is cut: a reset would discard the answer it has not read."""

UNREAD_BODY_SECONDS = 5.0
"""How long a client may keep sending a body whose request is already answered."""

EVICTION_SECONDS = 1.0
"""At the limit, a connection that has not sent a request for this long makes room for a new one."""

SPARE_FILES = 64
"""Files left for the store, the log and connections that are being refused."""

LEAST_CONNECTIONS = 8

BACKLOG = 256
"""Connections accepted in one go, before any of them can be refused; fewer than the files that upstreams leave unused then."""

COMPLAINT_SECONDS = 60.0
"""How often the log repeats that no file is left for a new connection."""

REASONS = {400: "Bad Request", 408: "Request Timeout", 503: "Service Unavailable"}
TLS_RECORD = b"\x16\x03"

_log = logging.getLogger(__name__)


def connections_allowed(wanted: int) -> int:
    """Return how many connections fit into this process's limit of open files: each needs one more for its upstream."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(LEAST_CONNECTIONS, min(wanted, (files - SPARE_FILES) // 2))


class ClientConnection(H11Protocol):
    """One client's connection; at most one timer runs, for what the client has to do next.

    `refused` is shared by a server's connections: those that were answered and are about to be closed.
    """

    def __init__(self, limits: GatewayLimits, refused: "set[ClientConnection]", **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._refused = refused
        self._timer: asyncio.TimerHandle | None = None
        self._awaited = ""
        self._stalled: asyncio.TimerHandle | None = None
        self._first = b""
        self._opened_at = self.loop.time()

    @property
    def is_waiting(self) -> bool:
        """Whether the client has connected a while ago and not sent a whole request yet."""
        return self._exchange is None and self.loop.time() - self._opened_at >= EVICTION_SECONDS

    @property
    def _exchange(self) -> RequestResponseCycle | None:
        """The newest request and its response; uvicorn's annotation leaves out that there may be none."""
        return self.cycle

    # What the event loop calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Begin to wait for a request; above the limit, make room or refuse."""
        super().connection_made(transport)
        own = transport.get_extra_info("socket")
        if own is not None and own.family in (socket.AF_INET, socket.AF_INET6):
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        most = self._limits.connections
        if len(self.connections) - len(self._refused) > most and not self._make_room():
            self._refuse(503, f"The gateway has {most:,} connections open, which is its limit. Try again later.")
            if len(self._refused) > SPARE_FILES // 2:
                transport.close()  # too many to wait for
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on; a refused client is no longer listened to."""
        if self in self._refused:
            return
        self._first = self._first or data[:2]
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        super().connection_lost(exc)
        self._refused.discard(self)
        self._unset_keepalive_if_required()
        self._arm("", 0)
        self.resume_writing()

    def pause_writing(self) -> None:
        """Give a client that does not read so long to start reading."""
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(self._limits.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    # What uvicorn calls.

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, in the shape that SDKs read errors from."""
        if self._first == TLS_RECORD:
            msg = "This port speaks HTTP, not HTTPS. Use an http:// base URL."
        self._refuse(400, msg)

    # Timers.

    def _watch(self) -> None:
        """Set the timer for what the client has to send next, unless it already runs."""
        if self in self._refused or self.transport.is_closing():
            return
        exchange = self._exchange
        if exchange is not None and not exchange.response_complete:
            self._arm("", 0)
        elif self.conn.their_state is h11.SEND_BODY:
            self._arm("body", UNREAD_BODY_SECONDS)
        elif self.timeout_keep_alive_task is None or self.conn.trailing_data[0]:
            self._unset_keepalive_if_required()
            self._arm("headers", self._limits.header_seconds)
        else:
            self._arm("", 0)  # uvicorn's own timer runs between requests

    def _arm(self, awaited: str, seconds: float) -> None:
        if awaited == self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._awaited = awaited
        self._timer = self.loop.call_later(seconds, self._expire) if awaited else None

    def _expire(self) -> None:
        if self._awaited == "headers" and self.conn.trailing_data[0]:
            seconds = self._limits.header_seconds
            self._refuse(408, f"The request's headers took longer than {seconds:g} seconds. Send them faster.")
        else:
            self.transport.abort()

    # Refusing.

    def _make_room(self) -> bool:
        """Close the oldest connection that waits without having sent a request; false if there is none."""
        others = (
            one
            for one in self.connections
            if isinstance(one, ClientConnection) and one.is_waiting and one not in self._refused
        )
        oldest = min(others, key=lambda one: one._opened_at, default=None)  # noqa: SLF001 - of the same class
        if oldest is None:
            return False
        self._refused.add(oldest)  # it stays among the connections until the event loop has closed it
        oldest.transport.abort()
        return True

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, and end the connection once the client had time to read that."""
        if self.transport.is_closing():
            return
        self._refused.add(self)
        self._arm("leaving", LINGER_SECONDS)
        exchange = self._exchange
        if exchange is not None and not exchange.response_complete:
            exchange.disconnected = True
            exchange.message_event.set()
            if exchange.response_started:  # half of another reply is sent: nothing can be said any more
                self.transport.close()
                return
        body = msgspec.json.encode(Refusal(status, message).body)
        head = f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: application/json\r\nx-infold: refused\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()


NO_NEWS = (
    "ASGI callable returned without completing response",
    "Invalid HTTP request received",
    "No supported WebSocket",
    "Unsupported upgrade request",
    "socket.send() raised exception",
)
"""Warnings of uvicorn and asyncio on which an operator cannot act: the relay has logged a reply that broke off, a client that
left does not matter, and one that offers another protocol or sends garbage is answered."""


def is_news(record: logging.LogRecord) -> bool:
    """Return whether an operator can act on a line of the server's log."""
    return not record.getMessage().startswith(NO_NEWS)


class Server(uvicorn.Server):
    """Serves an application until a signal: open streams are finished, and `on_exit` ends what would last for ever."""

    def __init__(
        self, app: ASGIApp, limits: GatewayLimits, *, on_exit: Callable[[], None] | None = None, **given: Any
    ) -> None:
        refused: set[ClientConnection] = set()

        def protocol(**of_server: Any) -> ClientConnection:
            return ClientConnection(limits, refused, **of_server)

        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", protocol),
            ws="none",
            backlog=BACKLOG,
            access_log=False,
            server_header=False,
            date_header=False,  # an upstream's own is passed on
            timeout_keep_alive=cast(
                int, limits.idle_seconds
            ),  # a number of seconds; uvicorn hands it to the event loop
            timeout_graceful_shutdown=DRAIN_SECONDS,
            **{"log_level": "warning", **given},
        )
        super().__init__(config)
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).addFilter(is_news)
        self._on_exit = on_exit
        self._complains_at = 0.0

    def serve_until_signal(self, listener: socket.socket) -> None:
        """Run until SIGINT or SIGTERM; uvicorn raises the signal again at the end, so this server handles it then too."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.run(sockets=[listener])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; from here on the loop's failures are logged by `note_failure`."""
        asyncio.get_running_loop().set_exception_handler(self.note_failure)
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        if self._on_exit is not None:
            self._on_exit()
        super().handle_exit(sig, frame)

    def note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a failure of the event loop; the lack of files, which asyncio reports with each try, once a minute."""
        if context.get("message") != "socket.accept() out of system resource":
            loop.default_exception_handler(context)
        elif loop.time() >= self._complains_at:
            self._complains_at = loop.time() + COMPLAINT_SECONDS
            problem = context.get("exception")
            _log.warning("no new connection can be accepted (%s); raise the limit of open files (ulimit -n)", problem)
