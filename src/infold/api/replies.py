"""Replies on their way back to a client: passed on as they arrive, heard, and taken in when they end.

The opening of a stream is read before it is passed on, up to its first word, for some providers refuse a request there. Whatever
goes wrong on infold's side costs the caller nothing; `FailedOpen` tells of it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import httpx2

from infold.api.exchanges import Exchange
from infold.api.passage import AsyncPassage, Passage
from infold.core.events import FailedOpen, NotManaged
from infold.errors import BrokenInput
from infold.formats.codec import as_dict
from infold.formats.overflow import Overflow, recognise
from infold.formats.registry import builder_for
from infold.formats.streams import ReplyBuilder

Tell = Callable[[FailedOpen | NotManaged], None]
"""Tells of a request that was relayed as it came; must not raise."""

STREAM = "text/event-stream"
FRAMING = frozenset({"content-length", "transfer-encoding", "content-encoding"})
"""Headers that speak of a body as it came."""

Value = TypeVar("Value")


class _Heard:
    """What is known of a reply while it comes: all of it, or the opening of a stream and what was said in it so far."""

    def __init__(self, response: httpx2.Response, exchange: Exchange) -> None:
        is_stream = response.is_success and response.headers.get("content-type", "").startswith(STREAM)
        self._response = response
        self._wire = exchange.asked.wire
        self._builder: ReplyBuilder | None = builder_for(self._wire.name) if is_stream else None
        self._opening: list[bytes] = []
        self._body = b""

    @property
    def overflow(self) -> Overflow | None:
        """The refusal for size that it is, if it is one."""
        if self._builder is None and self._response.is_error:
            return recognise(self._response.status_code, self._body)
        error = _error_in(self._body) if self._builder is None else self._builder.error()
        return recognise(None, error) if isinstance(error, dict | str) else None

    def _has_begun(self, piece: bytes) -> bool:
        """Take a piece of the opening; whether that was the last, for something is said, or an error."""
        self._opening.append(piece)
        self._hear(piece)
        builder = self._builder
        return builder is None or builder.error() is not None or bool(self._wire.reply_items(builder.reply() or {}))

    def _hear(self, piece: bytes) -> None:
        if self._builder is not None:
            self._builder.feed(piece)

    def _ended(self) -> ReplyBuilder | None:
        """What was heard of a stream, to be taken in once."""
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.close()
        return builder


class Reply(_Heard, httpx2.SyncByteStream):
    """A reply, passed on as it arrives, and taken in when it ends or is let go."""

    def __init__(self, response: httpx2.Response, passage: Passage, tell: Tell) -> None:
        super().__init__(response, passage.exchange)
        self._passage = passage
        self._tell = tell
        self._pieces: Iterator[bytes] = iter(())

    def receive(self) -> None:
        """Wait for all of it, or for the opening of a stream."""
        if self._builder is None:
            self._body = self._response.read()
            return
        self._pieces = self._response.iter_bytes()
        any(map(self._has_begun, self._pieces))

    def passed_on(self) -> httpx2.Response:
        """The response for the client."""
        if self._builder is None and self._response.is_success:
            tried(self._tell, self._passage, lambda: self._passage.record(self._body))
        return _response(self._response, self, None if self._builder else len(self._body))

    def __iter__(self) -> Iterator[bytes]:
        yield from self._opening or [self._body]
        for piece in self._pieces:
            self._hear(piece)
            yield piece
        self._take_in()

    def close(self) -> None:
        """Let the connection go, and take in what was heard."""
        self._response.close()
        self._take_in()

    def _take_in(self) -> None:
        heard = self._ended()
        if heard is not None:
            tried(self._tell, self._passage, lambda: self._passage.record_stream(heard))


class AsyncReply(_Heard, httpx2.AsyncByteStream):
    """The same for an async client."""

    def __init__(self, response: httpx2.Response, passage: AsyncPassage, tell: Tell) -> None:
        super().__init__(response, passage.exchange)
        self._passage = passage
        self._tell = tell
        self._pieces: AsyncIterator[bytes] | None = None

    async def receive(self) -> None:
        """Wait for all of it, or for the opening of a stream."""
        if self._builder is None:
            self._body = await self._response.aread()
            return
        self._pieces = self._response.aiter_bytes()
        async for piece in self._pieces:
            if self._has_begun(piece):
                return

    async def passed_on(self) -> httpx2.Response:
        """The response for the client."""
        if self._builder is None and self._response.is_success:
            await tried_async(self._tell, self._passage, lambda: self._passage.record(self._body))
        return _response(self._response, self, None if self._builder else len(self._body))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._opening or [self._body]:
            yield piece
        if self._pieces is not None:
            async for piece in self._pieces:
                self._hear(piece)
                yield piece
        await self._take_in()

    async def aclose(self) -> None:
        """Let the connection go, and take in what was heard."""
        await self._response.aclose()
        await self._take_in()

    async def _take_in(self) -> None:
        heard = self._ended()
        if heard is not None:
            await tried_async(self._tell, self._passage, lambda: self._passage.record_stream(heard))


def _response(
    response: httpx2.Response, stream: httpx2.SyncByteStream | httpx2.AsyncByteStream, length: int | None
) -> httpx2.Response:
    """Return a response with that stream for its body, which is decoded; what was read whole has that length."""
    headers = response.headers.multi_items()
    if length is not None or "content-encoding" in response.headers:
        headers = [(name, value) for name, value in headers if name.lower() not in FRAMING]
    if length is not None:
        headers.append(("content-length", str(length)))
    extensions = {name: value for name, value in response.extensions.items() if name != "network_stream"}
    return httpx2.Response(response.status_code, headers=headers, stream=stream, extensions=extensions)


def _error_in(body: bytes) -> object:
    """What a reply reports as an error though its status does not say so."""
    if b'"error"' not in body:
        return None
    try:
        return as_dict(body).get("error")
    except BrokenInput:
        return None


def tried(tell: Tell, what: Exchange | Passage | None, act: Callable[[], Value]) -> Value | None:
    """What an act of infold's gives; a failure is told and costs the caller nothing."""
    try:
        return act()
    except Exception as error:  # the request is the caller's: it goes out, and its reply comes back
        tell(_failure(what, error))
        return None


async def tried_async(
    tell: Tell, what: Exchange | AsyncPassage | None, act: Callable[[], Awaitable[Value]]
) -> Value | None:
    """The same for an act that is awaited."""
    try:
        return await act()
    except Exception as error:  # as above
        tell(_failure(what, error))
        return None


def tell_trouble(tell: Tell, passage: Passage | AsyncPassage | None) -> None:
    """Tell why a request's session is not stored, where it is not."""
    if passage is not None and passage.trouble is not None:
        tell(_failure(passage, passage.trouble))


def _failure(what: Exchange | Passage | AsyncPassage | None, error: Exception) -> FailedOpen:
    exchange = what if isinstance(what, Exchange) or what is None else what.exchange
    return FailedOpen("" if exchange is None else exchange.name or "", f"{type(error).__name__}: {error!s}")
