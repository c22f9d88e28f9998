"""Relay one request: made to fit on its way out, passed on as it arrives on its way back, heard in passing.

Fails open: whatever goes wrong on our side, the client's own request goes out as it came, and a header and an event say so.
Headers, errors and fields that infold does not know are the client's and the provider's, and stay as they are.
"""

from asyncio import timeout
from collections.abc import AsyncIterator, Mapping

import httpx2
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from infold.api.exchanges import Relayed, opened
from infold.api.passages import AsyncPassage
from infold.core.events import FailedOpen
from infold.engine.finding import SESSION_HEADER
from infold.errors import InfoldError, UsageError
from infold.formats.requests import Unmanaged, unstreamed
from infold.formats.streams import builder_for
from infold.gateway.bodies import Limits, Refusal, read_body
from infold.gateway.guard import TOKEN_HEADER
from infold.gateway.hub import Hub
from infold.gateway.tenancy import Tenancy
from infold.gateway.tenants import Tenants
from infold.gateway.upstreams import Upstreams

__all__ = ["NOTE_HEADER", "Relay", "refused"]

NOTE_HEADER = "x-infold"
"""On every reply: whether the request was managed, or relayed as it came and why."""

HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "upgrade"),
        *("transfer-encoding", "proxy-connection", "host", "content-length", "expect"),
    }
)
OURS = frozenset({SESSION_HEADER, TOKEN_HEADER})
LINGER_SECONDS = 2.0
"""How long a stream that has said why it ended is held for its last bytes."""


class _Outgoing(Struct, frozen=True):
    """Where a request goes and what goes with it."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]


class Relay:
    """Stands between clients and upstreams."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        upstreams: Upstreams,
        tenants: Tenants,
        tenancy: Tenancy,
        hub: Hub,
        limits: Limits,
    ) -> None:
        self._client = client
        self._upstreams = upstreams
        self._tenants = tenants
        self._tenancy = tenancy
        self._hub = hub
        self._limits = limits

    async def __call__(self, request: Request) -> Response:
        """One request and its reply."""
        raw = await read_body(request, self._limits)
        if isinstance(raw, Refusal):
            return refused(raw)
        path, headers = request.url.path, _plain(request)
        try:
            url = self._upstreams.url_for(path, request.url.query, headers)
        except UsageError as error:
            return refused(Refusal(503, str(error)))
        outgoing = _Outgoing(request.method, url, _forwarded(request))
        try:
            return await self._relayed(request, outgoing, raw, headers)
        except httpx2.TimeoutException:
            return refused(Refusal(504, "the upstream took too long to answer; try again, or raise the time allowed"))
        except httpx2.HTTPError as error:
            return refused(
                Refusal(502, f"the upstream could not be reached ({type(error).__name__}); check its address")
            )

    async def _relayed(self, request: Request, outgoing: _Outgoing, raw: bytes, headers: Mapping[str, str]) -> Response:
        passage, content, note = await self._prepared(request, outgoing, raw, headers)
        response = await self._send(outgoing, content, plain=passage is not None)
        if passage is not None and response.is_error:
            relayed = Relayed(response.status_code, await response.aread())
            again = await self._recovered(passage, relayed)
            if again is None:
                return _whole(response, relayed.body, note)
            response = await self._send(outgoing, again, plain=True)
        if passage is None or not response.is_success:
            return _passed_on(response, note)
        if _is_stream(response):
            return StreamingResponse(
                self._heard(response, passage), response.status_code, _returned(response, note, passage)
            )
        body = await response.aread()
        await self._recorded(passage, body)
        return _whole(response, body, note, passage)

    # On the way out.

    async def _prepared(
        self, request: Request, outgoing: _Outgoing, raw: bytes, headers: Mapping[str, str]
    ) -> tuple[AsyncPassage | None, bytes, str]:
        """The passage of a request that infold manages, the body to send, and what to say of it."""
        if request.method != "POST":
            return None, raw, "relayed; not a conversation"
        try:
            exchange = opened(request.url.path, headers, raw)
            if isinstance(exchange, Unmanaged):
                return None, raw, f"relayed; {exchange.why}"
            tenant = self._tenants.of(headers, request.query_params)
            passage = await self._tenancy.begin(tenant, exchange, lambda body: self._asked(outgoing, body))
            return passage, await passage.prepare(), "managed"
        except Exception as error:  # the one place where this face must not fail: the request is the client's
            return None, raw, f"relayed; {self._failed(error)}"

    async def _asked(self, outgoing: _Outgoing, body: bytes) -> Relayed:
        """A request of our own for a summary, with the credentials of the client's."""
        response = await self._client.request(
            outgoing.method, unstreamed(outgoing.url), headers=list(_unencoded(outgoing.headers)), content=body
        )
        return Relayed(response.status_code, response.content)

    async def _send(self, outgoing: _Outgoing, content: bytes, *, plain: bool) -> httpx2.Response:
        headers = _unencoded(outgoing.headers) if plain else outgoing.headers
        request = self._client.build_request(outgoing.method, outgoing.url, headers=list(headers), content=content)
        return await self._client.send(request, stream=True)

    # On the way back.

    async def _recovered(self, passage: AsyncPassage, relayed: Relayed) -> bytes | None:
        try:
            return await passage.recover(relayed)
        except Exception as error:  # as above
            self._failed(error)
            return None

    async def _recorded(self, passage: AsyncPassage, body: bytes) -> None:
        try:
            await passage.record(body)
        except Exception as error:  # as above
            self._failed(error)

    async def _heard(self, response: httpx2.Response, passage: AsyncPassage) -> AsyncIterator[bytes]:
        """A stream passed on as it arrives; its end waits until the reply is recorded, so that the next request finds it."""
        builder = builder_for(passage.exchange.asked.wire.name)
        held: list[bytes] = []
        try:
            pieces = response.aiter_raw()
            while True:
                try:
                    async with timeout(LINGER_SECONDS if builder.is_finished else None):
                        piece = await anext(pieces)
                except (StopAsyncIteration, TimeoutError):
                    break
                builder.feed(piece)
                if builder.is_finished:
                    held.append(piece)
                else:
                    yield piece
            builder.close()
            try:
                await passage.record_stream(builder)
            except Exception as error:  # as above
                self._failed(error)
            for piece in held:
                yield piece
        finally:
            await response.aclose()

    def _failed(self, error: Exception) -> str:
        """Tell of a failure of ours; the words of an error that is not ours may hold content and are left out."""
        problem = f"{type(error).__name__}: {error}" if isinstance(error, InfoldError) else type(error).__name__
        self._hub.observe(FailedOpen("", problem))
        return problem


