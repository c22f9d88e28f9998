"""The session for async callers: `Session` in a thread, with the caller's own code called on the event loop.

Each operation runs in a thread of a pool, so that neither the store nor the work on a long history stops the loop. Observers are
called on the loop, and so is an async summariser. If the awaiting task is cancelled, the summariser call is cancelled, what was
begun in the store ends, and the operation stops before its next step.
"""

import os
from asyncio import CancelledError, Lock, get_running_loop, shield, wait, wrap_future
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Literal, ParamSpec, TypeVar, Unpack

from infold.core.budget import AskedOutput
from infold.core.events import Event, Pruned
from infold.core.log import Log
from infold.core.messages import FilePart, Message
from infold.core.policy import Policy
from infold.errors import UsageError
from infold.observers.bus import Bus
from infold.ports import FileDiff, FullStore
from infold.session.compaction import Preview
from infold.session.context import ReplyMetadata, RequestExtras
from infold.session.history import DecodedHistory, HistoryMatch
from infold.session.media import Medium
from infold.session.report import Ready
from infold.session.session import Session
from infold.session.settings import SessionKeywords, SessionSettings, needs_arguments, settings_with
from infold.session.stored import RESULT_TOKENS
from infold.session.summariser import check_not_summarising
from infold.session.threads import LoopCallbacks, LoopCalls

MOST_THREADS = 256
"""Operations that run at once in a process. One that waits for a summary holds its thread for as long, a minute or more, so
the bound is far above the number of cores; a session uses one at a time, and those beyond the bound wait in turn."""

P = ParamSpec("P")
T = TypeVar("T")


def _documented_by(source: type) -> Callable[[type[T]], type[T]]:
    """Give the members of a class the docstrings of the members of the same name in another."""

    def document(cls: type[T]) -> type[T]:
        for name, member in vars(cls).items():
            if not name.startswith("_") and not member.__doc__:
                member.__doc__ = getattr(source, name).__doc__
        return cls

    return document


