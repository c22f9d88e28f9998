"""Run sessions in threads for callers on an event loop, and call the caller's code on that loop from the threads.

A session blocks: on its store, and for as long as a summary takes. An async caller awaits it in a thread; its observers are
called and its async summariser is awaited on the loop, while the thread waits. If the caller is cancelled, so is the summary.
"""

from asyncio import AbstractEventLoop, CancelledError, Semaphore, Task, get_running_loop, timeout
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import Context, ContextVar, copy_context
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from threading import Event as Signal
from threading import get_ident
from time import monotonic
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from infold.core.events import Event
from infold.core.judge import ModelAnswer
from infold.core.summary_request import SummaryRequest
from infold.observers.bus import Bus
from infold.ports import AsyncSummariser, Summariser, SummariserOutput
from infold.session.summariser import Callbacks, Gathering, OnPiece, as_told, gather, is_async, settle, too_slow

LOOP_CHECK_SECONDS = 1.0
"""How often a thread that waits for its event loop looks whether that was closed."""

T = TypeVar("T")


class LoopCalls:
    """What one operation, in a thread, calls and awaits on the event loop of its caller.

    `on_wait` is called on the loop when the operation waits for a coroutine there.
    """

    def __init__(self, loop: AbstractEventLoop, loop_thread: int) -> None:
        self.loop = loop
        self.loop_thread = loop_thread
        self.on_wait: Callable[[], None] | None = None
        self._task: Task[Any] | None = None
        self._is_cancelled = False

    @classmethod
    def here(cls) -> "LoopCalls":
        """Return the calls of an operation that is begun by a task of the running loop."""
        return cls(get_running_loop(), get_ident())

    def context(self) -> Context:
        """Return a copy of the current context for the thread of the operation; the threads that it starts inherit it."""
        context = copy_context()
        context.run(_current.set, self)
        return context

    def call(self, act: Callable[[], T]) -> T:
        """Call a function on the loop, also if the operation was cancelled."""
        outcome: Future[T] = Future()
        return self._result(outcome, partial(settle, outcome, act))

    def wait_for(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await a coroutine on the loop; raise `CancelledError` if it was cancelled, once it has ended."""
        outcome: Future[T] = Future()

        def start() -> None:
            if self.on_wait is not None:
                self.on_wait()
            self._task = task = self.loop.create_task(make())
            task.add_done_callback(partial(_copy_outcome, outcome))
            if self._is_cancelled:
                task.cancel()

        try:
            return self._result(outcome, start)
        finally:
            self._task = None

    def cancel(self) -> None:
        """Cancel the coroutine that is awaited, and every later one; may be called from any thread."""
        self._is_cancelled = True
        task = self._task
        if task is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(task.cancel)

    def _result(self, outcome: Future[T], start: Callable[[], None]) -> T:
        """Start something on the loop and wait for its outcome; raise `CancelledError` if the loop is closed before."""
        ended = Signal()
        outcome.add_done_callback(lambda _: ended.set())
        try:
            self.loop.call_soon_threadsafe(start)
        except RuntimeError:  # the loop was closed while the operation ran
            raise CancelledError from None
        while not ended.wait(LOOP_CHECK_SECONDS):
            if self.loop.is_closed():
                raise CancelledError
        return outcome.result()


_current: ContextVar[LoopCalls | None] = ContextVar("infold_loop_calls", default=None)
"""The calls of the operation that runs here; `None` if no event loop waits for it."""


def wait_on_loop(awaitable: Awaitable[T]) -> T:
    """Await something on the event loop of the operation that runs in this thread; raise `CancelledError` if it is cancelled."""
    calls = _current.get()
    assert calls is not None, "an operation of an event loop"

    async def result() -> T:
        return await awaitable

    return calls.wait_for(result)


class LoopCallbacks(Callbacks):
    """Calls the code of a session's caller on the event loop of the operation that is running.

    `observes_on_loop`: the observers are called there too; otherwise they may be called in any thread.
    """

    def __init__(self, bus: Bus, *, observes_on_loop: bool = True) -> None:
        super().__init__(bus)
        self._observes_on_loop = observes_on_loop
        self._in_background: LoopCalls | None = None

    def detach(self) -> "LoopCallbacks":
        detached = LoopCallbacks(self.bus, observes_on_loop=self._observes_on_loop)
        calls = _current.get()
        detached._in_background = None if calls is None else LoopCalls(calls.loop, calls.loop_thread)
        return detached

    def cancel(self) -> None:
        super().cancel()
        if self._in_background is not None:
            self._in_background.cancel()

    def publish(self, *events: Event) -> None:
        calls = _current.get()
        if not self._observes_on_loop or calls is None or get_ident() == calls.loop_thread:
            super().publish(*events)
        else:
            calls.call(partial(super().publish, *events))

    def _call(
        self, summariser: Summariser, request: SummaryRequest, on_piece: OnPiece, seconds: float | None
    ) -> ModelAnswer:
        """Call a summariser: an async one on the loop, any other in a thread that may be left behind."""
        calls = self._in_background or _current.get()
        if calls is None:
            return super()._call(summariser, request, on_piece, seconds)
        if is_async(summariser) or iscoroutinefunction(summariser):
            return calls.wait_for(lambda: _awaited(lambda: summariser(request), on_piece, seconds))
        began = monotonic()

        def call() -> ModelAnswer | Awaitable[SummariserOutput] | AsyncIterable[SummariserOutput]:
            output = cast(AsyncSummariser, summariser)(request)
            return output if isinstance(output, AsyncIterable) or isawaitable(output) else gather(output, on_piece)

        output = self.run_in_thread(call, seconds)
        if isinstance(output, ModelAnswer):
            return output
        left = None if seconds is None else max(0.0, seconds - (monotonic() - began))
        return calls.wait_for(lambda: _awaited(lambda: output, on_piece, left))


def _copy_outcome(outcome: Future[T], task: Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _awaited(call: Callable[[], object], on_piece: OnPiece, seconds: float | None) -> ModelAnswer:
    """Return what an async summariser gives; raise `ModelError` if it takes too long."""
    limit = timeout(seconds)
    try:
        async with limit:
            output = call()
            if isawaitable(output):
                return as_told(await output)
            gathering = Gathering(on_piece)
            async for item in cast(AsyncIterable[SummariserOutput], output):
                if not gathering.add(item):
                    break
            return gathering.told()
    except TimeoutError:
        if seconds is None or not limit.expired():
            raise
        raise too_slow(seconds) from None


# Threads for many sessions at once.

MOST_PREPARING = 256
"""Threads that prepare requests; further requests wait their turn. Each may wait minutes for a summary."""

MOST_RECORDING = 64
"""Threads that record replies: others than those that prepare, so that the end of a stream never waits for a summary."""

MOST_COMPUTING = 2
"""Threads of either kind that compute at once; the second goes on while the first waits for its store. With more, those of a
burst take the interpreter from the event loop, and the streams that are running stop; each thread also allocates from an arena
of its own, and four of either kind took half as much memory again."""

SLOT_SECONDS = 0.25
"""Work that takes longer waits for something, such as another process, and no longer counts as computing."""


class ThreadBridge:
    """The threads in which a gateway or an async client runs its sessions."""

    def __init__(self) -> None:
        self._preparing = _Threads(MOST_PREPARING, "infold-prepare")
        self._recording = _Threads(MOST_RECORDING, "infold-record")

    async def prepare(self, work: Callable[[], T]) -> T:
        """Run work that may wait for a summary; if this is cancelled, so is the summary."""
        calls = LoopCalls.here()
        try:
            return await self._preparing.run(calls, work)
        except CancelledError:
            calls.cancel()
            raise

    async def record(self, work: Callable[[], T]) -> T:
        """Run work that waits for nothing but its store; once begun it is finished, also if this is cancelled."""
        return await self._recording.run(LoopCalls.here(), work)

    def close(self) -> None:
        """Cancel the work that has not begun, and end each thread once it is idle; later work gets new threads."""
        self._preparing.close()
        self._recording.close()


class _Threads:
    """Threads of one kind, of which a few compute at once; each is started when it is first needed."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._executor = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._slots: WeakKeyDictionary[AbstractEventLoop, Semaphore] = WeakKeyDictionary()

    async def run(self, calls: LoopCalls, work: Callable[[], T]) -> T:
        """Run work in a thread, once it may compute; first come, first served."""
        slots = self._slots.setdefault(calls.loop, Semaphore(MOST_COMPUTING))
        await slots.acquire()
        with ExitStack() as slot:
            slot.callback(slots.release)
            calls.on_wait = slot.close
            timer = calls.loop.call_later(SLOT_SECONDS, slot.close)
            try:
                return await calls.loop.run_in_executor(self._executor, calls.context().run, work)
            finally:
                timer.cancel()

    def close(self) -> None:
        """Cancel what has not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
