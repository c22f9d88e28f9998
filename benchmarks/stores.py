"""What a SQLite store costs: appends per second, and opening a session of a thousand to a million messages.

Run `python benchmarks/stores.py` (`--write` keeps the figures in `benchmarks/results/`, `--largest` ends earlier). Each session
has a checkpoint that folds all but its last twelve messages. Opening is what a process does that has just started: open the
file, load the session, decide the next step, make the view; CPU time, best of several. Preparing is what a caller then does:
open the file, `Session(…)`, `prepare_new` with one message, which is stored; after it the session is folded as it was, which is
not measured. Memory is the peak of a fresh process that does both. Appends per second are wall time: each waits until the disk
has it; `append µs` is the CPU time of one. `index s` is the CPU time of the first search, which indexes the newest eight million
tokens; the next take `search ms`. Not measured here: PostgreSQL, whose figures are the server's; `recall.py` measures searches in
a session of varied text.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from infold import Session, SessionSettings
from infold.core.budget import Window, budget_for
from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.logged_message import Rendering
from infold.core.messages import SessionId
from infold.core.plan import next_step
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import calls, numbered, replies, result, user

Figures: TypeAlias = dict[str, list[dict[str, float]]]

RESULTS = Path(__file__).parent / "results"
SIZES = (1_000, 100_000, 1_000_000)
TURN = (user("do the next part"), calls("bash"), result(40), calls("read"), result(40), replies("part done"))
TURNS_AT_ONCE = 200
KEPT = 12
KEY = SessionKey("tenant", SessionId("session"))
WINDOW = 64_000
SITUATION = PlanInputs(INFOLD, budget_for(Window(WINDOW), INFOLD))
ROUNDS = 5
PREPARATIONS = 30
"""Requests prepared one after the other, each by a session opened anew; the median counts."""
RATIO_TARGET, MEMORY_TARGET_MB = 1.5, 100
HEADINGS = (
    " messages  open+load µs   load µs  open+prepare µs   append µs   first ms   peak MB   index s   search ms   file MB"
    "   built/s"
)


def main() -> int:
    """Measure, print, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description="What a SQLite store costs.")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="messages of the largest session")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.open:
        return tell_opening(chosen.open)
    with tempfile.TemporaryDirectory() as folder:
        sizes = [size for size in SIZES if size <= chosen.largest]
        figures: Figures = {"append": [append_cost(Path(folder))], "sizes": size_rows(Path(folder), sizes)}
    print(table(figures))
    if chosen.write:
        keep(figures)
    return 0


# Opening.


