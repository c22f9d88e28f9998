"""Stores among processes that are killed, that fork, and that write at once."""

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from signal import SIGKILL

import pytest

from infold.core.entries import MessageEntry
from infold.core.load import load
from infold.core.logged_message import Rendering
from infold.core.messages import text_of
from infold.ports import FullStore, SessionKey
from infold.testing.store_contract import user_entries

from ..contract.postgres_server import database, postgres_server  # noqa: TID252 - `tests` is no package to name
from .store_worker import ASIDE, KEY, OWN, opened, size_at

WORKER = Path(__file__).with_name("store_worker.py")
KILLS = int(os.environ.get("INFOLD_KILLS", "20"))
"""How many writers are killed, one after the other, at each database."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL server, started once."""
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "sessions.db")
    else:
        with database(request.getfixturevalue("server")) as made:
            yield made


@pytest.mark.long
def test_killed_writer_loses_nothing(address: str) -> None:
    """B13, B14, B1: whenever a writer is killed, what it was told is stored is there, whole, and the next one goes on."""
    chance = random.Random(20)
    for _ in range(KILLS):
        acknowledged = killed_writer(address, after=chance.randrange(1, 8), wait=chance.random() * 0.02)
        with opened(address) as store:
            at = check_log(store)

        assert at >= acknowledged


def killed_writer(address: str, *, after: int, wait: float) -> int:
    """Start a writer, kill it some moments after it has spoken so often, and give the last number it told."""
    with worker("write_on", address) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(after)]
        time.sleep(wait)
        writer.kill()
        # A line that the kill cut short was not told.
        told += [int(line) for line in writer.stdout if line.endswith("\n")]
    return told[-1]


def check_log(store: FullStore) -> int:
    """Whether the entries are those that were written, appends whole; gives how many there are."""
    read = list(store.newest_first(KEY))[::-1]
    texts = [text_of(entry.message) for _, entry in read if isinstance(entry, MessageEntry)]
    ends = {0}
    while max(ends) < len(read):
        ends.add(max(ends) + size_at(max(ends)))

    assert [number for number, _ in read] == list(range(len(read)))
    assert texts == [f"entry {number}" for number in range(len(read))]
    assert len(read) in ends
    assert load(KEY.session_id, store.newest_first(KEY), Rendering()).next_sequence == len(read)
    return len(read)


def test_eight_processes_write_one_session(address: str) -> None:
    """B14: eight processes append a hundred times each, and every entry is there once, each process's in its order."""
    run_together("append_many", address, [f"p{number}" for number in range(8)])
    with opened(address) as store:
        read = list(store.newest_first(KEY))[::-1]
    texts = [text_of(entry.message) for _, entry in read if isinstance(entry, MessageEntry)]

    assert [number for number, _ in read] == list(range(800))
    for name in (f"p{number}" for number in range(8)):
        assert [text for text in texts if text.startswith(f"{name} ")] == [f"{name} {number}" for number in range(100)]


def test_one_process_compacts_at_a_time(address: str) -> None:
    """B14: of four processes that want to compact, one at a time holds the session."""
    run_together("compact_many", address, ["a", "b", "c", "d"])
    with opened(address) as store:
        texts = [text_of(entry.message) for _, entry in store.newest_first(KEY) if isinstance(entry, MessageEntry)][
            ::-1
        ]

    assert len(texts) == 80
    for begins, ends in zip(texts[::2], texts[1::2], strict=True):
        assert (begins.split()[1], ends) == ("begins", f"{begins.split()[0]} ends")


def test_lock_ends_with_its_process(address: str) -> None:
    """B13: a session whose holder was killed can be held again."""
    with opened(address) as store:
        with worker("hold_on", address) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "1\n"
            with store.hold(KEY) as meanwhile:
                assert not meanwhile
            holder.kill()
        assert any(_tries_to_hold(store) for _ in range(200))


def _tries_to_hold(store: FullStore) -> bool:
    """Whether the lock is to be had; a server may need a moment to see that a client is gone."""
    time.sleep(0.01)
    with store.hold(KEY) as held:
        return held


