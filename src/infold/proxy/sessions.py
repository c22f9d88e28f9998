"""The open sessions of a client: find the session of each request, open it if needed, and prepare the request.

Clients send the whole history each time. Several histories may have the same session name: each gets a numbered session of its
own (a fork), and a history continues the session that it matches best. Requests without tools (titles and the like) do not
change a session with tools; where the client gives both the same name, such a request only continues a session at its end, as
the last step of an agent may. While the store fails, requests are prepared with sessions in memory, so that they still fit.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from threading import Lock
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import lookup
from infold.catalogue.served import Question, ServedWindows
from infold.core.budget import Window
from infold.core.events import WindowFound
from infold.core.log import Log
from infold.core.logged_message import LoggedMessage
from infold.core.messages import (
    AssistantMessage,
    Message,
    calls_of,
    fingerprint,
    has_state,
    is_from_caller,
    is_provider_summary,
)
from infold.errors import HistoryChanged, StoreBroken, StoreError
from infold.formats.overflow import Overflow
from infold.formats.requests import ProviderRequest, native_betas
from infold.ports import FullStore
from infold.proxy.managed_request import (
    LEAST_SUMMARISER_TOKENS,
    ManagedRequest,
    Send,
    UpstreamServer,
    summarise_upstream,
)
from infold.proxy.request import IncomingHistory, ParsedRequest, fingerprint_of, with_deferred_tools
from infold.session.history import has_other_ids, starts_with_fold, stored_prefix_length
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.session.summariser import Callbacks
from infold.session.threads import wait_on_loop
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

Value = TypeVar("Value")

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


class RecentlyUsed(Generic[Value]):
    """What is open, by key; the least recently used is dropped beyond `most`. May be used from any thread.

    What is dropped may still be in use: what a session writes reaches the store, where the next to open it finds it.
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of that key, made if needed; other threads do not wait while it is made."""
        with self._lock:
            value = self._open.get(key)
        made = make() if value is None else value
        with self._lock:
            value = self._open.setdefault(key, made)
            self._open.move_to_end(key)
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return value

    def find(self, key: Hashable) -> Value | None:
        """Return the value of that key; `None` if there is none."""
        with self._lock:
            return self._open.get(key)

    def all(self) -> tuple[Value, ...]:
        """Return all values."""
        with self._lock:
            return tuple(self._open.values())

    def drop(self, condition: Callable[[Value], bool]) -> None:
        """Drop the values of which this is true."""
        with self._lock:
            for key in [key for key, value in self._open.items() if condition(value)]:
                del self._open[key]


class CountedRequest(Struct, frozen=True):
    """The body of a request to count, as the request itself would be sent, and the betas that it needs."""

    content: bytes
    betas: tuple[str, ...] = ()


class SessionPool:
    """The sessions of a wrapped client, or of a gateway's tenant; may be used from any thread, and blocks.

    `callbacks` make those of each session if the sessions run in threads, for callers on an event loop.
    """

    def __init__(
        self,
        store: FullStore,
        settings: SessionSettings,
        tenant: str = "",
        *,
        most_open: int = MOST_OPEN,
        breaker: StoreCircuitBreaker | None = None,
        callbacks: Callable[[], Callbacks] | None = None,
    ) -> None:
        self._store = store
        self._settings = replace(settings, summariser=summariser_for(settings.summariser))
        self._tenant = tenant
        self._breaker = breaker or StoreCircuitBreaker()
        self._callbacks = callbacks
        self._sessions: RecentlyUsed[Session] = RecentlyUsed(most_open)
        self._unstored: RecentlyUsed[Session] = RecentlyUsed(most_open)
        self._agents: RecentlyUsed[WeakSet[Session]] = RecentlyUsed(most_open)
        self._binding: set[tuple[str, str]] = set()
        self._summaries: RecentlyUsed[str] = RecentlyUsed(most_open)
        self._lock = Lock()
        self._claims: dict[str, list[IncomingHistory]] = {}
        self._served: ServedWindows | None = None

    def begin(self, parsed: ParsedRequest, send: Send, server: UpstreamServer | None = None) -> ManagedRequest:
        """Find the session of a request and make the request fit; raise `WindowExceeded` if that is impossible.

        If the window is not stated, `server` is asked for it. While the store fails, the session is another one, in memory only,
        so that requests still fit.
        """
        settings, found = self._settings_for(parsed), None
        if settings.window is None and server is not None:
            self._served = self._served or ServedWindows()
            found = self._served.find(server.url, parsed.asked.model, partial(_ask, server), base=server.base)
            settings = replace(settings, window=None if found is None else found.tokens)
        parsed = with_deferred_tools(parsed) if settings.defer_tools else parsed
        managed = self._begin(parsed, send, with_own_summariser(settings))
        if found is not None and found.is_new:
            model, name = parsed.asked.model, managed.session.log.session_id
            managed.session.publish(WindowFound(name, model, found.tokens, found.source))
        return managed

    def _begin(self, parsed: ParsedRequest, send: Send, settings: SessionSettings) -> ManagedRequest:
        name = parsed.session_name
        if parsed.relayed:
            return self._observe_summary(parsed, send, partial(self._open_stored, settings))
        if name is None:
            unnamed = self._open(open_store("memory"), replace(settings, background=False), UNNAMED)
            managed = ManagedRequest(unnamed, parsed, send)
            managed.prepare()
            return managed
        error = self._breaker.error
        if error is None:
            began = self._breaker.begin()
            try:
                managed = self._prepare(parsed, send, partial(self._open_stored, settings))
            except StoreError as failure:
                error = failure
                self._breaker.note_failure(failure, began)
            else:
                self._breaker.note_success()
                self._unstored.drop(lambda session: is_fork_of(session.log.session_id, name))
                return managed
        managed = self._prepare(parsed, send, partial(self._open_unstored, settings))
        managed.store_error = error
        return managed

    def counted(self, parsed: ParsedRequest) -> "CountedRequest":
        """Return what would be sent for a request whose tokens the caller has counted; nothing is stored or compacted for it."""
        settings = with_own_summariser(self._settings_for(parsed))
        session = (
            None if parsed.session_name is None else self._find_known(parsed, partial(self._open_stored, settings))
        )
        if session is None:
            return CountedRequest(parsed.raw)
        items = session.view(parsed.history.decoded)
        return CountedRequest(
            parsed.with_messages(items), native_betas(parsed.asked.wire) if session.log.native else ()
        )

    def close(self) -> None:
        """Cancel the summaries that are written in the background."""
        for session in self._sessions.all():
            session.cancel_ahead()

    def _prepare(self, parsed: ParsedRequest, send: Send, open_session: _OpenSession) -> ManagedRequest:
        for tries_left in reversed(range(MOST_TRIES)):
            session = self._find(parsed, open_session)
            self._cancel_replaced(parsed, session)
            managed = ManagedRequest(session, parsed, send, self._learn)
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

    def _learn(self, managed: ManagedRequest, refusal: Overflow) -> None:
        """After a recovery, let the next request read the session again, so that it may be recovered too.

        If the model binds thinking, no open session of the same account needs to be refused for that; the store remembers it
        for those that are opened later.
        """
        self._sessions.drop(lambda other: other is managed.session)
        if refusal.binds:
            self._binding.add((managed.parsed.account, managed.parsed.asked.model))

    def _settings_for(self, parsed: ParsedRequest) -> SessionSettings:
        settings = replace(settings_for(self._settings, parsed.asked), account=parsed.account)
        is_bound = settings.bound_thinking is None and (parsed.account, parsed.asked.model) in self._binding
        return replace(settings, bound_thinking=True) if is_bound else settings

    def _observe_summary(self, parsed: ParsedRequest, send: Send, open_session: _OpenSession) -> ManagedRequest:
        """Relay a request for a summary of the provider's own, and learn which session the summary is of.

        The client's list begins with it once the client has replaced what it sent; until then the session stays as it is.
        """
        session = self._find(parsed, open_session)
        self._release(session.log.session_id, parsed.history)
        managed = ManagedRequest(session, parsed, send)
        managed.content = parsed.raw

        def learn(reply: Mapping[str, Any]) -> None:
            wire, session_id = parsed.asked.wire, session.log.session_id
            for message in wire.decode(wire.reply_items(reply)).messages:
                if any(map(is_provider_summary, message.parts)):
                    self._summaries.get(fingerprint(message), lambda: session_id)

        managed.on_reply = learn
        return managed

    # Find the session.

    def _find(self, parsed: ParsedRequest, open_session: _OpenSession) -> Session:
        """Return the session that a history continues, or else a new one, which is claimed for the history."""
        messages = parsed.history.messages
        summarised = self._summaries.find(fingerprint(messages[0])) if messages and has_state(messages[0]) else None
        if summarised is not None:
            session = open_session(summarised)
            session.adopt_summary(messages[0])
            return session
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

    def _find_known(self, parsed: ParsedRequest, open_session: _OpenSession) -> Session | None:
        """Return the session that a history continues, if there is one; none is claimed."""
        best: Session | None = None
        best_match: Match | None = None
        for session_id in fork_ids(parsed.session_name or UNNAMED, parsed.history):
            session = open_session(session_id)
            match = match_history(parsed.history, session.log) if session.log.next_sequence else None
            if match is not None and match.is_continuation and match.is_better_than(best_match):
                best, best_match = session, match
            if session.log.next_sequence == 0 or (match is not None and match.is_exact):
                break
        return best

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

    def _open_stored(self, settings: SessionSettings, session_id: str) -> Session:
        key = _key(session_id, settings)
        return self._sessions.get(key, lambda: self._open(self._store, settings, session_id))

    def _open_unstored(self, settings: SessionSettings, session_id: str) -> Session:
        """Open a session in memory; code writes its checkpoints, since a summary that may be lost is not worth its price."""
        settings = replace(settings, summariser=None, background=False)
        key = _key(session_id, settings)
        return self._unstored.get(key, lambda: self._open(open_store("memory"), settings, session_id))

    def _open(self, store: FullStore, settings: SessionSettings, session_id: str) -> Session:
        callbacks = None if self._callbacks is None else self._callbacks()
        return Session(store, session_id, settings, tenant=self._tenant, callbacks=callbacks)

    def _cancel_replaced(self, parsed: ParsedRequest, session: Session) -> None:
        """Cancel background summaries of an agent's other histories once the agent has compacted one of them itself.

        Which history it replaced is not known; one that goes on pays for a summary of its own when it needs one.
        """
        if not parsed.agent_session:
            return
        known = self._agents.get(parsed.agent_session, WeakSet)
        with self._lock:
            others = [other for other in known if other is not session]
            known.add(session)
        if session.log.next_sequence == 0 and parsed.history.is_compacted:
            for other in others:
                other.cancel_ahead()


def _ask(server: UpstreamServer, question: Question) -> bytes | None:
    answer = server.ask(question)
    return answer if answer is None or isinstance(answer, bytes) else wait_on_loop(answer)


def settings_for(settings: SessionSettings, asked: ProviderRequest) -> SessionSettings:
    """Fill in format, model and window from a request where the settings leave them unset.

    A proxy recovers from refusals, so the expected size decides when to compact, unless the server truncates instead. Where
    tokens cost nothing, no fold is made for its price, unless the settings state one.
    """
    settings = settings.for_server(is_paid=asked.is_paid)
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
        offers_native=asked.offers_native or settings.native == "always",
    )


def with_own_summariser(settings: SessionSettings) -> SessionSettings:
    """Let the session's own model write the summaries if the settings name no summariser and it is known to be good enough."""
    entry = lookup(settings.model or "").entry
    stated = settings.stated_window
    window = stated.context_tokens if isinstance(stated, Window) else stated
    is_good = entry.summarises and (window or entry.context_tokens) >= LEAST_SUMMARISER_TOKENS
    if settings.summariser is not None or not is_good:
        return replace(settings, offers_native=False)
    return replace(settings, summariser=summarise_upstream, shares_prefix=True)


