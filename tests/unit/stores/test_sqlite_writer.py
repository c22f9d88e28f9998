"""Acts of many threads, written by one of them at a time."""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

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
    answers = [writer.ask(partial(add, number=number)) for number in range(7)]
    found = [answer.result() for answer in answers]
    writer.close()

    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert count(path) == 7


def test_refused_act_harms_no_other(path: Path) -> None:
    """B14: where one act of a batch fails, by our rules or the database's, the others are committed all the same."""
    writer = Writer(path)

    def refuse(_: sqlite3.Connection) -> int:
        raise UnknownSession("x")

    good = [writer.ask(partial(add, number=number)) for number in range(3)]
    refused = writer.ask(refuse)
    failing = writer.ask(lambda connection: connection.execute("INSERT INTO missing VALUES (1)"))
    broken = writer.ask(lambda _: 1 // 0)
    assert [answer.result() for answer in good] == [1, 2, 3]
    writer.close()

    with pytest.raises(UnknownSession):
        refused.result()
    with pytest.raises(StoreBroken, match="no such table"):
        failing.result()
    with pytest.raises(ZeroDivisionError):
        broken.result()
    assert count(path) == 3


def test_threads_share_a_writer(path: Path) -> None:
    """B14: of threads that ask at once each gets its own answer, and everything is committed."""
    writer = Writer(path)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: writer.ask(partial(add, number=number)).result(), range(200)))
    writer.close()

    assert sorted(found) == list(range(1, 201))
    assert count(path) == 200


def test_an_interrupted_thread_harms_no_other(path: Path) -> None:
    """B14: an act that breaks off, as by Ctrl-C, leaves no transaction behind and is not run later; what was asked before is."""
    writer = Writer(path)

    def interrupt(_: sqlite3.Connection) -> int:
        raise KeyboardInterrupt

    first = writer.ask(partial(add, number=1))
    with pytest.raises(KeyboardInterrupt):
        writer.ask(interrupt).result()

    assert first.result() == 1
    writer.close()
    assert count(path) == 1


def test_closing_runs_what_was_asked(path: Path) -> None:
    """Closing runs the acts that wait; a second time does nothing, and later acts are refused."""
    writer = Writer(path)
    asked = writer.ask(lambda connection: add(connection, 1))
    writer.close()
    writer.close()

    assert asked.result() == 1
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
            answer.result()
    lasted = time.monotonic() - began
    other.execute("ROLLBACK")

    assert writer.ask(partial(add, number=1)).result() == 1
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
        first.result()
    third = writer.ask(partial(add, number=3))
    with pytest.raises(StoreBroken):
        second.result()
    lasted = time.monotonic() - asked
    other.execute("ROLLBACK")

    assert third.result() == 1
    writer.close()
    assert BUSY_SECONDS * 9 < lasted < BUSY_SECONDS * 18
