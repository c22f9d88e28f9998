"""Connections as clients may hold them: late, half, too many, in another protocol; each ends in time and with an answer."""

import asyncio
import json
import logging
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EMFILE
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from infold.gateway.request_body import GatewayLimits
from infold.gateway.server import ClientConnection, Server, connections_allowed, is_news

from ..unit.gateway.raw_upstream import RawUpstream, whole  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252
from .gateway_stage import serving

pytestmark = pytest.mark.slow

LONG = 20.0
SOON = GatewayLimits(header_seconds=0.4, body_seconds=0.4, idle_seconds=0.4, stall_seconds=0.4)
GET = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)


class Client:
    """One connection, spoken to in bytes."""

    def __init__(self, address: Any, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.socket = socket.socket(family)
        self.socket.settimeout(LONG)
        self.socket.connect(address)

    def send(self, *pieces: bytes) -> "Client":
        """Send bytes as they are."""
        for piece in pieces:
            self.socket.sendall(piece)
        return self

    def answer(self) -> bytes:
        """All that is answered until the connection ends."""
        told = b""
        try:
            while piece := self.socket.recv(65_536):
                told += piece
        except ConnectionResetError:
            return told + b"<reset>"
        finally:
            self.socket.close()
        return told


def of(url: str) -> tuple[str, int]:
    """A server's address for a socket."""
    at = httpx2.URL(url)
    return at.host, at.port or 80


def message(answer: bytes) -> str:
    """What the gateway's own answer says."""
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body["error"]["type"] == "infold_gateway_error"
    assert b"\r\nconnection: close" in answer.lower()
    return str(body["error"]["message"])


@pytest.fixture(scope="module")
def upstream() -> Iterator[RawUpstream]:
    """An upstream that answers everything."""
    with RawUpstream(lambda _: [whole(b"{}")]) as made:
        yield made


@contextmanager
def running(
    family: socket.AddressFamily, address: Any, limits: GatewayLimits = GatewayLimits()
) -> Iterator[tuple[Server, Any]]:
    """A server whose connections can be looked at, on that address, and where it is."""

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("ok")(scope, receive, send)

    server = Server(echo, limits, lifespan="off")
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen()
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield server, listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("::1", 0)), (socket.AF_UNIX, "")]
)
def test_no_reply_waits_for_an_acknowledgement(family: socket.AddressFamily, address: Any, tmp_path: Path) -> None:
    """B23: small writes go out at once (TCP_NODELAY), over IPv4 and IPv6, however the listener was made."""
    with running(family, address or str(tmp_path / "socket")) as (server, at):
        client = Client(at, family)
        client.send(GET)
        assert client.socket.recv(65_536).startswith(b"HTTP/1.1 200")
        (connection,) = server.server_state.connections
        assert isinstance(connection, ClientConnection)
        own = connection.transport.get_extra_info("socket")
        options = None if family == socket.AF_UNIX else own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.socket.close()

    assert options in (None, 1)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="nothing"),
        pytest.param([b"POST /v1/chat"], id="half a line"),
        pytest.param([POST, b"x-slow: "], id="half a header"),
        pytest.param([GET, b"GET /v1/mod"], id="half a second request"),
        pytest.param([GET], id="nothing more"),
        pytest.param([POST, b"content-length: 9\r\n\r\n", b"{"], id="half a body"),
        pytest.param([POST, b"transfer-encoding: chunked\r\n\r\n", b"5\r\nab"], id="half a chunk"),
        pytest.param([POST, b"content-length: 9\r\nexpect: 100-continue\r\n\r\n"], id="waits to go on"),
    ],
)
def test_a_silent_client_is_closed(upstream: RawUpstream, sent: list[bytes]) -> None:
    """B23: whatever a client has sent so far, its connection ends in time; with a 408 where it began a request."""
    with serving(Stage(upstream.url, limits=SOON).app, SOON) as url:
        began = time.monotonic()
        answer = Client(of(url)).send(*sent).answer()

    assert time.monotonic() - began < LONG
    is_begun = bool(sent) and sent[-1] is not GET
    assert (b"HTTP/1.1 408 " in answer) == is_begun
    assert b"<reset>" not in answer


def test_a_client_that_sends_a_byte_now_and_then_is_closed(upstream: RawUpstream) -> None:
    """B23: the time for headers is for all of them: no byte extends it, on a new connection and on a used one."""
    with serving(Stage(upstream.url, limits=SOON).app, SOON) as url:
        for first in (b"", GET):
            client = Client(of(url)).send(first, b"GET /v1/models HTTP/1.1\r\nx-slow: ")
            began, told = time.monotonic(), b""
            while (piece := trickled(client)) is not None:
                told += piece
                assert time.monotonic() - began < LONG
            assert b"HTTP/1.1 408 " in told


