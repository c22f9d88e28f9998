"""Connections to upstreams: what comes is read, what is sent arrives, and whatever goes wrong is told in the library's words."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpcore2
import pytest

from infold.gateway.upstream import MOST_WAITING_BYTES, Connection, Network

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SOON, LONG = 0.02, 5.0


def anonymous(protocol: int) -> ssl.SSLContext:
    """A context that encrypts and asks nobody for a certificate."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context


@asynccontextmanager
async def upstream(handler: Handler, encryption: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that does this with each connection, and ends with the block."""
    handling: set[asyncio.Task[object]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handling.add(task)
        try:
            await handler(reader, writer)
        finally:
            if encryption is None:
                writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=encryption)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)


@asynccontextmanager
async def connected(handler: Handler) -> AsyncIterator[Connection]:
    """A connection to such a server."""
    async with upstream(handler) as port:
        connection = await Network().connect_tcp("127.0.0.1", port, LONG)
        try:
            yield connection
        finally:
            await connection.aclose()


async def all_of(connection: Connection) -> bytes:
    """Everything up to the end."""
    told = bytearray()
    while piece := await connection.read(2**16, LONG):
        told += piece
    return bytes(told)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say what was said, then go."""
    writer.write(await reader.readline())
    await reader.readline()
    writer.close()


async def silence(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Say nothing, and read nothing either."""
    await asyncio.get_running_loop().create_future()


def test_what_is_sent_arrives_and_what_comes_is_read() -> None:
    """A read gives at most what it was asked for, the rest the next time, and nothing at the end, for ever."""

    async def speak() -> list[bytes]:
        async with connected(echo) as connection:
            await connection.write(b"")
            await connection.write(b"hello\n", LONG)
            read = [await connection.read(4, LONG), await connection.read(4, LONG)]
            await connection.write(b"bye\n", LONG)
            return [*read, await connection.read(4, LONG), await connection.read(4)]

    assert asyncio.run(speak()) == [b"hell", b"o\n", b"", b""]


def test_a_silent_upstream_is_not_waited_for() -> None:
    """The time allowed runs from each read on, may be shorter than the one before, and loses nothing that comes later."""

    async def wait() -> bytes:
        async with connected(echo) as connection:
            waiting = asyncio.create_task(connection.read(4, LONG))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            for _ in range(2):
                with pytest.raises(httpcore2.ReadTimeout):
                    await connection.read(9, SOON)
            await connection.write(b"hello\n")
            return await connection.read(9, LONG)

    assert asyncio.run(wait()) == b"hello\n"


@pytest.mark.slow
def test_a_deadline_moves_with_each_read() -> None:
    """An upstream that says something now and then is never late, however long it goes on."""

    async def now_and_then(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _number in range(8):
            writer.write(b"a")
            await asyncio.sleep(0.15)
        writer.close()

    async def read() -> bytes:
        async with connected(now_and_then) as connection:
            told = b""
            while piece := await connection.read(9, 1):
                told += piece
            return told

    assert asyncio.run(read()) == b"a" * 8


def test_a_cancelled_read_loses_nothing() -> None:
    """What comes afterwards is there for the next read, which may wait for ever."""

    async def give_up() -> bytes:
        async with connected(echo) as connection:
            reading = asyncio.create_task(connection.read(9, LONG))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await connection.write(b"hello\n")
            return await connection.read(9)

    assert asyncio.run(give_up()) == b"hello\n"


def test_a_connection_that_breaks_is_an_error() -> None:
    """What came before is read first; then each read and each write says that it broke."""

    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half")
        await reader.readline()
        at_once = struct.pack("ii", 1, 0)  # what ends without lingering ends with a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)

    async def read() -> bytes:
        async with connected(break_off) as connection:
            told = await connection.read(9, LONG)
            await connection.write(b"go\n", LONG)
            for _ in range(2):
                with pytest.raises(httpcore2.ReadError):
                    await connection.read(9, LONG)
            with pytest.raises(httpcore2.WriteError):
                await connection.write(b"more", LONG)
            return told

    assert asyncio.run(read()) == b"half"


@pytest.mark.slow
def test_a_slow_reader_holds_the_upstream_back() -> None:
    """Of a reply that nobody reads only so much is held; all of it comes once it is read."""
    size = 64 * MOST_WAITING_BYTES
    sent: list[int] = []

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _number in range(64):
            writer.write(bytes(MOST_WAITING_BYTES))
            await writer.drain()
            sent.append(MOST_WAITING_BYTES)
        writer.close()
        await writer.wait_closed()

    async def read() -> tuple[bool, int]:
        async with connected(pour) as connection:
            await asyncio.sleep(SOON)
            was_held = sum(sent) < size and len(connection._unread) <= 2 * MOST_WAITING_BYTES
            return was_held, len(await all_of(connection))

    assert asyncio.run(read()) == (True, size)


@pytest.mark.slow
def test_an_upstream_that_does_not_read_is_not_waited_for() -> None:
    """What it does not take in time is an error, and so is a connection that ends meanwhile."""

    async def write(*, is_closed: bool) -> None:
        async with connected(silence) as connection:
            writing = asyncio.create_task(connection.write(bytes(2**26), SOON if not is_closed else None))
            await asyncio.sleep(0)
            if is_closed:
                await connection.aclose()
            await writing

    with pytest.raises(httpcore2.WriteTimeout):
        asyncio.run(write(is_closed=False))
    with pytest.raises(httpcore2.WriteError):
        asyncio.run(write(is_closed=True))


def test_nobody_listening_is_an_error() -> None:
    """A port that refuses, and one that takes too long."""

    async def connect(port: int, seconds: float) -> None:
        await Network().connect_tcp("127.0.0.1", port, seconds)

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(httpcore2.ConnectError):
            asyncio.run(connect(port, LONG))
        with pytest.raises(httpcore2.ConnectTimeout):
            asyncio.run(connect(port, 0))


def test_an_idle_connection_that_ended_is_known() -> None:
    """The library asks before it uses one again: also for what the event loop has not seen yet."""

    async def idle() -> list[bool]:
        async with connected(echo) as connection:
            seen = [connection.get_extra_info("is_readable")]
            await connection.write(b"hello\n")
            while not seen[-1]:
                await asyncio.sleep(0)
                seen.append(connection.get_extra_info("is_readable"))
            await connection.read(9, LONG)
            await connection.write(b"bye\n")
            await connection.read(9, LONG)
            return [seen[0], seen[-1], connection.get_extra_info("is_readable")]

    assert asyncio.run(idle()) == [False, True, True]


def test_a_connection_says_where_it_leads() -> None:
    """By the library's names, with the socket options and the address that were asked for."""

    async def look() -> tuple[bool, bool, object]:
        async with upstream(silence) as port:
            options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
            connection = await Network().connect_tcp("127.0.0.1", port, LONG, "127.0.0.1", options)
            own = connection.get_extra_info("socket")
            kept = own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            same = connection.get_extra_info("client_addr") == own.getsockname()
            there = connection.get_extra_info("server_addr")
            await connection.aclose()
            await Network().sleep(0)
            return bool(kept), same, there == ("127.0.0.1", port)

    assert asyncio.run(look()) == (True, True, True)


def test_a_connection_is_encrypted() -> None:
    """What is said in clear before stays so; afterwards everything is encrypted, and the end is told as ever."""

    async def speak() -> tuple[bytes, bool]:
        async with upstream(echo, anonymous(ssl.PROTOCOL_TLS_SERVER)) as port:
            plain = await Network().connect_tcp("127.0.0.1", port, LONG)
            connection = await plain.start_tls(anonymous(ssl.PROTOCOL_TLS_CLIENT), "upstream", LONG)
            await connection.write(b"hello\nbye\n", LONG)
            told = await all_of(connection)
            is_encrypted = connection.get_extra_info("ssl_object") is not None
            await connection.aclose()
            return told, is_encrypted

    assert asyncio.run(speak()) == (b"hello\n", True)


def test_nothing_said_in_clear_passes_for_encrypted() -> None:
    """What somebody on the way puts before the handshake ends the connection; it is never read as the upstream's."""

    async def too_early(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await silence(_, writer)

    async def encrypt() -> None:
        async with connected(too_early) as connection:
            while not connection._unread:
                await asyncio.sleep(0)
            await connection.start_tls(anonymous(ssl.PROTOCOL_TLS_CLIENT), "upstream", LONG)

    with pytest.raises(httpcore2.ConnectError, match="spoke before"):
        asyncio.run(encrypt())


def test_an_upstream_that_cannot_encrypt_is_an_error() -> None:
    """One that speaks something else, one that goes and one that says nothing; the connection is closed."""

    async def encrypt(handler: Handler, seconds: float) -> None:
        async with connected(handler) as connection:
            try:
                await connection.start_tls(anonymous(ssl.PROTOCOL_TLS_CLIENT), "upstream", seconds)
            finally:
                assert connection._transport.is_closing()

    async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no handshake at all\n")
        await writer.drain()

    async def going(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)

    for handler in (nonsense, going):
        with pytest.raises(httpcore2.ConnectError):
            asyncio.run(encrypt(handler, LONG))
    with pytest.raises(httpcore2.ConnectTimeout):
        asyncio.run(encrypt(silence, SOON))
