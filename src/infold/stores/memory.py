"""Sessions in the memory of this process, for tests and one-off work, and the simplest example of a store.

Entries are stored encoded, as in a database, so that what works here works there too.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from secrets import token_bytes
from threading import Lock

from infold.core.entries import Entry, encode_entry
from infold.core.recall import Document, Hit
from infold.errors import StoreConflict, UnknownSession
from infold.ports import Clock, SessionKey, StoredSession
from infold.stores.lifecycle import PAGE, Closing, EntryRow, SystemClock, choose_surplus, hash_account, read_entries
from infold.stores.search_index import SearchedSession, SessionIndexes, document_at

WHERE = "memory"


class MemoryStore(Closing):
    """A store that ends with the process; safe to use from any thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._sessions: dict[SessionKey, _Session] = {}
        self._held: set[SessionKey] = set()
        self._numbers = count()
        self._indexes = SessionIndexes()
        self._secret = token_bytes(32)
        self._facts: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Do nothing: the sessions last as long as the store."""

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append all entries or none; raise `StoreConflict` unless the first gets the number `expected`."""
        stored = [encode_entry(entry) for entry in entries]
        with self._lock:
            session = self._sessions.get(key) or _Session(next(self._numbers))
            if len(session.stored) != expected:
                raise StoreConflict(key.session_id, expected=expected, actual=len(session.stored))
            if stored:
                self._sessions.pop(key, None)
                self._sessions[key] = session
                session.changed_ms = self._clock.now_ms()
            session.stored += stored
            return len(session.stored)

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Yield the numbered entries, newest first; nothing if the session does not exist."""
        with self._lock:  # while entries are appended, the session is taken out for a moment
            stored = self._sessions[key].stored if key in self._sessions else []

        def fetch(end: int) -> list[EntryRow]:
            count = len(stored)
            last = min(end, count) - 1
            return [(count, number, stored[number]) for number in range(last, max(-1, last - PAGE), -1)]

        return read_entries(fetch, key, WHERE, before)

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[bool]:
        """Take the session's lock for a compaction; false if another thread holds it."""
        with self._lock:
            taken = key not in self._held
            self._held.add(key)
        try:
            yield taken
        finally:
            if taken:
                with self._lock:
                    self._held.remove(key)

    def tenants(self) -> tuple[str, ...]:
        """Return the tenants that have sessions, in order."""
        with self._lock:
            return tuple(sorted({key.tenant for key in self._sessions}))

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """Yield a tenant's sessions, the last changed first."""
        with self._lock:
            newest_first = list(reversed(self._sessions.items()))
        for key, session in newest_first:
            if key.tenant == tenant:
                yield StoredSession(key, len(session.stored), session.stored_bytes, session.changed_ms)

    def delete(self, key: SessionKey) -> None:
        """Delete a session; raise `UnknownSession` if it does not exist."""
        with self._lock:
            if self._sessions.pop(key, None) is None:
                raise UnknownSession(key.session_id)
            self._indexes.close()

    def expire(self, older_than_ms: int) -> int:
        """Delete the sessions that have not changed for that long; return how many."""
        with self._lock:
            oldest_ms = self._clock.now_ms() - older_than_ms
            return self._forget([key for key, session in self._sessions.items() if session.changed_ms < oldest_ms])

    def trim(self, max_bytes: int) -> int:
        """Delete the sessions changed longest ago until the rest takes at most that many bytes; return how many."""
        with self._lock:
            sizes = ((key, session.stored_bytes) for key, session in reversed(self._sessions.items()))
            return self._forget(choose_surplus(sizes, max_bytes))

    def search(self, key: SessionKey, query: str, *, most: int) -> tuple[Hit, ...]:
        """Return the passages that answer a query best, best first, then newest first."""
        with self._lock:
            session = self._sessions.get(key)
        if session is None:
            return ()
        end = len(session.stored)
        searched = SearchedSession(session.number, end, partial(self.newest_first, key, before=end))
        return self._indexes.search(searched, query, most)

    def read(self, key: SessionKey, handle: str) -> Document:
        """Return the part under a handle; raise `UnknownReference` if it holds no text."""
        return document_at(self, key, handle)

    def keep_media(self, key: SessionKey, media: Mapping[str, bytes]) -> None:
        """Store the bytes of media under their digests, each once."""
        with self._lock:
            session = self._sessions.setdefault(key, _Session(next(self._numbers)))
            session.changed_ms = session.changed_ms or self._clock.now_ms()
            session.media = {**media, **session.media}

    def medium(self, key: SessionKey, digest: str) -> bytes | None:
        """Return the bytes under a digest, or `None`."""
        with self._lock:
            return self._sessions[key].media.get(digest) if key in self._sessions else None

    def remember(self, account: str, fact: str) -> None:
        """Remember a fact about an account."""
        with self._lock:
            self._facts.add((hash_account(self._secret, account), fact))

    def remembers(self, account: str, fact: str) -> bool:
        """Return whether this was remembered of this account."""
        with self._lock:
            return (hash_account(self._secret, account), fact) in self._facts

    def _forget(self, keys: Sequence[SessionKey]) -> int:
        for key in keys:
            del self._sessions[key]
        self._indexes.close()
        return len(keys)


class _Session:
    """One session; its number stays its own, also after it is deleted and its key is used again."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stored: list[bytes] = []
        self.changed_ms = 0
        self.media: dict[str, bytes] = {}

    @property
    def stored_bytes(self) -> int:
        return sum(map(len, self.stored)) + sum(map(len, self.media.values()))
