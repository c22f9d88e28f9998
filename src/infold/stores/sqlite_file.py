"""The database file: created for its owner alone, opened, checked to be infold's, migrated; and what its errors mean.

An existing database file is opened and closed by SQLite alone. Closing any other descriptor of it would release the
locks that this process holds on it (POSIX), and another process could then delete the write-ahead log under an open
connection.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Condition
from typing import NamedTuple

from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.stores.lifecycle import Migration, SystemClock, migrations_for, pending_migrations

_HELD: dict[tuple[int, str], object] = {}
"""By process and file: a forked child sees its parent's entries and must not mistake them for its own."""

OWNER_ONLY = 0o600


def lock_path(database: Path, key: SessionKey) -> Path:
    """Return the lock file of a session; the key is hashed, since ids may hold anything."""
    name = hashlib.sha256(f"{key.tenant}\0{key.session_id}".encode()).hexdigest()[:32]
    return database.with_name(f"{database.name}-hold-{name}")


@contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of this file while the block runs; false at once if it is held elsewhere."""
    pid, mine = os.getpid(), object()
    name = (pid, os.path.realpath(path))
    if _HELD.setdefault(name, mine) is not mine:
        yield False
        return
    try:
        descriptor = _try_lock(path)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                # A forked child that leaves the block has no lock to give back, and must not remove its parent's file.
                if os.getpid() == pid:
                    path.unlink(missing_ok=True)
                os.close(descriptor)
    finally:
        _HELD.pop(name, None)


def _try_lock(path: Path) -> int | None:
    """Return the descriptor of the locked file, or `None` if it is taken.

    The last holder removes the file while it still has the lock, so a lock on a removed file is void and is taken
    again.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


APPLICATION_ID = 0x696E666C
"""Marks the file as infold's in its header: the letters "infl"."""

BUSY_SECONDS = 30.0
"""How long a writer waits for another process's transaction; the longest are deletions of large sessions."""

_MENDING = "restore it from a copy, or move it away and start with an empty store"

_WRITING = "let its owner run infold, or make the file and its folder writable"

REMEDIES: tuple[tuple[str, str, str], ...] = (
    ("SQLITE_FULL", "the disk is full", "free some space and try again; nothing that was stored is lost"),
    ("SQLITE_IOERR_SHMSIZE", "the disk is full", "free some space and try again; nothing that was stored is lost"),
    ("SQLITE_NOTADB", "it is not an infold store", "name another file"),
    ("SQLITE_CORRUPT", "the file is damaged", _MENDING),
    ("SQLITE_READONLY", "it may not be written", _WRITING),
    ("SQLITE_PERM", "it may not be written", _WRITING),
    ("SQLITE_CANTOPEN", "it cannot be opened or made", f"make sure that its folder exists, and {_WRITING}"),
    ("SQLITE_BUSY", "another process has been writing for too long", "wait for it, or end it"),
    ("SQLITE_LOCKED", "it is locked", "wait for the other user of the file, or end it"),
    ("SQLITE_ERROR", "its tables are not as infold made them", _MENDING),
    ("SQLITE_CONSTRAINT", "its tables are not as infold made them", _MENDING),
    ("SQLITE_MISMATCH", "its tables are not as infold made them", _MENDING),
    ("SQLITE_IOERR", "the disk did not do what it was asked", "look at its space and its health, then try again"),
)
"""The problem and the remedy by prefix of the error name; the first match counts."""

FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE")
"""Errors of SQLite on a full disk for a program that only reads."""

_UNKNOWN = ("", "SQLite refused", "look the error up by its name")

_READ_ONLY = (
    "the file system is read-only",
    "copy the file, and the one that ends in -wal if there is one, to another disk",
)

_NO_FILES = ("no more files can be opened", "raise the limit (ulimit -n), or close what this process does not need")

_BY_ERRNO = {errno.EROFS: _READ_ONLY, errno.EMFILE: _NO_FILES, errno.ENFILE: _NO_FILES}


