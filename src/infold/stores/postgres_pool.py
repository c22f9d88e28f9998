"""The way to a PostgreSQL database: connections of this process, the tables brought up to date, errors put into words.

What is written and read is `postgres.py`'s affair. A connection string may hold a password and is never shown.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from infold.errors import StoreBroken, StoreClosed
from infold.stores.clock import SystemClock
from infold.stores.migrating import migrations_for, outstanding

Connection = psycopg.Connection[tuple[object, ...]]

CONNECT_SECONDS = 10
MOST_CONNECTIONS = 8
"""Connections of one process; an append takes one for a few milliseconds."""

MIGRATION_LOCK = 0x696E666F6C64
"""The advisory lock under which tables are made: the letters "infold"."""

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
"""What an error whose code begins so means, and what to do; the first that fits counts."""

_UNREACHABLE = ("", "the server cannot be reached", _SERVER)
_REFUSED = ("", "the server refused", "look the error up by its code")


def name_of(dsn: str) -> str:
    """A database by host and name, for messages; raises `StoreBroken` for what is no connection string."""
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq repeats the string in its message, and a password may stand in it.
        raise StoreBroken(
            "PostgreSQL", "the connection string cannot be read", remedy="write it as postgresql://user@host/database"
        ) from None
    return f"PostgreSQL database {given.get('dbname', 'of the user')} at {given.get('host', 'this machine')}"


def connect(dsn: str, where: str) -> Connection:
    """A connection of one's own, each statement its own transaction unless one is begun."""
    with translated(where):
        return psycopg.connect(dsn, autocommit=True, connect_timeout=CONNECT_SECONDS)


def prepare(dsn: str, where: str) -> None:
    """Bring the tables up to this version, one process at a time; raises `StoreBroken` if that cannot be."""
    with connect(dsn, where) as connection, translated(where), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS infold_migrations (number integer PRIMARY KEY, name text, applied_ms bigint)"
        )
        applied = connection.execute("SELECT number, name FROM infold_migrations ORDER BY number").fetchall()
        rows = [(int(str(number)), str(name)) for number, name in applied]
        for migration in outstanding(migrations_for("postgres"), rows, where):
            connection.execute(migration.sql.encode())
            done = (migration.number, migration.name, SystemClock().now_ms())
            connection.execute("INSERT INTO infold_migrations VALUES (%s, %s, %s)", done)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Run the block, and tell what goes wrong with the database as `StoreBroken`, with its remedy."""
    try:
        yield
    except psycopg.Error as error:
        code = error.sqlstate or ""
        known = (known for known in REMEDIES if code and code.startswith(known[0]))
        unknown = _UNREACHABLE if isinstance(error, psycopg.OperationalError) else _REFUSED
        _, problem, remedy = next(known, unknown)
        told = ": ".join(filter(None, (code, *str(error).strip().splitlines()[:1])))
        raise StoreBroken(where, f"{problem} ({told})", remedy=remedy) from error


class Pools:
    """A pool of connections for each process that asks; a forked child leaves its parent's alone."""

    def __init__(self, dsn: str, where: str) -> None:
        self._dsn = dsn
        self._where = where
        self._by_process: dict[int, ConnectionPool[Connection]] = {}
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one read or one transaction."""
        pool = self._here()
        with translated(self._where), pool.connection() as connection:
            yield connection

    def close(self) -> None:
        """Close what this process opened; a second time does nothing."""
        self._closed = True
        pool = self._by_process.get(os.getpid())
        if pool is not None:
            pool.close()

    def _here(self) -> ConnectionPool[Connection]:
        if self._closed:
            raise StoreClosed(self._where)
        pool = self._by_process.get(os.getpid())
        return pool or self._first_use_here()

    def _first_use_here(self) -> ConnectionPool[Connection]:
        """Of threads that come here at once one wins; no lock, since a forked child may have inherited it locked."""
        made = ConnectionPool[Connection](
            self._dsn,
            kwargs={"autocommit": True, "connect_timeout": CONNECT_SECONDS},
            min_size=0,
            max_size=MOST_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            check=ConnectionPool.check_connection,
            open=False,
        )
        made.open()
        pool = self._by_process.setdefault(os.getpid(), made)
        if pool is not made:
            made.close()
        return pool
