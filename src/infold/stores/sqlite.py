"""Sessions in one SQLite file, for one machine.

Appends go through one writer thread (`sqlite_writer.py`), reads through connections of their own from any thread. Several
processes may use one file: each append is a transaction that first checks the number it was promised (B14).
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from infold.core.entries import Entry, encode_entry
from infold.core.messages import SessionId
from infold.core.recall import Document
from infold.errors import StoreConflict, UnknownSession
from infold.ports import Clock, Found, SessionKey, StoredSession
from infold.stores.lifecycle import LAST, PAGE, Closing, EntryRow, SystemClock, in_pages, numbered_entries, surplus
from infold.stores.search_index import (
    MOST_PLACES,
    Indexed,
    Place,
    Slice,
    askable,
    document_at,
    index_all,
    places_in,
    ranked,
)
from infold.stores.sqlite_file import BUSY_SECONDS, holding, lock_path, prepare, translated
from infold.stores.sqlite_writer import Connections


class SqliteStore(Closing):
    """A store in a file; may be used from any thread, and in a child after a fork.

    An append that returned survives the end of the process, and of the machine as far as the disk keeps its word. Raises
    `StoreBroken` for a file that is damaged, another program's, newer than this version or not writable, and for one that
    another process has been writing for longer than `busy_seconds`.
    """

    def __init__(self, path: str | Path, clock: Clock | None = None, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = Path(os.path.realpath(path))
        self._clock = clock or SystemClock()
        self._connections = Connections(self._path, busy_seconds)
        prepare(self._path, busy_seconds)

    def close(self) -> None:
        """Finish what was asked, end the writer and close the file; a second time does nothing."""
        self._connections.close()

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append these entries, all or none; raises `StoreConflict` unless the first gets the number expected."""
        return self.append_soon(key, entries, expected).result()

    def append_soon(self, key: SessionKey, entries: Sequence[Entry], expected: int) -> Future[int]:
        """The same for a caller who does not wait here: the answer comes from the writer's thread, after the commit."""
        stored = [encode_entry(entry) for entry in entries]

        def act(connection: sqlite3.Connection) -> int:
            _expect(connection, key, expected)
            if stored:
                number = _grow(connection, key, stored, self._clock.now_ms())
                _insert(connection, number, expected, stored)
            return expected + len(stored)

        return self._connections.ask(act)

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The numbered entries, newest first; nothing for a session that is not there."""
        number = self._number(key)
        if number is None:
            return iter(())

        def fetch(end: int) -> list[EntryRow]:
            return self._rows(
                "SELECT CAST(next_sequence AS INTEGER), sequence, CAST(stored AS BLOB) FROM sessions "
                "LEFT JOIN entries ON session = number AND sequence < ? WHERE number = ? ORDER BY sequence DESC LIMIT ?",
                (end, number, PAGE),
            )

        return numbered_entries(fetch, key, str(self._path), before)

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[bool]:
        """Take the session's lock for a compaction; false while another thread or process has it."""
        with ExitStack() as stack:
            with translated(self._path):
                taken = stack.enter_context(holding(lock_path(self._path, key)))
            yield taken

    def tenants(self) -> tuple[str, ...]:
        """Whose sessions there are, in order."""
        return tuple(tenant for (tenant,) in self._rows("SELECT DISTINCT tenant FROM sessions ORDER BY tenant", ()))

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """A tenant's sessions, the last changed first."""

        def fetch(last: tuple[int, int, str, int, int, int] | None) -> list[tuple[int, int, str, int, int, int]]:
            return self._rows(
                "SELECT changed_ms, number, id, "
                "CAST(next_sequence AS INTEGER), CAST(stored_bytes AS INTEGER), CAST(changed_ms AS INTEGER) FROM sessions "
                "WHERE tenant = ? AND (changed_ms, number) < (?, ?) ORDER BY changed_ms DESC, number DESC LIMIT ?",
                (tenant, *(last[:2] if last else (LAST, LAST)), PAGE),
            )

        for _, _, session_id, entries, stored_bytes, changed_ms in in_pages(fetch):
            yield StoredSession(SessionKey(tenant, SessionId(session_id)), entries, stored_bytes, changed_ms)

    def delete(self, key: SessionKey) -> None:
        """Remove a session, its words and their bytes in the file; raises `UnknownSession` if there is none."""

        def act(connection: sqlite3.Connection) -> None:
            found = _find(connection, key)
            if found is None:
                raise UnknownSession(key.session_id)
            _forget(connection, [found[0]])

        self._connections.write(act)
        self._give_back()

    def expire(self, older_than_ms: int) -> int:
        """Delete the sessions that last changed longer ago than that; gives how many."""

        def act(connection: sqlite3.Connection) -> int:
            oldest_ms = self._clock.now_ms() - older_than_ms
            old = connection.execute("SELECT number FROM sessions WHERE changed_ms < ?", (oldest_ms,)).fetchall()
            return _forget(connection, [number for (number,) in old])

        return self._delete_many(act)

    def trim(self, max_bytes: int) -> int:
        """Delete the sessions changed longest ago until all others hold at most that many bytes; gives how many."""

        def act(connection: sqlite3.Connection) -> int:
            sizes = connection.execute(
                "SELECT number, stored_bytes FROM sessions ORDER BY changed_ms DESC, number DESC"
            ).fetchall()
            return _forget(connection, surplus(sizes, max_bytes))

        return self._delete_many(act)

    def search(self, key: SessionKey, tokens: Sequence[str], *, most: int) -> tuple[Found, ...]:
        """The parts that hold any of these tokens, best first, of equals the newest."""
        rest = index_all(self, key, lambda: self._indexed(key), partial(self._index, key))
        if rest is None:
            return ()
        number = self._number(key)
        if number is None:
            return ()
        return ranked([places_in(rest, token) + self._places(number, token) for token in askable(tokens)], most)

    def read(self, key: SessionKey, handle: str) -> Document:
        """A part as it was said; raises `UnknownReference` if there is no text under that handle."""
        return document_at(self, key, handle)

    def keep_media(self, key: SessionKey, media: Mapping[str, bytes]) -> None:
        """Keep the bytes of media under their digests, each once."""
        self._connections.write(lambda connection: _keep_media(connection, key, media, self._clock.now_ms()))

    def medium(self, key: SessionKey, digest: str) -> bytes | None:
        """Return the bytes under a digest; `None` if the session has none."""
        query = (
            "SELECT media.stored FROM media JOIN sessions ON sessions.number = media.session "
            "WHERE sessions.tenant = ? AND sessions.id = ? AND media.digest = ?"
        )
        return next((bytes(row[0]) for row in self._rows(query, (key.tenant, key.session_id, digest))), None)

    def _indexed(self, key: SessionKey) -> Indexed | None:
        query = (
            "SELECT CAST(indexed AS INTEGER), CAST(next_sequence AS INTEGER) FROM sessions WHERE tenant = ? AND id = ?"
        )
        return next((Indexed(*row) for row in self._rows(query, (key.tenant, key.session_id))), None)

    def _index(self, key: SessionKey, reached: Indexed, end: int, slices: Sequence[Slice]) -> None:
        self._connections.write(lambda connection: _index(connection, key, (reached.entries, end), slices))

    def _number(self, key: SessionKey) -> int | None:
        with self._connections.reading() as connection:
            found = _find(connection, key)
        return found[0] if found else None

    def _rows(self, query: str, values: Sequence[object]) -> list[Any]:
        with self._connections.reading() as connection:
            return connection.execute(query, values).fetchall()

    def _places(self, number: int, token: str) -> list[Place]:
        return self._rows(
            "SELECT sequence, position FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?",
            (f'"{_mark(number)}" AND "{token}"', MOST_PLACES),
        )

    def _delete_many(self, act: Callable[[sqlite3.Connection], int]) -> int:
        deleted = self._connections.write(act)
        if deleted:
            self._give_back()
        return deleted

    def _give_back(self) -> None:
        """Shorten the file, and empty the write-ahead log into it, so that nothing deleted stays behind in either."""
        with self._connections.reading() as connection:
            connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")