def prepare(path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
    """Create the file if it does not exist, and bring it up to this version; raise `StoreBroken` if that fails.

    All waits for other processes that do the same are over after `busy_seconds`.
    """
    deadline = time.monotonic() + busy_seconds
    with translate_errors(path), in_use():
        if not path.exists():
            _create(path, deadline)
        _refuse_special(path)
        connection = connect(path, busy_seconds, to_read=True)
        try:
            _refuse_foreign(connection, path)
            _refuse_planted(connection, path)
            if not is_frozen(connection) and not _is_read_only(path):
                if path.stat().st_mode & 0o077:
                    path.chmod(OWNER_ONLY)  # SQLite gives its two companions the same mode
                _use_write_ahead_log(connection, deadline)
            _migrate(connection, path)
        finally:
            disconnect(connection)


def connect(path: Path, busy_seconds: float = BUSY_SECONDS, *, to_read: bool = False) -> sqlite3.Connection:
    """Open an existing file; the connection may move between threads, and a commit is on the disk when it returns.

    A connection that is only to read is frozen if the disk is full or read-only, since SQLite needs a little space to
    share a file: see `is_frozen`.

    Use it within `in_use()`. It stays open until `disconnect`, even without any reference to it: a forked child must
    not close a connection of its parent, not even when it exits.
    """
    _close_before_forks()
    if any(opened.pid != os.getpid() and opened.path == path for opened in _OPEN.values()):
        problem = "this process was forked while the store was in use, so SQLite's locks do not work here"
        raise StoreBroken(str(path), problem, remedy="open the store after the fork, or start the process by 'spawn'")
    with translate_errors(path):
        frozen = False
        try:
            connection = _connection(path, "mode=rw", busy_seconds)
        except sqlite3.OperationalError as error:
            cannot_share = getattr(error, "sqlite_errorname", "") in FULL or _is_read_only(path)
            if not to_read or not cannot_share or _has_log(path):
                raise
            frozen, connection = True, _connection(path, "immutable=1", busy_seconds)
        _OPEN[connection] = _Opened(os.getpid(), path, _files(path), frozen)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        return connection


def disconnect(connection: sqlite3.Connection) -> None:
    """Close a connection that this process opened; calling it again does nothing."""
    if _OPEN.pop(connection, None) is not None:
        connection.close()
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(connection))


def is_connected(connection: sqlite3.Connection | None) -> bool:
    """Return whether a connection is open; a fork closes all connections that are not in use."""
    return connection in _OPEN


def is_frozen(connection: sqlite3.Connection) -> bool:
    """Return whether a connection reads the file as it is now, without locks; it is to be closed after one use.

    Another process that had the file open would have made the space that is missing, so none is writing. Where this process
    sees a read-only view of a disk that others write to, their log is there, and SQLite reads it without being frozen.
    """
    return _OPEN[connection].frozen


def is_displaced(connection: sqlite3.Connection) -> bool:
    """Return whether the file or its write-ahead log was removed or replaced, so that what is written is lost.

    It happens if the file is deleted or restored while it is open, and if other code of this process opens and closes it.
    """
    opened = _OPEN[connection]
    return any(before not in (None, now) for before, now in zip(opened.files, _files(opened.path), strict=True))