def size_rows(folder: Path, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Build a session of each size, measure opening them in turn, then searching.

    In turn, because the machine has other things to do: what is quick or slow for a while is so for all sizes.
    """
    paths = [folder / f"{size}.db" for size in sizes]
    built = [build_row(path, size) for path, size in zip(paths, sizes, strict=True)]
    rounds = [[json.loads(run_fresh(path)) for path in paths] for _ in range(ROUNDS)]
    told = list(zip(*rounds, strict=True))
    return [row | open_row(of) | search_row(path) for row, of, path in zip(built, told, paths, strict=True)]


def build_row(path: Path, size: int) -> dict[str, float]:
    """Build a session of that many messages."""
    started = time.perf_counter()
    messages = build(path, size)
    spent = time.perf_counter() - started
    return {"messages": messages, "built_per_second": round(messages / spent)}


def open_row(told: Sequence[dict[str, float]]) -> dict[str, float]:
    """The best of what fresh processes said of opening; of their memory the most."""
    return {
        "open_us": round(min(one["open_us"] for one in told), 1),
        "load_us": round(min(one["load_us"] for one in told), 1),
        "prepare_us": round(min(one["prepare_us"] for one in told), 1),
        "first_ms": round(min(one["first_ms"] for one in told), 2),
        "peak_mb": round(max(one["peak_mb"] for one in told), 1),
    }


def search_row(path: Path) -> dict[str, float]:
    """What the first search costs, those after it, and appending to a session that was searched."""
    with SqliteStore(path) as store:
        newest, _ = next(store.newest_first(KEY))
        index_seconds = timed(lambda: store.search(KEY, "part zebra", most=20), least=0.0001)
        search_ms = per_call(lambda: store.search(KEY, "part zebra", most=20)) / 1e3
        append_us = append_on(store, newest + 1)
    return {
        "append_us": round(append_us, 1),
        "index_s": round(index_seconds, 2),
        "search_ms": round(search_ms, 2),
        "file_mb": round(path.stat().st_size / 1e6, 1),
    }


def build(path: Path, size: int) -> int:
    """Write the session; gives how many messages it has, whole turns only."""
    with SqliteStore(path) as store:
        at = 0
        for entries in batches(size):
            at = store.append(KEY, entries, expected=at)
        store.append(KEY, [Checkpoint("what went before", first_kept=at - KEPT)], expected=at)
    return at


def batches(size: int) -> Iterator[list[Entry]]:
    """Messages of an ordinary shape, a few hundred turns at a time, each with an id of its own."""
    turns = max(KEPT // len(TURN), size // len(TURN))
    for first in range(0, turns, TURNS_AT_ONCE):
        drafts = TURN * min(TURNS_AT_ONCE, turns - first)
        yield [MessageEntry(message) for message in numbered(drafts, prefix=f"{first}-")]


def run_fresh(path: Path) -> str:
    """What a process that has just started says of opening a copy of the session."""
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    command = [sys.executable, __file__, "--open", str(copy)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    copy.unlink()
    return told


def tell_opening(path: Path) -> int:
    """Open the session for the first time in this process, then again and again, and print what it cost."""
    started = time.process_time()
    open_session(path)
    first = time.process_time() - started
    with SqliteStore(path) as store:
        load_us = per_call(lambda: ready(store))
    prepared = sorted(prepare_once(path) for _ in range(PREPARATIONS))
    told = {
        "first_ms": first * 1e3,
        "open_us": per_call(lambda: open_session(path)),
        "load_us": load_us,
        "prepare_us": prepared[len(prepared) // 2] * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(told))
    return 0


def open_session(path: Path) -> None:
    """What a process does that has just started."""
    with SqliteStore(path) as store:
        ready(store)


def ready(store: SqliteStore) -> int:
    """Load the session, decide the next step and make the view."""
    log = load(KEY.session_id, store.newest_first(KEY), Rendering())
    next_step(log, SITUATION)
    return len(view(log, INFOLD.summary))


def prepare_once(path: Path) -> float:
    """Seconds of CPU to open the session and prepare a request with one more message; then it is folded as it was."""
    began = time.process_time()
    with SqliteStore(path) as store:
        session = Session(store, KEY.session_id, SessionSettings(window=WINDOW), tenant=KEY.tenant)
        prepared = session.prepare_new([{"role": "user", "content": "and now the part after that"}])
    spent = time.process_time() - began
    assert len(prepared.messages) == KEPT + 2, "the checkpoint, what it kept and what is new"
    fold_again(path, session.log.next_sequence)
    return spent


def fold_again(path: Path, at: int) -> None:
    """Go on for as many messages as are kept, and fold all before them."""
    messages = numbered(TURN * (KEPT // len(TURN)), prefix=f"after-{at}-")
    checkpoint = Checkpoint("what went before", first_kept=at)
    with SqliteStore(path) as store:
        store.append(KEY, [*map(MessageEntry, messages), checkpoint], expected=at)


# Appending.


def append_on(store: SqliteStore, at: int) -> float:
    """Microseconds of CPU that one more append takes, over three hundred of them."""
    messages = numbered(TURN * 50, prefix="more-")
    started = time.process_time()
    for step, message in enumerate(messages):
        store.append(KEY, [MessageEntry(message)], expected=at + step)
    return (time.process_time() - started) / len(messages) * 1e6


def append_cost(folder: Path) -> dict[str, float]:
    """Appends per second: one by one, in hundreds, and by eight threads with a session each."""
    with SqliteStore(folder / "append.db") as store:
        return {
            "alone_per_second": rate(lambda: append_one_by_one(store, "alone", 300), 300),
            "hundreds_per_second": rate(lambda: append_hundreds(store, 30), 3_000),
            "eight_threads_per_second": rate(lambda: append_in_threads(store, 150), 8 * 150),
        }


def append_one_by_one(store: SqliteStore, name: str, times: int) -> None:
    """One message at a time, each on the disk before the next."""
    key = SessionKey("tenant", SessionId(name))
    messages = numbered(TURN * (times // len(TURN)), prefix=name)
    for at, message in enumerate(messages):
        store.append(key, [MessageEntry(message)], expected=at)


def append_hundreds(store: SqliteStore, times: int) -> None:
    """A hundred messages at a time."""
    key = SessionKey("tenant", SessionId("hundreds"))
    for number in range(times):
        messages = numbered((user("do the next part") for _ in range(100)), prefix=f"{number}-")
        store.append(key, [MessageEntry(message) for message in messages], expected=number * 100)


def append_in_threads(store: SqliteStore, times: int) -> None:
    """Eight writers, each with a session of its own."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append_one_by_one(store, f"thread{number}", times), range(8)))


def rate(act: Callable[[], None], times: int) -> float:
    """How many of these a second has."""
    started = time.perf_counter()
    act()
    return round(times / (time.perf_counter() - started))


# Timing and telling.


def per_call(action: Callable[[], object], *, least: float = 0.3) -> float:
    """Microseconds of CPU of one call, best of three, each over at least that many seconds."""
    return min(timed(action, least) for _ in range(3)) * 1e6


def timed(action: Callable[[], object], least: float) -> float:
    """Seconds of CPU per call."""
    times, started = 0, time.process_time()
    while (spent := time.process_time() - started) < least:
        action()
        times += 1
    return spent / times


def table(figures: Figures) -> str:
    """The figures as text, with the targets beside them."""
    rows, append = figures["sizes"], figures["append"][0]
    together, alone = append["eight_threads_per_second"], append["alone_per_second"]
    return "\n".join(
        [
            f"append: {alone:,}/s one by one, {together:,}/s by eight threads, {append['hundreds_per_second']:,}/s in hundreds",
            HEADINGS,
            *map(size_line, rows),
            f"open+load against {rows[0]['messages']:,} messages: {ratios(rows, 'open_us')} (target {RATIO_TARGET})",
            f"open+prepare against {rows[0]['messages']:,} messages: {ratios(rows, 'prepare_us')} (target {RATIO_TARGET})",
            f"peak memory: {max(row['peak_mb'] for row in rows)} MB (target {MEMORY_TARGET_MB})",
        ]
    )


def ratios(rows: list[dict[str, float]], name: str) -> str:
    """How a figure grows with the session's length."""
    return ", ".join(f"{row[name] / rows[0][name]:.2f} at {row['messages']:,}" for row in rows[1:])


def size_line(row: dict[str, float]) -> str:
    """One row of the table by size."""
    timed_columns = (("open_us", 14), ("load_us", 10), ("prepare_us", 17), ("append_us", 12), ("first_ms", 11))
    other_columns = (("peak_mb", 10), ("index_s", 10), ("search_ms", 12), ("file_mb", 10))
    told = "".join(f"{row[name]:>{width},}" for name, width in (*timed_columns, *other_columns))
    return f"{row['messages']:>9,}{told}{row['built_per_second']:>10,}"


def keep(figures: Figures) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": "python benchmarks/stores.py --write", "commit": commit, "machine": machine, **figures}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "stores.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "stores.txt").write_text(f"{machine}, commit {commit}\n{table(figures)}\n")


if __name__ == "__main__":
    sys.exit(main())
