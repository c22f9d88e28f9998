"""Send requests to upstreams, over connections that all tenants share; nothing of one reply reaches another request.

No cookie is kept, no redirect is followed and no environment is heard: those would take a credential elsewhere.
"""

from types import TracebackType

import httpx2
from msgspec import Struct

from infold.api.exchanges import Relayed
from infold.formats.requests import unstreamed
from infold.gateway.bodies import Limits
from infold.gateway.decoding import Decoding
from infold.gateway.headers import Headers, anew, header, readable

__all__ = ["Outgoing", "Sender"]

MOST_CONNECTIONS = 1_000
MOST_IDLE = 100
IDLE_SECONDS = 5.0
"""How long a connection is kept unused: less than any upstream keeps it, so that no request meets one that is closing."""

MOST_ANSWER_BYTES = 8 * 2**20
"""How large the answer to a request of our own may be: no summary is a thousandth of it."""


class Outgoing(Struct, frozen=True):
    """Where a request goes and what goes with it."""

    method: str
    url: httpx2.URL
    headers: Headers


class Sender:
    """The connections to all upstreams; open while the block is."""

    def __init__(self, limits: Limits) -> None:
        connections = httpx2.Limits(
            max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_IDLE, keepalive_expiry=IDLE_SECONDS
        )
        self._transport = httpx2.AsyncHTTPTransport(limits=connections, trust_env=False)
        timeout = httpx2.Timeout(limits.upstream_seconds, connect=limits.connect_seconds)
        self._extensions = {"timeout": timeout.as_dict()}

    async def __aenter__(self) -> "Sender":
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def send(self, outgoing: Outgoing, content: bytes) -> httpx2.Response:
        """The reply, its body still to come; whoever gets it closes it. Raises `httpx2.HTTPError`."""
        request = httpx2.Request(
            outgoing.method,
            outgoing.url,
            headers=outgoing.headers,
            content=content or None,
            extensions=dict(self._extensions),
        )
        response = await self._transport.handle_async_request(request)
        if not 200 <= response.status_code <= 599:
            await response.aclose()
            raise httpx2.RemoteProtocolError(f"the upstream answered with status {response.status_code}")
        return response

    async def ask(self, outgoing: Outgoing, content: bytes) -> Relayed:
        """The whole answer to a request of our own that goes where a client's went, with its credentials."""
        url = httpx2.URL(unstreamed(str(outgoing.url)))
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
