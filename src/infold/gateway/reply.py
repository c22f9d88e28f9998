"""Pass a reply on as it arrives, byte for byte, while it is observed.

What may still turn out to be a refusal is held back for a short time, and the end of a reply waits until the session has recorded
it, so that the client's next request finds it there.
"""

import logging
from asyncio import Task, create_task, get_running_loop, wait
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import cast

import httpx2
from anyio import CancelScope
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from infold.formats.overflow import Overflow
from infold.gateway.headers import Headers
from infold.gateway.request_body import ReplyDecoder
from infold.proxy.reply_observer import ReplyObserver

OPENING_SECONDS = 10.0
"""How long a stream without content is held back; refusals for size arrive sooner, and clients wait longer."""

LINGER_SECONDS = 2.0
"""How long the end of a stream is held back for its last bytes, which report the usage."""

MOST_LAST_BYTES = 4 * 2**20

_log = logging.getLogger(__name__)

Record = Callable[[ReplyObserver], Awaitable[None]]
"""Records a reply that was observed; does not raise."""


class ResponseChunks:
    """The body of a response in chunks; a wait for one may be given up without losing it."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._response = response
        self._chunks = cast("AsyncGenerator[bytes, None]", aiter(response.stream))
        self._waiting: Task[bytes | None] | None = None
        self._error: httpx2.HTTPError | None = None
        self.is_over = False

    async def next(self, until: float | None = None) -> bytes | None:
        """Return the next chunk, `None` at the end; raise `httpx2.HTTPError` if the upstream breaks off, at each call.

        Raise `TimeoutError` if none arrived until that time of the loop; the next call waits for the same chunk.
        """
        if self._error is not None:
            raise self._error
        if self.is_over:
            return None
        try:
            chunk = await (anext(self._chunks, None) if until is None and not self._waiting else self._within(until))
        except httpx2.HTTPError as error:
            self._error = error
            raise
        self.is_over = chunk is None
        return chunk

    async def aclose(self) -> None:
        """Close the response, also while the calling task is being cancelled."""
        with CancelScope(shield=True):
            if self._waiting is not None:
                self._waiting.cancel()
                await wait({self._waiting})
                if not self._waiting.cancelled():
                    self._waiting.exception()  # retrieved, so that asyncio does not report it
                self._waiting = None
            await self._chunks.aclose()
            await self._response.aclose()

    async def _within(self, until: float | None) -> bytes | None:
        self._waiting = self._waiting or create_task(self._read())
        seconds = None if until is None else max(0.0, until - get_running_loop().time())
        done, _ = await wait({self._waiting}, timeout=seconds)
        if not done:
            raise TimeoutError
        task, self._waiting = self._waiting, None
        return task.result()

    async def _read(self) -> bytes | None:
        return await anext(self._chunks, None)


class ObservedReply:
    """A reply from an upstream, its host, that is observed on its way to the client if its request is managed."""

    def __init__(
        self,
        response: httpx2.Response,
        *,
        observer: ReplyObserver | None = None,
        record: Record | None = None,
        host: str = "the upstream",
    ) -> None:
        self.host = host
        self.status = response.status_code
        self.headers = response.headers
        self._observer = observer
        self._record = record
        self._decoder = ReplyDecoder(response.headers.get("content-encoding", ""))
        self._chunks = ResponseChunks(response)
        self._held: list[bytes] = []
        if observer is not None and not self._decoder.is_readable:
            observer.give_up()

    @property
    def overflow(self) -> Overflow | None:
        """The refusal for size that it is, if it is one; known once the opening is read."""
        return None if self._observer is None else self._observer.overflow

    async def read_opening(self) -> None:
        """Read until it is known whether this is a refusal; raise `httpx2.HTTPError`."""
        observer = self._observer
        if observer is None:
            return
        until = get_running_loop().time() + OPENING_SECONDS if observer.is_stream else None
        with suppress(TimeoutError):
            while observer.is_held and (chunk := await self._chunks.next(until)) is not None:
                self._observe(observer, chunk)
                self._held.append(chunk)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes as they were received, the last of them once the reply is recorded.

        Raise `httpx2.HTTPError` if the upstream breaks off.
        """
        observer = self._observer
        has_ended = observer is not None and observer.has_ended
        if not has_ended and not self._chunks.is_over:
            for early in self._held:
                yield early
            self._held.clear()
        while not has_ended and (chunk := await self._chunks.next()) is not None:
            if observer is not None:
                self._observe(observer, chunk)
                has_ended = observer.has_ended
            if has_ended:
                self._held.append(chunk)
            else:
                yield chunk
        if observer is not None and self._record is not None:
            await self._read_usage(observer)
            observer.close()
            if observer.is_recordable:
                await self._record(observer)
        for last in self._held:
            yield last
        while (chunk := await self._chunks.next()) is not None:
            yield chunk

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool."""
        await self._chunks.aclose()

    def _observe(self, observer: ReplyObserver, chunk: bytes) -> None:
        observer.observe(self._decoder.decode(chunk))
        if not self._decoder.is_readable:
            observer.give_up()

    async def _read_usage(self, observer: ReplyObserver) -> None:
        """Read what follows the end of a stream, up to its last event: the usage.

        An error of the upstream is met again when the rest is passed on.
        """
        until = get_running_loop().time() + LINGER_SECONDS
        size = 0
        with suppress(TimeoutError, httpx2.HTTPError):
            while not observer.is_over and size <= MOST_LAST_BYTES:
                chunk = await self._chunks.next(until)
                if chunk is None:
                    return
                self._observe(observer, chunk)
                self._held.append(chunk)
                size += len(chunk)


class RelayedResponse(StreamingResponse):
    """A reply as the client gets it."""

    def __init__(self, reply: ObservedReply, headers: Headers) -> None:
        super().__init__(reply.chunks(), reply.status)
        self.raw_headers = list(headers)
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Send it, and close the upstream's connection however that ends; the relay watches for the client's disconnect."""
        try:
            await self.stream_response(send)
        finally:
            await self._reply.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send the chunks; if the upstream breaks off, leave out the last message, so that the client notices too."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in self.body_iterator:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except httpx2.HTTPError as error:
            _log.warning("%s broke off in the middle of its answer (%s)", self._reply.host, type(error).__name__)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
