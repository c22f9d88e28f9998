"""A request on its way through infold: its session found, its messages made to fit, its refusal recovered, its reply heard.

A passage is what a wrapped client and a gateway hold between a request and the end of its reply. What it does to the session is
done here; sending and receiving is the relay's own affair.
"""

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.api.async_session import AsyncSession
from infold.api.exchanges import (
    LEAST_SUMMARISER_TOKENS,
    Exchange,
    Relayed,
    encoded,
    settings_for,
    told_by,
    with_own_model,
)
from infold.api.outages import Outage
from infold.api.session import Session
from infold.api.session_settings import Place, SessionSettings
from infold.api.sessions import MOST_OPEN, OpenSessions, found
from infold.core.messages import SessionId
from infold.core.summary import SummaryRequest
from infold.engine.effects import Told
from infold.errors import HistoryChanged, ModelError, StoreError
from infold.formats.overflow import Overflow
from infold.formats.requests import Asked, summary_body
from infold.formats.streams import ReplyBuilder
from infold.formats.wire import OPENAI_CHAT
from infold.ports import FullStore, SessionKey
from infold.wiring import open_store, summariser_for

__all__ = ["AsyncPassage", "AsyncPassages", "AsyncSend", "Passage", "Passages", "Send"]

Send = Callable[[bytes], Relayed]
"""Sends a body to where the request went, with its credentials, and gives the whole answer."""

AsyncSend = Callable[[bytes], Awaitable[Relayed]]

MOST_TRIES = 24
"""How often a session is looked for: while it is prepared, another history may take its id, and of those that race for one
each round serves one; more that begin alike at the same moment are not to be expected."""

UNNAMED = "unnamed"
"""What the session of a history is called that is too young to have one; it is forgotten with the request."""

Sender = TypeVar("Sender")
Kept = TypeVar("Kept", Session, AsyncSession)


# A session's own model, asked for summaries by the way of the very request that needs one.


class _Way(Struct, Generic[Sender, Kept], frozen=True):
    """Where a request goes, and how to send something there."""

    exchange: Exchange
    send: Sender
    session: Kept

    def body(self, request: SummaryRequest) -> bytes:
        """What to send for a summary; raises `ModelError` where the model turned out to hold too little for one."""
        learned = self.session.log.limits.tokens
        if learned is not None and learned < LEAST_SUMMARISER_TOKENS:
            raise ModelError(self.exchange.asked.model, f"takes no more than {learned:,} tokens, too few for a record")
        shown = self.session.encode(request.messages[:-1]) if request.shares_prefix else []
        return encoded(summary_body(self.exchange.asked.wire, self.exchange.body, request, shown))


_way: ContextVar[_Way[Send, Session] | None] = ContextVar("infold_way", default=None)
_async_way: ContextVar[_Way[AsyncSend, AsyncSession] | None] = ContextVar("infold_async_way", default=None)
"""The request that is being prepared; threads and tasks that a session begins for it inherit it."""

Value = TypeVar("Value")


@contextmanager
def _going(variable: ContextVar[Value | None], way: Value) -> Iterator[None]:
    token = variable.set(way)
    try:
        yield
    finally:
        variable.reset(token)


def _known(way: Value | None) -> Value:
    if way is None:
        raise ModelError("summariser", "no request is under way that tells where to ask")
    return way


def _ask(request: SummaryRequest) -> Told:
    """A summary by the model that the request goes to."""
    way = _known(_way.get())
    return told_by(way.exchange.asked, way.send(way.body(request)))


async def _ask_async(request: SummaryRequest) -> Told:
    way = _known(_async_way.get())
    return told_by(way.exchange.asked, await way.send(way.body(request)))


