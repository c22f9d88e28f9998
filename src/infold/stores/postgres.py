"""Sessions in a PostgreSQL database, for any number of machines.

An append is one transaction that locks the session's row and checks the expected number. Locks for compaction are
advisory locks on a connection of their own, so they end with the connection or the process. A pooler between infold
and the server must therefore keep a session on one server connection.
"""

import hashlib
import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg import errors as refusals
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from infold.core.entries import Entry, encode_entry
from infold.errors import StoreBroken, StoreConflict, UnknownSession
from infold.ports import Clock, SessionKey
from infold.stores.lifecycle import PerProcess, SystemClock, choose_surplus, migrations_for, pending_migrations
from infold.stores.search_index import SessionIndexes
from infold.stores.sql_store import Queries, SqlStore, T

Connection = psycopg.Connection[tuple[object, ...]]

CONNECT_SECONDS = 10

MOST_CONNECTIONS = 8
"""Connections per process; an append uses one for a few milliseconds."""

MIGRATION_LOCK = 0x696E666F6C64
"""The advisory lock under which tables are created: the letters "infold"."""

_SERVER = "see that the server runs and can be reached, then load the session again before going on"

_RIGHTS = "grant this user the right to create and write tables in its schema"

REMEDIES: tuple[tuple[str, str, str], ...] = (
    ("53100", "the server's disk is full", "free some space there and try again; nothing that was stored is lost"),
    ("53", "the server has no connection or memory left", "allow more connections, or run fewer processes"),
    ("28", "the server does not let this user in", "check user and password"),
    ("3D000", "there is no such database", "create it"),
    ("42501", "this user may not do that", _RIGHTS),
    ("25006", "the server takes no writes", "name the primary server, not a replica"),
    ("42", "its tables are not infold's", "name a database or schema of infold's own"),
    ("XX", "the server reports damage", "restore the database from a copy"),
    ("08", "the connection was lost", _SERVER),
    ("57", "the server ended the connection", _SERVER),
)
"""The problem and the remedy by prefix of the error code; the first match counts."""

_UNREACHABLE = ("", "the server cannot be reached", _SERVER)

_REFUSED = ("", "the server refused", "look the error up by its code")


def database_name(dsn: str) -> str:
    """Return a database's host and name for messages; raise `StoreBroken` if the connection string is invalid."""
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq repeats the string in its message, and a password may stand in it.
        raise StoreBroken(
            "PostgreSQL", "the connection string cannot be read", remedy="write it as postgresql://user@host/database"
        ) from None
    return f"PostgreSQL database {given.get('dbname', 'of the user')} at {given.get('host', 'this machine')}"


def connect(dsn: str, where: str) -> Connection:
    """Open a separate connection in autocommit mode."""
    with translate_errors(where):
        return psycopg.connect(dsn, autocommit=True, connect_timeout=CONNECT_SECONDS)


def prepare(dsn: str, where: str) -> None:
    """Bring the tables up to this version, one process at a time; raise `StoreBroken` if that fails."""
    with connect(dsn, where) as connection, translate_errors(where), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS infold_migrations (number integer PRIMARY KEY, name text, applied_ms bigint)"
        )
        applied = connection.execute("SELECT number, name FROM infold_migrations ORDER BY number").fetchall()
        rows = [(int(str(number)), str(name)) for number, name in applied]
        for migration in pending_migrations(migrations_for("postgres"), rows, where):
            connection.execute(migration.sql.encode())
            done = (migration.number, migration.name, SystemClock().now_ms())
            connection.execute("INSERT INTO infold_migrations VALUES (%s, %s, %s)", done)


@contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Run the block and raise database errors as `StoreBroken`, with a remedy."""
    try:
        yield
    except psycopg.Error as error:
        code = error.sqlstate or ""
        known = (known for known in REMEDIES if code and code.startswith(known[0]))
        unknown = _UNREACHABLE if isinstance(error, psycopg.OperationalError) else _REFUSED
        _, problem, remedy = next(known, unknown)
        detail = ": ".join(filter(None, (code, *str(error).strip().splitlines()[:1])))
        raise StoreBroken(where, f"{problem} ({detail})", remedy=remedy) from error


def check_connection(connection: Connection) -> None:
    """Raise `psycopg.Error` if the server has closed a connection of the pool.

    The socket of an idle connection is readable when the server has closed it; then the server is asked. To ask each time
    would cost a round trip for every operation.
    """
    if hasattr(select, "poll"):
        waiting = select.poll()
        waiting.register(connection.fileno(), select.POLLIN)
        if not waiting.poll(0):
            return
    ConnectionPool.check_connection(connection)


def open_pool(dsn: str) -> ConnectionPool[Connection]:
    """Return a pool of connections in autocommit mode."""
    pool = ConnectionPool[Connection](
        dsn,
        kwargs={"autocommit": True, "connect_timeout": CONNECT_SECONDS},
        min_size=0,
        max_size=MOST_CONNECTIONS,
        timeout=CONNECT_SECONDS,
        check=check_connection,
        open=False,
    )
    pool.open()
    return pool


_BEGIN_WRITING: LiteralString = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)
"""Wait for the server's disk even if the server, the database or the role does not; other settings of it are kept."""

