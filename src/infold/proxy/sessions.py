"""The open sessions of a client: find the session of each request, open it if needed, and prepare the request.

While the store fails, requests are prepared with sessions in memory, so that they still fit.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from time import monotonic
from typing import TypeAlias
from weakref import WeakSet

from msgspec.structs import replace

from infold.catalogue import lookup
from infold.core.budget import Window
from infold.errors import HistoryChanged, StoreBroken, StoreError
from infold.formats.registry import OPENAI_CHAT
from infold.formats.requests import ProviderRequest
from infold.ports import FullStore
from infold.proxy.managed_request import LEAST_SUMMARISER_TOKENS, ManagedRequest, Send, summarise_upstream
from infold.proxy.match import IncomingHistory, Match, fork_ids, is_fork_of, is_prefix, match_history
from infold.proxy.request import ParsedRequest
from infold.proxy.threads import LoopCalls
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.wiring import open_store, summariser_for

MOST_OPEN = 256
"""Sessions that are kept open; the least recently used one is dropped, and read from its store when it is needed again."""

MOST_TRIES = 4
"""How often a session is looked for: while a request is prepared, another process may store another history under its id."""

UNNAMED = "unnamed"
"""The id of a session that is too young to have a name; it is forgotten with its request."""

UNKNOWN_MODEL = "unknown"
"""The model of a request that names none, as some local servers allow."""

SLOW_SECONDS = 1.0
"""A store failure that takes less delays requests little, and may concern one session only."""

REST_SECONDS = 15.0
"""How long a store is left alone after a slow failure; one request in this time tries it."""


_OpenSession: TypeAlias = Callable[[str], Session]


class StoreCircuitBreaker:
    """After a slow store failure, skip the store for a while; the sessions of several clients may share one.

    A database that cannot be reached, or a file that another process locks, makes each request wait many seconds before it fails.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._error: StoreError | None = None
        self._until = 0.0

    @property
    def error(self) -> StoreError | None:
        """Why to skip the store now; `None` if it may be used."""
        return self._error if self._clock() < self._until else None

    def begin(self) -> float:
        """Return the time at which a request begins to use the store; after a failure, let only this one try it."""
        now = self._clock()
        if self._error is not None:
            self._until = now + REST_SECONDS
        return now

    def note_success(self) -> None:
        """Use the store again."""
        self._error = None

    def note_failure(self, error: StoreError, began: float) -> None:
        """Skip the store if a request that began then failed slowly.

        Other errors than `StoreBroken` do not count: a request that lost a conflict may have waited for a summary.
        """
        now = self._clock()
        if isinstance(error, StoreBroken) and now - began >= SLOW_SECONDS:
            self._error, self._until = error, now + REST_SECONDS


