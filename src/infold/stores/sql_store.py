"""What the stores in a database share: SQLite and PostgreSQL differ in the text of their queries and in how they write."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, LiteralString, TypeVar

from msgspec import Struct

from infold.core.entries import Entry
from infold.core.messages import SessionId
from infold.core.recall import Document
from infold.ports import Clock, Found, SessionKey, StoredSession
from infold.stores.lifecycle import LAST, PAGE, Closing, EntryRow, read_entries, read_pages
from infold.stores.search_index import (
    MOST_PLACES,
    Indexed,
    Slice,
    document_at,
    index_all,
    places_in,
    query_tokens,
    rank_parts,
)

T = TypeVar("T")

SessionRow = tuple[int, int, str, int, int, int]
"""Last change and number, by which pages are ordered; id, next sequence, bytes, last change."""


class Queries(Struct, frozen=True):
    """The text of each query; the values it takes, in order, are named after it."""

    number: LiteralString  # tenant, id
    entries: LiteralString  # before, number, limit: rows of `EntryRow`
    tenants: LiteralString
    sessions: LiteralString  # tenant, last change, number, limit: rows of `SessionRow`
    indexed: LiteralString  # tenant, id: entries in the index, entries in all
    places: LiteralString  # number, expression, limit: sequence and position
    medium: LiteralString  # tenant, id, digest
    begin: LiteralString  # tenant, id, now: the number of a session, which is created if needed
    add_medium: LiteralString  # number, digest, bytes: nothing if the session has it
    add_bytes: LiteralString  # bytes, number
    advance: LiteralString  # end, tenant, id, reached: the number of the session, nothing if its index is elsewhere


class SqlStore(Closing):
    """Base class of the stores in a database; a subclass runs the queries and writes."""

    queries: Queries
    where: str
    """The database, as errors name it."""
    _clock: Clock

    @abstractmethod
    def _rows(self, query: LiteralString, values: Sequence[object]) -> list[Any]:
        """Run a query and return all its rows."""

    @abstractmethod
    def _write(self, act: Callable[[Any], T]) -> T:
        """Run an act on a connection, in a transaction."""

    @abstractmethod
    def _add_words(self, connection: Any, number: int, slices: Sequence[Slice]) -> None:
        """Insert slices into the index of a session."""

    @abstractmethod
    def _match(self, number: int, token: str) -> tuple[object, ...]:
        """Return the first values of the query `places` for a token of a session."""

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Yield the numbered entries, newest first; nothing if the session does not exist."""
        number = self._number(key)
        if number is None:
            return iter(())

        def fetch(end: int) -> list[EntryRow]:
            return self._rows(self.queries.entries, (end, number, PAGE))

        return read_entries(fetch, key, self.where, before)

    def tenants(self) -> tuple[str, ...]:
        """Return the tenants that have sessions, in order."""
        return tuple(tenant for (tenant,) in self._rows(self.queries.tenants, ()))

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """Yield a tenant's sessions, the last changed first."""

        def fetch(last: SessionRow | None) -> list[SessionRow]:
            return self._rows(self.queries.sessions, (tenant, *(last[:2] if last else (LAST, LAST)), PAGE))

        for _, _, session_id, entries, stored_bytes, changed_ms in read_pages(fetch):
            yield StoredSession(SessionKey(tenant, SessionId(session_id)), entries, stored_bytes, changed_ms)

    def search(self, key: SessionKey, tokens: Sequence[str], *, most: int) -> tuple[Found, ...]:
        """Return the parts that hold any of these tokens, best first, then newest first."""

        rest = index_all(self, key, partial(self._indexed, key), partial(self._index, key))
        number = None if rest is None else self._number(key)
        if rest is None or number is None:
            return ()
        places = (
            places_in(rest, token) + self._rows(self.queries.places, (*self._match(number, token), MOST_PLACES))
            for token in query_tokens(tokens)
        )
        return rank_parts(places, most)

    def read(self, key: SessionKey, handle: str) -> Document:
        """Return the part under a handle; raise `UnknownReference` if it holds no text."""
        return document_at(self, key, handle)

    def medium(self, key: SessionKey, digest: str) -> bytes | None:
        """Return the bytes under a digest, or `None`."""
        rows = self._rows(self.queries.medium, (key.tenant, key.session_id, digest))
        return bytes(rows[0][0]) if rows else None

    def keep_media(self, key: SessionKey, media: Mapping[str, bytes]) -> None:
        """Store the bytes of media under their digests, each once; the session is created if needed."""
        now_ms = self._clock.now_ms()

        def act(connection: Any) -> None:
            (number,) = connection.execute(self.queries.begin, (key.tenant, key.session_id, now_ms)).fetchone()
            for digest, content in media.items():
                added = connection.execute(self.queries.add_medium, (number, digest, content)).rowcount
                connection.execute(self.queries.add_bytes, (added * len(content), number))

        self._write(act)

    def _index(self, key: SessionKey, reached: Indexed, end: int, slices: Sequence[Slice]) -> None:
        """Advance a session's index, unless another writer has done so or the session was deleted."""
        span = (end, key.tenant, key.session_id, reached.entries)

        def act(connection: Any) -> None:
            row = connection.execute(self.queries.advance, span).fetchone()
            if row is not None:
                self._add_words(connection, row[0], slices)

        self._write(act)

    def _number(self, key: SessionKey) -> int | None:
        rows = self._rows(self.queries.number, (key.tenant, key.session_id))
        return int(rows[0][0]) if rows else None

    def _indexed(self, key: SessionKey) -> Indexed | None:
        rows = self._rows(self.queries.indexed, (key.tenant, key.session_id))
        return Indexed(*rows[0]) if rows else None
