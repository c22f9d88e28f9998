"""Requests go out as they are, and nothing of one reply reaches another request."""

import asyncio
import gzip

import httpcore2
import httpx2
import pytest

from infold.gateway.request_body import GatewayLimits
from infold.gateway.upstream import KNOWN_ERRORS, MOST_ANSWER_BYTES, Outgoing, Sender
from infold.proxy.managed_request import OwnRequest, UpstreamReply

from .raw_upstream import Pause, RawUpstream, begun, whole

COOKIE = ((b"set-cookie", b"who=somebody"),)


def outgoing(upstream: RawUpstream, path: str = "/v1/x", *, method: str = "POST", **headers: str) -> Outgoing:
    """A request to that upstream."""
    given = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return Outgoing(method, httpx2.URL(upstream.url + path), given)


async def sent(request: Outgoing, content: bytes = b"", limits: GatewayLimits = GatewayLimits()) -> tuple[int, bytes]:
    """The status and the body that come back."""
    async with Sender(limits) as sender:
        response = await sender.send(request, content)
        try:
            return response.status_code, await response.aread()
        finally:
            await response.aclose()


async def asked(request: Outgoing, content: bytes = b"{}") -> UpstreamReply:
    """The answer to a request of our own."""
    async with Sender(GatewayLimits()) as sender:
        return await sender.ask(request, OwnRequest(content))


def test_a_request_goes_out_as_it_is() -> None:
    """No header is added that framing does not need: no agent, no accept, no encoding."""
    with RawUpstream(lambda _: [whole(b"{}")]) as upstream:
        asyncio.run(sent(outgoing(upstream, x_a="1", method="DELETE")))
        asyncio.run(sent(outgoing(upstream, x_a="1"), b'{"a":1}'))

        without, body = upstream.requests
        assert {name.lower() for name, _ in without.headers} == {"host", "x-a"}
        assert {name.lower() for name, _ in body.headers} == {"host", "x-a", "content-length"}
        assert (without.method, body.body) == ("DELETE", b'{"a":1}')


def test_no_cookie_is_kept() -> None:
    """B28: what an upstream sets for one client is not sent with the next one's request."""

    async def twice(upstream: RawUpstream) -> None:
        async with Sender(GatewayLimits()) as sender:
            for _ in range(2):
                response = await sender.send(outgoing(upstream), b"{}")
                await response.aread()
                await response.aclose()

    with RawUpstream(lambda _: [whole(b"{}", headers=COOKIE)]) as upstream:
        asyncio.run(twice(upstream))

        assert [request.header("cookie") for request in upstream.requests] == [None, None]


def test_no_redirect_is_followed() -> None:
    """A credential goes where the settings say."""
    with RawUpstream(lambda _: [whole(b"", status=b"302 Found", headers=[(b"location", b"/v1/y")])]) as upstream:
        assert asyncio.run(sent(outgoing(upstream))) == (302, b"")
        assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", httpx2.HTTPError),
        (b"no HTTP at all\r\n\r\n", httpx2.RemoteProtocolError),
        (b"", httpx2.HTTPError),
    ],
)
def test_what_is_no_reply_is_an_error(answer: bytes, problem: type[Exception]) -> None:
    """Only a status that a client can be told is passed on."""
    with RawUpstream(lambda _: [answer]) as upstream, pytest.raises(problem):
        asyncio.run(sent(outgoing(upstream), b"{}"))


def test_a_silent_upstream_is_not_waited_for() -> None:
    """The time allowed is the longest silence."""
    limits = GatewayLimits(upstream_seconds=0.05)
    with RawUpstream(lambda _: [Pause(5)]) as upstream, pytest.raises(httpx2.TimeoutException):
        asyncio.run(sent(outgoing(upstream), b"{}", limits))


def test_our_own_request_goes_where_the_clients_went() -> None:
    """With its credential, in one piece, not taken for the client's own, and decoded where it was compressed."""
    body = whole(gzip.compress(b'{"a": 1}'), headers=[(b"content-encoding", b"gzip")])
    with RawUpstream(lambda _: [body]) as upstream:
        target = "/v1beta/models/g:streamGenerateContent?alt=sse"
        request = outgoing(upstream, target, authorization="Bearer k", idempotency_key="1", accept_encoding="br")

        assert asyncio.run(asked(request)) == UpstreamReply(200, b'{"a": 1}')
        [arrived] = upstream.requests
        assert arrived.target == "/v1beta/models/g:generateContent"
        assert arrived.header("authorization") == "Bearer k"
        assert arrived.header("idempotency-key") is None
        assert arrived.header("accept-encoding") == "identity"


def test_our_own_answer_is_bounded() -> None:
    """An upstream that answers without end is an upstream in trouble."""
    piece = bytes(2**20)
    endless = [begun(media_type=b"application/json"), *[piece] * (MOST_ANSWER_BYTES // 2**20 + 2)]
    with RawUpstream(lambda _: endless) as upstream, pytest.raises(httpx2.RemoteProtocolError, match="too large"):
        asyncio.run(asked(outgoing(upstream)))


def test_every_error_of_a_connection_is_known() -> None:
    """Each that the library may raise is caught by a name that clients know; proxies are never used."""
    found = {name: value for name, value in vars(httpcore2).items() if isinstance(value, type)}
    errors = {name: value for name, value in found.items() if issubclass(value, Exception)}
    unknown = {name for name, value in errors.items() if not issubclass(value, KNOWN_ERRORS)}

    assert unknown == {"ConnectionNotAvailable", "ProxyError"}
    assert all(issubclass(getattr(httpx2, name), httpx2.HTTPError) for name in errors.keys() - unknown)
