"""The pieces of a reply as they arrive; waiting for one can be given up without losing it."""

from asyncio import Task, create_task, get_running_loop, wait
from collections.abc import AsyncGenerator
from typing import cast

import httpx2
from anyio import CancelScope


class Pieces:
    """The body of one response, as raw as it comes."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._response = response
        self._coming = cast("AsyncGenerator[bytes, None]", aiter(response.stream))
        self._waiting: Task[bytes | None] | None = None
        self._broken: httpx2.HTTPError | None = None
        self.is_over = False

    async def next(self, until: float | None = None) -> bytes | None:
        """The next piece, nothing at the end; raises `httpx2.HTTPError` where it breaks off, each time.

        Raises `TimeoutError` if none came until that time of the loop; the next call waits on for the same piece.
        """
        if self._broken is not None:
            raise self._broken
        if self.is_over:
            return None
        try:
            piece = await (anext(self._coming, None) if until is None and not self._waiting else self._within(until))
        except httpx2.HTTPError as error:
            self._broken = error
            raise
        self.is_over = piece is None
        return piece

    async def aclose(self) -> None:
        """Let the connection go, also while the task that asks for it is being cancelled."""
        with CancelScope(shield=True):
            if self._waiting is not None:
                self._waiting.cancel()
                await wait({self._waiting})
                if not self._waiting.cancelled():
                    self._waiting.exception()  # it is over: nobody needs to hear how
                self._waiting = None
            await self._coming.aclose()
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
        return await anext(self._coming, None)