# Acts of the writer, each inside its transaction.


def _find(connection: sqlite3.Connection, key: SessionKey) -> tuple[int, int] | None:
    """A session's own number, and the number its next entry gets."""
    found: tuple[int, int] | None = connection.execute(
        "SELECT number, next_sequence FROM sessions WHERE tenant = ? AND id = ?", (key.tenant, key.session_id)
    ).fetchone()
    return found


def _expect(connection: sqlite3.Connection, key: SessionKey, expected: int) -> None:
    found = _find(connection, key)
    actual = found[1] if found else 0
    if actual != expected:
        raise StoreConflict(key.session_id, expected=expected, actual=actual)


def _grow(connection: sqlite3.Connection, key: SessionKey, stored: Sequence[bytes], now_ms: int) -> int:
    """Count the entries in, beginning the session if this is its first append; gives its number."""
    (number,) = connection.execute(
        "INSERT INTO sessions (tenant, id, next_sequence, stored_bytes, changed_ms) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, id) DO UPDATE SET next_sequence = next_sequence + excluded.next_sequence, "
        "stored_bytes = stored_bytes + excluded.stored_bytes, changed_ms = excluded.changed_ms RETURNING number",
        (key.tenant, key.session_id, len(stored), sum(map(len, stored)), now_ms),
    ).fetchone()
    return int(number)