TRIES = 5
"""Attempts at a transaction that the server rolls back in favour of another."""

_SESSION: LiteralString = "FROM infold_sessions WHERE tenant = %s AND id = %s"

_QUERIES = Queries(
    number=f"SELECT number, next_sequence {_SESSION}",
    entries=(
        "SELECT next_sequence, sequence, stored FROM infold_sessions LEFT JOIN infold_entries "
        "ON session = number AND sequence < %s WHERE number = %s ORDER BY sequence DESC LIMIT %s"
    ),
    tenants='SELECT DISTINCT tenant COLLATE "C" FROM infold_sessions ORDER BY 1',
    sessions=(
        "SELECT changed_ms, number, id, next_sequence, stored_bytes, changed_ms FROM infold_sessions "
        "WHERE tenant = %s AND (changed_ms, number) < (%s, %s) ORDER BY changed_ms DESC, number DESC LIMIT %s"
    ),
    pieces="SELECT first, ends, packed FROM infold_index_pieces WHERE session = %s",
    medium=(
        "SELECT media.stored FROM infold_media AS media JOIN infold_sessions AS sessions "
        "ON sessions.number = media.session WHERE sessions.tenant = %s AND sessions.id = %s AND media.digest = %s"
    ),
    begin=(
        "INSERT INTO infold_sessions (tenant, id, next_sequence, stored_bytes, changed_ms) VALUES (%s, %s, 0, 0, %s) "
        "ON CONFLICT (tenant, id) DO UPDATE SET changed_ms = infold_sessions.changed_ms RETURNING number"
    ),
    add_medium="INSERT INTO infold_media VALUES (%s, %s, %s) ON CONFLICT (session, digest) DO NOTHING",
    add_bytes="UPDATE infold_sessions SET stored_bytes = stored_bytes + %s WHERE number = %s",
    add_piece=(
        "INSERT INTO infold_index_pieces SELECT number, %s, %s, %s FROM infold_sessions WHERE number = %s "
        "ON CONFLICT (session, first) DO UPDATE SET ends = excluded.ends, packed = excluded.packed"
    ),
    facts="SELECT fact FROM infold_facts WHERE owner = %s",
    add_fact="INSERT INTO infold_facts VALUES (%s, %s) ON CONFLICT (owner, fact) DO NOTHING",
)


