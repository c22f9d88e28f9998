"""Write summaries ahead of need: one at a time, in a thread, and no more of them than are likely to be used."""

from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Lock, Thread

from infold.errors import InfoldError
from infold.session.summariser import Callbacks
from infold.session.summary import PreparedSummary

MOST_BEGUN = 2
"""Summaries begun since one was last used or the head last changed; this bounds wasted work."""


class BackgroundSummary:
    """The summary that was prepared or is being prepared for a session; may be used from any thread.

    A summary that was written when needed, and could not be appended because another writer was faster, is kept here too.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._lock = Lock()
        self._head: object = None
        self._begun = 0
        self._prepared: PreparedSummary | None = None
        self._leftover: PreparedSummary | None = None
        self._running: _Running | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a summary is being written or waits to be used."""
        return self._prepared is not None or self._running is not None

    @property
    def holds_native(self) -> bool:
        """Whether a summary that the provider wrote by its own means waits to be used."""
        prepared = self._prepared
        return prepared is not None and bool(prepared.summary.native.messages)

    def begin(self, head: object, callbacks: Callbacks, write: Callable[[Callbacks], PreparedSummary]) -> None:
        """Write a summary of this head in a thread, unless one is there already or enough were begun for it."""
        if self.is_busy or not self._may_begin(head):
            return
        running = _Running(callbacks.detach())
        self._running = running
        target = copy_context().run
        Thread(target=target, args=(self._run, running, write), name="infold-ahead", daemon=True).start()

    def keep(self, leftover: PreparedSummary) -> None:
        """Keep a summary that could not be appended for the next attempt."""
        self._leftover = leftover

    def fetch(self, callbacks: Callbacks, *, wait: bool) -> PreparedSummary | None:
        """Take the summary that is there; `wait`: also one that is still being written."""
        leftover, self._leftover = self._leftover, None
        if leftover is not None:
            return leftover
        running = self._running
        if wait and running is not None:
            callbacks.wait(running.ended, self._patience)
        with self._lock:
            prepared, self._prepared = self._prepared, None
        return prepared

    def cancel(self) -> "Future[None] | None":
        """Drop the summary that is there, and cancel the one being written; return a future for its end."""
        with self._lock:
            running, self._running, self._prepared = self._running, None, None
        if running is None:
            return None
        running.callbacks.cancel()
        return running.ended

    def _may_begin(self, head: object) -> bool:
        if head != self._head:
            self._head, self._begun = head, 0
        self._begun += 1
        return self._begun <= MOST_BEGUN

    def _run(self, running: "_Running", write: Callable[[Callbacks], PreparedSummary]) -> None:
        prepared = None
        try:
            prepared = write(running.callbacks)
        except (InfoldError, CancelledError):
            pass  # it was published, or is no longer wanted
        finally:
            with self._lock:
                if self._running is running:
                    self._prepared, self._running = prepared, None
            running.ended.set_result(None)


class _Running:
    """A summary that is being written."""

    def __init__(self, callbacks: Callbacks) -> None:
        self.callbacks = callbacks
        self.ended: Future[None] = Future()
