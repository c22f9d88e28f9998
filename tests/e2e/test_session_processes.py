"""Eight processes on one session at once: every message is there, each process's in its order, and no head is folded twice."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.load import load
from infold.core.logged_message import Rendering
from infold.core.messages import is_from_caller

from ..contract.postgres_server import database, postgres_server  # noqa: TID252 - `tests` is no package to name
from .session_worker import APPENDS, KEY, LIMIT_TOKENS, opened, session_in, word_of

WORKER = Path(__file__).with_name("session_worker.py")
NAMES = [f"p{number}" for number in range(8)]
LARGEST_WASTE = 0.1
"""Summaries asked for in vain by all processes together, for each that is used; without a lock each of them would ask."""

LONGEST_SECONDS = 60 + APPENDS

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "sessions.db")
    else:
        with postgres_server() as server, database(server) as made:
            yield made


def test_eight_processes_share_a_session(address: str) -> None:
    """B14: all messages are there once and in each process's order, and each compaction folds what none before it did."""
    began = time.monotonic()
    asked = run_together(address)
    with opened(address) as store:
        entries = [entry for _, entry in store.newest_first(KEY)][::-1]
        log = load(KEY.session_id, store.newest_first(KEY), Rendering())
        ready = session_in(store).prepare_new([{"role": "user", "content": "asks 1: how far are we?"}])
    checkpoints = [(number, entry) for number, entry in enumerate(entries) if isinstance(entry, Checkpoint)]
    print(
        f"\n{len(entries)} entries, {len(checkpoints)} compactions, {asked} summaries, {time.monotonic() - began:.0f} s"
    )

    check_messages(entries)
    check_compactions(entries, checkpoints)
    assert asked - len(checkpoints) <= LARGEST_WASTE * len(checkpoints)
    assert log.next_sequence == len(entries)
    assert ready.gauge.upper_tokens <= LIMIT_TOKENS


def run_together(address: str) -> int:
    """Run one worker per name, all at once on a database that none has made yet; gives how often they asked for a summary."""
    workers = [
        subprocess.Popen([sys.executable, WORKER, "speak", address, name], stdout=subprocess.PIPE, text=True)
        for name in NAMES
    ]
    try:
        told = [worker.communicate(timeout=LONGEST_SECONDS)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0] * len(NAMES)
    return sum(map(int, told))


def check_messages(entries: Sequence[Entry]) -> None:
    """Every message of every process, once, in that process's order."""
    words = [
        word_of(entry.message) for entry in entries if isinstance(entry, MessageEntry) and is_from_caller(entry.message)
    ]

    assert len(words) == len(NAMES) * APPENDS
    for name in NAMES:
        assert [word for word in words if word.startswith(name)] == [f"{name} {number}" for number in range(APPENDS)]


def check_compactions(entries: Sequence[Entry], checkpoints: Sequence[tuple[int, Checkpoint]]) -> None:
    """Each fold begins where the one before ended and takes in more; a model wrote every one of them."""
    assert checkpoints
    for (_, before), (_, after) in pairwise(checkpoints):
        assert after.folded > before.folded
    for number, checkpoint in checkpoints:
        assert checkpoint.first_kept is not None
        assert checkpoint.folded == callers_before(entries, checkpoint.first_kept)
        assert checkpoint.first_kept < number
        assert checkpoint.summariser == "summariser"


def callers_before(entries: Sequence[Entry], number: int) -> int:
    """How many of the callers' messages stand before that number."""
    return sum(isinstance(entry, MessageEntry) and is_from_caller(entry.message) for entry in entries[:number])
