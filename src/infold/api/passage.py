"""A request on its way through infold: its messages made to fit, its refusal recovered, its reply heard.

A passage is what a wrapped client and a gateway hold between a request and the end of its reply. What it does to the session is
done here; sending and receiving is the relay's own affair.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.api.exchanges import Exchange
from infold.api.ways import AsyncSend, Send, Way, going, going_async
from infold.errors import StoreError
from infold.formats.overflow import Overflow
from infold.formats.streams import ReplyBuilder
from infold.session.async_session import AsyncSession
from infold.session.session import Session


class Recoveries:
    """How often one request was recovered: for its size once, for its thinking twice.

    A fold after a refusal for size may be what thinking is refused for, and the provider may miss what is then removed.
    """

    def __init__(self) -> None:
        self._left = {False: 1, True: 2}

    def may_be(self, overflow: Overflow) -> bool:
        """Whether a request may be recovered from one more refusal of this kind; counts it."""
        self._left[overflow.bound_thinking] -= 1
        return self._left[overflow.bound_thinking] >= 0


class Passage(Struct, frozen=True):
    """One request of a sync client; `content` is the body to send, `stands_at` where its session stood when that was made.

    `trouble` is why its session is in no store, where it is in none.
    """

    session: Session
    exchange: Exchange
    send: Send
    content: bytes = b""
    stands_at: int = -1
    trouble: StoreError | None = None

    def prepared(self) -> "Passage":
        """The same with a body that fits; raises `WindowExceeded` where none can."""
        asked = self.exchange.asked
        with going(Way(self.exchange, self.send, self.session)):
            ready = self.session.prepare(
                asked.items, system=asked.system, tools=asked.tools, output_tokens=asked.output_tokens
            )
        content = self.exchange.with_messages(ready.messages)
        return replace(self, content=content, stands_at=self.session.log.next_sequence)

    def recovered(self, overflow: Overflow) -> "Passage | None":
        """The same with a smaller body, after a refusal for size.

        It is prepared once more, for another request may have taken the session on meanwhile.
        """
        with going(Way(self.exchange, self.send, self.session)):
            smaller = self.session.recover(overflow)
        return None if smaller is None else self.prepared()

    def record(self, body: bytes) -> None:
        """Take in a reply that came whole."""
        self._take_in(msgspec.json.decode(body))

    def record_stream(self, heard: ReplyBuilder) -> None:
        """Take in a reply that was streamed; one that broke off is the client's to ask for again."""
        reply = heard.reply() if heard.is_finished else None
        if reply is not None:
            self._take_in(reply)

    def _take_in(self, reply: object) -> None:
        """A reply to what is no longer the session's newest request is not heard; the client brings it if it counts."""
        if self.session.log.next_sequence == self.stands_at:
            self.session.record(reply)


class AsyncPassage(Struct, frozen=True):
    """One request of an async client."""

    session: AsyncSession
    exchange: Exchange
    send: AsyncSend
    content: bytes = b""
    stands_at: int = -1
    trouble: StoreError | None = None

    async def prepared(self) -> "AsyncPassage":
        """The same with a body that fits; raises `WindowExceeded` where none can."""
        asked = self.exchange.asked
        with going_async(Way(self.exchange, self.send, self.session)):
            ready = await self.session.prepare(
                asked.items, system=asked.system, tools=asked.tools, output_tokens=asked.output_tokens
            )
        content = self.exchange.with_messages(ready.messages)
        return replace(self, content=content, stands_at=self.session.log.next_sequence)

    async def recovered(self, overflow: Overflow) -> "AsyncPassage | None":
        """The same with a smaller body, after a refusal for size."""
        with going_async(Way(self.exchange, self.send, self.session)):
            smaller = await self.session.recover(overflow)
        return None if smaller is None else await self.prepared()

    async def record(self, body: bytes) -> None:
        """Take in a reply that came whole."""
        await self._take_in(msgspec.json.decode(body))

    async def record_stream(self, heard: ReplyBuilder) -> None:
        """Take in a reply that was streamed; one that broke off is the client's to ask for again."""
        reply = heard.reply() if heard.is_finished else None
        if reply is not None:
            await self._take_in(reply)

    async def _take_in(self, reply: object) -> None:
        if self.session.log.next_sequence == self.stands_at:
            await self.session.record(reply)
