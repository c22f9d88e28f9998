"""A store that is away: once a request waited for it in vain, those that follow do not, for a while.

A database that cannot be reached, or a file that another process holds, lets each request wait for many seconds before it fails.
"""

from collections.abc import Callable
from time import monotonic

from infold.errors import StoreBroken, StoreError

SLOW_SECONDS = 1.0
"""A failure that comes sooner keeps nobody waiting, and may be of one session alone."""

REST_SECONDS = 15.0
"""How long a store is left alone: one request in that time waits for it, and what is said meanwhile is stored later."""


class Outage:
    """When a store last kept a request waiting in vain; several sessions' requests may share one."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._error: StoreError | None = None
        self._until = 0.0

    @property
    def error(self) -> StoreError | None:
        """Why the store is not to be asked now; nothing where it may be."""
        return self._error if self._clock() < self._until else None

    def begin(self) -> float:
        """The moment from which a request waits; after an outage it is the only one, until the store answered it."""
        now = self._clock()
        if self._error is not None:
            self._until = now + REST_SECONDS
        return now

    def end(self) -> None:
        """The store did what it was asked."""
        self._error = None

    def note(self, error: StoreError, begun: float) -> StoreError:
        """Remember a failure of a request that began then, if it was slow; the same error.

        That another writer was faster says nothing about the store: the request may have waited for a summary.
        """
        now = self._clock()
        if isinstance(error, StoreBroken) and now - begun >= SLOW_SECONDS:
            self._error, self._until = error, now + REST_SECONDS
        return error
