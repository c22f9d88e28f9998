"""What every framework's plug needs: a session for each of its threads, and its own objects back for what infold kept.

A plug converts the framework's messages to one of the wire formats, calls `Sessions.prepare`, hands `Call.restore` the
framework's objects, and reports the reply or the refusal to the `Call`. Each of these may be used from any thread; those that
begin with an `a` are awaited. Which hook calls them, and how messages are converted, is all that a plug itself knows.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypedDict, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from infold.core.budget import Window
from infold.core.entries import MessageEntry
from infold.core.ledger import CHECKPOINT_MARK
from infold.core.messages import (
    RECALL_TOOL_NAME,
    AssistantMessage,
    MessageId,
    SessionId,
    TextPart,
    UserMessage,
    fingerprint,
    is_from_caller,
    is_recall,
    text_of,
)
from infold.core.policy import Policy
from infold.errors import BrokenInput, HistoryChanged, InfoldError, UsageError, WindowExceeded, raised_at
from infold.formats.registry import WireFormat, format_named
from infold.formats.tools import recall_query
from infold.observers.bus import Bus
from infold.ports import AsyncSummariser, FullStore, SessionKey, Summariser
from infold.proxy.request import LONGEST_NAME, IncomingHistory, fingerprint_of
from infold.proxy.sessions import FORK_MARK, MOST_FORKS, UNKNOWN_MODEL, UNNAMED, RecentlyUsed, fork_ids, match_history
from infold.session.context import RequestExtras
from infold.session.counting import countable, print_safely
from infold.session.history import DecodedHistory, decode_history
from infold.session.report import Ready
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.session.summariser import check_sync
from infold.session.threads import LoopCallbacks, ThreadBridge
from infold.wiring import open_store, summariser_for

_log = logging.getLogger(__name__)

T = TypeVar("T")

NOTHING_RECALLED = (
    "Nothing was recalled: it is not known which conversation this call is part of, and the text of another one must not be "
    "shown here. Go on with what you see, or run the tool again whose output you need."
)
"""The answer to a call of the recall tool whose session is not known for certain."""

MOST_READS = 4
"""How often a session is read for one recall, if messages are stored in it meanwhile."""


class PlugOptions(TypedDict, total=False):
    """The keywords of every plug.

    `window` in tokens, or `model`, whose window is looked up; by default the model of each request. `policy` and `summariser`
    are those of `SessionSettings`. `store` is where sessions are kept, as an address or opened. `session` is put before the
    framework's own thread id, and names the session if there is no such id. `recall_name` is what the recall tool is called.
    """

    window: int | Window | None
    model: str | None
    policy: str | Policy
    summariser: Summariser | AsyncSummariser | str | None
    store: FullStore | str
    session: str | None
    recall_name: str


class SharedThread(str):
    """A thread id that several conversations may have, such as a fingerprint of the first words."""

    __slots__ = ()


class KnownSession(SharedThread):
    """The id of a session itself, as a checkpoint that comes back names it; lists that were copied may have it too."""

    __slots__ = ()


class Sessions:
    """The sessions of one plug, by the framework's thread ids; the least recently used are closed when many are open.

    `settings` are for all of them. A list of messages that does not go on from its thread's session (a sub-agent's, or one that
    the framework has shortened) gets a session of its own. A list without a thread id goes on only from a session that holds
    nothing else, so that two conversations which begin alike are kept apart. `store` holds all of them; close the sessions,
    or use them in a `with` block, if it is given as an address.
    """

    def __init__(
        self, settings: SessionSettings, *, store: FullStore | str = "memory", session: str | None = None
    ) -> None:
        if session is not None and not (isinstance(session, str) and session):
            raise UsageError(f"the session is {session!r}; give a name, or None for the framework's thread id")
        self._settings = replace(settings, summariser=summariser_for(settings.summariser))
        self._wire = format_named(settings.format or "openai-chat")
        self.store = open_store(store) if isinstance(store, str) else store
        self._closes_store = isinstance(store, str)
        self._session = session
        self.recall_name = RECALL_TOOL_NAME
        self._open: RecentlyUsed[Session] = RecentlyUsed()
        self._bridge = ThreadBridge()

    @classmethod
    def from_options(
        cls,
        options: PlugOptions,
        *,
        format: str,  # noqa: A002
        recovers: bool,
    ) -> "Sessions":
        """Return sessions for a plug's keywords; the plug's hook decides on the rest.

        `recovers`: it can send a refused request again. Raise `UsageError` for a keyword that no plug has.
        """
        unknown = sorted(options.keys() - PlugOptions.__annotations__.keys())
        if unknown:
            raise UsageError(f"{unknown[0]!r} is not an option; use {', '.join(PlugOptions.__annotations__)}")
        settings = SessionSettings(
            model=options.get("model"),
            window=options.get("window"),
            policy=options.get("policy", "infold"),
            summariser=options.get("summariser"),
            format=format,
            recovers=recovers,
        )
        name = options.get("recall_name", RECALL_TOOL_NAME)
        if not isinstance(name, str) or not is_recall(name):
            raise UsageError(
                f"the recall tool cannot be called {name!r}; use 'recall', 'infold_recall' or a name like it"
            )
        sessions = cls(settings, store=options.get("store", "memory"), session=options.get("session"))
        sessions.recall_name = name
        return sessions

    def close(self) -> None:
        """Close the sessions, and the store if it was given as an address."""
        for session in self._open.all():
            session.close()
        self._bridge.close()
        if self._closes_store:
            self.store.close()  # type: ignore[attr-defined]  # what `open_store` returns can be closed

    def __enter__(self) -> "Sessions":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(
        self,
        thread: str | None,
        messages: Sequence[Any] | DecodedHistory,
        *,
        system: object = None,
        tools: object = None,
        model: str | None = None,
        recall: str = "",
    ) -> "Call":
        """Make a thread's next request fit, given its whole list of messages in the wire format.

        `thread` is the framework's id, `None` if it has none: then the session is recognised by its messages. These may be
        decoded already, with the usage of replies that no hook has seen. `model` is the one that is about to be asked. `recall`
        is the name of the recall tool if it is offered once something was folded. Give a `SharedThread` if several conversations
        may have this id. Raise `WindowExceeded` if the request cannot be made to fit.
        """
        check_sync(self._settings.summariser)
        return self._prepare(thread, messages, RequestExtras(system, tools), model, recall)

    async def aprepare(
        self,
        thread: str | None,
        messages: Sequence[Any] | DecodedHistory,
        *,
        system: object = None,
        tools: object = None,
        model: str | None = None,
        recall: str = "",
    ) -> "Call":
        """Do what `prepare` does in a thread; the summariser may be async."""
        extras = RequestExtras(system, tools)
        return await self._bridge.prepare(lambda: self._prepare(thread, messages, extras, model, recall))

    def recall(self, thread: str | None, query: object, messages: Sequence[Any] | DecodedHistory | None = None) -> str:
        """Answer a call of the recall tool for a plug that does not have the `Call`: its arguments, or their text.

        The answer is from the session that `messages`, the conversation's whole list, go on from and that holds nothing else;
        without them from the only session of the thread. If there is no such session, or several, the answer says so. A failure
        is returned as text too, for the model to read.
        """
        history = None if messages is None else self._history(messages)
        for _ in range(MOST_READS):  # again if the reply is recorded in the meantime
            session = self._find_stored(thread, history)
            answer = None if session is None else _recall(self.store, session, session.log.next_sequence, query)
            if answer is not None:
                return answer
        return NOTHING_RECALLED

    async def arecall(
        self, thread: str | None, query: object, messages: Sequence[Any] | DecodedHistory | None = None
    ) -> str:
        """Do what `recall` does in a thread."""
        return await self._bridge.record(lambda: self.recall(thread, query, messages))

    def _prepare(
        self,
        thread: str | None,
        messages: Sequence[Any] | DecodedHistory,
        extras: RequestExtras,
        model: str | None,
        recall: str,
    ) -> "Call":
        name, is_certain = self._name(thread), bool(thread) and not isinstance(thread, SharedThread)
        history = self._history(messages, has_tools=bool(extras.tools), is_certain=is_certain)
        settings = replace(self._settings, model=self._settings.model or model, recall=recall)
        for tries_left in reversed(range(MOST_FORKS + 2)):
            session = self._find(name, history, settings, is_certain=is_certain)
            try:
                ready = session.prepare(history.decoded, system=countable(extras.system), tools=countable(extras.tools))
            except HistoryChanged:  # another writer was faster
                if not tries_left:
                    raise
            else:
                break
        return Call(self.store, self._bridge, session, ready, None if is_certain else ready.end)

    def _history(
        self, messages: Sequence[Any] | DecodedHistory, *, has_tools: bool = True, is_certain: bool = False
    ) -> IncomingHistory:
        decoded = messages if isinstance(messages, DecodedHistory) else _decode(self._wire, messages)
        decoded = replace(decoded, is_certain=is_certain)
        return IncomingHistory(decoded, tuple(map(fingerprint, decoded.decoded.messages)), has_tools=has_tools)

    def _find(self, name: str, history: IncomingHistory, settings: SessionSettings, *, is_certain: bool) -> Session:
        """Return the session that a history goes on from, or else the first that is unused."""
        candidates = _of_thread if is_certain else _certain
        found = list(candidates(name, history, partial(self._session_of, settings=settings)))
        last = f"{name}{FORK_MARK}{fingerprint_of(*history.fingerprints)}"
        return max(found, key=lambda one: one.rank).session if found else self._session_of(last, settings)

    def _find_stored(self, thread: str | None, history: IncomingHistory | None) -> Session | None:
        """Return the session to recall from, as the store has it now: that of a history, or the only one of a thread."""
        settings = replace(self._settings, recall=self.recall_name)
        name, opened = self._name(thread), partial(self._open_session, settings=settings)
        if history is not None:
            known = [one for one in _certain(name, history, opened) if one.rank != UNUSED]
            return max(known, key=lambda one: one.rank).session if known else None
        if not thread or isinstance(thread, SharedThread):
            return None
        is_forked = any(self.store.newest_first(SessionKey("", SessionId(f"{name}{FORK_MARK}1"))))
        return None if is_forked else opened(name)

    def _session_of(self, session_id: str, settings: SessionSettings) -> Session:
        key = session_id, settings.model, settings.recall
        return self._open.get(key, lambda: self._open_session(session_id, settings))

    def _open_session(self, session_id: str, settings: SessionSettings) -> Session:
        nameless = UNKNOWN_MODEL if settings.window is None else None
        return Session(
            self.store,
            session_id,
            replace(settings, model=settings.model or nameless),
            callbacks=LoopCallbacks(Bus(), observes_on_loop=False),
        )

    def _name(self, thread: str | None) -> str:
        if isinstance(thread, KnownSession):
            return thread
        name = ":".join(str(part) for part in (self._session, thread) if part) or UNNAMED
        return name if len(name) <= LONGEST_NAME else fingerprint_of(name)


UNUSED = (False, -1)
"""The rank of a session that is empty: any that matches is better."""


class _Candidate(NamedTuple):
    """A session that a history may be in, and how well it matches: whether nothing is taken back, and how much is known."""

    session: Session
    rank: tuple[bool, int]


def _of_thread(name: str, history: IncomingHistory, opened: Callable[[str], Session]) -> Iterator[_Candidate]:
    """Yield the sessions of a thread that a history goes on from, then the first that is unused."""
    is_folded = any(text_of(message).startswith(CHECKPOINT_MARK) for message in history.messages[:2])
    for session_id in fork_ids(name, history):
        session = opened(session_id)
        if session.log.next_sequence == 0:
            yield _Candidate(session, UNUSED)
            return
        match = match_history(history, session.log)
        if match is not None and match.is_continuation:
            yield _Candidate(session, (not match.removed, match.known))
        elif match is None and is_folded:
            own = session.match(history.decoded)
            if own is not None and own.fold is not None:
                yield _Candidate(session, (own.amended is None, own.known))
        if match is not None and match.is_exact:
            return


def _certain(name: str, history: IncomingHistory, opened: Callable[[str], Session]) -> Iterator[_Candidate]:
    """Yield the sessions of a name, whosever they are, that hold nothing but this history, then the first that is unused."""
    for session_id in fork_ids(name, history):
        session = opened(session_id)
        if session.log.next_sequence == 0:
            yield _Candidate(session, UNUSED)
            return
        own = session.match(history.decoded)
        if own is not None:
            yield _Candidate(session, (own.amended is None, own.known))
            if own.amended is None and sum(isinstance(message, AssistantMessage) for message in own.new) <= 1:
                return


class Call(Struct):
    """One request that was made to fit, until it is answered; `ready` is what the session prepared.

    `end` is the number of the next entry of the session's log, as this call knows it; `None` if the thread is certain. If a
    request of another conversation, which begins alike, has gone on with the session meanwhile, this call changes nothing
    there, and recalls nothing.
    """

    store: FullStore
    bridge: ThreadBridge
    session: Session
    ready: Ready
    end: int | None

    @property
    def is_cut(self) -> bool:
        """Whether infold hides or folds anything in this request; if not, send what the framework gave."""
        log = self.session.log
        return log.checkpoint is not None or bool(log.altered) or (log.binds_thinking and log.thinking_from > 0)

    def restore(self, objects: Sequence[T], build: Callable[[Any, T | None], T]) -> list[T]:
        """Return the request as the framework's objects, given those that its messages were converted from, one each.

        A message that infold kept is its object itself. `build` makes one from a wire message: with the object it was made from
        if only its content changed, with `None` for what infold wrote. If nothing was cut, the objects are returned as they
        are, so that a framework that counts its messages finds all of them.
        """
        if not self.is_cut:
            return list(objects)
        ready = self.ready
        sources = [None if source is None else objects[source] for source in ready.sources]
        return [
            source if source is not None and place not in ready.edited else build(message, source)
            for place, (message, source) in enumerate(zip(ready.messages, sources, strict=True))
        ]

    def record(self, reply: Any, convert: Callable[[Any], object] | None = None) -> None:
        """Record the reply, as a body of the wire format, with its usage; `convert` makes one of the framework's reply.

        A failure is logged and not raised: the framework has its reply, and the next request brings it to the session.
        """
        with self._logging():
            end = self.session.record(reply if convert is None else convert(reply), after=self.end)
            self.end = None if self.end is None else end

    async def arecord(self, reply: Any, convert: Callable[[Any], object] | None = None) -> None:
        """Do what `record` does in a thread."""
        await self.bridge.record(lambda: self.record(reply, convert))

    @contextmanager
    def _logging(self) -> Iterator[None]:
        try:
            yield
        except HistoryChanged:  # the session is another's by now; the reply comes with the next request
            pass
        except Exception as error:  # whatever it is, it must not end the framework's run
            problem = error if isinstance(error, InfoldError) else f"at {raised_at(error)}"
            kind, session_id = type(error).__name__, self.session.log.session_id
            _log.warning("a reply of session %s was not recorded: %s: %s", session_id, kind, problem)

    def recover(self, error: object) -> "Call | None":
        """Return the request changed for one more try after a refusal; `None` if the error is to be raised as it is."""
        try:
            ready = self.session.recover(error, after=self.end)
        except (HistoryChanged, WindowExceeded):
            return None
        return None if ready is None else self._with(ready)

    async def arecover(self, error: object) -> "Call | None":
        """Do what `recover` does in a thread; the summariser may be async."""
        return await self.bridge.prepare(lambda: self.recover(error))

    async def asend(self, send: Callable[["Call"], Awaitable[T]]) -> T:
        """Return what `send` returns for this request, or for the changed one if it raises a refusal."""
        try:
            return await send(self)
        except Exception as error:
            again = await self.arecover(error)
            if again is None:
                raise
            return await send(again)

    def compact(self) -> "Call":
        """Return the request compacted now, for a framework that decides when; `WindowExceeded` is raised as by `prepare`."""
        try:
            ready = self.session.compact(after=self.end)
        except HistoryChanged:
            return self
        return self._with(ready)

    async def acompact(self) -> "Call":
        """Do what `compact` does in a thread; the summariser may be async."""
        return await self.bridge.prepare(self.compact)

    def _with(self, ready: Ready) -> "Call":
        return replace(self, ready=ready, end=None if self.end is None else ready.end)

    def recall(self, query: object) -> str:
        """Answer a call of the recall tool that the reply to this request made: its arguments, or their text.

        A failure is returned as text too, for the model to read.
        """
        answer = _recall(self.store, self.session, self.end, query)
        return NOTHING_RECALLED if answer is None else answer

    async def arecall(self, query: object) -> str:
        """Do what `recall` does in a thread."""
        return await self.bridge.record(lambda: self.recall(query))


def _decode(wire: WireFormat, messages: Sequence[Any]) -> DecodedHistory:
    """Decode messages; one that cannot be read is counted by its text, and sent as the framework's object while it is kept."""
    try:
        return decode_history(wire, messages)
    except BrokenInput:
        return decode_history(wire, [one if _is_readable(wire, one) else _as_text(wire, one) for one in messages])


def _is_readable(wire: WireFormat, item: object) -> bool:
    try:
        wire.decode([item])
    except BrokenInput:
        return False
    return True


def _as_text(wire: WireFormat, item: object) -> object:
    (written,) = wire.encode_new(UserMessage(MessageId("unreadable"), (TextPart(print_safely(item)),)))
    return written


def _recall(store: FullStore, session: Session, end: int | None, query: object) -> str | None:
    """Return what a session holds for a query; `None` if messages were stored since it ended there."""
    stored = store.newest_first(SessionKey("", session.log.session_id))
    newest = next((n for n, entry in stored if isinstance(entry, MessageEntry) and is_from_caller(entry.message)), -1)
    if end is not None and newest >= end:
        return None
    try:
        return session.recall(recall_query(query if isinstance(query, dict) else str(query)))
    except UsageError as error:
        return f"Error: {error}"