def test_forked_child_goes_on(address: str) -> None:
    """B14: after a fork both processes read, append and leave each other's connections and locks alone."""
    done = subprocess.run([sys.executable, WORKER, "fork", address], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    with opened(address) as store:
        store.append(KEY, user_entries("after", prefix="after-"), expected=120)
    if "=" not in address:
        connection = sqlite3.connect(address)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()


def test_a_store_opened_often_loses_nothing(address: str) -> None:
    """B31, B13, B14: a process that opens one store often, in threads and forks, and others that come, go and are killed."""
    chance, acknowledged = random.Random(31), {"write_on": 0, "open_often": 0}
    with nursery(address) as openers, nursery(address) as others:
        opener = started(openers, "open_often")
        for _ in range(KILLS):
            acknowledged["write_on"] = killed(others, started(others, "write_on"), chance.randrange(1, 6), chance)
            check_visit(others, acknowledged)
            acknowledged["open_often"] = int(line_of(openers))
            if not chance.randrange(4):
                acknowledged["open_often"] = killed(openers, opener, 1, chance)
                opener = started(openers, "open_often")
            check_visit(others, acknowledged)
        killed(openers, opener, 1, chance)
    with opened(address) as store:
        check_log(store)
        check_numbers(store, OWN)
        check_numbers(store, ASIDE)
    print(f"\n{KILLS} rounds; acknowledged at least {acknowledged}")


def started(nurse: "subprocess.Popen[str]", task: str) -> int:
    """Have a process started; gives its id."""
    assert nurse.stdin is not None
    nurse.stdin.write(f"{task}\n")
    nurse.stdin.flush()
    return int(line_of(nurse))


def killed(nurse: "subprocess.Popen[str]", child: int, after: int, chance: random.Random) -> int:
    """Kill a process some moments after it has told so many numbers; gives the last of them."""
    told = [line_of(nurse) for _ in range(after)]
    time.sleep(chance.random() * 0.02)
    os.kill(child, SIGKILL)
    told += takewhile(lambda line: not line.startswith("ended"), iter(lambda: line_of(nurse), ""))
    return int(told[-1])


def check_visit(nurse: "subprocess.Popen[str]", acknowledged: dict[str, int]) -> None:
    """Have another process open the store and close it, which finds all that was acknowledged."""
    started(nurse, "visit")
    written, own = int(line_of(nurse)), int(line_of(nurse))

    assert line_of(nurse) == "ended 0"
    assert written >= acknowledged["write_on"]
    assert own >= acknowledged["open_often"]


def line_of(process: "subprocess.Popen[str]") -> str:
    """The next line that a process tells."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def check_numbers(store: FullStore, key: SessionKey) -> None:
    """See that the entries of a session are numbered without a gap."""
    numbers = [number for number, _ in store.newest_first(key)]

    assert numbers == list(range(len(numbers)))[::-1]


@contextmanager
def nursery(address: str) -> "Iterator[subprocess.Popen[str]]":
    """A process that starts others, ended with the block."""
    command = [sys.executable, str(WORKER), "nurse", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_child_outlives_the_process_that_opened_the_store(address: str) -> None:
    """B31: a forked child whose parent has ended goes on, and loses nothing when another process comes and goes."""
    command = [sys.executable, str(WORKER), "outlive", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        for at in range(2, 6):
            assert line_of(child) == str(at)
            seen = subprocess.run(
                [sys.executable, WORKER, "visit", address], capture_output=True, text=True, timeout=60
            )
            assert (seen.stdout, seen.stderr) == (f"0\n{at}\n", "")
            assert child.stdin is not None
            child.stdin.write("on\n")
            child.stdin.flush()
        child.communicate()


def test_a_fork_that_python_does_not_see_is_refused(tmp_path: Path) -> None:
    """B31: a child that inherited open SQLite connections gets an error, from the old store and from a new one."""
    command: list[str | Path] = [sys.executable, WORKER, "fork_unseen", str(tmp_path / "sessions.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n2\n", "")


def test_interrupts_of_the_main_thread_harm_no_other(tmp_path: Path) -> None:
    """B14: after Ctrl-C in the middle of an append, every thread goes on, and what was acknowledged is stored, once."""
    command: list[str | Path] = [sys.executable, WORKER, "interrupted", str(tmp_path / "sessions.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    interrupted, *others = done.stdout.split()
    assert interrupted in ("0", "1")
    assert others == ["0"] * 3


@contextmanager
def worker(task: str, address: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process, ended with the block."""
    command = [sys.executable, str(WORKER), task, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def run_together(task: str, address: str, names: list[str]) -> None:
    """Run one worker per name, all at once on a database that none has made yet, and see that each ends well."""
    workers = [subprocess.Popen([sys.executable, WORKER, task, address, name]) for name in names]

    assert [process.wait(timeout=120) for process in workers] == [0] * len(names)
