"""What every framework's plug needs: a session for each of its threads, and its own objects back for what infold kept.

A plug converts the framework's messages to one of the wire formats, calls `Sessions.prepare`, hands `Call.restore` the
framework's objects, and reports the reply or the refusal to the `Call`. Each of these may be used from any thread; those that
begin with an `a` are awaited. Which hook calls them, and how messages are converted, is all that a plug itself knows.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypedDict, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from infold.core.budget import Window
from infold.core.ledger import CHECKPOINT_MARK
from infold.core.messages import fingerprint, text_of
from infold.core.policy import Policy
from infold.errors import HistoryChanged, UsageError, WindowExceeded
from infold.formats.registry import format_named
from infold.formats.tools import offers_recall, recall_query
from infold.observers.bus import Bus
from infold.ports import AsyncSummariser, FullStore, Summariser
from infold.proxy.request import LONGEST_NAME, IncomingHistory, fingerprint_of
from infold.proxy.sessions import UNKNOWN_MODEL, UNNAMED, RecentlyUsed, fork_ids, match_history
from infold.session.history import DecodedHistory, decode_history
from infold.session.report import Ready
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.session.summariser import check_sync
from infold.session.threads import LoopCallbacks, ThreadBridge
from infold.wiring import open_store, summariser_for

T = TypeVar("T")


class PlugOptions(TypedDict, total=False):
    """The keywords of every plug.

    `window` in tokens, or `model`, whose window is looked up; by default the model of each request. `policy` and `summariser`
    are those of `SessionSettings`. `store` is where sessions are kept, as an address or opened. `session` is put before the
    framework's own thread id, and names the session if there is no such id.
    """

    window: int | Window | None
    model: str | None
    policy: str | Policy
    summariser: Summariser | AsyncSummariser | str | None
    store: FullStore | str
    session: str | None


class Sessions:
    """The sessions of one plug, by the framework's thread ids; the least recently used are closed when many are open.

    `settings` are for all of them. A list of messages that does not go on from its thread's session (a sub-agent's, or one that
    the framework has shortened) gets a session of its own. `store` holds all of them; close the sessions, or use them in a `with`
    block, if it is given as an address.
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
        self._looks_for_recall = False
        self._open: RecentlyUsed[Session] = RecentlyUsed()
        self._newest: RecentlyUsed[list[Session]] = RecentlyUsed()
        self._bridge = ThreadBridge()

    @classmethod
    def from_options(
        cls,
        options: PlugOptions,
        *,
        format: str,  # noqa: A002
        recovers: bool,
        recall: bool | None = True,
    ) -> "Sessions":
        """Return sessions for a plug's keywords; the plug's hook decides on the rest.

        `recovers`: it can send a refused request again. `recall`: it offers recall as a tool; `None`: if a request's tools
        include it. Raise `UsageError` for a keyword that no plug has.
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
            recall=bool(recall),
            recovers=recovers,
        )
        sessions = cls(settings, store=options.get("store", "memory"), session=options.get("session"))
        sessions._looks_for_recall = recall is None
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
    ) -> "Call":
        """Make a thread's next request fit, given its whole list of messages in the wire format.

        `thread` is the framework's id, `None` if it has none: then the session is recognised by its messages. These may be
        decoded already, with the usage of replies that no hook has seen. `model` is the one that is about to be asked. Raise
        `WindowExceeded` if the request cannot be made to fit.
        """
        check_sync(self._settings.summariser)
        return self._prepare(thread, messages, system=system, tools=tools, model=model)

    async def aprepare(
        self,
        thread: str | None,
        messages: Sequence[Any] | DecodedHistory,
        *,
        system: object = None,
        tools: object = None,
        model: str | None = None,
    ) -> "Call":
        """Do what `prepare` does in a thread; the summariser may be async."""
        return await self._bridge.prepare(
            lambda: self._prepare(thread, messages, system=system, tools=tools, model=model)
        )

    def recall(self, thread: str | None, query: object) -> str:
        """Return what a thread's newest session holds for a query: the arguments of a call to the recall tool, or their text.

        A failure is returned as text too, for the model to read.
        """
        name = self._name(thread)
        newest = self._newest.find(name)
        return _recall(newest[0] if newest else self._session_of(name, self._settings), query)

    async def arecall(self, thread: str | None, query: object) -> str:
        """Do what `recall` does in a thread."""
        return await self._bridge.record(lambda: self.recall(thread, query))

    def _prepare(
        self,
        thread: str | None,
        messages: Sequence[Any] | DecodedHistory,
        *,
        system: object,
        tools: object,
        model: str | None,
    ) -> "Call":
        name = self._name(thread)
        decoded = messages if isinstance(messages, DecodedHistory) else decode_history(self._wire, messages)
        prints = tuple(map(fingerprint, decoded.decoded.messages))
        history = IncomingHistory(decoded, prints, has_tools=bool(tools))
        recall = offers_recall(self._wire.name, tools) if self._looks_for_recall else self._settings.recall
        settings = replace(self._settings, model=self._settings.model or model, recall=recall)
        for session in self._candidates(name, history, settings):
            try:
                ready = session.prepare(decoded, system=system, tools=tools)
            except HistoryChanged:  # another writer was faster
                continue
            self._newest.get(name, list)[:] = [session]
            return Call(self._bridge, session, ready)
        raise HistoryChanged(f"no session of {name!r} takes these messages")

    def _candidates(self, name: str, history: IncomingHistory, settings: SessionSettings) -> Iterator[Session]:
        """Yield the sessions that may take a history, the best first: the one it goes on from, then new ones."""
        is_folded = any(text_of(message).startswith(CHECKPOINT_MARK) for message in history.messages[:2])
        unused: list[Session] = []
        best: list[tuple[bool, int, Session]] = []
        for session_id in fork_ids(name, history):
            session = self._session_of(session_id, settings)
            if session.log.next_sequence == 0:
                unused.append(session)
                break
            match = match_history(history, session.log)
            if match is not None and match.is_continuation:
                best.append((not match.removed, match.known, session))
            elif match is None and is_folded:
                own = session.match(history.decoded)
                best += [(own.amended is None, own.known, session)] if own is not None and own.fold is not None else []
            if match is not None and match.is_exact:
                break
        yield from (session for _, _, session in sorted(best, key=lambda one: one[:2], reverse=True))
        yield from unused
        yield self._session_of(f"{name}~{fingerprint_of(*history.fingerprints)}", settings)

    def _session_of(self, session_id: str, settings: SessionSettings) -> Session:
        chosen = settings.model or (UNKNOWN_MODEL if settings.window is None else None)
        return self._open.get(
            (session_id, chosen, settings.recall),
            lambda: Session(
                self.store,
                session_id,
                replace(settings, model=chosen),
                callbacks=LoopCallbacks(Bus(), observes_on_loop=False),
            ),
        )

    def _name(self, thread: str | None) -> str:
        name = ":".join(str(part) for part in (self._session, thread) if part) or UNNAMED
        return name if len(name) <= LONGEST_NAME else fingerprint_of(name)


class Call(Struct, frozen=True):
    """One request that was made to fit, until it is answered; `ready` is what the session prepared."""

    bridge: ThreadBridge
    session: Session
    ready: Ready

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

    def record(self, reply: object) -> None:
        """Record the reply, as a body of the wire format, with its usage."""
        self.session.record(reply)

    async def arecord(self, reply: object) -> None:
        """Do what `record` does in a thread."""
        await self.bridge.record(lambda: self.session.record(reply))

    def recover(self, error: object) -> "Call | None":
        """Return the request changed for one more try after a refusal; `None` if the error is to be raised as it is."""
        try:
            ready = self.session.recover(error)
        except WindowExceeded:
            return None
        return None if ready is None else replace(self, ready=ready)

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
        return replace(self, ready=self.session.compact())

    async def acompact(self) -> "Call":
        """Do what `compact` does in a thread; the summariser may be async."""
        return await self.bridge.prepare(self.compact)

    async def arecall(self, query: object) -> str:
        """Return what this request's session holds for a query, as `Sessions.recall` does for a thread's newest one."""
        return await self.bridge.record(lambda: _recall(self.session, query))


def _recall(session: Session, query: object) -> str:
    try:
        return session.recall(recall_query(query if isinstance(query, dict) else str(query)))
    except UsageError as error:
        return f"Error: {error}"
