"""The HTTP transports behind a wrapped client, sync and async: relay, recover once, hear the reply."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import cast

import httpx2

from infold.api.exchanges import Exchange, Relayed, opened
from infold.api.passages import AsyncPassage, AsyncPassages, Passage, Passages
from infold.core.events import FailedOpen
from infold.engine.finding import SESSION_HEADER
from infold.formats.requests import Unmanaged, unstreamed
from infold.formats.streams import ReplyBuilder, builder_for

__all__ = ["AsyncInfoldTransport", "InfoldTransport", "Tell"]

Tell = Callable[[FailedOpen], None]
STREAM = "text/event-stream"
OURS = frozenset({"content-length", "transfer-encoding", "content-encoding", "accept-encoding", SESSION_HEADER})
"""Headers of a request that is sent on with another body, and of a reply that was read."""


class InfoldTransport(httpx2.BaseTransport):
    """Sends what a sync client sends, made to fit; whatever goes wrong on our side, it goes out as it came."""

    def __init__(self, inner: httpx2.Client, passages: Passages, tell: Tell, session: str | None) -> None:
        self._inner = inner
        self._passages = passages
        self._tell = tell
        self._session = session

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Relay one request and its reply."""
        exchange = _read(request, request.read(), self._session, self._tell)
        if exchange is None:
            return self._inner.send(request, stream=True)
        try:
            passage = self._passages.begin(exchange, lambda body: self._asked(request, body))
            content = passage.prepare()
        except Exception as error:  # the request is the caller's and must go out
            self._tell(_failure(error))
            return self._inner.send(request, stream=True)
        return self._heard(passage, request, self._sent(request, content))

    def close(self) -> None:
        """Close the client this one sends through."""
        self._inner.close()

    def _sent(self, request: httpx2.Request, content: bytes) -> httpx2.Response:
        return self._inner.send(_with_body(request, content), stream=True)

    def _asked(self, request: httpx2.Request, content: bytes) -> Relayed:
        """A request of our own, to where this one goes."""
        asked = _with_body(request, content)
        asked.url = httpx2.URL(unstreamed(str(asked.url)))
        response = self._inner.send(asked)
        return Relayed(response.status_code, response.content)

    def _heard(self, passage: Passage, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if _is_stream(response):
            return _with_stream(response, _HeardStream(response, passage, self._tell))
        body = response.read()
        again = self._tried(lambda: passage.recover(Relayed(response.status_code, body))) if response.is_error else None
        if again is not None:
            response = self._sent(request, again)
            if _is_stream(response):
                return _with_stream(response, _HeardStream(response, passage, self._tell))
            body = response.read()
        if response.is_success:
            self._tried(lambda: passage.record(body))
        return _whole(response, body)

    def _tried(self, act: Callable[[], bytes | None]) -> bytes | None:
        """What an act of ours gives; a failure is told and costs the caller nothing."""
        try:
            return act()
        except Exception as error:  # as above
            self._tell(_failure(error))
            return None


class _HeardStream(httpx2.SyncByteStream):
    """A streamed reply, passed on as it arrives and heard on the way."""

    def __init__(self, response: httpx2.Response, passage: Passage, tell: Tell) -> None:
        self._response = response
        self._passage = passage
        self._tell = tell
        self._builder: ReplyBuilder | None = builder_for(passage.exchange.asked.wire.name)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._response.iter_raw():
            if self._builder is not None:
                self._builder.feed(piece)
            yield piece
        self._end()

    def close(self) -> None:
        """Let the connection go, and take in what was heard."""
        self._response.close()
        self._end()

    def _end(self) -> None:
        builder, self._builder = self._builder, None
        if builder is None:
            return
        builder.close()
        try:
            self._passage.record_stream(builder)
        except Exception as error:  # as above
            self._tell(_failure(error))


class AsyncInfoldTransport(httpx2.AsyncBaseTransport):
    """The same for an async client."""

    def __init__(self, inner: httpx2.AsyncClient, passages: AsyncPassages, tell: Tell, session: str | None) -> None:
        self._inner = inner
        self._passages = passages
        self._tell = tell
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Relay one request and its reply."""
        exchange = _read(request, await request.aread(), self._session, self._tell)
        if exchange is None:
            return await self._inner.send(request, stream=True)
        try:
            passage = await self._passages.begin(exchange, lambda body: self._asked(request, body))
            content = await passage.prepare()
        except Exception as error:  # the request is the caller's and must go out
            self._tell(_failure(error))
            return await self._inner.send(request, stream=True)
        return await self._heard(passage, request, await self._sent(request, content))

    async def aclose(self) -> None:
        """Close the client this one sends through."""
        await self._inner.aclose()

    async def _sent(self, request: httpx2.Request, content: bytes) -> httpx2.Response:
        return await self._inner.send(_with_body(request, content), stream=True)

    async def _asked(self, request: httpx2.Request, content: bytes) -> Relayed:
        asked = _with_body(request, content)
        asked.url = httpx2.URL(unstreamed(str(asked.url)))
        response = await self._inner.send(asked)
        return Relayed(response.status_code, response.content)

    async def _heard(
        self, passage: AsyncPassage, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        if _is_stream(response):
            return _with_stream(response, _AsyncHeardStream(response, passage, self._tell))
        body = await response.aread()
        again = await self._recovered(passage, Relayed(response.status_code, body)) if response.is_error else None
        if again is not None:
            response = await self._sent(request, again)
            if _is_stream(response):
                return _with_stream(response, _AsyncHeardStream(response, passage, self._tell))
            body = await response.aread()
        if response.is_success:
            try:
                await passage.record(body)
            except Exception as error:  # as above
                self._tell(_failure(error))
        return _whole(response, body)

    async def _recovered(self, passage: AsyncPassage, relayed: Relayed) -> bytes | None:
        try:
            return await passage.recover(relayed)
        except Exception as error:  # as above
            self._tell(_failure(error))
            return None


class _AsyncHeardStream(httpx2.AsyncByteStream):
    """A streamed reply, passed on as it arrives and heard on the way."""

    def __init__(self, response: httpx2.Response, passage: AsyncPassage, tell: Tell) -> None:
        self._response = response
        self._passage = passage
        self._tell = tell
        self._builder: ReplyBuilder | None = builder_for(passage.exchange.asked.wire.name)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.aiter_raw():
            if self._builder is not None:
                self._builder.feed(piece)
            yield piece
        await self._end()

    async def aclose(self) -> None:
        """Let the connection go, and take in what was heard."""
        await self._response.aclose()
        await self._end()

    async def _end(self) -> None:
        builder, self._builder = self._builder, None
        if builder is None:
            return
        builder.close()
        try:
            await self._passage.record_stream(builder)
        except Exception as error:  # as above
            self._tell(_failure(error))


def _read(request: httpx2.Request, raw: bytes, session: str | None, tell: Tell) -> Exchange | None:
    """The exchange a request begins; none where it is not ours to manage."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    if session is not None:
        headers.setdefault(SESSION_HEADER, session)
    request.headers.pop(SESSION_HEADER, None)
    try:
        exchange = opened(request.url.path, headers, raw) if request.method == "POST" else None
    except Exception as error:  # as above
        tell(_failure(error))
        return None
    return None if isinstance(exchange, Unmanaged) else exchange


def _with_body(request: httpx2.Request, content: bytes) -> httpx2.Request:
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in OURS]
    return httpx2.Request(
        request.method,
        request.url,
        headers=[*headers, ("accept-encoding", "identity")],
        content=content,
        extensions=request.extensions,
    )


def _is_stream(response: httpx2.Response) -> bool:
    return response.is_success and response.headers.get("content-type", "").startswith(STREAM)


def _with_stream(response: httpx2.Response, stream: httpx2.SyncByteStream | httpx2.AsyncByteStream) -> httpx2.Response:
    return httpx2.Response(
        response.status_code, headers=response.headers, stream=stream, extensions=_extensions(response)
    )


def _whole(response: httpx2.Response, body: bytes) -> httpx2.Response:
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in OURS]
    return httpx2.Response(response.status_code, headers=headers, content=body, extensions=_extensions(response))


def _extensions(response: httpx2.Response) -> dict[str, object]:
    return {name: value for name, value in response.extensions.items() if name != "network_stream"}


def _failure(error: Exception) -> FailedOpen:
    return FailedOpen("", f"{type(error).__name__}: {cast(object, error)}")
