"""What the stores in a database share: SQLite and PostgreSQL differ in the text of their queries and in how they write."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, LiteralString, TypeVar

from msgspec import Struct

from infold.core.entries import Entry
from infold.core.messages import SessionId
from infold.core.recall import Document, Hit
from infold.errors import StoreBroken
from infold.ports import Clock, SessionKey, StoredSession
from infold.stores.lifecycle import LAST, PAGE, Closing, EntryRow, PerProcess, hash_account, read_entries, read_pages
from infold.stores.search_index import IndexPiece, SearchedSession, SessionIndexes, document_at

T = TypeVar("T")

SessionRow = tuple[int, int, str, int, int, int]
"""Last change and number, by which pages are ordered; id, next sequence, bytes, last change."""


class Queries(Struct, frozen=True):
    """The text of each query; the values it takes, in order, are named after it."""

    number: LiteralString  # tenant, id: the number and the next sequence
    entries: LiteralString  # before, number, limit: rows of `EntryRow`
    tenants: LiteralString
    sessions: LiteralString  # tenant, last change, number, limit: rows of `SessionRow`
    pieces: LiteralString  # number: first entry, end and content of each piece of the index
    medium: LiteralString  # tenant, id, digest
    begin: LiteralString  # tenant, id, now: the number of a session, which is created if needed
    add_medium: LiteralString  # number, digest, bytes: nothing if the session has it
    add_bytes: LiteralString  # bytes, number
    add_piece: LiteralString  # first, end, content, number: nothing if the session was deleted
    facts: LiteralString  # owner
    add_fact: LiteralString  # owner, fact: nothing if it is known


class SqlStore(Closing):
    """Base class of the stores in a database; a subclass runs the queries and writes."""

    queries: Queries
    where: str
    """The database, as errors name it."""
    _clock: Clock
    _indexes: PerProcess[SessionIndexes]

    @abstractmethod
    def _rows(self, query: LiteralString, values: Sequence[object]) -> list[Any]:
        """Run a query and return all its rows."""

    @abstractmethod
    def _write(self, act: Callable[[Any], T]) -> T:
        """Run an act on a connection, in a transaction."""

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Yield the numbered entries, newest first; nothing if the session does not exist."""
        rows = self._rows(self.queries.number, (key.tenant, key.session_id))
        return self._entries_of(key, rows[0][0], before) if rows else iter(())

    def _entries_of(self, key: SessionKey, number: int, before: int | None) -> Iterator[tuple[int, Entry]]:
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

    def search(self, key: SessionKey, query: str, *, most: int) -> tuple[Hit, ...]:
        """Return the passages that answer a query best, best first, then newest first."""
        for number, end in self._rows(self.queries.number, (key.tenant, key.session_id)):
            entries = partial(self._entries_of, key, number, end)
            session = SearchedSession(
                number, end, entries, partial(self._pieces, number), partial(self._keep_piece, number)
            )
            return self._indexes.here().search(session, query, most)
        return ()

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

    def remember(self, account: str, fact: str) -> None:
        """Remember a fact about an account, for all sessions and processes."""
        values = (self._owner(account), fact)
        self._write(lambda connection: connection.execute(self.queries.add_fact, values).rowcount)

    def remembers(self, account: str, fact: str) -> bool:
        """Return whether this was remembered of this account."""
        return any(found == fact for (found,) in self._rows(self.queries.facts, (self._owner(account),)))

    def _owner(self, account: str) -> str:
        """Return the account's keyed hash; the key is the fact without an owner, which the migration made."""
        try:
            ((key,),) = self._rows(self.queries.facts, ("",))
            return hash_account(bytes.fromhex(key), account)
        except (TypeError, ValueError) as error:
            problem = "the key of its facts is missing or damaged"
            raise StoreBroken(self.where, problem, remedy="restore the database from a backup") from error

    def _pieces(self, number: int) -> list[IndexPiece]:
        return [
            IndexPiece(first, end, bytes(packed)) for first, end, packed in self._rows(self.queries.pieces, (number,))
        ]

    def _keep_piece(self, number: int, piece: IndexPiece) -> None:
        values = (piece.first, piece.end, piece.packed, number)
        self._write(lambda connection: connection.execute(self.queries.add_piece, values).rowcount)