# Passages.


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
        with _going(_way, _Way(self.exchange, self.send, self.session)):
            ready = self.session.prepare(
                asked.items, system=asked.system, tools=asked.tools, output_tokens=asked.output_tokens
            )
        content = self.exchange.with_messages(ready.messages)
        return replace(self, content=content, stands_at=self.session.log.next_sequence)

    def recovered(self, overflow: Overflow) -> "Passage | None":
        """The same with a smaller body, after a refusal for size.

        It is prepared once more, for another request may have taken the session on meanwhile.
        """
        with _going(_way, _Way(self.exchange, self.send, self.session)):
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
        with _going(_async_way, _Way(self.exchange, self.send, self.session)):
            ready = await self.session.prepare(
                asked.items, system=asked.system, tools=asked.tools, output_tokens=asked.output_tokens
            )
        content = self.exchange.with_messages(ready.messages)
        return replace(self, content=content, stands_at=self.session.log.next_sequence)

    async def recovered(self, overflow: Overflow) -> "AsyncPassage | None":
        """The same with a smaller body, after a refusal for size."""
        with _going(_async_way, _Way(self.exchange, self.send, self.session)):
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


# The way of each request to its session.


class Passages:
    """The sessions of a sync client; raises `UsageError` for settings under which none could be kept."""

    def __init__(
        self,
        store: FullStore,
        settings: SessionSettings,
        tenant: str = "",
        *,
        most_open: int = MOST_OPEN,
        outage: Outage | None = None,
    ) -> None:
        self._store = store
        self._settings = _checked(settings)
        self._tenant = tenant
        self._outage = outage or Outage()
        self._sessions: OpenSessions[Session] = OpenSessions(most_open)
        self._unstored: OpenSessions[Session] = OpenSessions(most_open)

    def begin(self, exchange: Exchange, send: Send) -> Passage:
        """Find the session of a request and make it fit; raises `WindowExceeded` where that cannot be.

        While the store fails, the session is another one, in memory alone: a full disk is no reason to send what is too large.
        """
        trouble, begun = self._outage.error, self._outage.begin()
        if trouble is None:
            try:
                return self._begun(exchange, send, self._found)
            except StoreError as error:
                trouble = self._outage.note(error, begun)
        return replace(self._begun(exchange, send, self._found_unstored), trouble=trouble)

    def let_go(self, passage: Passage) -> None:
        """Read the session anew for its next request: after a recovery, that one may be recovered too, whatever comes of this."""
        self._sessions.let_go(passage.session)

    def _begun(self, exchange: Exchange, send: Send, find: Callable[[Exchange], Session]) -> Passage:
        for _ in range(MOST_TRIES - 1):
            try:
                return Passage(find(exchange), exchange, send).prepared()
            except HistoryChanged:
                continue
        return Passage(find(exchange), exchange, send).prepared()

    def _found(self, exchange: Exchange) -> Session:
        settings = with_own_model(settings_for(self._settings, exchange.asked), _ask)
        name = exchange.name
        if name is None:
            return Session(open_store("memory"), UNNAMED, replace(settings, background=False))
        return found(exchange, name, lambda session_id: self._opened(session_id, settings))

    def _opened(self, session_id: str, settings: SessionSettings) -> Session:
        """A session for one model, window and format at a time; one that changes them is read anew."""
        key = (session_id, settings.model, settings.window, settings.format)
        return self._sessions.get(key, lambda: Session(self._store, session_id, settings, tenant=self._tenant))

    def _found_unstored(self, exchange: Exchange) -> Session:
        settings = _without_store(self._settings, exchange.asked)

        def opened(session_id: str) -> Session:
            key = (session_id, settings.model, settings.window, settings.format)
            return self._unstored.get(key, lambda: Session(open_store("memory"), session_id, settings))

        return found(exchange, exchange.name or UNNAMED, opened)


