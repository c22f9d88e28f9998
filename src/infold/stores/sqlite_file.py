"""The database file: made for its owner alone, opened with the right promises, checked to be ours, brought up to date.

Also what SQLite's errors mean to an operator. What is written and read is `sqlite.py`'s affair.
"""

import ctypes
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infold.errors import StoreBroken
from infold.stores.clock import SystemClock
from infold.stores.migrating import Migration, migrations_for, outstanding

__all__ = ["BUSY_SECONDS", "connect", "disconnect", "prepare", "translated"]

APPLICATION_ID = 0x696E666C
"""Says in the file's header whose it is: the letters "infl"."""

BUSY_SECONDS = 30.0
"""How long a writer waits for another process's transaction; the longest are deletions of large sessions."""

OWNER_ONLY = 0o600

_MENDING = "restore it from a copy, or move it away and start with an empty store"
_WRITING = "let its owner run infold, or make the file and its folder writable"

REMEDIES: tuple[tuple[str, str, str], ...] = (
    ("SQLITE_FULL", "the disk is full", "free some space and try again; nothing that was stored is lost"),
    ("SQLITE_NOTADB", "it is not an infold store", "name another file"),
    ("SQLITE_CORRUPT", "the file is damaged", _MENDING),
    ("SQLITE_READONLY", "it may not be written", _WRITING),
    ("SQLITE_PERM", "it may not be written", _WRITING),
    ("SQLITE_CANTOPEN", "it cannot be opened or made", f"make sure that its folder exists, and {_WRITING}"),
    ("SQLITE_BUSY", "another process has been writing for too long", "wait for it, or end it"),
    ("SQLITE_LOCKED", "it is locked", "wait for the other user of the file, or end it"),
    ("SQLITE_IOERR", "the disk did not do what it was asked", "look at its space and its health, then try again"),
)
"""What an error whose name begins so means, and what to do; the first that fits counts."""

_UNKNOWN = ("", "SQLite refused", "look the error up by its name")


def prepare(path: Path) -> None:
    """Make the file if need be, and bring it up to this version; raises `StoreBroken` if that cannot be."""
    with translated(path):
        _make(path)
        connection = connect(path)
        try:
            _refuse_foreign(connection, path)
            _close_to_others(path)
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _use_write_ahead_log(connection)
            _migrate(connection, path)
        finally:
            disconnect(connection)


def connect(path: Path) -> sqlite3.Connection:
    """A connection that may be handed from thread to thread; what it commits is on the disk when it says so (B13).

    It stays open until `disconnect`: Python would close a connection that nobody refers to any more, and so would a forked
    child at its end, but in a child that damages the parent's.
    """
    with translated(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        return connection


def disconnect(connection: sqlite3.Connection) -> None:
    """Close a connection that this process opened."""
    connection.close()
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(connection))


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Run the block, and tell what goes wrong with the file as `StoreBroken`, with its remedy."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if not name or isinstance(error, sqlite3.ProgrammingError):
            raise
        _, problem, remedy = next((known for known in REMEDIES if name.startswith(known[0])), _UNKNOWN)
        raise StoreBroken(str(path), f"{problem} ({name}: {error})", remedy=remedy) from error
    except OSError as error:
        problem = f"it cannot be opened or made ({error.strerror})"
        raise StoreBroken(str(path), problem, remedy=_WRITING) from error


def _make(path: Path) -> None:
    """The file, if there is none; nothing is done to one that may be another program's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY))


def _close_to_others(path: Path) -> None:
    """Make a file of ours readable by its owner alone; SQLite gives its two companions the same mode."""
    if path.stat().st_mode & 0o077:
        path.chmod(OWNER_ONLY)


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    tables, application = _seen(connection)
    if application != APPLICATION_ID and (tables or application):
        raise StoreBroken(str(path), "it is another program's database", remedy="name another file")


def _seen(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many tables there are and whose they are, as of one moment."""
    connection.execute("BEGIN")
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    finally:
        connection.execute("ROLLBACK")
    return tables, application


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file's journal; SQLite does not wait by itself where several processes do so at once."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if not _outstanding(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in _outstanding(connection, path):
            _apply(connection, migration)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _outstanding(connection: sqlite3.Connection, path: Path) -> tuple[Migration, ...]:
    exists = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone()
    applied = connection.execute("SELECT number, name FROM migrations ORDER BY number").fetchall() if exists else []
    return outstanding(migrations_for("sqlite"), applied, str(path))


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT, applied_ms INTEGER)"
    )
    for statement in _statements(migration.sql):
        connection.execute(statement)
    applied = (migration.number, migration.name, SystemClock().now_ms())
    connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", applied)


def _statements(sql: str) -> Iterator[str]:
    """The statements one by one: `executescript` would end the transaction that they belong in."""
    gathered = ""
    for line in sql.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            yield gathered
            gathered = ""
