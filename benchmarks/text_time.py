"""How CPU time grows with the size of texts of many kinds, through `fit` and through the gateway.

Run `python benchmarks/text_time.py` (`--write` keeps the figures in `benchmarks/results/`; `--kinds` chooses some, and keeps the
figures of the others). Everything takes about an hour and a half on an idle machine; other work on it shows. Each kind of
`text_kinds.py` is made with 64 kB, 128 kB and so on up to 1 MB and fitted into a small window, so that all of it is read and
folded. Time is CPU time, the least of three runs, each with other words: of this process for `fit`, of the server's process for
the gateway. From 64 kB on, twice the text may take at most 2.5 times as long; times below a floor are noise and count as the
floor. A growth above that is measured once more before it counts. Exits 1 if a kind grows faster.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from itertools import count, pairwise
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gateway import INFOLD, Server, _Answer, cpu_seconds, running
from benchmarks.text_kinds import KINDS, Messages

import infold.session.fit as front_door
from infold import fit
from infold.core.events import Compacted
from infold.session.fit import FitCache

Row: TypeAlias = dict[str, Any]
Timer: TypeAlias = Callable[[Messages], float]

RESULTS = Path(__file__).parent / "results"
SIZES = tuple(64_000 * 2**step for step in range(5))
RUNS, MOST_GROWTH, WINDOW = 3, 2.5, 4_096
"""The window is so small that the smallest text fills it four times: what is never folded would make the growth look larger."""

FLOOR_SECONDS = {"fit": 0.02, "gateway": 0.05}
"""What counts as the least time: the clock of another process ticks in hundredths of a second."""


def main() -> int:
    """Measure and show; 1 if a kind grows faster than its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--ways", nargs="+", choices=("fit", "gateway"), default=["fit", "gateway"])
    chosen = parser.parse_args()
    rows: list[Row] = []
    for way in chosen.ways:
        with timer_for(way) as timer:
            for kind in chosen.kinds:
                rows.append(measured(way, kind, timer))
                print(line(rows[-1]), flush=True)
                if chosen.write:
                    keep(rows)
    return int(any(row["growth"] > MOST_GROWTH for row in rows))


@contextmanager
def timer_for(way: str) -> Iterator[Timer]:
    """What times one request that way."""
    if way == "fit":
        yield time_fit
        return
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    Thread(target=upstream.serve_forever, daemon=True).start()
    server = Server("infold", lambda at, port, folder: [*INFOLD.command(at, port, folder), "--window", str(WINDOW)])
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            running(server, f"http://127.0.0.1:{upstream.server_address[1]}", Path(folder)) as (process, address),
            closing(HTTPConnection(address.removeprefix("http://"))) as client,
        ):
            yield lambda messages: time_request(client, process.pid, messages)
    finally:
        upstream.shutdown()
        upstream.server_close()


def time_fit(messages: Messages) -> float:
    """CPU seconds of one `fit` that has not seen the text before."""
    front_door._CACHE = FitCache()  # noqa: SLF001 - otherwise a text that begins like this one is only looked up
    started = time.process_time()
    fitted = fit(messages, window=WINDOW)
    seconds = time.process_time() - started
    if not any(isinstance(event, Compacted) for event in fitted.report.events):
        raise RuntimeError("the text was not folded, so its time shows nothing")
    return seconds


def time_request(client: HTTPConnection, pid: int, messages: Messages) -> float:
    """CPU seconds of the server for one request, which begins a session of its own."""
    body = json.dumps({"model": "m", "messages": messages}).encode()
    before = cpu_seconds(pid)
    session = {"content-type": "application/json", "x-infold-session": os.urandom(8).hex()}
    client.request("POST", "/v1/chat/completions", body, session)
    reply = client.getresponse()
    reply.read()
    if reply.status != 200:
        raise RuntimeError(f"the gateway answered {reply.status}")
    return cpu_seconds(pid) - before


def measured(way: str, kind: str, timer: Timer) -> Row:
    """The seconds for each size, and the largest growth between one size and the next."""
    runs = count()
    seconds = [min(timer(KINDS[kind](size, next(runs))) for _ in range(RUNS)) for size in SIZES]
    for at in range(1, len(SIZES)):
        if growth(seconds[at - 1 : at + 1], way) > MOST_GROWTH:
            seconds[at] = min(seconds[at], *(timer(KINDS[kind](SIZES[at], next(runs))) for _ in range(RUNS)))
    return {
        "way": way,
        "kind": kind,
        "seconds": [round(one, 3) for one in seconds],
        "growth": round(growth(seconds, way), 2),
    }


def growth(seconds: Sequence[float], way: str) -> float:
    """By how much the time grows at most where the text doubles."""
    shown = [max(one, FLOOR_SECONDS[way]) for one in seconds]
    return max(after / before for before, after in pairwise(shown))


def line(row: Row) -> str:
    """One row of the table."""
    told = "".join(f"{one:9.3f}" for one in row["seconds"])
    return f"{row['way']:8} {row['kind']:28}{told}{row['growth']:8.2f}"


def keep(rows: Sequence[Row]) -> None:
    """Write the figures with machine, commit and command; those of kinds that were not measured now stay."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    origin = {"command": "python benchmarks/text_time.py --write", "machine": machine}
    path = RESULTS / "text_time.json"
    older = json.loads(path.read_text())["rows"] if path.exists() else []
    known = {(row["way"], row["kind"]): row for row in (*older, *({**row, "commit": commit} for row in rows))}
    shown = [known[way, kind] for way in FLOOR_SECONDS for kind in KINDS if (way, kind) in known]
    record = {**origin, "sizes": SIZES, "most_growth": MOST_GROWTH, "rows": shown}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    sizes = "".join(f"{f'{size // 1000} kB':>9}" for size in SIZES)
    told = f"CPU seconds by size of the text, and the largest growth where it doubles (at most {MOST_GROWTH})"
    table = [f"{'way':8} {'kind':28}{sizes}  growth  commit", *(f"{line(row)}  {row['commit']}" for row in shown)]
    (RESULTS / "text_time.txt").write_text("\n".join((machine, told, *table)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