def _insert(connection: sqlite3.Connection, number: int, first: int, stored: Sequence[bytes]) -> None:
    connection.executemany(
        "INSERT INTO entries VALUES (?, ?, ?)", [(number, first + at, entry) for at, entry in enumerate(stored)]
    )


def _keep_media(connection: sqlite3.Connection, key: SessionKey, media: Mapping[str, bytes], now_ms: int) -> None:
    """Store what the session does not have yet and count it in; the session is begun if this comes before its first entry."""
    (number,) = connection.execute(
        "INSERT INTO sessions (tenant, id, next_sequence, stored_bytes, changed_ms) VALUES (?, ?, 0, 0, ?) "
        "ON CONFLICT (tenant, id) DO UPDATE SET next_sequence = next_sequence RETURNING number",
        (key.tenant, key.session_id, now_ms),
    ).fetchone()
    for digest, content in media.items():
        added = connection.execute(
            "INSERT INTO media VALUES (?, ?, ?) ON CONFLICT (session, digest) DO NOTHING", (number, digest, content)
        ).rowcount
        connection.execute(
            "UPDATE sessions SET stored_bytes = stored_bytes + ? WHERE number = ?", (added * len(content), number)
        )


def _index(connection: sqlite3.Connection, key: SessionKey, span: tuple[int, int], slices: Sequence[Slice]) -> None:
    """Take a session's index on, unless another writer has done so or the session has gone."""
    row = connection.execute(
        "UPDATE sessions SET indexed = ? WHERE tenant = ? AND id = ? AND indexed = ? RETURNING number",
        (span[1], key.tenant, key.session_id, span[0]),
    ).fetchone()
    if row is None:
        return
    (number,) = row
    connection.executemany(
        "INSERT INTO words (sequence, position, tokens) VALUES (?, ?, ?)",
        [(piece.sequence, piece.position, " ".join((_mark(number), *piece.tokens))) for piece in slices],
    )


def _forget(connection: sqlite3.Connection, numbers: Sequence[int]) -> int:
    """Delete sessions by their numbers and overwrite what they were; gives how many.

    The index only marks deleted words until its pieces are merged, so it is merged here and now: deleting takes time in
    proportion to the whole store, and leaves nothing (B27).
    """
    for number in numbers:
        connection.execute(
            "DELETE FROM words WHERE rowid IN (SELECT rowid FROM words WHERE words MATCH ?)", (f'"{_mark(number)}"',)
        )
        connection.execute("DELETE FROM entries WHERE session = ?", (number,))
        connection.execute("DELETE FROM media WHERE session = ?", (number,))
        connection.execute("DELETE FROM sessions WHERE number = ?", (number,))
    if numbers:
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
    return len(numbers)


def _mark(number: int) -> str:
    """The word by which the index tells one session's rows from another's; no token of a text can be it."""
    return f"${number}"
