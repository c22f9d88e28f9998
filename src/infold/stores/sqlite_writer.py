"""Acts that many threads ask for, committed together, in the order of the requests.

A commit waits for the disk, so acts that queue up meanwhile share the next one: of the threads that wait for an answer, one
writes for all. An act sees the acts before it, and is answered after the commit. While another process writes, each act
waits at most `busy_seconds` from when it was asked, however many acts are before it.

Ctrl-C interrupts the main thread, wherever it is. So that thread writes its own acts alone: no other thread waits for an answer
that an interrupt leaves unknown. What it leaves uncommitted is rolled back.
"""

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, get_ident, main_thread
from typing import Any, Generic, TypeVar

from infold.errors import InfoldError, StoreBroken, StoreClosed
from infold.stores.sqlite_file import (
    BUSY_SECONDS,
    committing,
    connect,
    disconnect,
    in_use,
    is_connected,
    is_displaced,
    is_frozen,
    translate_errors,
)

MOST_TOGETHER = 64
"""Acts per transaction, so that the first does not wait long for the last."""

BUSY_PAUSE_SECONDS = 0.01
"""Between two tries to begin while another process writes; SQLite's own waiting could not be interrupted."""

T = TypeVar("T")


class Act(Generic[T]):
    """An act that was asked for, its deadline for waiting on another process, and its outcome once it has one."""

    def __init__(self, writer: "Writer", act: Callable[[sqlite3.Connection], T], deadline: float) -> None:
        self.act = act
        self.deadline = deadline
        self.is_done = False
        self.outcome: T | BaseException | None = None
        self.thread = get_ident()
        self._writer = writer

    def answer(self, outcome: T | BaseException) -> None:
        """Note the result of the act, or why it failed."""
        self.outcome, self.is_done = outcome, True

    def result(self) -> T:
        """Wait until the act is committed, and return its result or raise its error."""
        self._writer.run_until_done(self)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome  # type: ignore[return-value] # it is done


class Writer:
    """Run acts on a connection of its own, which is opened for the first act and closed by `close`.

    An act that another process delays for longer than `busy_seconds` fails with `StoreBroken`.
    """

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._waiting: deque[Act[Any]] = deque()
        self._turn = Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def ask(self, act: Callable[[sqlite3.Connection], T]) -> Act[T]:
        """Queue an act, which runs inside a transaction when its result, or that of a later act, is waited for.

        An act that raises one of infold's errors must not have written anything. It may run a second time after a
        rollback. Raise `StoreClosed` at once.
        """
        if self._closed:
            raise StoreClosed(str(self._path))
        asked = Act(self, act, time.monotonic() + self._busy_seconds)
        self._waiting.append(asked)
        return asked

    def run_until_done(self, asked: Act[Any]) -> None:
        """Run the acts that wait, until this one is done, unless another thread is doing that.

        If this thread is interrupted, the act is withdrawn, unless another thread has begun it.
        """
        try:
            with self._turn:
                while not asked.is_done:
                    self._run_batch(asked)
        finally:
            self._no_longer_waits(asked)

    def close(self) -> None:
        """Run the pending acts, then close the connection; calling it again does nothing."""
        with self._turn:
            while self._waiting:
                self._run_batch()
            self._closed = True
            if self._connection is not None:
                with in_use():
                    disconnect(self._connection)

    def _run_batch(self, wanted: Act[Any] | None = None) -> None:
        """Run the oldest acts that wait; if the main thread wants one, only that thread's."""
        waiting = list(self._waiting)
        if wanted is not None and wanted.thread == main_thread().ident:
            waiting = [asked for asked in waiting if asked.thread == wanted.thread]
        batch = waiting[:MOST_TOGETHER]
        try:
            with in_use():
                _carry_out(self._connected(), batch, self._path)
        except InfoldError as error:
            for asked in batch:
                asked.answer(error)
        finally:  # after an interrupt, what is not answered still waits
            connection = self._connection
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
            for asked in batch:
                if asked.is_done:
                    self._no_longer_waits(asked)

    def _no_longer_waits(self, asked: Act[Any]) -> None:
        with suppress(ValueError):
            self._waiting.remove(asked)

    def _connected(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreClosed(str(self._path))
        if self._connection is None or not is_connected(self._connection):
            self._connection = connect(self._path, self._busy_seconds)
            self._connection.execute("PRAGMA busy_timeout = 0")
        return self._connection


def _carry_out(connection: sqlite3.Connection, batch: Sequence[Act[Any]], path: Path) -> None:
    """Answer a batch once the file may be written; fail the oldest act as soon as its deadline has passed."""
    for at, oldest in enumerate(batch):
        try:
            with translate_errors(path):
                _begin(connection, oldest.deadline)
        except Exception as error:  # reported to the caller; the others are tried
            oldest.answer(error)
        else:
            _answer(connection, batch[at:], path)
            return


def _begin(connection: sqlite3.Connection, deadline: float) -> None:
    if connection.in_transaction:  # an interrupt came while another was handled
        connection.execute("ROLLBACK")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() >= deadline:
                raise
            time.sleep(BUSY_PAUSE_SECONDS)


def _answer(connection: sqlite3.Connection, batch: Sequence[Act[Any]], path: Path) -> None:
    """Answer a batch whose transaction has begun; if the database rejects it as a whole, try each act alone."""
    try:
        with translate_errors(path), committing(connection):
            outcomes = [_outcome(connection, asked.act) for asked in batch]
    except Exception as error:  # as above
        if len(batch) == 1:
            batch[0].answer(error)
            return
        for asked in batch:
            _carry_out(connection, [asked], path)
        return
    if is_displaced(connection):
        problem = "the file or its write-ahead log was removed or replaced while this process had it open; this was not stored"
        remedy = "put the file back if it is missing, and start the process again"
        outcomes = [StoreBroken(str(path), problem, remedy=remedy)] * len(batch)
    for asked, outcome in zip(batch, outcomes, strict=True):
        asked.answer(outcome)


def _outcome(connection: sqlite3.Connection, act: Callable[[sqlite3.Connection], object]) -> object:
    """Return an act's result, or the infold error it raised."""
    try:
        return act(connection)
    except InfoldError as error:
        return error


MOST_IDLE = 8
"""Readers kept open between reads; more are opened while more threads read at once, and closed again."""


class Connections:
    """The connections of one process to a file: its writer, and readers for any thread."""

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False
        self._writer = Writer(path, busy_seconds)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one read, which must be finished within the block."""
        with in_use():
            connection = self._take()
            try:
                with translate_errors(self._path):
                    yield connection
            finally:
                if is_frozen(connection):
                    disconnect(connection)
                else:
                    self._idle.append(connection)
                self._keep(0 if self._closed else MOST_IDLE)

    def write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run an act in the writer and wait for it; see `Writer.ask`."""
        return self._writer.ask(act).result()

    def close(self) -> None:
        """Finish pending acts and close everything; calling it again does nothing."""
        self._writer.close()
        self._closed = True
        with in_use():
            self._keep(0)

    def _take(self) -> sqlite3.Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return connect(self._path, self._busy_seconds, to_read=True)
            if is_connected(connection):
                return connection

    def _keep(self, most: int) -> None:
        while len(self._idle) > most:
            try:
                disconnect(self._idle.popleft())
            except IndexError:  # another thread took it
                return
