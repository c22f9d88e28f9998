"""A writer thread that commits what many threads ask for together, in the order of the requests.

A commit waits for the disk, so requests that queue up meanwhile share the next one. An act sees the acts before it,
and is answered after the commit. While another process writes, each act waits at most `busy_seconds` from when it was
asked, however many acts are before it.
"""

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, NamedTuple, TypeVar

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

T = TypeVar("T")


class Writer:
    """Run acts on a connection of its own, in a thread that starts with the first act and ends with `close`.

    An act that another process delays for longer than `busy_seconds` fails with `StoreBroken`.
    """

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._waiting: SimpleQueue[_Act[Any] | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closed = False

    def ask(self, act: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run an act inside a transaction; the future is completed after the commit. Raise `StoreClosed` at once.

        An act that raises one of infold's errors must not have written anything. It may run a second time after a
        rollback.
        """
        asked = _Act(act, time.monotonic() + self._busy_seconds, Future[T]())
        with self._lock:
            if self._closed:
                raise StoreClosed(str(self._path))
            if self._thread is None:
                self._thread = Thread(target=self._run, name=f"infold writer of {self._path.name}", daemon=True)
                self._thread.start()
            self._waiting.put(asked)
        return asked.answer

    def close(self) -> None:
        """Run the pending acts, then end the thread; calling it again does nothing."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while batch := self._next_batch():
            with in_use():
                try:
                    if connection is None or not is_connected(connection):
                        connection = connect(self._path, self._busy_seconds)
                except InfoldError as error:
                    for asked in batch:
                        asked.answer.set_exception(error)
                else:
                    _carry_out(connection, batch, self._path)
        if connection is not None:
            with in_use():
                disconnect(connection)

    def _next_batch(self) -> "list[_Act[Any]]":
        """Return what is waiting, at least one act; nothing if the writer is to end."""
        batch = list[_Act[Any]]()
        asked = self._waiting.get()
        while asked is not None:
            batch.append(asked)
            if len(batch) == MOST_TOGETHER:
                return batch
            try:
                asked = self._waiting.get_nowait()
            except Empty:
                return batch
        if batch:
            self._waiting.put(None)
        return batch


class _Act(NamedTuple, Generic[T]):
    """An act, its deadline for waiting on another process, and the future for its answer."""

    act: Callable[[sqlite3.Connection], T]
    deadline: float
    answer: Future[T]


def _carry_out(connection: sqlite3.Connection, batch: Sequence[_Act[Any]], path: Path) -> None:
    """Answer a batch once the file may be written; fail the oldest act as soon as its deadline has passed."""
    for at, oldest in enumerate(batch):
        left_ms = max(0, round((oldest.deadline - time.monotonic()) * 1_000))
        try:
            with translate_errors(path):
                connection.execute(f"PRAGMA busy_timeout = {left_ms}")
                connection.execute("BEGIN IMMEDIATE")
        except Exception as error:  # reported to the caller; the thread goes on
            oldest.answer.set_exception(error)
        else:
            _answer(connection, batch[at:], path)
            return


def _answer(connection: sqlite3.Connection, batch: Sequence[_Act[Any]], path: Path) -> None:
    """Answer a batch whose transaction has begun; if the database rejects it as a whole, try each act alone."""
    try:
        with translate_errors(path), committing(connection):
            outcomes = [_outcome(connection, asked.act) for asked in batch]
    except Exception as error:  # as above
        if len(batch) == 1:
            batch[0].answer.set_exception(error)
            return
        for asked in batch:
            _carry_out(connection, [asked], path)
        return
    if is_displaced(connection):
        problem = "the file or its write-ahead log was removed or replaced while this process had it open; this was not stored"
        remedy = "put the file back if it is missing, and start the process again"
        outcomes = [StoreBroken(str(path), problem, remedy=remedy)] * len(batch)
    for asked, outcome in zip(batch, outcomes, strict=True):
        if isinstance(outcome, InfoldError):
            asked.answer.set_exception(outcome)
        else:
            asked.answer.set_result(outcome)


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
