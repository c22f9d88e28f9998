"""A session's log, in memory and in its store: append, read again, and hold the session's lock.

An append names the entry it follows. If another writer was faster, the store raises `StoreConflict`; `retrying` alone catches
it, reloads the log and repeats the operation.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from random import uniform
from typing import TypeVar

from infold.core.entries import Entry
from infold.core.events import Event
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.errors import StoreConflict
from infold.ports import FullStore, MediaStore, SessionKey
from infold.session.summariser import Callbacks

MOST_ATTEMPTS = 500
"""How often an operation is attempted before its conflict is raised; another writer cannot always be faster."""

PAUSE_SECONDS = 0.002
"""The first pause between attempts; it grows and is drawn at random, so that many writers come apart."""

LONGEST_PAUSE = 20
"""The longest pause, as a multiple of the first."""

T = TypeVar("T")


class LogWriter:
    """The log of one session and the only code that changes it.

    `callbacks` are those of the running operation, which may be cancelled between two steps. `is_stale`: an operation broke off,
    and the store may hold more than the log in memory. The lock is kept until `unlock`, however often an operation is attempted.
    """

    def __init__(self, store: FullStore, key: SessionKey, rendering: Rendering, callbacks: Callbacks) -> None:
        self.store = store
        self.key = key
        self.callbacks = callbacks
        self.is_stale = False
        self._rendering = rendering
        self._lock: ExitStack | None = None
        self.log = self._load()

    def append(self, *entries: Entry) -> None:
        """Append entries, all or none; raise `StoreConflict` if another writer was faster.

        The log checks them first, so that nothing is stored that could not follow.
        """
        if not entries:
            return
        grown = self.log.extend(entries)
        self.callbacks.check()
        self.store.append(self.key, entries, expected=self.log.next_sequence)
        self.log = grown

    def append_and_reload(self, *entries: Entry) -> None:
        """Append entries that bring back or take back earlier ones, which only the store has."""
        self.callbacks.check()
        self.store.append(self.key, entries, expected=self.log.next_sequence)
        self.reload()

    def reload(self) -> None:
        """Read the session from its store."""
        self.callbacks.check()
        self.log = self._load()
        self.is_stale = False

    def check_current(self) -> None:
        """Raise `StoreConflict` if the store does not end where the log does."""
        self.callbacks.check()
        newest = next(self.store.newest_first(self.key), None)
        expected, actual = self.log.next_sequence, 0 if newest is None else newest[0] + 1
        if actual != expected:
            raise StoreConflict(self.key.session_id, expected=expected, actual=actual)

    @property
    def is_locked(self) -> bool:
        """Whether this session holds its lock."""
        return self._lock is not None

    def try_lock(self) -> bool:
        """Take the session's lock for a compaction, if it is free or held already."""
        if self._lock is not None:
            return True
        self.callbacks.check()
        with ExitStack() as attempt:
            if not attempt.enter_context(self.store.hold(self.key)):
                return False
            self._lock = attempt.pop_all()
        return True

    def unlock(self) -> None:
        """Give the lock back, if it is held."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def publish(self, *events: Event) -> None:
        """Pass events to the session's observers."""
        if events:
            self.callbacks.publish(*events)

    def keep_media(self, media: Mapping[str, bytes]) -> None:
        """Store the bytes of media, before the messages that name them are appended."""
        if media and isinstance(self.store, MediaStore):
            self.callbacks.check()
            self.store.keep_media(self.key, media)

    def read_media(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored bytes of media by their digests."""
        if not isinstance(self.store, MediaStore):
            return {}
        self.callbacks.check()
        found = {digest: self.store.medium(self.key, digest) for digest in digests}
        return {digest: data for digest, data in found.items() if data is not None}

    def _load(self) -> Log:
        return load(self.key.session_id, self.store.newest_first(self.key), self._rendering)


def retrying(writer: LogWriter, operation: Callable[[], T], on_reload: Callable[[], None]) -> T:
    """Run an operation until no other writer comes in between, the session reloaded before each further attempt.

    After any other failure it is unknown what was stored: the next operation reloads first.
    """
    try:
        if writer.is_stale:
            _reload(writer, on_reload)
        for attempt in range(MOST_ATTEMPTS):
            try:
                outcome = operation()
            except StoreConflict as error:
                conflict = error
            else:
                writer.unlock()
                writer.callbacks.check()  # a caller who cancelled does not learn that it was done
                return outcome
            if attempt:
                writer.callbacks.pause(PAUSE_SECONDS * min(attempt, LONGEST_PAUSE) * uniform(0.5, 1.5))
            _reload(writer, on_reload)
        raise conflict
    except BaseException:
        writer.is_stale = True
        on_reload()
        raise
    finally:
        writer.unlock()


def _reload(writer: LogWriter, on_reload: Callable[[], None]) -> None:
    writer.reload()
    on_reload()
