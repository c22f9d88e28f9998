"""Sessions in one SQLite file, for one machine.

Appends go through one connection (`sqlite_writer.py`), reads through connections of their own, both from any thread.
Several processes may use one file: each append is a transaction that first checks the expected number.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, LiteralString

from infold.core.entries import Entry, encode_entry
from infold.errors import StoreConflict, UnknownSession
from infold.ports import Clock, SessionKey
from infold.stores.lifecycle import PerProcess, SystemClock, choose_surplus
from infold.stores.search_index import SessionIndexes
from infold.stores.sql_store import Queries, SqlStore, T
from infold.stores.sqlite_file import BUSY_SECONDS, hold_lock, lock_path, prepare, translate_errors
from infold.stores.sqlite_writer import Connections

_SESSION = "FROM sessions WHERE tenant = ? AND id = ?"

# The casts keep a damaged file from returning values of another type.
_QUERIES = Queries(
    number=f"SELECT number, CAST(next_sequence AS INTEGER) {_SESSION}",
    entries=(
        "SELECT CAST(next_sequence AS INTEGER), sequence, CAST(stored AS BLOB) FROM sessions "
        "LEFT JOIN entries ON session = number AND sequence < ? WHERE number = ? ORDER BY sequence DESC LIMIT ?"
    ),
    tenants="SELECT DISTINCT tenant FROM sessions ORDER BY tenant",
    sessions=(
        "SELECT changed_ms, number, id, "
        "CAST(next_sequence AS INTEGER), CAST(stored_bytes AS INTEGER), CAST(changed_ms AS INTEGER) FROM sessions "
        "WHERE tenant = ? AND (changed_ms, number) < (?, ?) ORDER BY changed_ms DESC, number DESC LIMIT ?"
    ),
    pieces=(
        "SELECT CAST(first AS INTEGER), CAST(ends AS INTEGER), CAST(packed AS BLOB) FROM index_pieces WHERE session = ?"
    ),
    medium=(
        "SELECT media.stored FROM media JOIN sessions ON sessions.number = media.session "
        "WHERE sessions.tenant = ? AND sessions.id = ? AND media.digest = ?"
    ),
    begin=(
        "INSERT INTO sessions (tenant, id, next_sequence, stored_bytes, changed_ms) VALUES (?, ?, 0, 0, ?) "
        "ON CONFLICT (tenant, id) DO UPDATE SET next_sequence = next_sequence RETURNING number"
    ),
    add_medium="INSERT INTO media VALUES (?, ?, ?) ON CONFLICT (session, digest) DO NOTHING",
    add_bytes="UPDATE sessions SET stored_bytes = stored_bytes + ? WHERE number = ?",
    add_piece=(
        "INSERT INTO index_pieces SELECT number, ?, ?, ? FROM sessions WHERE number = ? "
        "ON CONFLICT (session, first) DO UPDATE SET ends = excluded.ends, packed = excluded.packed"
    ),
    facts="SELECT fact FROM facts WHERE owner = ?",
    add_fact="INSERT INTO facts VALUES (?, ?) ON CONFLICT (owner, fact) DO NOTHING",
)


class SqliteStore(SqlStore):
    """A store in a file; safe to use from any thread, and in a child after a fork.

    An append that returned survives the end of the process, and of the machine if the disk honours its syncs. Raise
    `StoreBroken` if the file is damaged, foreign, newer than this version or not writable, or if another process has
    been writing for longer than `busy_seconds`.
    """

    queries = _QUERIES

    def __init__(self, path: str | Path, clock: Clock | None = None, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = Path(os.path.realpath(path))
        self.where = str(self._path)
        self._clock = clock or SystemClock()
        self._connections = PerProcess(self.where, lambda: Connections(self._path, busy_seconds))
        self._indexes = PerProcess(self.where, SessionIndexes)
        prepare(self._path, busy_seconds)

    def close(self) -> None:
        """Finish pending appends and close the file; calling it again does nothing."""
        self._indexes.close()
        self._connections.close()

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append all entries or none; raise `StoreConflict` unless the first gets the number `expected`."""
        stored = [encode_entry(entry) for entry in entries]
        return self._write(lambda connection: _append(connection, key, stored, expected, self._clock))

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[bool]:
        """Take the session's lock for a compaction; false if another thread or process holds it."""
        with ExitStack() as stack:
            with translate_errors(self._path):
                taken = stack.enter_context(hold_lock(lock_path(self._path, key)))
            yield taken

    def delete(self, key: SessionKey) -> None:
        """Delete a session, its index and their bytes in the file; raise `UnknownSession` if it does not exist."""

        def act(connection: sqlite3.Connection) -> None:
            found = _find(connection, key)
            if found is None:
                raise UnknownSession(key.session_id)
            _forget(connection, [found[0]])

        self._write(act)
        self._give_back()

    def expire(self, older_than_ms: int) -> int:
        """Delete the sessions that have not changed for that long; return how many."""

        def act(connection: sqlite3.Connection) -> int:
            oldest_ms = self._clock.now_ms() - older_than_ms
            old = connection.execute("SELECT number FROM sessions WHERE changed_ms < ?", (oldest_ms,)).fetchall()
            return _forget(connection, [number for (number,) in old])

        return self._delete_many(act)

    def trim(self, max_bytes: int) -> int:
        """Delete the sessions changed longest ago until the rest takes at most that many bytes; return how many."""

        def act(connection: sqlite3.Connection) -> int:
            sizes = connection.execute(
                "SELECT number, CAST(stored_bytes AS INTEGER) FROM sessions ORDER BY changed_ms DESC, number DESC"
            ).fetchall()
            return _forget(connection, choose_surplus(sizes, max_bytes))

        return self._delete_many(act)

    def _write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        return self._connections.here().write(act)

    def _rows(self, query: LiteralString, values: Sequence[object]) -> list[Any]:
        with self._connections.here().reading() as connection:
            return connection.execute(query, values).fetchall()

    def _delete_many(self, act: Callable[[sqlite3.Connection], int]) -> int:
        deleted = self._write(act)
        if deleted:
            self._give_back()
        return deleted

    def _give_back(self) -> None:
        """Shorten the file and empty the write-ahead log into it, so that nothing deleted remains in either."""
        self._indexes.here().close()
        with self._connections.here().reading() as connection:
            connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")


