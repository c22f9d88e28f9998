"""A request on its way through infold: its session found, its messages made to fit, its refusal recovered, its reply heard.

A passage is what a wrapped client and a gateway hold between a request and the end of its reply. What it does to the session is
done here; sending and receiving is the relay's own affair.
"""

from asyncio import to_thread
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.api.async_session import AsyncSession
from infold.api.exchanges import Exchange, Relayed, can_summarise, encoded, settings_for, told_by
from infold.api.session import Session
from infold.api.session_settings import Place, SessionSettings
from infold.api.sessions import OpenSessions, found
from infold.core.messages import SessionId
from infold.core.summary import SummaryRequest
from infold.engine.effects import Told
from infold.errors import ModelError
from infold.formats.overflow import recognise
from infold.formats.requests import summary_body
from infold.formats.streams import ReplyBuilder
from infold.ports import FullStore, SessionKey

__all__ = ["AsyncPassage", "AsyncPassages", "AsyncSend", "Passage", "Passages", "Send"]

Send = Callable[[bytes], Relayed]
"""Sends a body to where the request went, with its credentials, and gives the whole answer."""

AsyncSend = Callable[[bytes], Awaitable[Relayed]]

Sender = TypeVar("Sender")
Kept = TypeVar("Kept", Session, AsyncSession)


class OwnModel(Generic[Sender, Kept]):
    """Knows how to ask the model that a session's requests go to: by the way the newest of them went."""

    def __init__(self) -> None:
        self.session: Kept | None = None
        self.exchange: Exchange | None = None
        self.send: Sender | None = None

    def asked(self, request: SummaryRequest) -> "_Asking[Sender]":
        """What to send for a summary, and how; raises `ModelError` before the first request."""
        exchange, send, session = self.exchange, self.send, self.session
        if exchange is None or send is None or session is None:
            raise ModelError("summariser", "no request has told yet where to ask")
        shown = session.encode(request.messages[:-1]) if request.shares_prefix else []
        return _Asking(exchange, send, encoded(summary_body(exchange.asked.wire, exchange.body, request, shown)))


class _Asking(Struct, Generic[Sender], frozen=True):
    exchange: Exchange
    send: Sender
    body: bytes


class WaitingModel(OwnModel[Send, Session]):
    """Asks it, and waits."""

    def __call__(self, request: SummaryRequest) -> Told:
        """The summary."""
        asking = self.asked(request)
        return told_by(asking.exchange.asked, asking.send(asking.body))


class AwaitedModel(OwnModel[AsyncSend, AsyncSession]):
    """Asks it, and awaits."""

    async def __call__(self, request: SummaryRequest) -> Told:
        """The summary."""
        asking = self.asked(request)
        return told_by(asking.exchange.asked, await asking.send(asking.body))


class Passage(Struct, frozen=True):
    """One request of a sync client."""

    session: Session
    exchange: Exchange

    def prepare(self) -> bytes:
        """The body to send: it fits, or `WindowExceeded` is raised."""
        asked = self.exchange.asked
        ready = self.session.prepare(
            asked.items, system=asked.system, tools=asked.tools, output_tokens=asked.output_tokens
        )
        return self.exchange.with_messages(ready.messages)

    def recover(self, relayed: Relayed) -> bytes | None:
        """The body to send once more after a refusal for size; none if it was refused for something else."""
        overflow = recognise(relayed.status, relayed.body)
        ready = None if overflow is None else self.session.recover(overflow)
        return None if ready is None else self.exchange.with_messages(ready.messages)

    def record(self, body: bytes) -> None:
        """Take in a reply that came whole."""
        self.session.record(msgspec.json.decode(body))

    def record_stream(self, heard: ReplyBuilder) -> None:
        """Take in a reply that was streamed; one that broke off is the client's to ask for again."""
        reply = heard.reply() if heard.is_finished else None
        if reply is not None:
            self.session.record(reply)


class AsyncPassage(Struct, frozen=True):
    """One request of an async client."""

    session: AsyncSession
    exchange: Exchange

    async def prepare(self) -> bytes:
        """The body to send: it fits, or `WindowExceeded` is raised."""
        asked = self.exchange.asked
        ready = await self.session.prepare(
            asked.items, system=asked.system, tools=asked.tools, output_tokens=asked.output_tokens
        )
        return self.exchange.with_messages(ready.messages)

    async def recover(self, relayed: Relayed) -> bytes | None:
        """The body to send once more after a refusal for size; none if it was refused for something else."""
        overflow = recognise(relayed.status, relayed.body)
        ready = None if overflow is None else await self.session.recover(overflow)
        return None if ready is None else self.exchange.with_messages(ready.messages)

    async def record(self, body: bytes) -> None:
        """Take in a reply that came whole."""
        await self.session.record(msgspec.json.decode(body))

    async def record_stream(self, heard: ReplyBuilder) -> None:
        """Take in a reply that was streamed; one that broke off is the client's to ask for again."""
        reply = heard.reply() if heard.is_finished else None
        if reply is not None:
            await self.session.record(reply)


class Passages:
    """The sessions of a sync client, and the way of each request to its own."""

    def __init__(self, store: FullStore, settings: SessionSettings, tenant: str = "") -> None:
        self._store = store
        self._settings = settings
        self._tenant = tenant
        self._sessions: OpenSessions[Session] = OpenSessions()
        self._models: dict[str, WaitingModel] = {}

    def begin(self, exchange: Exchange, send: Send) -> Passage:
        """Find the session of a request."""
        settings = settings_for(self._settings, exchange.asked)
        session = found(
            exchange, lambda session_id: self._sessions.get(session_id, lambda name: self._open(name, settings))
        )
        model = self._models.get(session.log.session_id)
        if model is not None:
            model.session, model.exchange, model.send = session, exchange, send
        return Passage(session, exchange)

    def _open(self, session_id: str, settings: SessionSettings) -> Session:
        if settings.summariser is None and can_summarise(settings):
            model = self._models[session_id] = WaitingModel()
            settings = replace(settings, summariser=model, shares_prefix=True)
        return Session(self._store, session_id, settings, tenant=self._tenant)


class AsyncPassages:
    """The sessions of an async client or of a gateway's tenant, and the way of each request to its own."""

    def __init__(self, store: FullStore, settings: SessionSettings, tenant: str = "") -> None:
        self._store = store
        self._settings = settings
        self._tenant = tenant
        self._sessions: OpenSessions[AsyncSession] = OpenSessions()
        self._models: dict[str, AwaitedModel] = {}

    async def begin(self, exchange: Exchange, send: AsyncSend) -> AsyncPassage:
        """Find the session of a request; the store is read in a thread."""
        session = await to_thread(self._found, exchange)
        model = self._models.get(session.log.session_id)
        if model is not None:
            model.session, model.exchange, model.send = session, exchange, send
        return AsyncPassage(session, exchange)

    def _found(self, exchange: Exchange) -> AsyncSession:
        settings = settings_for(self._settings, exchange.asked)
        return found(
            exchange, lambda session_id: self._sessions.get(session_id, lambda name: self._open(name, settings))
        )

    def _open(self, session_id: str, settings: SessionSettings) -> AsyncSession:
        if settings.summariser is None and can_summarise(settings):
            model = self._models[session_id] = AwaitedModel()
            settings = replace(settings, summariser=model, shares_prefix=True)
        place = Place(self._store, SessionKey(self._tenant, SessionId(session_id)), settings)
        return AsyncSession(place, settings, place.load())
