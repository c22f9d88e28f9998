"""The pieces of a reply, one after the other."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from infold.gateway.relay import ResponseChunks


class Body(httpx2.AsyncByteStream):
    """A body whose pieces are let through one by one; `None` breaks it off."""

    def __init__(self, *pieces: bytes | None) -> None:
        self.gate = asyncio.Semaphore(0)
        self.is_closed = False
        self._given = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._given:
            await self.gate.acquire()
            if piece is None:
                raise httpx2.ReadError("gone")
            yield piece

    async def aclose(self) -> None:
        """Note it."""
        self.is_closed = True


def later() -> float:
    """A time of the loop that is over at once."""
    return asyncio.get_running_loop().time()


def test_pieces_come_as_they_are() -> None:
    """One after the other, then nothing, for ever."""

    async def read() -> list[bytes | None]:
        body = Body(b"a", b"", b"b")
        body.gate = asyncio.Semaphore(9)
        pieces = ResponseChunks(httpx2.Response(200, stream=body))
        return [await pieces.next() for _ in range(5)]

    assert asyncio.run(read()) == [b"a", b"", b"b", None, None]


def test_waiting_can_be_given_up() -> None:
    """A piece that did not come in time is there the next time, whether or not that waits for ever."""

    async def read() -> list[bytes | None]:
        body = Body(b"a", b"b")
        pieces = ResponseChunks(httpx2.Response(200, stream=body))
        with pytest.raises(TimeoutError):
            await pieces.next(later())
        body.gate.release()
        first = await pieces.next(later() + 5)
        with pytest.raises(TimeoutError):
            await pieces.next(later())
        body.gate.release()
        return [first, await pieces.next(), await pieces.next(later() + 5)]

    assert asyncio.run(read()) == [b"a", b"b", None]


def test_a_break_is_told_each_time() -> None:
    """Whoever asks again is not told that all is well."""

    async def read() -> None:
        body = Body(None)
        body.gate.release()
        pieces = ResponseChunks(httpx2.Response(200, stream=body))
        for until in (later() + 5, None, None):
            with pytest.raises(httpx2.ReadError):
                await pieces.next(until)

    asyncio.run(read())


@pytest.mark.parametrize("piece", [b"a", None])
def test_closing_ends_a_wait(piece: bytes | None) -> None:
    """The connection is let go also while a piece is waited for, or came too late."""

    async def close(*, comes: bool) -> bool:
        body = Body(piece)
        pieces = ResponseChunks(httpx2.Response(200, stream=body))
        with pytest.raises(TimeoutError):
            await pieces.next(later())
        if comes:
            body.gate.release()
            await asyncio.sleep(0.01)
        await pieces.aclose()
        await pieces.aclose()
        return body.is_closed

    assert asyncio.run(close(comes=False))
    assert asyncio.run(close(comes=True))