class OpenSessions:
    """Open sessions by key, the least recently used first; may be used from any thread.

    One that is dropped may still be in use: what it writes reaches the store, where the next to open it finds it.
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: OrderedDict[Hashable, Session] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, open_session: Callable[[], Session]) -> Session:
        """Return the session of that key, opened if needed; other threads do not wait while it is read."""
        with self._lock:
            session = self._open.get(key)
        opened = open_session() if session is None else session
        with self._lock:
            session = self._open.setdefault(key, opened)
            self._open.move_to_end(key)
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return session

    def drop(self, session: Session) -> None:
        """Drop this session."""
        self._drop_if(lambda one: one is session)

    def drop_named(self, name: str) -> None:
        """Drop all sessions that a history of that name may be in."""
        self._drop_if(lambda one: is_fork_of(one.log.session_id, name))

    def all(self) -> tuple[Session, ...]:
        """Return the sessions that are open."""
        with self._lock:
            return tuple(self._open.values())

    def _drop_if(self, condition: Callable[[Session], bool]) -> None:
        with self._lock:
            for key in [key for key, one in self._open.items() if condition(one)]:
                del self._open[key]


class SessionPool:
    """The sessions of a wrapped client, or of a gateway's tenant; may be used from any thread, and blocks.

    Raise `UsageError` for settings under which no session could be opened.
    """

    def __init__(
        self,
        store: FullStore,
        settings: SessionSettings,
        tenant: str = "",
        *,
        most_open: int = MOST_OPEN,
        breaker: StoreCircuitBreaker | None = None,
    ) -> None:
        settings_for(settings, ProviderRequest(OPENAI_CHAT, ())).resolve()  # raises now rather than at each request
        self.summary_seconds = settings.summary_seconds
        self._store = store
        self._settings = replace(settings, summariser=summariser_for(settings.summariser))
        self._tenant = tenant
        self._breaker = breaker or StoreCircuitBreaker()
        self._sessions = OpenSessions(most_open)
        self._unstored = OpenSessions(most_open)
        self._lock = Lock()
        self._claims: dict[str, list[IncomingHistory]] = {}
        self._requests: WeakSet[ManagedRequest] = WeakSet()
        self._agents: OrderedDict[str, WeakSet[Session]] = OrderedDict()
        self._most_open = most_open

    def begin(self, parsed: ParsedRequest, send: Send, calls: LoopCalls | None = None) -> ManagedRequest:
        """Find the session of a request and make the request fit; raise `WindowExceeded` if that is impossible.

        While the store fails, the session is another one, in memory only, so that requests still fit.
        """
        settings = settings_for(self._settings, parsed.asked)
        if parsed.session_name is None:
            managed = ManagedRequest(self._open_unnamed(settings), parsed, send, calls=calls)
            managed.prepare()
            return managed
        error = self._breaker.error
        if error is None:
            began = self._breaker.begin()
            try:
                managed = self._prepare(parsed, send, calls, self._open_stored(settings))
            except StoreError as failure:
                error = failure
                self._breaker.note_failure(failure, began)
            else:
                self._breaker.note_success()
                self._unstored.drop_named(parsed.session_name)
                return managed
        managed = self._prepare(parsed, send, calls, self._open_unstored(settings))
        managed.store_error = error
        return managed

    def close(self) -> None:
        """Cancel the summaries that are written in the background."""
        for session in self._sessions.all():
            self._cancel_background(session)

    def _prepare(
        self, parsed: ParsedRequest, send: Send, calls: LoopCalls | None, open_session: _OpenSession
    ) -> ManagedRequest:
        for tries_left in reversed(range(MOST_TRIES)):
            session = self._find(parsed, open_session)
            self._cancel_replaced(parsed, session)
            # After a recovery the next request reads the session again, so that it may be recovered too.
            managed = ManagedRequest(session, parsed, send, calls=calls, on_recovery=self._sessions.drop)
            with self._lock:
                self._requests.add(managed)
            try:
                managed.prepare()
            except HistoryChanged:
                if not tries_left:
                    raise
            else:
                break
            finally:
                self._release(session.log.session_id, parsed.history)
        return managed

    # Find the session.

    def _find(self, parsed: ParsedRequest, open_session: _OpenSession) -> Session:
        """Return the session that a history continues, or else a new one, which is claimed for the history."""
        best: Session | None = None
        best_match: Match | None = None
        for session_id in fork_ids(parsed.session_name or UNNAMED, parsed.history):
            session = open_session(session_id)
            if session.log.next_sequence == 0:
                if best is not None or self._claim(session_id, parsed.history):
                    break
                continue
            match = match_history(parsed.history, session.log)
            if match is not None and match.is_exact:
                return session
            if match is not None and match.is_continuation and match.is_better_than(best_match):
                best, best_match = session, match
        return session if best is None else best

    def _claim(self, session_id: str, history: IncomingHistory) -> bool:
        """Claim an empty session for a history, until its request is prepared; return whether no other history has."""
        with self._lock:
            claims = self._claims.setdefault(session_id, [])
            is_free = all(is_prefix(history, other) for other in claims)
            if is_free:
                claims.append(history)
        return is_free

    def _release(self, session_id: str, history: IncomingHistory) -> None:
        with self._lock:
            claims = [other for other in self._claims.pop(session_id, ()) if other is not history]
            if claims:
                self._claims[session_id] = claims

    # Open sessions.

    def _open_stored(self, settings: SessionSettings) -> _OpenSession:
        settings = with_own_summariser(settings)

        def open_session(session_id: str) -> Session:
            key = _key(session_id, settings)
            return self._sessions.get(key, lambda: Session(self._store, session_id, settings, tenant=self._tenant))

        return open_session

    def _open_unstored(self, settings: SessionSettings) -> _OpenSession:
        """Open sessions in memory; code writes their checkpoints, since a summary that may be lost is not worth its price."""
        settings = replace(settings, summariser=None, background=False)

        def open_session(session_id: str) -> Session:
            key = _key(session_id, settings)
            return self._unstored.get(key, lambda: Session(open_store("memory"), session_id, settings))

        return open_session

    def _open_unnamed(self, settings: SessionSettings) -> Session:
        return Session(open_store("memory"), UNNAMED, replace(with_own_summariser(settings), background=False))

    # Cancel summaries.

    def _cancel_replaced(self, parsed: ParsedRequest, session: Session) -> None:
        """Cancel background summaries of an agent's other histories once the agent has compacted one of them itself.

        Which history it replaced is not known; one that goes on pays for a summary of its own when it needs one.
        """
        if not parsed.agent_session:
            return
        with self._lock:
            known = self._agents.setdefault(parsed.agent_session, WeakSet())
            self._agents.move_to_end(parsed.agent_session)
            while len(self._agents) > self._most_open:
                self._agents.popitem(last=False)
            others = [other for other in known if other is not session]
            known.add(session)
        if session.log.next_sequence == 0 and parsed.history.is_compacted:
            for other in others:
                self._cancel_background(other)

    def _cancel_background(self, session: Session) -> None:
        session.cancel_ahead()
        with self._lock:
            requests = [managed for managed in self._requests if managed.session is session]
        for managed in requests:
            managed.cancel_background()


def settings_for(settings: SessionSettings, asked: ProviderRequest) -> SessionSettings:
    """Fill in format, model and window from a request where the settings leave them unset.

    A proxy recovers from refusals, so the expected size decides when to compact, unless the server truncates instead.
    """
    window = asked.window_tokens if settings.window is None else settings.window
    nameless = UNKNOWN_MODEL if window is None else None
    recovers = not asked.is_truncated if settings.recovers is None else settings.recovers
    return replace(
        settings,
        model=settings.model or asked.model or nameless,
        window=window,
        format=asked.wire.name,
        bound_thinking=False if asked.drops_thinking else settings.bound_thinking,
        recovers=recovers,
    )


def with_own_summariser(settings: SessionSettings) -> SessionSettings:
    """Let the session's own model write the summaries if the settings name no summariser and it is known to be good enough."""
    entry = lookup(settings.model or "").entry
    window = settings.window.context_tokens if isinstance(settings.window, Window) else settings.window
    is_good = entry.summarises and (window or entry.context_tokens) >= LEAST_SUMMARISER_TOKENS
    if settings.summariser is not None or not is_good:
        return settings
    return replace(settings, summariser=summarise_upstream, shares_prefix=True)


def _key(session_id: str, settings: SessionSettings) -> Hashable:
    """Return the key of an open session: one for each model, window and format it is used with, and for how it is refused."""
    return session_id, settings.model, settings.window, settings.format, settings.bound_thinking, settings.recovers