def test_a_body_that_nobody_reads_is_not_awaited(upstream: RawUpstream) -> None:
    """B23: a client that is refused and goes on sending is cut off, though each byte is news."""
    with serving(Stage(upstream.url, token="a-token-of-enough-length").app) as url:
        client = Client(of(url)).send(POST, b"content-length: 1000000\r\n\r\n")
        began, told = time.monotonic(), b""
        while (piece := trickled(client)) is not None:
            told += piece
            assert time.monotonic() - began < LONG

    assert told.startswith(b"HTTP/1.1 401 ")


def trickled(client: Client) -> bytes | None:
    """Send one more byte; what was answered in a little while, none where the connection has ended."""
    client.socket.settimeout(0.1)
    try:
        client.send(b"a")
        return client.socket.recv(65_536) or None
    except TimeoutError:
        return b""
    except OSError:
        return None


def test_a_client_that_does_not_read_is_closed() -> None:
    """B23: a stream that no one reads ends, and with it what was asked of the upstream."""
    ended: list[bool] = []

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        async def pieces() -> Any:
            try:
                while True:
                    yield b"x" * 2**16
                    await asyncio.sleep(0)  # so that it can be cancelled
            finally:
                ended.append(True)

        await StreamingResponse(pieces())(scope, receive, send)

    with serving(_without_lifespan(endless), SOON) as url:
        client = Client(of(url)).send(GET)
        until = time.monotonic() + LONG
        while not ended and time.monotonic() < until:
            time.sleep(0.05)
        client.socket.close()

    assert ended


def _without_lifespan(app: Any) -> Any:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})

    return serve


def test_above_the_limit_clients_are_told(upstream: RawUpstream) -> None:
    """B23: one connection too many is a 503 that says why; as soon as one has ended there is room again."""
    with serving(Stage(upstream.url).app, GatewayLimits(connections=2)) as url:
        held = [Client(of(url)).send(GET) for _ in range(2)]
        assert all(client.socket.recv(65_536).startswith(b"HTTP/1.1 200") for client in held)
        refused = Client(of(url)).send(GET).answer()
        held[0].socket.close()
        again = _eventually(url)
        held[1].socket.close()

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert "2 connections open" in message(refused)
    assert again


