"""Connections to upstreams for the HTTP library, implemented directly on the event loop.

The library's own backend sets up a deadline and registers the socket with the selector around every single read. A streamed reply
is read in many small chunks, and that took more time than everything else that is done with one.
"""

import asyncio
import select
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import httpcore2

MOST_WAITING_BYTES = 256 * 1024
"""Unread bytes above which the upstream has to wait: a client that reads slowly must not fill the memory."""

NEXT_ADDRESS_SECONDS = 0.25
"""How long one address of a host is tried before the next is tried in parallel (RFC 8305)."""

_NAMES = {"client_addr": "sockname", "server_addr": "peername"}
"""Names of the library for what the event loop calls otherwise."""


class Network(httpcore2.AsyncNetworkBackend):
    """Opens connections in the running event loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> "Connection":
        """Open a connection; raise `ConnectTimeout` or `ConnectError`."""
        loop = asyncio.get_running_loop()
        own = None if local_address is None else (local_address, 0)
        with _translate_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            async with asyncio.timeout(timeout):
                transport, connection = await loop.create_connection(
                    Connection, host, port, local_addr=own, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS
                )
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return connection

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)


class Connection(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """One connection, plain or encrypted; a read that is cancelled loses no data."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._waiting: asyncio.Future[bool] | None = None
        self._deadline = inf
        self._timer: asyncio.TimerHandle | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_over = self._is_held_back = False
        self._problem: Exception | None = None

    # Called by the library.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes, empty at the end; raise `ReadTimeout` or `ReadError`."""
        if not self._unread and not self._is_over and not await self._wait_for_data(timeout):
            raise httpcore2.ReadTimeout(f"nothing came for {timeout} seconds")
        if not self._unread and self._problem is not None:
            raise httpcore2.ReadError(str(self._problem)) from self._problem
        piece = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._is_held_back and len(self._unread) <= MOST_WAITING_BYTES:
            self._is_held_back = False
            self._transport.resume_reading()
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it; raise `WriteTimeout` or `WriteError`."""
        if not buffer:
            return
        if not self._transport.is_closing():
            self._transport.write(buffer)
        if not self._has_room.is_set():
            with _translate_errors(httpcore2.WriteTimeout, httpcore2.WriteError):
                async with asyncio.timeout(timeout):
                    await self._has_room.wait()
        if self._transport.is_closing():
            raise httpcore2.WriteError("the connection has ended") from self._problem

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "Connection":
        """Encrypt the connection from here on; raise `ConnectTimeout` or `ConnectError`, and close it.

        Data that was received in clear before that is refused: it may be from a third party, and would count as the upstream's.
        """
        try:
            if self._unread:
                raise httpcore2.ConnectError("the upstream spoke before the connection was encrypted")
            with _translate_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
                async with asyncio.timeout(timeout):
                    encrypted = await self._loop.start_tls(
                        self._transport, self, ssl_context, server_hostname=server_hostname
                    )
        except BaseException:
            await self.aclose()
            raise
        assert encrypted is not None
        self._transport = encrypted
        return self

    async def aclose(self) -> None:
        """Close it at once, without sending the rest."""
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """Return what the library asks for; `is_readable`: the other side has closed an idle connection, or sent data on it."""
        if info == "is_readable":
            return bool(self._unread) or self._is_over or _has_data(self._transport)
        return self._transport.get_extra_info(_NAMES.get(info, info))

    # Waiting. Each read moves the deadline; the timer checks it when it fires, so that reads set up no timers.

    async def _wait_for_data(self, timeout: float | None) -> bool:
        """Wait until data arrives or the connection ends; return false on timeout."""
        self._waiting = self._loop.create_future()
        self._deadline = inf if timeout is None else self._loop.time() + timeout
        if self._deadline < (inf if self._timer is None else self._timer.when()):
            self._set_timer()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiting is None or self._deadline == inf:
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._wake(is_late=True)

    def _wake(self, *, is_late: bool) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(not is_late)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Buffer data until it is read; pause the upstream if that is much."""
        self._unread += data
        self._wake(is_late=False)
        if len(self._unread) > MOST_WAITING_BYTES and not self._is_held_back:
            self._is_held_back = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """Note the end of the data; the event loop closes the connection once all is sent."""
        self._is_over = True
        self._wake(is_late=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake up readers and writers."""
        self._is_over, self._problem = True, exc
        if self._timer is not None:
            self._timer.cancel()
        self._wake(is_late=False)
        self._has_room.set()

    def pause_writing(self) -> None:
        """Make writers wait."""
        self._has_room.clear()

    def resume_writing(self) -> None:
        """Let writers continue."""
        self._has_room.set()


@contextmanager
def _translate_errors(late: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """Raise the event loop's errors as those of the library."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:
        raise broken(str(error)) from error


def _has_data(transport: asyncio.Transport) -> bool:
    """Whether there is data that the event loop has not read yet; a connection without a socket has ended."""
    number = transport.get_extra_info("socket").fileno()
    if number < 0:
        return True
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))
