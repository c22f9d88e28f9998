"""A session whose driver is killed, again and again, at any moment: nothing acknowledged is lost, the next prompt is answered."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from signal import SIGKILL

import pytest
from msgspec import Struct
from tests.support.provider_rules import problems

from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.messages import is_from_caller
from infold.formats.registry import OPENAI_CHAT
from infold.ports import FullStore

from ..contract.postgres_server import database, postgres_server  # noqa: TID252 - `tests` is no package to name
from .session_worker import KEY, LIMIT_TOKENS, RULE, opened, session_in, word_of

WORKER = Path(__file__).with_name("session_worker.py")
KILLS = int(os.environ.get("INFOLD_KILLS", "50"))
"""How many drivers are killed, one after the other, at each database."""

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "sessions.db")
    else:
        with postgres_server() as server, database(server) as made:
            yield made


class Seen(Struct):
    """What was found in the log so far; `pending`: how often its end was a compaction that was requested and not made."""

    entries: int = 0
    words: list[str] = []
    checkpoints: int = 0
    pending: int = 0


@pytest.mark.long
def test_a_killed_driver_loses_nothing(address: str) -> None:
    """B13, B1, S3.1: what was acknowledged is there, once and in order; the log is read and the next prompt fits."""
    chance, seen, told = random.Random(6), Seen(), 0
    with nursery(address) as nurse, opened(address) as store:
        for number in range(1, KILLS + 1):
            acknowledged = killed(nurse, after=chance.randrange(1, 14), wait=chance.random() * 0.03)
            look(store, seen)

            assert set(acknowledged) <= set(seen.words)
            ask(store, number)
            told += len(acknowledged)
    look_again = Seen()
    with opened(address) as store:
        look(store, look_again)
    print(f"\n{KILLS} kills, {seen.pending} of them in a compaction; {look_again.entries} entries, {told} acknowledged")

    check_order(look_again.words)
    assert look_again.checkpoints >= KILLS // 5


def killed(nurse: "subprocess.Popen[str]", *, after: int, wait: float) -> list[str]:
    """Start a driver, kill it some moments after it has spoken so often; gives all that it acknowledged."""
    assert nurse.stdin is not None
    assert nurse.stdout is not None
    nurse.stdin.write("another\n")
    nurse.stdin.flush()
    child = int(nurse.stdout.readline())
    words = takewhile(lambda line: "ended" not in line, iter(nurse.stdout.readline, ""))
    told = list(islice(words, after))
    assert len(told) == after, "the driver ended by itself"
    time.sleep(wait)
    os.kill(child, SIGKILL)
    return [line.strip() for line in (*told, *words)]


def look(store: FullStore, seen: Seen) -> None:
    """Read what is new in the log, and see that the entries are numbered without a gap."""
    newest_first = takewhile(lambda numbered: numbered[0] >= seen.entries, store.newest_first(KEY))
    fresh = list(newest_first)[::-1]

    assert [number for number, _ in fresh] == list(range(seen.entries, seen.entries + len(fresh)))
    seen.entries += len(fresh)
    seen.words += words_in(entry for _, entry in fresh)
    seen.checkpoints += sum(isinstance(entry, Checkpoint) for _, entry in fresh)
    newest = fresh[-1][1] if fresh else None
    seen.pending += isinstance(newest, MessageEntry) and not is_from_caller(newest.message)


def words_in(entries: Iterator[Entry]) -> Iterator[str]:
    """The words of the callers' messages."""
    for entry in entries:
        if isinstance(entry, MessageEntry) and is_from_caller(entry.message):
            yield word_of(entry.message)


def ask(store: FullStore, number: int) -> None:
    """A new process asks the next prompt: the request fits, can be sent, and has the rule in it."""
    ready = session_in(store).prepare_new([{"role": "user", "content": f"asks {number}: how far are we?"}])

    assert ready.gauge.upper_tokens <= LIMIT_TOKENS
    assert problems(OPENAI_CHAT, ready.messages) == ()
    assert RULE in str(ready.messages)


def check_order(words: list[str]) -> None:
    """Each message once; calls and prompts in their order, each result right after its call."""
    calls = [word for word in words if word.startswith("calls")]
    results = [place for place, word in enumerate(words) if word.startswith("result")]

    assert len(words) == len(set(words))
    assert calls == [f"calls {number}" for number in range(len(calls))]
    assert [word for word in words if word.startswith("asks")] == [f"asks {number}" for number in range(KILLS + 1)]
    assert all(words[place - 1] == words[place].replace("result", "calls") for place in results)


@contextmanager
def nursery(address: str) -> "Iterator[subprocess.Popen[str]]":
    """The process that starts drivers, ended with the block."""
    command = [sys.executable, str(WORKER), "nurse", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.kill()