def _files(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return which files have the names of a database and of its write-ahead log; `None` for a name without a file."""
    name = os.fspath(path)  # asked after each commit: without a path object it takes a third of the time
    return _file(name), _file(f"{name}-wal")


def _file(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_read_only(path: Path) -> bool:
    """Return whether a file is on a read-only file system; false if that cannot be found out."""
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _has_log(path: Path) -> bool:
    """Return whether a write-ahead log holds anything, which a frozen connection would not see."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _connection(path: Path, how: str, busy_seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?{how}", uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()  # opens the write-ahead log
    except BaseException:
        connection.close()
        raise
    return connection


# Forks. SQLite keeps a table of the locks of its process, by file. A forked child inherits the table but not the locks, so even
# a new connection of the child would read and write without them. Therefore every connection is closed before a fork.

FORK_SECONDS = 2 * BUSY_SECONDS
"""How long a fork waits for reads and writes in progress; after that the child gets `StoreBroken` for their files."""


class _Opened(NamedTuple):
    """Which process opened a connection, and to which files."""

    pid: int
    path: Path
    files: tuple[tuple[int, int] | None, ...]
    frozen: bool


_OPEN: dict[sqlite3.Connection, _Opened] = {}
"""The open connections; those that a parent process opened are never touched."""


class _Gate:
    """Lets any number of threads use connections, or one thread close them all for a fork."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without users: only the forking thread exists in the child."""
        self._changed = Condition()
        self._users = 0
        self._forking = False

    @contextmanager
    def pass_through(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._forking)
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def before_fork(self) -> None:
        self._changed.acquire()
        self._forking = True
        if self._changed.wait_for(lambda: not self._users, FORK_SECONDS):
            for connection in tuple(_OPEN):
                disconnect(connection)

    def after_fork_in_parent(self) -> None:
        self._forking = False
        self._changed.notify_all()
        self._changed.release()


_GATE = _Gate()


def in_use() -> AbstractContextManager[None]:
    """Keep this process from forking while the block uses a connection; do not nest."""
    return _GATE.pass_through()


@cache
def _close_before_forks() -> None:
    os.register_at_fork(
        before=_GATE.before_fork, after_in_parent=_GATE.after_fork_in_parent, after_in_child=_GATE.reset
    )


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Run the block and raise errors of the file as `StoreBroken`, with a remedy."""
    try:
        yield
    except (UnicodeDecodeError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.ProgrammingError):
            raise
        # What is not UTF-8, in a name of the schema or in a column, has no error name of SQLite's.
        name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
        problem, remedy = _explain(name, path)
        raise StoreBroken(str(path), f"{problem} ({name}: {error})", remedy=remedy) from error
    except OSError as error:
        problem, remedy = _BY_ERRNO.get(error.errno or 0, ("it cannot be opened or made", _WRITING))
        raise StoreBroken(str(path), f"{problem} ({error.strerror})", remedy=remedy) from error


def _explain(name: str, path: Path) -> tuple[str, str]:
    """Return the problem and the remedy of an error of SQLite, which has one name for several reasons not to open a file."""
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
        if _is_read_only(path):
            return _READ_ONLY
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return _NO_FILES
    return next((known for known in REMEDIES if name.startswith(known[0])), _UNKNOWN)[1:]


def _create(path: Path, deadline: float) -> None:
    """Write a complete new database under another name, then rename it: no process ever sees a partial one."""
    for folder in reversed([one for one in path.parents if not one.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)  # `parents=True` would leave those above to the umask
    while not path.exists():
        with hold_lock(path.with_name(f"{path.name}-creating")) as alone:
            if alone and not path.exists():
                put_in_place(_draft(path), path)
        if time.monotonic() > deadline:
            raise StoreBroken(str(path), "another process has been creating it for too long", remedy="end that process")
        time.sleep(0 if alone else 0.01)


def _draft(path: Path) -> Path:
    """Write an empty store to a file next to the final one, after removing what a killed process left there."""
    draft = path.with_name(f"{path.name}-new")
    for left in (draft, path.with_name(f"{path.name}-new-journal")):
        left.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    connection = _connection(draft, "mode=rw", BUSY_SECONDS)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _migrate(connection, path)
    finally:
        connection.close()
    return draft


def put_in_place(draft: Path, path: Path, link: Callable[[Path, Path], None] = os.link) -> None:
    """Link a file to its final name unless that exists; rename it if the file system has no hard links."""
    try:
        with suppress(FileExistsError):
            link(draft, path)
    except OSError:
        draft.rename(path)
    draft.unlink(missing_ok=True)


def _refuse_special(path: Path) -> None:
    """Raise `StoreBroken` for what SQLite would take for a new database: an empty file, a device."""
    found = path.stat()
    if stat.S_ISREG(found.st_mode) and not found.st_size:
        problem = "the file is empty (0 bytes), so it was cut off or is not a store"
        raise StoreBroken(
            str(path), problem, remedy="restore it from a copy, or delete it to begin with an empty store"
        )
    if not stat.S_ISREG(found.st_mode):
        raise StoreBroken(str(path), "it is not a regular file", remedy="name another file")


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreBroken` for tables or an application id that are not infold's, read in one transaction."""
    connection.execute("BEGIN")
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    finally:
        connection.execute("ROLLBACK")
    if application != APPLICATION_ID and (tables or application):
        raise StoreBroken(str(path), "it is another program's database", remedy="name another file")


def _refuse_planted(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreBroken` for a trigger or a view, which could change what is stored or read; infold makes none."""
    found = connection.execute("SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchone()
    if found is not None:
        problem = "it has a {} that infold did not make ({!r})".format(*found)
        raise StoreBroken(
            str(path), problem, remedy="remove it with the program sqlite3, or restore the file from a copy"
        )


def _use_write_ahead_log(connection: sqlite3.Connection, deadline: float) -> None:
    """Switch the file to a write-ahead log, with retries: SQLite does not wait if several processes switch at once."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if not _pending(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    with committing(connection):
        for migration in _pending(connection, path):
            _apply(connection, migration)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@contextmanager
def committing(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in the transaction that has begun, and commit it; roll it back if anything fails."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors, a full disk among them, have rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pending(connection: sqlite3.Connection, path: Path) -> tuple[Migration, ...]:
    exists = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone()
    applied = connection.execute("SELECT number, name FROM migrations ORDER BY number").fetchall() if exists else []
    return pending_migrations(migrations_for("sqlite"), applied, str(path))


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT, applied_ms INTEGER)"
    )
    for statement in _statements(migration.sql):
        connection.execute(statement)
    applied = (migration.number, migration.name, SystemClock().now_ms())
    connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", applied)


def _statements(sql: str) -> Iterator[str]:
    """Yield the statements one by one: `executescript` would commit the transaction they belong to."""
    gathered = ""
    for line in sql.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            yield gathered
            gathered = ""
