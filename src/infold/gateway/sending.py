"""Send requests to upstreams, over connections that all tenants share; nothing of one reply reaches another request.

No cookie is kept, no redirect is followed and no environment is heard: those would take a credential elsewhere.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType

import httpcore2
import httpx2
from msgspec import Struct

from infold.api.exchanges import Relayed
from infold.formats.requests import unstreamed_path
from infold.gateway.bodies import Limits
from infold.gateway.decoding import Decoding
from infold.gateway.headers import Headers, anew, header, readable
from infold.gateway.network import Network

MOST_CONNECTIONS = 1_000
MOST_IDLE = 100
IDLE_SECONDS = 5.0
"""How long a connection is kept unused: less than any upstream keeps it, so that no request meets one that is closing."""

MOST_ANSWER_BYTES = 8 * 2**20
"""How large the answer to a request of our own may be: no summary is a thousandth of it."""

KNOWN_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
"""All that a connection may raise."""


class Outgoing(Struct, frozen=True):
    """Where a request goes and what goes with it."""

    method: str
    url: httpx2.URL
    headers: Headers


class Sender:
    """The connections to all upstreams; open while the block is."""

    def __init__(self, limits: Limits) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=Network(),
        )
        timeout = httpx2.Timeout(limits.upstream_seconds, connect=limits.connect_seconds)
        self._extensions = {"timeout": timeout.as_dict()}

    async def __aenter__(self) -> "Sender":
        await self._pool.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.__aexit__(kind, error, trace)

    async def send(self, outgoing: Outgoing, content: bytes) -> httpx2.Response:
        """The reply, its body still to come; whoever gets it closes it. Raises `httpx2.HTTPError`."""
        request = httpx2.Request(outgoing.method, outgoing.url, headers=outgoing.headers, content=content or None)
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with _translated():
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    request.method, target, headers=request.headers.raw, content=content, extensions=self._extensions
                )
            )
        response = httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))
        if not 200 <= response.status_code <= 599:
            await response.aclose()
            raise httpx2.RemoteProtocolError(f"the upstream answered with status {response.status_code}")
        return response

    async def ask(self, outgoing: Outgoing, content: bytes) -> Relayed:
        """The whole answer to a request of our own that goes where a client's went, with its credentials."""
        url = httpx2.URL(unstreamed_path(str(outgoing.url)))
        response = await self.send(Outgoing(outgoing.method, url, anew(readable(outgoing.headers))), content)
        decoding = Decoding(header(response.headers.raw, b"content-encoding"))
        body = bytearray()
        try:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            async for piece in response.stream:
                body += decoding.decode(piece)
                if len(body) > MOST_ANSWER_BYTES:
                    raise httpx2.RemoteProtocolError("the upstream's answer is too large")
        finally:
            await response.aclose()
        return Relayed(response.status_code, bytes(body))


class _Body(httpx2.AsyncByteStream):
    """The body of an answer as it comes."""

    def __init__(self, answer: httpcore2.Response) -> None:
        assert isinstance(answer.stream, AsyncIterable)
        self._answer = answer
        self._pieces = answer.stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for piece in self._pieces:
                yield piece

    async def aclose(self) -> None:
        """Let the connection go."""
        await self._answer.aclose()


@contextmanager
def _translated() -> Iterator[None]:
    """The errors of the connections as the client library knows them; both call each by the same name."""
    try:
        yield
    except KNOWN_ERRORS as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error