def _eventually(url: str) -> bool:
    """Whether a request is served before long."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        if httpx2.get(f"{url}/healthz").status_code == 200:
            return True
        time.sleep(0.05)
    return False


def test_connections_that_say_nothing_make_room(upstream: RawUpstream) -> None:
    """B23: hundreds of idle connections shut nobody out; the oldest that never sent a request goes first."""
    with serving(Stage(upstream.url).app, GatewayLimits(connections=50)) as url:
        idle = [Client(of(url)) for _ in range(50)]
        for client in idle[::5]:
            client.send(POST, b"x-slow: ")
        time.sleep(1.2)
        statuses = [httpx2.get(f"{url}/healthz").status_code for _ in range(5)]
        for client in idle:
            client.socket.close()

    assert statuses == [200] * 5


def test_a_burst_of_silent_connections_stays_within_the_limit() -> None:
    """B23: hundreds that arrive at once, after others have waited, are not admitted by closing the same one again and again."""
    with running(socket.AF_INET, ("127.0.0.1", 0), GatewayLimits(connections=20)) as (server, at):
        idle = [Client(at) for _ in range(20)]
        time.sleep(1.2)
        idle += [Client(at) for _ in range(200)]
        time.sleep(2.5)
        deadline = time.monotonic() + 30
        while len(server.server_state.connections) > 20 and time.monotonic() < deadline:
            time.sleep(0.1)  # a busy machine takes longer to admit and to close them
        held = len(server.server_state.connections)
        for client in idle:
            client.socket.close()

    assert held <= 20


def test_connections_leave_files_for_upstreams() -> None:
    """B23: each connection counts twice against the limit of open files, and never fewer than a few are allowed."""
    assert connections_allowed(4) >= 4
    assert connections_allowed(10**9) < 10**9


def test_no_files_left_is_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """B23: asyncio reports each failed accept with a traceback, thousands a second; the log gets one line with the remedy."""

    async def fail() -> None:
        server = Server(_without_lifespan(None), GatewayLimits())
        loop = asyncio.get_running_loop()
        for _ in range(1_000):
            problem = OSError(EMFILE, "Too many open files")
            server.note_failure(loop, {"message": "socket.accept() out of system resource", "exception": problem})
        server.note_failure(loop, {"message": "something else"})

    with caplog.at_level(logging.WARNING):
        asyncio.run(fail())

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "raise the limit of open files" in lines[0]
    assert lines[1] == "something else"


def test_the_log_has_only_what_an_operator_can_act_on() -> None:
    """B22: not that a reply broke off (the relay logs that), that a client left, or that it wanted another protocol."""
    noise = (
        "ASGI callable returned without completing response.",
        "Unsupported upgrade request.",
        'No supported WebSocket library detected. Please use "pip install …"',
        "Invalid HTTP request received.",
        "socket.send() raised exception.",
    )
    said = (*noise, "Exception in ASGI application")
    records = [logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, text, (), None) for text in said]

    assert [is_news(record) for record in records] == [False] * len(noise) + [True]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        pytest.param([PREFACE], b"505", "not HTTP/2", id="HTTP/2"),
        pytest.param([PREFACE[:5], PREFACE[5:]], b"505", "not HTTP/2", id="HTTP/2 in pieces"),
        pytest.param([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)], b"400", "not HTTPS", id="TLS"),
        pytest.param([b"\x00\xff\xfe\r\n\r\n"], b"400", "Invalid HTTP", id="garbage"),
        pytest.param([POST, b"x: " + b"a" * 200_000 + b"\r\n\r\n"], b"400", "Invalid HTTP", id="a huge header"),
        pytest.param(
            [POST, b"transfer-encoding: chunked\r\n\r\nzz\r\n"], b"400", "Invalid HTTP", id="what is no chunk"
        ),
        pytest.param(
            [POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + GET],
            b"400",
            "both content-length and transfer-encoding",
            id="two lengths",
        ),
    ],
)
def test_what_is_no_clear_http_1_is_refused_and_closed(sent: list[bytes], status: bytes, words: str) -> None:
    """B23: the answer is HTTP/1.1 and names the cause; nothing on that connection reaches an upstream."""
    with RawUpstream(lambda _: [whole(b"{}")]) as upstream, serving(Stage(upstream.url).app) as url:
        answer = Client(of(url)).send(*sent).answer()
        assert upstream.requests == ()

    assert answer.split()[:2] == [b"HTTP/1.1", status]
    assert words in message(answer)


def test_a_garbled_body_after_the_answer_began_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """B23: a reply that is already on its way is cut off, and no traceback is logged."""

    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    with serving(_without_lifespan(early)) as url:
        client = Client(of(url)).send(POST, b"transfer-encoding: chunked\r\n\r\n")
        told = client.socket.recv(65_536)
        told += client.send(b"zz\r\n").answer()

    assert told.startswith(b"HTTP/1.1 200")
    assert b"400" not in told
    assert caplog.records == []


def test_a_websocket_is_refused_at_once() -> None:
    """B23: an agent that tries a websocket first learns from one 426 to use HTTP; the upstream is not asked."""
    wish = b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n"
    key = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    with RawUpstream(lambda _: [whole(b"{}")]) as upstream, serving(Stage(upstream.url).app) as url:
        answer = Client(of(url)).send(wish + key).answer()
        offered = Client(of(url)).send(
            b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade, http2-settings, close\r\nupgrade: h2c\r\n\r\n"
        )
        served = offered.answer()

    assert answer.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
    assert b"\r\nupgrade: HTTP/1.1\r\n" in answer
    assert "no websockets" in message(answer)
    assert served.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(
            [GET * 3 + GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")], [b"200"] * 4, id="pipelined"
        ),
        pytest.param(
            [
                POST + b"connection: close\r\ntransfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n"
                b"2;name=value\r\n{}\r\n0;last\r\nx-t: 1\r\ncontent-length: 9\r\n\r\n"
            ],
            [b"200"],
            id="chunk extensions and trailers",
        ),
        pytest.param(
            [POST + b"connection: close\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n", b"{}"],
            [b"100", b"200"],
            id="expects to go on",
        ),
        pytest.param(
            [b"HEAD /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"], [b"200"], id="HEAD"
        ),
        pytest.param(
            [b"OPTIONS /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"], [b"200"], id="OPTIONS"
        ),
        pytest.param([b"GET /v1/models HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n"], [b"200"], id="HTTP/1.0"),
    ],
)
def test_unusual_but_right_requests_are_served(upstream: RawUpstream, sent: list[bytes], statuses: list[bytes]) -> None:
    """B23: the limits cost nothing that HTTP/1.1 allows; no trailer becomes a header."""
    before = len(upstream.requests)
    with serving(Stage(upstream.url, limits=SOON).app, SOON) as url:
        answer = Client(of(url)).send(*sent).answer()

    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == statuses
    assert all(request.header("x-t") is None for request in upstream.requests[before:])


def test_thousands_of_headers_cost_milliseconds(upstream: RawUpstream) -> None:
    """B17: reading headers is linear: 8,000 of them take about eight times as long as 1,000, not sixty-four times."""
    body = b"content-length: 2\r\nconnection: close\r\n\r\n{}"
    with serving(Stage(upstream.url).app) as url:
        spent = []
        for count in (1_000, 8_000):
            lines = b"".join(b"x%d: a\r\n" % number for number in range(count))
            began = time.process_time()
            answer = Client(of(url)).send(POST + lines + body).answer()
            spent.append(time.process_time() - began)
            assert answer.startswith(b"HTTP/1.1 ")

    assert spent[1] < max(0.5, 20 * spent[0])


def test_a_secure_client_learns_that_the_port_is_plain(upstream: RawUpstream) -> None:
    """B23: an https:// base URL fails with an error of TLS, and the connection ends at once."""
    with serving(Stage(upstream.url).app) as url:
        plain = socket.create_connection(of(url), timeout=LONG)
        with plain, pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