def refused(refusal: Refusal) -> Response:
    """An answer of the gateway's own, in the shape that SDKs read errors from."""
    error = {"message": refusal.message, "type": "infold_gateway_error", "code": refusal.status}
    return JSONResponse({"type": "error", "error": error}, refusal.status, {NOTE_HEADER: "refused"})


def _plain(request: Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def _forwarded(request: Request) -> tuple[tuple[str, str], ...]:
    named = {name.strip().lower() for name in request.headers.get("connection", "").split(",")}
    dropped = HOP_BY_HOP | OURS | named
    kept = tuple((name, value) for name, value in request.headers.items() if name.lower() not in dropped)
    return kept if "accept-encoding" in request.headers else _unencoded(kept)


def _unencoded(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Headers that ask for the reply as it is: it must be read here, or the client never offered to decode it."""
    others = tuple((name, value) for name, value in headers if name.lower() != "accept-encoding")
    return (*others, ("accept-encoding", "identity"))


def _returned(response: httpx2.Response, note: str, passage: AsyncPassage | None = None) -> dict[str, str]:
    headers = {name: value for name, value in response.headers.items() if name.lower() not in HOP_BY_HOP}
    session = {} if passage is None else {SESSION_HEADER: passage.session.log.session_id}
    return {**headers, NOTE_HEADER: _header_text(note), **session}


def _header_text(note: str) -> str:
    return note.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")[:300]


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _passed_on(response: httpx2.Response, note: str) -> Response:
    """A reply that is not heard, as raw as it comes."""

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in response.aiter_raw():
                yield piece
        finally:
            await response.aclose()

    headers = _returned(response, note)
    length = response.headers.get("content-length")
    return StreamingResponse(
        pieces(), response.status_code, headers if length is None else {**headers, "content-length": length}
    )


def _whole(response: httpx2.Response, body: bytes, note: str, passage: AsyncPassage | None = None) -> Response:
    headers = _returned(response, note, passage)
    return Response(body, response.status_code, {k: v for k, v in headers.items() if k.lower() != "content-encoding"})
