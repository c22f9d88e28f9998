"""One thread that writes for all."""

import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from threading import enumerate as running

import pytest

from infold.errors import StoreBroken, StoreClosed, UnknownSession
from infold.stores.sqlite_writer import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a table of numbers."""
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE numbers (number INTEGER UNIQUE)")
    connection.close()
    return tmp_path / "a.db"


def add(connection: sqlite3.Connection, number: int) -> int:
    """Add a number; gives how many there are."""
    connection.execute("INSERT INTO numbers VALUES (?)", (number,))
    return int(connection.execute("SELECT count(*) FROM numbers").fetchone()[0])


def count(path: Path) -> int:
    """How many numbers were committed."""
    connection = sqlite3.connect(path)
    (numbers,) = connection.execute("SELECT count(*) FROM numbers").fetchone()
    connection.close()
    return int(numbers)


def test_waiting_acts_share_a_commit(path: Path) -> None:
    """B14: acts that queue up are committed together, in order, each seeing those before it and answered by itself."""
    writer = Writer(path)
    free = Event()
    writer.ask(lambda _: free.wait(LONG_SECONDS))
    answers = [writer.ask(partial(add, number=number)) for number in range(7)]
    free.set()
    found = [answer.result(LONG_SECONDS) for answer in answers]
    writer.close()

    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert count(path) == 7


def test_refused_act_harms_no_other(path: Path) -> None:
    """B14: where one act of a batch fails, by our rules or the database's, the others are committed all the same."""
    writer = Writer(path)
    free = Event()

    def refuse(_: sqlite3.Connection) -> int:
        raise UnknownSession("x")

    writer.ask(lambda _: free.wait(LONG_SECONDS))
    good = [writer.ask(partial(add, number=number)) for number in range(3)]
    refused = writer.ask(refuse)
    failing = writer.ask(lambda connection: connection.execute("INSERT INTO missing VALUES (1)"))
    broken = writer.ask(lambda _: 1 // 0)
    free.set()
    assert [answer.result(LONG_SECONDS) for answer in good] == [1, 2, 3]
    writer.close()

    with pytest.raises(UnknownSession):
        refused.result(LONG_SECONDS)
    with pytest.raises(StoreBroken, match="no such table"):
        failing.result(LONG_SECONDS)
    with pytest.raises(ZeroDivisionError):
        broken.result(LONG_SECONDS)
    assert count(path) == 3


def test_closing_ends_the_thread(path: Path) -> None:
    """Closing waits for the thread; a second time does nothing, and later acts are refused."""
    writer = Writer(path)
    writer.ask(lambda connection: add(connection, 1)).result()
    writer.close()
    writer.close()

    assert not [thread for thread in running() if thread.name == "infold writer of a.db"]
    with pytest.raises(StoreClosed):
        writer.ask(lambda connection: add(connection, 2))


def test_writer_that_cannot_open_says_so(tmp_path: Path) -> None:
    """Whoever asks a writer whose file cannot be opened is told, and may ask again."""
    path = tmp_path / "missing" / "a.db"
    writer = Writer(path)
    for _ in range(2):
        with pytest.raises(StoreBroken, match="cannot be opened"):
            writer.ask(lambda connection: add(connection, 1)).result()
    writer.close()


BUSY_SECONDS = 0.1
"""How long an act waits here for another's transaction."""

LONG_SECONDS = 60
"""Longer than anything here takes on a busy machine."""


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """Another user of the file, who is writing."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


def test_all_that_wait_for_another_are_told_at_once(path: Path, other: sqlite3.Connection) -> None:
    """B14: acts asked together while another process writes wait together, not one after another; then all goes on."""
    writer = Writer(path, BUSY_SECONDS)
    began = time.monotonic()
    answers = [writer.ask(partial(add, number=number)) for number in range(40)]
    for answer in answers:
        with pytest.raises(StoreBroken, match="another process has been writing"):
            answer.result(LONG_SECONDS)
    lasted = time.monotonic() - began
    other.execute("ROLLBACK")

    assert writer.ask(partial(add, number=1)).result(LONG_SECONDS) == 1
    writer.close()
    assert BUSY_SECONDS * 0.8 < lasted < BUSY_SECONDS * 30


@pytest.mark.slow
def test_each_act_waits_from_when_it_was_asked(path: Path, other: sqlite3.Connection) -> None:
    """B14: what is asked while another act waits has its own time, which that one neither lengthens nor shortens."""
    writer = Writer(path, BUSY_SECONDS * 10)
    first = writer.ask(partial(add, number=1))
    time.sleep(BUSY_SECONDS / 2)
    second = writer.ask(partial(add, number=2))
    asked = time.monotonic()
    with pytest.raises(StoreBroken):
        first.result(LONG_SECONDS)
    third = writer.ask(partial(add, number=3))
    with pytest.raises(StoreBroken):
        second.result(LONG_SECONDS)
    lasted = time.monotonic() - asked
    other.execute("ROLLBACK")

    assert third.result(LONG_SECONDS) == 1
    writer.close()
    assert BUSY_SECONDS * 9 < lasted < BUSY_SECONDS * 18