class AsyncPassages:
    """The sessions of an async client or of a gateway's tenant; their store is read in a thread."""

    def __init__(
        self,
        store: FullStore,
        settings: SessionSettings,
        tenant: str = "",
        *,
        most_open: int = MOST_OPEN,
        outage: Outage | None = None,
    ) -> None:
        self._store = store
        self._settings = _checked(settings)
        self._tenant = tenant
        self._outage = outage or Outage()
        self._sessions: OpenSessions[AsyncSession] = OpenSessions(most_open)
        self._unstored: OpenSessions[AsyncSession] = OpenSessions(most_open)

    async def begin(self, exchange: Exchange, send: AsyncSend) -> AsyncPassage:
        """Find the session of a request and make it fit; raises `WindowExceeded` where that cannot be.

        While the store fails, the session is another one, in memory alone.
        """
        trouble, begun = self._outage.error, self._outage.begin()
        if trouble is None:
            try:
                return await self._begun(exchange, send, self._session)
            except StoreError as error:
                trouble = self._outage.note(error, begun)
        return replace(await self._begun(exchange, send, self._unstored_session), trouble=trouble)

    def let_go(self, passage: AsyncPassage) -> None:
        """Read the session anew for its next request: after a recovery, that one may be recovered too, whatever comes of this."""
        self._sessions.let_go(passage.session)

    async def close(self) -> None:
        """Give up the summaries that are being written in the background."""
        for session in self._sessions.all():
            await session.close()

    async def _begun(
        self, exchange: Exchange, send: AsyncSend, find: Callable[[Exchange], Awaitable[AsyncSession]]
    ) -> AsyncPassage:
        for _ in range(MOST_TRIES - 1):
            try:
                return await AsyncPassage(await find(exchange), exchange, send).prepared()
            except HistoryChanged:
                continue
        return await AsyncPassage(await find(exchange), exchange, send).prepared()

    async def _session(self, exchange: Exchange) -> AsyncSession:
        """The session of a request: mostly one that is open; else its store is read, in a thread."""
        settings = with_own_model(settings_for(self._settings, exchange.asked), _ask_async)
        try:
            return self._found(exchange, settings, _not_open)
        except LookupError:
            return await to_thread(self._found, exchange, settings, _async_session)

    def _found(self, exchange: Exchange, settings: SessionSettings, make: Callable[..., AsyncSession]) -> AsyncSession:
        """The session, one for each model, window and format that it has had; those that are not open are made."""
        if exchange.name is None:
            key = SessionKey("", SessionId(UNNAMED))
            return _async_session(open_store("memory"), key, replace(settings, background=False))

        def opened(session_id: str) -> AsyncSession:
            key = SessionKey(self._tenant, SessionId(session_id))
            told_apart = (session_id, settings.model, settings.window, settings.format)
            return self._sessions.get(told_apart, lambda: make(self._store, key, settings))

        return found(exchange, exchange.name, opened)

    async def _unstored_session(self, exchange: Exchange) -> AsyncSession:
        settings = _without_store(self._settings, exchange.asked)

        def opened(session_id: str) -> AsyncSession:
            key = SessionKey("", SessionId(session_id))
            told_apart = (session_id, settings.model, settings.window, settings.format)
            return self._unstored.get(told_apart, lambda: _async_session(open_store("memory"), key, settings))

        return found(exchange, exchange.name or UNNAMED, opened)


def _not_open(_: FullStore, key: SessionKey, __: SessionSettings) -> AsyncSession:
    raise LookupError(key.session_id)


def _checked(settings: SessionSettings) -> SessionSettings:
    """Settings that make sense, their summariser ready to be asked; else `UsageError` is raised now, not at each request."""
    _ = settings_for(settings, Asked(OPENAI_CHAT, ())).terms
    return replace(settings, summariser=summariser_for(settings.summariser))


def _without_store(settings: SessionSettings, asked: Asked) -> SessionSettings:
    """Settings for a session that nobody keeps: code writes its checkpoints, for no model is to be paid for what may be lost."""
    return replace(settings_for(settings, asked), summariser=None, background=False)


def _async_session(store: FullStore, key: SessionKey, settings: SessionSettings) -> AsyncSession:
    place = Place(store, key, settings)
    return AsyncSession(place, settings, place.load())
