"""A session's own model, asked for summaries by the way of the very request that needs one.

A wrapped client and a gateway know no model of their own: whoever the request is for is asked, with its credentials, over the
connection it goes by.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from msgspec import Struct

from infold.api.exchanges import LEAST_SUMMARISER_TOKENS, Exchange, Relayed, encoded, told_by
from infold.core.judge import Told
from infold.core.summary_request import SummaryRequest
from infold.errors import ModelError
from infold.formats.requests import summary_body
from infold.session.async_session import AsyncSession
from infold.session.session import Session

Send = Callable[[bytes], Relayed]
"""Sends a body to where the request went, with its credentials, and gives the whole answer."""

AsyncSend = Callable[[bytes], Awaitable[Relayed]]

Sender = TypeVar("Sender")
Kept = TypeVar("Kept", Session, AsyncSession)


class Way(Struct, Generic[Sender, Kept], frozen=True):
    """Where a request goes, and how to send something there."""

    exchange: Exchange
    send: Sender
    session: Kept

    def body(self, request: SummaryRequest) -> bytes:
        """What to send for a summary; raises `ModelError` where the model turned out to hold too little for one."""
        learned = self.session.log.limits.tokens
        if learned is not None and learned < LEAST_SUMMARISER_TOKENS:
            raise ModelError(self.exchange.asked.model, f"takes no more than {learned:,} tokens, too few for a record")
        shown = self.session.encode(request.messages[:-1]) if request.messages[1:] else []
        return encoded(summary_body(self.exchange.asked.wire, self.exchange.body, request, shown))


_way: ContextVar[Way[Send, Session] | None] = ContextVar("infold_way", default=None)
_async_way: ContextVar[Way[AsyncSend, AsyncSession] | None] = ContextVar("infold_async_way", default=None)
"""The request that is being prepared; threads and tasks that a session begins for it inherit it."""

Value = TypeVar("Value")


def going(way: Way[Send, Session]) -> AbstractContextManager[None]:
    """While the block runs, summaries are asked for by this way."""
    return _set(_way, way)


def going_async(way: Way[AsyncSend, AsyncSession]) -> AbstractContextManager[None]:
    """The same for an async session."""
    return _set(_async_way, way)


@contextmanager
def _set(variable: ContextVar[Value | None], way: Value) -> Iterator[None]:
    token = variable.set(way)
    try:
        yield
    finally:
        variable.reset(token)


def _known(way: Value | None) -> Value:
    if way is None:
        raise ModelError("summariser", "no request is under way that tells where to ask")
    return way


def ask(request: SummaryRequest) -> Told:
    """A summary by the model that the request goes to."""
    way = _known(_way.get())
    return told_by(way.exchange.asked, way.send(way.body(request)))


async def ask_async(request: SummaryRequest) -> Told:
    """The same, awaited."""
    way = _known(_async_way.get())
    return told_by(way.exchange.asked, await way.send(way.body(request)))
