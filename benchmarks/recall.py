"""What does a search cost in a session of a million tokens?

    python benchmarks/recall.py [--tokens N] [--write]

A generated session (seeded; code-like results, names and words as unevenly frequent as in text) is searched through `recall`
with the words of lines that stand in it, by CPU time of this process: the first query, which makes the index; the first after
the file is opened again, which loads what was stored of it; and the median and the 95th percentile of those that follow
(target: a median under 10 ms). All stores must give the same replies. `index MB` is what the stored index adds to the file,
`memory MB` what the loaded one adds to the process. How good the answers are is measured by `retention.py` and by
`needed_later.py`. Not measured: PostgreSQL, whose time is partly the server's.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from infold.core.entries import Entry, MessageEntry
from infold.core.messages import Message, SessionId
from infold.core.tokens import measure_message
from infold.ports import FullStore, SessionKey
from infold.session.recall import recall
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import calls, numbered, replies, result, user

RESULTS = Path(__file__).parent / "results"
KEY = SessionKey("", SessionId("long"))
SEED = 40_2026
WORDS = 30_000
QUERIES = 200
TARGET_MS = 10
SYLLABLES = ("ka", "lo", "mi", "ter", "pan", "su", "ver", "dor", "ni", "ex", "qua", "ban", "ro", "tel", "fi", "gra")


def main() -> int:
    """Measure, print, and keep the figures if asked to; 1 if the target is missed or two stores disagree."""
    parser = argparse.ArgumentParser(description="What a search costs in a long session.")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="size of the session")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    options = parser.parse_args()
    chance = Random(SEED)
    messages = list(session_of(options.tokens, chance))
    queries = [query_of(messages, chance) for _ in range(QUERIES)]
    figures = measure(messages, queries)
    print(table(figures))
    if options.write:
        keep(figures)
    return 0 if figures["same replies"] and figures["median ms"] < TARGET_MS else 1


def session_of(tokens: int, chance: Random) -> Iterator[Message]:
    """Yield the messages of a session of at least that many tokens, in turns of a wish, some calls and an answer."""
    names = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(WORDS)]
    weights = [1 / (rank + 3) for rank in range(WORDS)]
    held, turn = 0, 0
    while held < tokens:
        drafts: list[Message] = [user(" ".join(chance.choices(names, weights, k=30)))]
        for step in range(chance.randint(3, 12)):
            path = "/".join(chance.choices(names, weights, k=3))
            lines = (line_of(names, weights, chance) for _ in range(chance.choice((5, 20, 60, 200))))
            drafts += (
                calls("bash", arguments=json.dumps({"command": f"cat src/{path}.py"})),
                result(output="\n".join(lines)),
            )
            drafts += [replies(" ".join(chance.choices(names, weights, k=25)))] if step % 4 == 3 else []
        made = numbered(drafts, prefix=f"{turn}-")
        held, turn = held + sum(sum(measure_message(message, "features")) for message in made), turn + 1
        yield from made


def line_of(names: Sequence[str], weights: Sequence[float], chance: Random) -> str:
    """Return a line with a call, a path or a sentence."""
    one, two, *others = chance.choices(names, weights, k=8)
    match chance.randrange(3):
        case 0:
            return f"    {one}_{two} = {others[0]}.{others[1].title()}({others[2]}={chance.randrange(10_000)})"
        case 1:
            return f"{chance.randrange(400)}: {one}/{two}/{others[0]}.py:{chance.randrange(900)} {' '.join(others[1:])}"
        case _:
            return " ".join((one, two, *others))


def query_of(messages: Sequence[Message], chance: Random) -> str:
    """Return words of one line of a result, as somebody might ask for it."""
    while True:
        text = getattr(chance.choice(messages).parts[0], "output", "")
        if text:
            words = chance.choice(text.splitlines()).split()
            return " ".join((*chance.sample(words, min(len(words), 6)), "the", "file", chance.choice(SYLLABLES)))


def measure(messages: Sequence[Message], queries: Sequence[str]) -> dict[str, float]:
    """Return the figures of one session and these queries."""
    entries: list[Entry] = [MessageEntry(message) for message in messages]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        with SqliteStore(path) as store:
            store.append(KEY, entries, expected=0)
        bare = path.stat().st_size
        with SqliteStore(path) as store:
            first_seconds, _ = timed(store, queries[0])
        with_index = path.stat().st_size
        before = resident()
        with SqliteStore(path) as store:
            loading_seconds, _ = timed(store, queries[0])
            memory = resident() - before
            stored = [timed(store, query) for query in queries]
    memory_store = MemoryStore()
    memory_store.append(KEY, entries, expected=0)
    recalled = [timed(memory_store, query)[1] for query in queries]
    times = sorted(spent for spent, _ in stored)
    return {
        "tokens": sum(sum(measure_message(message, "features")) for message in messages),
        "messages": len(messages),
        "first s": round(first_seconds, 2),
        "first after a restart s": round(loading_seconds, 2),
        "median ms": round(times[len(times) // 2] * 1e3, 1),
        "95 % ms": round(times[len(times) * 95 // 100] * 1e3, 1),
        "file MB": round(bare / 1e6, 1),
        "index MB": round((with_index - bare) / 1e6, 1),
        "memory MB": round(memory, 1),
        "same replies": [reply for _, reply in stored] == recalled,
    }


def timed(store: FullStore, query: str) -> tuple[float, str]:
    """Return the CPU seconds of a query, and its reply."""
    began = time.process_time()
    reply = recall(store, KEY, query)
    return time.process_time() - began, reply


def resident() -> float:
    """Return the megabytes that this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def table(figures: dict[str, float]) -> str:
    """Return the figures, a line each."""
    lines = [
        f"{name:26}{value:>12,}" if name != "same replies" else f"{name:26}{value!s:>12}"
        for name, value in figures.items()
    ]
    return "\n".join((*lines, f"target: median under {TARGET_MS} ms"))


def keep(figures: dict[str, float]) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": "python benchmarks/recall.py --write", "commit": commit, "machine": machine, **figures}
    (RESULTS / "recall.json").write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    (RESULTS / "recall.txt").write_text(f"{machine}, commit {commit}\n{table(figures)}\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
