"""The sessions of a client, wrapped or behind a gateway: each request's is found, and opened where it is not.

While the store fails, requests go through sessions in memory alone, so that they fit all the same.
"""

from asyncio import to_thread
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from infold.api.async_session import AsyncSession
from infold.api.exchanges import Exchange, settings_for, with_own_model
from infold.api.outages import Outage
from infold.api.passage import AsyncPassage, Passage
from infold.api.session import Session
from infold.api.session_settings import Place, SessionSettings
from infold.api.sessions import MOST_OPEN, OpenSessions, found
from infold.api.ways import AsyncSend, Send, ask, ask_async
from infold.core.messages import SessionId
from infold.engine.finding import is_compacted
from infold.errors import HistoryChanged, StoreError
from infold.formats.registry import OPENAI_CHAT
from infold.formats.requests import ProviderRequest
from infold.ports import FullStore, SessionKey
from infold.wiring import open_store, summariser_for

MOST_TRIES = 24
"""How often a session is looked for: while it is prepared, another history may take its id, and of those that race for one
each round serves one; more that begin alike at the same moment are not to be expected."""

UNNAMED = "unnamed"
"""What the session of a history is called that is too young to have one; it is forgotten with the request."""


Kept = TypeVar("Kept", Session, AsyncSession)


class _Passages(Generic[Kept]):
    """What a client's sessions are kept by; `_unstored` are those in memory alone, while the store fails."""

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
        self._sessions: OpenSessions[Kept] = OpenSessions(most_open)
        self._unstored: OpenSessions[Kept] = OpenSessions(most_open)
        self._agents: OrderedDict[str, WeakSet[Kept]] = OrderedDict()
        self._most_open = most_open
        self._lock = Lock()

    def _note_compaction(self, exchange: Exchange, session: Kept) -> None:
        """Cancel what is being summarised of an agent's histories once it has compacted one itself: a new one came in its place.

        Which of them it replaces is not told; one that goes on pays for a summary of its own when it needs one.
        """
        if not exchange.agent:
            return
        with self._lock:
            known = self._agents.setdefault(exchange.agent, WeakSet())
            self._agents.move_to_end(exchange.agent)
            while len(self._agents) > self._most_open:
                self._agents.popitem(last=False)
            others = [other for other in known if other is not session]
            known.add(session)
        if session.log.next_sequence == 0 and is_compacted(exchange.brought):
            for other in others:
                other.cancel_ahead()


class Passages(_Passages[Session]):
    """The sessions of a sync client; raises `UsageError` for settings under which none could be kept."""

    def begin(self, exchange: Exchange, send: Send) -> Passage:
        """Find the session of a request and make it fit; raises `WindowExceeded` where that cannot be.

        While the store fails, the session is another one, in memory alone: a full disk is no reason to send what is too large.
        That of a history without a name is in none anyway.
        """
        if exchange.name is None:
            return self._begun(exchange, send, self._found)
        trouble = self._outage.error
        if trouble is None:
            begun = self._outage.begin()
            try:
                passage = self._begun(exchange, send, self._found)
            except StoreError as error:
                trouble = self._outage.note(error, begun)
            else:
                self._outage.end()
                self._unstored.let_go_named(exchange.name)
                return passage
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
        settings = with_own_model(settings_for(self._settings, exchange.asked), ask)
        name = exchange.name
        if name is None:
            return Session(open_store("memory"), UNNAMED, replace(settings, background=False))
        session = found(exchange, name, lambda session_id: self._opened(session_id, settings))
        self._note_compaction(exchange, session)
        return session

    def _opened(self, session_id: str, settings: SessionSettings) -> Session:
        key = _told_apart(session_id, settings)
        return self._sessions.get(key, lambda: Session(self._store, session_id, settings, tenant=self._tenant))

    def _found_unstored(self, exchange: Exchange) -> Session:
        settings = _without_store(self._settings, exchange.asked)

        def opened(session_id: str) -> Session:
            key = _told_apart(session_id, settings)
            return self._unstored.get(key, lambda: Session(open_store("memory"), session_id, settings))

        return found(exchange, exchange.name or UNNAMED, opened)


class AsyncPassages(_Passages[AsyncSession]):
    """The sessions of an async client or of a gateway's tenant; their store is read in a thread."""

    async def begin(self, exchange: Exchange, send: AsyncSend) -> AsyncPassage:
        """Find the session of a request and make it fit; raises `WindowExceeded` where that cannot be.

        While the store fails, the session is another one, in memory alone.
        """
        if exchange.name is None:
            return await self._begun(exchange, send, self._session)
        trouble = self._outage.error
        if trouble is None:
            begun = self._outage.begin()
            try:
                passage = await self._begun(exchange, send, self._session)
            except StoreError as error:
                trouble = self._outage.note(error, begun)
            else:
                self._outage.end()
                self._unstored.let_go_named(exchange.name)
                return passage
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
        settings = with_own_model(settings_for(self._settings, exchange.asked), ask_async)
        try:
            session = self._found(exchange, settings, _not_open)
        except LookupError:
            session = await to_thread(self._found, exchange, settings, _async_session)
        self._note_compaction(exchange, session)
        return session

    def _found(self, exchange: Exchange, settings: SessionSettings, make: Callable[..., AsyncSession]) -> AsyncSession:
        """The session, made where it is not open."""
        if exchange.name is None:
            key = SessionKey("", SessionId(UNNAMED))
            return _async_session(open_store("memory"), key, replace(settings, background=False))

        def opened(session_id: str) -> AsyncSession:
            key = SessionKey(self._tenant, SessionId(session_id))
            return self._sessions.get(_told_apart(session_id, settings), lambda: make(self._store, key, settings))

        return found(exchange, exchange.name, opened)

    async def _unstored_session(self, exchange: Exchange) -> AsyncSession:
        settings = _without_store(self._settings, exchange.asked)

        def opened(session_id: str) -> AsyncSession:
            key = SessionKey("", SessionId(session_id))
            apart = _told_apart(session_id, settings)
            return self._unstored.get(apart, lambda: _async_session(open_store("memory"), key, settings))

        return found(exchange, exchange.name or UNNAMED, opened)


def _told_apart(session_id: str, settings: SessionSettings) -> Hashable:
    """What an open session is known by: one for each model, window and format that it has had, and way to be refused."""
    return session_id, settings.model, settings.window, settings.format, settings.bound_thinking, settings.recovers


def _not_open(_: FullStore, key: SessionKey, __: SessionSettings) -> AsyncSession:
    raise LookupError(key.session_id)


def _checked(settings: SessionSettings) -> SessionSettings:
    """Settings that make sense, their summariser ready to be asked; else `UsageError` is raised now, not at each request."""
    _ = settings_for(settings, ProviderRequest(OPENAI_CHAT, ())).terms
    return replace(settings, summariser=summariser_for(settings.summariser))


def _without_store(settings: SessionSettings, asked: ProviderRequest) -> SessionSettings:
    """Settings for a session that nobody keeps: code writes its checkpoints, for no model is to be paid for what may be lost."""
    return replace(settings_for(settings, asked), summariser=None, background=False)


def _async_session(store: FullStore, key: SessionKey, settings: SessionSettings) -> AsyncSession:
    place = Place(store, key, settings)
    return AsyncSession(place, settings, place.load())
