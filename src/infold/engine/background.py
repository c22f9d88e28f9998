"""Write summaries ahead of need: one at a time, in a thread or a task, and no more of them than are likely to be used (B18).

A shelf holds the summary that was written until a flow fetches it. What is begun for one head is bounded: a session whose head
keeps changing does not pay for a summary each time.
"""

from asyncio import Task, create_task
from asyncio import wait as wait_for
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from threading import Lock, Thread

from infold.engine.ahead import Preparation
from infold.errors import InfoldError

MOST_BEGUN = 2
"""Summaries begun since one was last used or the head last changed; wasted work is bounded by that."""


class _Allowance:
    """How many summaries were begun for one head."""

    def __init__(self) -> None:
        self._head: object = None
        self._begun = 0

    def take(self, head: object) -> bool:
        """Whether one more may be begun for this head; if so, it is counted."""
        if head != self._head:
            self._head, self._begun = head, 0
        self._begun += 1
        return self._begun <= MOST_BEGUN


class Shelf:
    """What was prepared ahead, and the thread that is preparing."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._lock = Lock()
        self._allowance = _Allowance()
        self._preparation: Preparation | None = None
        self._thread: Thread | None = None
        self.round = 0

    @property
    def is_busy(self) -> bool:
        """Whether a summary is being written or waits to be used."""
        thread = self._thread
        return self._preparation is not None or (thread is not None and thread.is_alive())

    def put(self, preparation: Preparation) -> None:
        """Keep a summary for whoever fetches next."""
        with self._lock:
            self._preparation = preparation

    def begin(self, head: object, write: Callable[[], Preparation | None]) -> bool:
        """Write a summary of this head in a thread, unless one is there already or enough were begun; says whether it did."""
        if self.is_busy or not self._allowance.take(head):
            return False

        begun = self.round

        def run() -> None:
            try:
                written = write()
            except InfoldError:
                return
            with self._lock:
                if written is not None and self.round == begun:
                    self._preparation = written

        self._thread = Thread(target=copy_context().run, args=(run,), name="infold-ahead", daemon=True)
        self._thread.start()
        return True

    def cancel(self) -> None:
        """Drop what was written and what is being written: the head it is for is gone.

        A thread cannot be ended; `round` tells it that nothing more is to be asked.
        """
        with self._lock:
            self.round += 1
            self._preparation = self._thread = None

    def fetch(self, wait: bool) -> Preparation | None:
        """Take what is there; where a caller cannot go on without, also wait for what is being written."""
        thread = self._thread
        if wait and thread is not None:
            thread.join(self._patience)
        with self._lock:
            preparation, self._preparation = self._preparation, None
        return preparation


class AsyncShelf:
    """The same with a task of the running loop."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._allowance = _Allowance()
        self._preparation: Preparation | None = None
        self._task: Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a summary is being written or waits to be used."""
        return self._preparation is not None or (self._task is not None and not self._task.done())

    def put(self, preparation: Preparation) -> None:
        """Keep a summary for whoever fetches next."""
        self._preparation = preparation

    def begin(self, head: object, write: Callable[[], Awaitable[Preparation | None]]) -> bool:
        """Write a summary of this head in a task, unless one is there already or enough were begun; says whether it did."""
        if self.is_busy or not self._allowance.take(head):
            return False

        async def run() -> None:
            try:
                written = await write()
            except InfoldError:
                return
            finally:
                self._task = None  # its context holds the request that it was written for, and the session
            if written is not None:
                self.put(written)

        self._task = create_task(run(), name="infold-ahead")
        return True

    async def fetch(self, wait: bool) -> Preparation | None:
        """Take what is there; where a caller cannot go on without, also wait for what is being written."""
        if wait and self._task is not None:
            await wait_for({self._task}, timeout=self._patience)
        preparation, self._preparation = self._preparation, None
        return preparation

    def cancel(self) -> None:
        """Drop what was written and what is being written: the head it is for is gone."""
        self._preparation = None
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Give up what is being written."""
        if self._task is not None:
            self._task.cancel()
            await wait_for({self._task})
