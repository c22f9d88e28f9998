"""Pass a reply on as it arrives, byte for byte, while it is heard.

What may still turn out to be a refusal is held back, but not for long; and the end of a reply waits until the session has taken
it in, so that the client's next request finds it there.
"""

import logging
from asyncio import get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import httpx2
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from infold.formats.overflow import Overflow
from infold.gateway.aside import Underway
from infold.gateway.headers import Headers
from infold.gateway.hearing import Hearing
from infold.gateway.pieces import Pieces

OPENING_SECONDS = 10.0
"""How long a stream that says nothing is held back; refusals for size come sooner, and clients wait longer."""

LINGER_SECONDS = 2.0
"""How long a stream that has said why it ended is held for its last bytes, which tell its usage."""

MOST_LAST_BYTES = 4 * 2**20

_log = logging.getLogger(__name__)

Tried = Callable[[Underway, Callable[[], Awaitable[None]]], Awaitable[None]]
"""Does something of ours for a request; a failure is told and costs the client nothing."""


class Reply:
    """A reply on its way from an upstream, its host, to a client.

    `passage` is that of its request, where infold manages it.
    """

    def __init__(
        self, response: httpx2.Response, passage: Underway | None, tried: Tried, *, host: str = "the upstream"
    ) -> None:
        self.host = host
        self.status = response.status_code
        self.headers = response.headers
        self.passage = passage
        self._tried = tried
        self._pieces = Pieces(response)
        self._held: list[bytes] = []
        self._hearing = None if passage is None else Hearing(self.status, self.headers, passage.exchange)

    @property
    def overflow(self) -> Overflow | None:
        """The refusal for size that it is, if it is one; known once it was opened."""
        return None if self._hearing is None else self._hearing.overflow

    async def open(self) -> None:
        """Wait until it is known whether this is a refusal; raises `httpx2.HTTPError`."""
        hearing = self._hearing
        if hearing is None:
            return
        until = get_running_loop().time() + OPENING_SECONDS if hearing.is_stream else None
        with suppress(TimeoutError):
            while hearing.is_held and (piece := await self._pieces.next(until)) is not None:
                hearing.hear(piece)
                self._held.append(piece)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes as they came, the last of them once they were taken in.

        Raises `httpx2.HTTPError` where the upstream breaks off.
        """
        hearing, has_ended = self._hearing, self._has_ended()
        if not has_ended and not self._pieces.is_over:
            for early in self._held:
                yield early
            self._held.clear()
        while not has_ended and (piece := await self._pieces.next()) is not None:
            if hearing is not None:
                hearing.hear(piece)
                has_ended = hearing.has_ended()
            if has_ended:
                self._held.append(piece)
            else:
                yield piece
        await self._take_in()
        for last in self._held:
            yield last
        while (piece := await self._pieces.next()) is not None:
            yield piece

    async def aclose(self) -> None:
        """Let the connection go."""
        await self._pieces.aclose()

    def _has_ended(self) -> bool:
        return self._hearing is not None and self._hearing.has_ended()

    async def _take_in(self) -> None:
        """Tell the session what was said, where it is told anything."""
        hearing, passage = self._hearing, self.passage
        if hearing is not None and passage is not None:
            await self._hear_out(hearing)
            await self._tried(passage, lambda: hearing.record(passage))

    async def _hear_out(self, hearing: Hearing) -> None:
        """Hear what comes after the end was told, up to the last word: the usage.

        That the upstream then breaks off is found again later.
        """
        until = get_running_loop().time() + LINGER_SECONDS
        size = 0
        with suppress(TimeoutError, httpx2.HTTPError):
            while not hearing.is_over() and size <= MOST_LAST_BYTES:
                piece = await self._pieces.next(until)
                if piece is None:
                    return
                hearing.hear(piece)
                self._held.append(piece)
                size += len(piece)


class PassedOn(StreamingResponse):
    """A reply as a client gets it."""

    def __init__(self, reply: Reply, headers: Headers) -> None:
        super().__init__(reply.pieces(), reply.status)
        self.raw_headers = list(headers)
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Send it, and let the upstream's connection go however that ends; who leaves is watched for by the relay."""
        try:
            await self.stream_response(send)
        finally:
            await self._reply.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send what comes; where the upstream breaks off, end without a last word, so that the client knows it too."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self.body_iterator:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except httpx2.HTTPError as error:
            _log.warning("%s broke off in the middle of its answer (%s)", self._reply.host, type(error).__name__)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