class PostgresStore(SqlStore):
    """A store in a database; safe to use from any thread, and in a child after a fork.

    Raise `StoreBroken` if the server cannot be reached or written, or if the tables are foreign or newer.
    """

    queries = _QUERIES

    def __init__(self, dsn: str, clock: Clock | None = None) -> None:
        self._dsn = dsn
        self.where = database_name(dsn)
        self._clock = clock or SystemClock()
        self._pools = PerProcess(self.where, lambda: open_pool(dsn))
        self._indexes = PerProcess(self.where, SessionIndexes)
        prepare(dsn, self.where)

    def close(self) -> None:
        """Close the connections; calling it again does nothing."""
        self._indexes.close()
        self._pools.close()

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append all entries or none; raise `StoreConflict` unless the first gets the number `expected`."""
        stored = [encode_entry(entry) for entry in entries]

        def act(connection: Connection) -> int:
            number = _lock_session(connection, key, expected, begin=bool(stored) and expected == 0)
            if stored:
                _grow(connection, number, stored, self._clock.now_ms())
                _insert(connection, number, expected, stored)
            return expected + len(stored)

        return self._write(act)

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[bool]:
        """Take the session's lock for a compaction; false if another thread or process holds it."""
        pid, connection = os.getpid(), connect(self._dsn, self.where)
        try:
            with translate_errors(self.where):
                row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_lock_number(key),)).fetchone()
            yield row == (True,)
        finally:
            # A forked child that leaves the block shares the socket, and using it would end its parent's lock.
            if os.getpid() == pid:
                _give_back(connection)

    def delete(self, key: SessionKey) -> None:
        """Delete a session and its index; raise `UnknownSession` if it does not exist."""

        def act(connection: Connection) -> int:
            return connection.execute(
                "DELETE FROM infold_sessions WHERE tenant = %s AND id = %s", (key.tenant, key.session_id)
            ).rowcount

        if not self._delete(act):
            raise UnknownSession(key.session_id)

    def expire(self, older_than_ms: int) -> int:
        """Delete the sessions that have not changed for that long; return how many."""
        oldest_ms = self._clock.now_ms() - older_than_ms

        def act(connection: Connection) -> int:
            return connection.execute("DELETE FROM infold_sessions WHERE changed_ms < %s", (oldest_ms,)).rowcount

        return self._delete(act)

    def trim(self, max_bytes: int) -> int:
        """Delete the sessions changed longest ago until the rest takes at most that many bytes; return how many."""

        def act(connection: Connection) -> int:
            sizes: list[Any] = connection.execute(
                "SELECT number, stored_bytes FROM infold_sessions ORDER BY changed_ms DESC, number DESC"
            ).fetchall()
            gone = choose_surplus(sizes, max_bytes)
            return connection.execute("DELETE FROM infold_sessions WHERE number = ANY (%s)", (gone,)).rowcount

        return self._delete(act)

    def _delete(self, act: Callable[[Connection], int]) -> int:
        deleted = self._write(act)
        self._indexes.here().close()
        return deleted

    def _write(self, act: Callable[[Connection], T]) -> T:
        """Run an act in a transaction, and retry it if the server rolled it back in favour of another.

        Only a known rollback is retried: after a connection is lost during the commit, the entries may have been
        stored.
        """
        for _ in range(TRIES - 1):
            try:
                return self._write_once(act)
            except StoreBroken as error:
                if not isinstance(error.__cause__, refusals.SerializationFailure | refusals.DeadlockDetected):
                    raise
        return self._write_once(act)

    def _write_once(self, act: Callable[[Connection], T]) -> T:
        with self._connection() as connection, connection.transaction():
            connection.execute(_BEGIN_WRITING, prepare=False)
            return act(connection)

    def _rows(self, query: LiteralString, values: Sequence[object]) -> list[Any]:
        with self._connection() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Lend a connection for one read or one transaction."""
        pool = self._pools.here()
        with translate_errors(self.where), pool.connection() as connection:
            yield connection


# Acts, each inside its transaction.

_LOCK: LiteralString = "SELECT number, next_sequence FROM infold_sessions WHERE tenant = %s AND id = %s FOR UPDATE"

_BEGIN: LiteralString = (
    "INSERT INTO infold_sessions (tenant, id, next_sequence, stored_bytes, changed_ms) VALUES (%s, %s, 0, 0, 0) "
    "ON CONFLICT (tenant, id) DO UPDATE SET changed_ms = infold_sessions.changed_ms RETURNING number, next_sequence"
)
"""Both lock the row; the second creates it in the same statement if it does not exist."""


def _lock_session(connection: Connection, key: SessionKey, expected: int, *, begin: bool) -> int:
    """Lock the session's row until the end of the transaction, creating it if `begin`; return the session's number."""
    row: Any = connection.execute(_BEGIN if begin else _LOCK, (key.tenant, key.session_id)).fetchone()
    number, actual = row or (0, 0)
    if actual != expected:
        raise StoreConflict(key.session_id, expected=expected, actual=actual)
    return int(number)


def _grow(connection: Connection, number: int, stored: Sequence[bytes], now_ms: int) -> None:
    connection.execute(
        "UPDATE infold_sessions SET next_sequence = next_sequence + %s, stored_bytes = stored_bytes + %s, "
        "changed_ms = %s WHERE number = %s",
        (len(stored), sum(map(len, stored)), now_ms, number),
    )


def _insert(connection: Connection, number: int, first: int, stored: Sequence[bytes]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO infold_entries VALUES (%s, %s, %s)",
            [(number, first + at, entry) for at, entry in enumerate(stored)],
        )


def _give_back(connection: Connection) -> None:
    """Release a connection's advisory locks and close it.

    Closing alone would release them too, but only when the server notices, and until then the next caller is refused.
    """
    try:
        with suppress(psycopg.Error):  # A connection that broke has no lock any more.
            connection.execute("SELECT pg_advisory_unlock_all()")
    finally:
        connection.close()


def _lock_number(key: SessionKey) -> int:
    """Return a session's advisory lock number: 64 bits, signed."""
    name = hashlib.sha256(f"{key.tenant}\0{key.session_id}".encode()).digest()
    return int.from_bytes(name[:8], "big", signed=True)
