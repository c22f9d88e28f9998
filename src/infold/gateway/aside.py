"""Large requests, worked on in threads: reading and measuring megabytes takes seconds, in which every other client would wait.

They have sessions of their own beside those of the event loop, on the same store, which settles who was first (B14).
"""

from asyncio import AbstractEventLoop, get_running_loop, run_coroutine_threadsafe
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from infold.api.exchanges import Exchange, Relayed
from infold.api.passage import AsyncPassage, Passage
from infold.api.passages import Passages
from infold.api.ways import AsyncSend, Send
from infold.errors import StoreError
from infold.formats.overflow import Overflow
from infold.formats.streams import ReplyBuilder
from infold.session.session import Session

LARGE_BYTES = 256 * 1024
"""From what size on a request is worked on in a thread; a smaller one takes less than a tenth of a second."""

MOST_THREADS = 32

Value = TypeVar("Value")


class Aside:
    """The threads; `close` lets them go once they are done."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="infold-aside")

    async def run(self, act: Callable[[], Value]) -> Value:
        """What an act gives, done in a thread."""
        return await get_running_loop().run_in_executor(self._threads, act)

    async def begin(self, passages: Passages, exchange: Exchange, send: AsyncSend) -> "AsidePassage":
        """The passage of a request; what it sends goes out from the event loop."""
        way = _from_thread(get_running_loop(), send)
        return AsidePassage(await self.run(lambda: passages.begin(exchange, way)), self)

    def close(self) -> None:
        """Take on nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class AsidePassage(Struct, frozen=True):
    """One large request; the same to its relay as one of the event loop."""

    passage: Passage
    aside: Aside

    @property
    def content(self) -> bytes:
        """The body to send."""
        return self.passage.content

    @property
    def exchange(self) -> Exchange:
        """The request as it came."""
        return self.passage.exchange

    @property
    def session(self) -> Session:
        """The session it belongs to."""
        return self.passage.session

    @property
    def trouble(self) -> StoreError | None:
        """Why that session is in no store, where it is in none."""
        return self.passage.trouble

    async def recovered(self, overflow: Overflow) -> "AsidePassage | None":
        """The same with a smaller body, after a refusal for size."""
        smaller = await self.aside.run(lambda: self.passage.recovered(overflow))
        return None if smaller is None else AsidePassage(smaller, self.aside)

    async def record(self, body: bytes) -> None:
        """Take in a reply that came whole."""
        await self.aside.run(lambda: self.passage.record(body))

    async def record_stream(self, heard: ReplyBuilder) -> None:
        """Take in a reply that was streamed."""
        await self.aside.run(lambda: self.passage.record_stream(heard))


Underway: TypeAlias = AsyncPassage | AsidePassage
"""A request that infold manages, wherever it is worked on."""


def _from_thread(loop: AbstractEventLoop, send: AsyncSend) -> Send:
    async def sent(body: bytes) -> Relayed:
        return await send(body)

    def sending(body: bytes) -> Relayed:
        made: Coroutine[Any, Any, Relayed] = sent(body)
        return run_coroutine_threadsafe(made, loop).result()

    return sending