# Acts of the writer, each inside its transaction.


def _find(connection: sqlite3.Connection, key: SessionKey) -> tuple[int, int] | None:
    """Return a session's number and the number of its next entry."""
    found: tuple[int, int] | None = connection.execute(
        "SELECT number, next_sequence FROM sessions WHERE tenant = ? AND id = ?", (key.tenant, key.session_id)
    ).fetchone()
    return found


def _append(
    connection: sqlite3.Connection, key: SessionKey, stored: Sequence[bytes], expected: int, clock: Clock
) -> int:
    """Append entries, creating the session on its first append; return the number of the next one."""
    number, actual = _find(connection, key) or (None, 0)
    if actual != expected:
        raise StoreConflict(key.session_id, expected=expected, actual=actual)
    following = expected + len(stored)
    if not stored:
        return following
    size, now_ms = sum(map(len, stored)), clock.now_ms()
    if number is None:
        number = connection.execute(
            "INSERT INTO sessions (tenant, id, next_sequence, stored_bytes, changed_ms) VALUES (?, ?, ?, ?, ?)",
            (key.tenant, key.session_id, following, size, now_ms),
        ).lastrowid
    else:
        connection.execute(
            "UPDATE sessions SET next_sequence = ?, stored_bytes = stored_bytes + ?, changed_ms = ? WHERE number = ?",
            (following, size, now_ms, number),
        )
    connection.executemany(
        "INSERT INTO entries VALUES (?, ?, ?)", [(number, expected + at, entry) for at, entry in enumerate(stored)]
    )
    return following


def _forget(connection: sqlite3.Connection, numbers: Sequence[int]) -> int:
    """Delete sessions by number and overwrite their bytes; return how many."""
    for number in numbers:
        connection.execute("DELETE FROM index_pieces WHERE session = ?", (number,))
        connection.execute("DELETE FROM entries WHERE session = ?", (number,))
        connection.execute("DELETE FROM media WHERE session = ?", (number,))
        connection.execute("DELETE FROM sessions WHERE number = ?", (number,))
    return len(numbers)
