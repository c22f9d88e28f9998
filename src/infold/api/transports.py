"""The HTTP transports behind a wrapped client, sync and async: relay, recover once, hear the reply.

Whatever goes wrong on infold's side, the caller's request goes out as it came and its reply comes back; `FailedOpen` tells of it.
While a store fails, requests are still made to fit.
"""

from asyncio import to_thread
from collections.abc import Callable
from functools import cache, partial

import httpx2

from infold.api.exchanges import Exchange, Relayed, opened
from infold.api.passage import AsyncPassage, Passage, Recoveries
from infold.api.passages import AsyncPassages, Passages
from infold.api.replies import FRAMING, AsyncReply, Reply, Tell, tell_trouble, tried, tried_async
from infold.core.events import NotManaged
from infold.engine.finding import SESSION_HEADER
from infold.formats.requests import Unmanaged, format_of_path, unstreamed_path

ENCODINGS = "accept-encoding"
ONCE = "idempotency-key"
"""Says that two requests are the same one; a request with another body is not."""


def _nothing() -> None:
    pass


class InfoldTransport(httpx2.BaseTransport):
    """Sends what a sync client sends, made to fit; `end` is called when it is closed."""

    def __init__(
        self,
        inner: httpx2.Client,
        passages: Passages,
        tell: Tell,
        *,
        session: str | None = None,
        end: Callable[[], None] = _nothing,
    ) -> None:
        self._inner = inner
        self._passages = passages
        self._tell = tell
        self._session = session
        self._end = end

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Relay one request and its reply."""
        headers = _headers(request, self._session)
        passage = self._begun(request, headers) if _is_ours(request) else None
        if passage is None:
            return self._inner.send(request, stream=True)
        reply = self._sent(_with_body(request, passage.content), passage)
        recovered = Recoveries()
        while (overflow := reply.overflow) is not None and recovered.may_be(overflow):
            changed = tried(self._tell, passage, partial(passage.recovered, overflow))
            if changed is None:
                break
            reply.close()
            passage = changed
            self._passages.let_go(passage)
            reply = self._sent(_with_body(request, passage.content, anew=True), passage)
        return reply.passed_on()

    def close(self) -> None:
        """Close the client this one sends through."""
        self._inner.close()
        self._end()

    def _begun(self, request: httpx2.Request, headers: dict[str, str]) -> Passage | None:
        content = request.read()
        exchange = tried(self._tell, None, lambda: _exchange(request, headers, content, self._tell))
        if exchange is None:
            return None
        passage = tried(
            self._tell, exchange, lambda: self._passages.begin(exchange, lambda body: self._asked(request, body))
        )
        tell_trouble(self._tell, passage)
        return passage

    def _asked(self, request: httpx2.Request, content: bytes) -> Relayed:
        """The answer to a request of our own, to where this one goes."""
        response = self._inner.send(_in_one_piece(_with_body(request, content, anew=True)))
        return Relayed(response.status_code, response.content)

    def _sent(self, request: httpx2.Request, passage: Passage) -> Reply:
        reply = Reply(self._inner.send(request, stream=True), passage, self._tell)
        try:
            reply.receive()
        except BaseException:
            reply.close()
            raise
        return reply


class AsyncInfoldTransport(httpx2.AsyncBaseTransport):
    """The same for an async client."""

    def __init__(
        self,
        inner: httpx2.AsyncClient,
        passages: AsyncPassages,
        tell: Tell,
        *,
        session: str | None = None,
        end: Callable[[], None] = _nothing,
    ) -> None:
        self._inner = inner
        self._passages = passages
        self._tell = tell
        self._session = session
        self._end = end

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Relay one request and its reply."""
        headers = _headers(request, self._session)
        passage = await self._begun(request, headers) if _is_ours(request) else None
        if passage is None:
            return await self._inner.send(request, stream=True)
        reply = await self._sent(_with_body(request, passage.content), passage)
        recovered = Recoveries()
        while (overflow := reply.overflow) is not None and recovered.may_be(overflow):
            changed = await tried_async(self._tell, passage, partial(passage.recovered, overflow))
            if changed is None:
                break
            await reply.aclose()
            passage = changed
            self._passages.let_go(passage)
            reply = await self._sent(_with_body(request, passage.content, anew=True), passage)
        return await reply.passed_on()

    async def aclose(self) -> None:
        """Give up what is done in the background, and close the client this one sends through."""
        await self._passages.close()
        await self._inner.aclose()
        await to_thread(self._end)

    async def _begun(self, request: httpx2.Request, headers: dict[str, str]) -> AsyncPassage | None:
        content = await request.aread()
        exchange = tried(self._tell, None, lambda: _exchange(request, headers, content, self._tell))
        if exchange is None:
            return None
        begin = self._passages.begin
        passage = await tried_async(
            self._tell, exchange, lambda: begin(exchange, lambda body: self._asked(request, body))
        )
        tell_trouble(self._tell, passage)
        return passage

    async def _asked(self, request: httpx2.Request, content: bytes) -> Relayed:
        response = await self._inner.send(_in_one_piece(_with_body(request, content, anew=True)))
        return Relayed(response.status_code, response.content)

    async def _sent(self, request: httpx2.Request, passage: AsyncPassage) -> AsyncReply:
        reply = AsyncReply(await self._inner.send(request, stream=True), passage, self._tell)
        try:
            await reply.receive()
        except BaseException:
            await reply.aclose()
            raise
        return reply


# What both have in common.


def _headers(request: httpx2.Request, session: str | None) -> dict[str, str]:
    """A request's headers, with the name of its session; that one is not for the provider."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    if session is not None:
        headers.setdefault(SESSION_HEADER, session)
    request.headers.pop(SESSION_HEADER, None)
    return headers


def _is_ours(request: httpx2.Request) -> bool:
    return request.method == "POST" and format_of_path(request.url.path) is not None


def _exchange(request: httpx2.Request, headers: dict[str, str], content: bytes, tell: Tell) -> Exchange | None:
    exchange = opened(request.url.path, headers, content, host=request.url.netloc.decode("ascii"))
    if not isinstance(exchange, Unmanaged):
        return exchange
    if exchange.is_history:
        tell(NotManaged(headers.get(SESSION_HEADER, ""), exchange.why))
    return None


def _with_body(request: httpx2.Request, content: bytes, *, anew: bool = False) -> httpx2.Request:
    """The same request with that body; `anew`: it goes out beside or after the caller's own."""
    left_out = FRAMING | {ENCODINGS, *([ONCE] if anew else [])}
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in left_out]
    return httpx2.Request(
        request.method,
        request.url,
        headers=[*headers, (ENCODINGS, _decodable(request.headers.get(ENCODINGS, "")))],
        content=content,
        extensions=request.extensions,
    )


def _decodable(accepted: str) -> str:
    """Return what of the encodings that a client accepts can be decoded here, for replies are read on their way."""
    known = _known_encodings()
    kept = [one for one in accepted.split(",") if one.partition(";")[0].strip().lower() in known]
    return ",".join(kept).strip() or "identity"


@cache
def _known_encodings() -> frozenset[str]:
    """Return the encodings that the HTTP library decodes, which are those that its clients ask for."""
    with httpx2.Client(transport=httpx2.BaseTransport()) as client:
        return frozenset({"identity", *client.headers[ENCODINGS].replace(" ", "").split(",")})


def _in_one_piece(request: httpx2.Request) -> httpx2.Request:
    request.url = httpx2.URL(unstreamed_path(str(request.url)))
    return request
