"""Run blocking session work in threads for callers on an event loop, and call back into that loop from the threads.

A session blocks: on its store, and for as long as a summary takes. An async caller awaits it in a thread; a summariser that is
async is awaited on the caller's loop while the thread waits for it. If the caller is cancelled, so is that summary.
"""

from asyncio import AbstractEventLoop, CancelledError, Semaphore, get_running_loop, run_coroutine_threadsafe, timeout
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import ContextVar, copy_context
from inspect import isawaitable
from threading import Lock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from infold.core.summary_request import SummaryRequest
from infold.errors import RequestRefused
from infold.ports import AsyncSummariser, Summariser, SummariserOutput

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

LATE_SECONDS = 1.0
"""How much later than the session a call is given up: the session reports that its summary takes too long."""

Value = TypeVar("Value")


class LoopCalls:
    """Calls into the event loop that threads make for one request; `seconds` limits each of them.

    `is_foreground`: the request's own work is running. Else what calls is a summary that the session writes in the background.
    `on_wait` is called on the loop when the work waits for a call.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.loop: AbstractEventLoop = get_running_loop()
        self.is_foreground = False
        self.on_wait: Callable[[], None] | None = None
        self._seconds = None if seconds is None else seconds + LATE_SECONDS
        self._lock = Lock()
        self._waiting: set[Future[Any]] = set()
        self._is_cancelled = False

    def wait_for(self, start: Callable[[], Awaitable[Value]]) -> Value:
        """Await on the loop what `start` returns there; not to be called from the loop's own thread.

        Raise `CancelledError` if the request was cancelled; in the background, where that would be unhandled, `RequestRefused`.
        """
        future = self._start(start)
        if future is not None:
            try:
                return future.result()
            except FutureCancelled:
                pass
            finally:
                with self._lock:
                    self._waiting.discard(future)
        if self.is_foreground:
            raise CancelledError
        raise RequestRefused("summariser", "the summary is no longer wanted")

    def cancel(self) -> None:
        """Cancel the calls that are running; later ones fail until the next foreground work."""
        with self._lock:
            self._is_cancelled = True
            waiting = tuple(self._waiting)
        for future in waiting:
            future.cancel()

    def run(self, work: Callable[[], Value]) -> Value:
        """Run the request's own work in this thread."""
        with self._lock:
            self.is_foreground, self._is_cancelled = True, False
        try:
            return work()
        finally:
            self.is_foreground = False

    def _start(self, start: Callable[[], Awaitable[Value]]) -> Future[Value] | None:
        async def call() -> Value:
            if self.on_wait is not None:
                self.on_wait()
            async with timeout(self._seconds):
                return await start()

        with self._lock:
            if self._is_cancelled or self.loop.is_closed():
                return None
            future = run_coroutine_threadsafe(call(), self.loop)
            self._waiting.add(future)
        return future


_calls: ContextVar[LoopCalls | None] = ContextVar("infold_loop_calls", default=None)
"""The calls of the request whose work runs here; the threads that a session starts for it inherit it."""


class ThreadBridge:
    """The threads in which a gateway or an async client runs its sessions."""

    def __init__(self) -> None:
        self._preparing = _Threads(MOST_PREPARING, "infold-prepare")
        self._recording = _Threads(MOST_RECORDING, "infold-record")

    async def prepare(self, calls: LoopCalls, work: Callable[[], Value]) -> Value:
        """Run work that may wait for a summary; if this is cancelled, so are the calls that it waits for."""
        try:
            return await self._preparing.run(calls, lambda: calls.run(work))
        except CancelledError:
            calls.cancel()
            raise

    async def record(self, calls: LoopCalls, work: Callable[[], Value]) -> Value:
        """Run work that waits for nothing but its store; once begun it is finished, also if this is cancelled."""
        return await self._recording.run(calls, work)

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

    async def run(self, calls: LoopCalls, work: Callable[[], Value]) -> Value:
        """Run work in a thread, once it may compute; first come, first served."""
        slots = self._slots.setdefault(calls.loop, Semaphore(MOST_COMPUTING))
        await slots.acquire()
        with ExitStack() as slot:
            slot.callback(slots.release)
            calls.on_wait = slot.close
            timer = calls.loop.call_later(SLOT_SECONDS, slot.close)
            context = copy_context()
            context.run(_calls.set, calls)
            try:
                return await calls.loop.run_in_executor(self._executor, context.run, work)
            finally:
                timer.cancel()

    def close(self) -> None:
        """Cancel what has not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)


def call_on_loop(callback: Callable[[Value], object]) -> Callable[[Value], None]:
    """Return a function that calls a callback on the loop of the request it is called for, from whatever thread."""

    def call(value: Value) -> None:
        calls = _calls.get()
        if calls is None:
            callback(value)
        else:
            with suppress(RuntimeError):  # the loop is closed
                calls.loop.call_soon_threadsafe(callback, value)

    return call


def blocking_summariser(summariser: AsyncSummariser) -> Summariser:
    """Return a blocking summariser that awaits this one on the loop of the request; a plain one runs in the thread."""

    def summarise(request: SummaryRequest) -> Any:
        written = summariser(request)
        calls = _calls.get()
        assert calls is not None, "a session of an async client runs in the threads of its bridge"
        if isinstance(written, AsyncIterable):
            return _iterate(written, calls)
        return calls.wait_for(lambda: written) if isawaitable(written) else written

    return summarise


def _iterate(pieces: AsyncIterable[SummariserOutput], calls: LoopCalls) -> Iterator[SummariserOutput]:
    iterator = aiter(pieces)
    end = object()
    try:
        while (piece := calls.wait_for(lambda: anext(iterator, end))) is not end:
            yield cast(SummariserOutput, piece)
    finally:
        if hasattr(iterator, "aclose"):
            calls.wait_for(iterator.aclose)
