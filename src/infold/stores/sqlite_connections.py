"""A process's connections to one file: a writer, and as many readers as read at once.

A connection must never be used, nor even closed, in a process other than the one that opened it. A fork closes all connections
first (`sqlite_file.in_use`); parent and child then open their own on their next use.
"""

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from infold.errors import StoreClosed
from infold.stores.sqlite_file import BUSY_SECONDS, connect, disconnect, in_use, is_connected, is_frozen, translated
from infold.stores.sqlite_writer import Writer

MOST_IDLE = 8
"""Readers kept open between reads; more are opened while more threads read at once, and closed again."""

T = TypeVar("T")


class Connections:
    """The way to a file from whatever thread and process asks."""

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._by_process: dict[int, _Process] = {}
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for one read, which must be finished within the block."""
        with self._here().reading() as connection, translated(self._path):
            yield connection

    def write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Have an act carried out by this process's writer, and wait for it."""
        return self.ask(act).result()

    def ask(self, act: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Have an act carried out by this process's writer; see `Writer.ask`."""
        return self._here().writer.ask(act)

    def close(self) -> None:
        """Close what this process opened; a second time does nothing."""
        self._closed = True
        here = self._by_process.get(os.getpid())
        if here is not None:
            here.close()

    def _here(self) -> "_Process":
        if self._closed:
            raise StoreClosed(str(self._path))
        here = self._by_process.get(os.getpid())
        return here or self._first_use_here()

    def _first_use_here(self) -> "_Process":
        """Of threads that come here at once one wins; no lock, since a forked child may have inherited it locked."""
        return self._by_process.setdefault(os.getpid(), _Process(self._path, self._busy_seconds))


class _Process:
    """The connections that one process opened."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False
        self.writer = Writer(path, busy_seconds)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with in_use():
            connection = self._take()
            try:
                yield connection
            finally:
                if is_frozen(connection):
                    disconnect(connection)
                else:
                    self._idle.append(connection)
                self._keep(0 if self._closed else MOST_IDLE)

    def _take(self) -> sqlite3.Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return connect(self._path, self._busy_seconds, to_read=True)
            if is_connected(connection):
                return connection

    def close(self) -> None:
        self.writer.close()
        self._closed = True
        with in_use():
            self._keep(0)

    def _keep(self, most: int) -> None:
        while len(self._idle) > most:
            try:
                disconnect(self._idle.popleft())
            except IndexError:  # another thread took it
                return