def _key(session_id: str, settings: SessionSettings) -> Hashable:
    """Return the key of an open session: one for each model, window and format it is used with, how it is refused and paid."""
    refused = settings.bound_thinking, settings.recovers, settings.account
    return session_id, settings.model, settings.window, settings.format, *refused, settings.priced


# Matching.

FORK_MARK = "~"
"""Separates a session's name from the suffix of a fork."""

MOST_FORKS = 12
"""Numbered forks of one name; further ones get a fingerprint of the history as their suffix."""

MOST_TURNS_REMOVED = 1
"""User turns that a client may remove from a session; if it removes more, the history is another one."""

MOST_REPLIES_REPLACED = 1
"""Replies that a client may replace in a session: the newest, which it may have edited or requested again."""


class Match(Struct, frozen=True):
    """How a history compares to a session, counted in messages.

    `known` are in both. `removed` are in the session and not at their place in the history, with `removed_turns` of the user and
    `removed_replies` among them; `moved` of these come later in the history, so that something before them was changed.
    `new_replies` are in the history only.
    """

    known: int
    removed: int = 0
    removed_turns: int = 0
    removed_replies: int = 0
    moved: int = 0
    new_replies: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether no other session can match better: nothing is removed, and at most the newest reply is new."""
        return not self.removed and self.new_replies <= 1

    @property
    def is_continuation(self) -> bool:
        """Whether the history continues the session: at most its end was changed, or a little in the middle."""
        if not self.removed:
            return True
        replaces_little = not self.new_replies or self.removed_replies <= MOST_REPLIES_REPLACED
        if self.removed_turns <= MOST_TURNS_REMOVED and replaces_little:
            return True
        return self.moved * 2 >= self.removed

    def is_better_than(self, other: "Match | None") -> bool:
        """Whether to prefer this match: first the one that removes nothing, then the one that has more in common."""
        return other is None or (not self.removed, self.known) > (not other.removed, other.known)


def fork_ids(name: str, history: IncomingHistory) -> Iterator[str]:
    """Yield the ids of the sessions that a history of that name may be in, in the order they are created.

    The numbered ones are followed by a fingerprint of the first messages, a power of two of them, so that it seldom changes
    while the history grows; then by one of all messages, which no other history has.
    """
    yield name
    yield from (f"{name}{FORK_MARK}{number}" for number in range(1, MOST_FORKS))
    early = 1 << (len(history.messages).bit_length() - 1) if history.messages else 0
    yield f"{name}{FORK_MARK}{fingerprint_of(*history.fingerprints[:early])}"
    yield f"{name}{FORK_MARK}{fingerprint_of(*history.fingerprints)}"


def is_fork_of(session_id: str, name: str) -> bool:
    """Whether a history of that name may be in this session."""
    return session_id == name or session_id.startswith(f"{name}{FORK_MARK}")


def match_history(history: IncomingHistory, log: Log) -> Match | None:
    """Compare a history to a session; return `None` if they begin differently, or the session folded something else.

    Also return `None` if a request without tools would remove something from a session with tools, or if results of the session
    are pruned and its calls have other ids: another run of the same task would take the pruning back each time.
    """
    checkpoint = log.checkpoint
    folded = 0 if checkpoint is None else checkpoint.folded
    if checkpoint is not None and not starts_with_fold(history.messages, checkpoint):
        return None
    live = [placed for placed in log.live[: log.length] if is_from_caller(placed.message)]
    fingerprints = [fingerprint(placed.message) for placed in live]
    equal = _count_equal(history.fingerprints[folded:], fingerprints)
    same = stored_prefix_length(history.messages[folded:], live, equal)
    known = folded + same
    if live and not known:
        return None
    if log.altered and has_other_ids(history.messages[folded : folded + equal], live):
        return None
    # Clients need not bring a reply that was empty.
    removed, later = [placed for placed in live[same:] if not placed.is_blank], set(history.fingerprints[known:])
    if removed and not history.has_tools and _offers_tools(live):
        return None
    comes_later = bool(removed) and fingerprints[-1] in later
    return Match(
        known,
        len(removed),
        removed_turns=sum(placed.is_persons for placed in removed),
        removed_replies=_count_replies([placed.message for placed in removed]),
        moved=sum(mark in later for mark in fingerprints[same:]) if comes_later else 0,
        new_replies=_count_replies(history.messages[known:]),
    )


def is_prefix(one: IncomingHistory, other: IncomingHistory) -> bool:
    """Whether one of two histories begins with all of the other."""
    shorter = min(len(one.messages), len(other.messages))
    return _count_equal(one.fingerprints, other.fingerprints) == shorter


def _offers_tools(live: Sequence[LoggedMessage]) -> bool:
    """Whether a session's requests offer tools: a recorded reply has a size for them, or calls one.

    Calls that the client brought do not count: a request for a title may bring a history that is full of them.
    """
    replies = [placed.message for placed in live if isinstance(placed.message, AssistantMessage)]
    measured = [reply.overhead.tools > 0 for reply in replies if reply.overhead is not None]
    return any(measured or (reply.finish is not None and calls_of(reply) for reply in replies))


def _count_equal(one: Sequence[str], other: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _count_replies(messages: Sequence[Message]) -> int:
    return sum(isinstance(message, AssistantMessage) for message in messages)