@_documented_by(Session)
class AsyncSession:
    """One session in a store, for async callers; `await AsyncSession.open(…)` reads it."""

    def __init__(
        self, session: Session | None = None, callbacks: LoopCallbacks | None = None, *_: object, **__: object
    ) -> None:
        if not isinstance(session, Session) or callbacks is None:
            raise UsageError("an AsyncSession is opened: await AsyncSession.open(store, session_id, settings)")
        self._session = session
        self._callbacks = callbacks
        self._turn = Lock()

    @classmethod
    @needs_arguments("store", "session_id", example="await AsyncSession.open('memory', 'my-session', window='200k')")
    async def open(
        cls,
        store: FullStore | str,
        session_id: str,
        settings: SessionSettings | None = None,
        *,
        tenant: str = "",
        **keywords: Unpack[SessionKeywords],
    ) -> "AsyncSession":
        """Open the session of that id, a new one if there is none; the arguments are those of `Session`."""
        callbacks = LoopCallbacks(Bus())
        settings = settings_with(settings, keywords, "AsyncSession.open()")
        session = await _in_thread(Session, store, session_id, settings, tenant=tenant, callbacks=callbacks)
        return AsyncSession(session, callbacks)

    async def close(self) -> None:
        ended = self._session.cancel_ahead()
        if ended is not None:
            await wrap_future(ended)
        await _in_thread(self._session.close)

    def cancel_ahead(self) -> None:
        self._session.cancel_ahead()

    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def tokens(self) -> int:
        return self._session.tokens

    @property
    def log(self) -> Log:
        return self._session.log

    @property
    def window_tokens(self) -> int:
        return self._session.window_tokens

    @property
    def limit_tokens(self) -> int:
        return self._session.limit_tokens

    @property
    def policy(self) -> Policy:
        return self._session.policy

    @property
    def bus(self) -> Bus:
        return self._session.bus

    def publish(self, *events: Event) -> None:
        self._session.publish(*events)

    async def prepare(
        self,
        messages: Sequence[object] | DecodedHistory,
        *,
        system: object = None,
        tools: object = None,
        output_tokens: int | AskedOutput = 0,
        cache_seconds: int = 0,
        edited_from_tokens: int | None = None,
    ) -> Ready:
        extras = RequestExtras(system, tools, output_tokens, cache_seconds, edited_from_tokens)
        return await self._run(self._session.prepare, messages, **extras._asdict())

    async def prepare_new(
        self,
        messages: Sequence[object],
        *,
        system: object = None,
        tools: object = None,
        output_tokens: int | AskedOutput = 0,
        cache_seconds: int = 0,
        edited_from_tokens: int | None = None,
    ) -> Ready:
        extras = RequestExtras(system, tools, output_tokens, cache_seconds, edited_from_tokens)
        return await self._run(self._session.prepare_new, messages, **extras._asdict())

    async def record(self, reply: object, stamp: ReplyMetadata | None = None) -> None:
        await self._run(self._session.record, reply, stamp)

    async def recover(self, error: object) -> Ready | None:
        try:
            return await self._run(self._session.recover, error)
        except CancelledError:
            if (recovery := self._session._recovery) is not None:  # noqa: SLF001 - the two are one session
                recovery.forget()
            raise

    async def add(self, messages: Sequence[Message], *, longest_tokens: int = 0) -> None:
        await self._run(self._session.add, messages, longest_tokens=longest_tokens)

    async def adopt_summary(self, summary: Message) -> None:
        await self._run(self._session.adopt_summary, summary)

    def match(self, messages: Sequence[object] | DecodedHistory) -> HistoryMatch | None:
        return self._session.match(messages)

    def encode(self, messages: Sequence[Message]) -> list[Any]:
        return self._session.encode(messages)

    async def compact(self, focus: str = "", *, up_to: int | None = None) -> Ready:
        return await self._run(self._session.compact, focus, up_to=up_to)

    async def request_compaction(self, *, auto: bool = False) -> str:
        return await self._run(self._session.request_compaction, auto=auto)

    async def run_compaction(self) -> Literal["continue", "stop"]:
        return await self._run(self._session.run_compaction)

    async def prune(self) -> Pruned | None:
        return await self._run(self._session.prune)

    def answer_compact_tool(self, focus: str = "") -> str:
        return self._session.answer_compact_tool(focus)

    def preview(self, *, up_to: int | None = None) -> Preview:
        return self._session.preview(up_to=up_to)

    async def undo(self, sequence: int | None = None) -> None:
        await self._run(self._session.undo, sequence)

    async def pin(self, handle: str) -> None:
        await self._run(self._session.pin, handle)

    async def unpin(self, handle: str) -> None:
        await self._run(self._session.unpin, handle)

    async def title(self, text: str, *, message_id: str = "") -> None:
        await self._run(self._session.title, text, message_id=message_id)

    async def recall(self, query: str, *, budget_tokens: int = 2_000) -> str:
        return await _in_thread(self._session.recall, query, budget_tokens=budget_tokens)

    async def view(self, messages: Sequence[object] | DecodedHistory | None = None) -> list[Any]:
        return await self._run(self._session.view, messages)

    async def messages(self) -> list[Any]:
        return await self._run(self._session.messages)

    async def stored_messages(self) -> tuple[Message, ...]:
        return await _in_thread(self._session.stored_messages)

    async def explain(self) -> str:
        return await _in_thread(self._session.explain)

    async def cost(self) -> float:
        return await _in_thread(self._session.cost)

    async def titles(self) -> dict[str, str]:
        return await _in_thread(self._session.titles)

    async def diffs(self, message: int | None = None) -> tuple[FileDiff, ...]:
        return await _in_thread(self._session.diffs, message)

    async def result(self, *, budget_tokens: int = RESULT_TOKENS) -> str:
        return await _in_thread(self._session.result, budget_tokens=budget_tokens)

    async def children(self) -> tuple[str, ...]:
        return await _in_thread(self._session.children)

    async def fork(self, session_id: str, *, before: int | None = None) -> "AsyncSession":
        callbacks = LoopCallbacks(Bus())
        forked = await self._run(self._session.fork, session_id, before=before, callbacks=callbacks)
        return AsyncSession(forked, callbacks)

    async def child(
        self, name: str, settings: SessionSettings | None = None, **keywords: Unpack[SessionKeywords]
    ) -> "AsyncSession":
        callbacks = LoopCallbacks(Bus())
        made = await _in_thread(self._session.child, name, settings, callbacks=callbacks, **keywords)
        return AsyncSession(made, callbacks)

    async def media(self, handle: str) -> tuple[Medium, ...]:
        return await _in_thread(self._session.media, handle)

    async def files(self, handle: str) -> tuple[FilePart, ...]:
        return await _in_thread(self._session.files, handle)

    async def _run(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation of the session in a thread; operations of one session take turns."""
        check_not_summarising(self._session)
        async with self._turn:
            calls, self._callbacks.is_cancelled = LoopCalls.here(), False
            running = calls.loop.run_in_executor(
                _threads(os.getpid()), calls.context().run, partial(operation, *args, **kwargs)
            )
            try:
                return await shield(running)
            except CancelledError:
                self._callbacks.cancel()
                calls.cancel()
                while not running.done():
                    try:
                        await wait({running})
                    except CancelledError:  # the thread is about to end
                        continue
                running.exception()  # the task was cancelled, whatever came of the operation
                raise


async def _in_thread(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what uses only the store in a thread of the pool."""
    call = partial(act, *args, **kwargs)
    return await get_running_loop().run_in_executor(_threads(os.getpid()), copy_context().run, call)


@cache
def _threads(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a forked child gets threads of its own
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="infold")
