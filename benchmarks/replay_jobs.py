"""How much faster a replay of the whole corpus is in two processes than in one, as a ratio of wall times in one run.

`python benchmarks/replay_jobs.py [--quick] [--jobs N] [--write]`: the command itself is timed, each way in turn, start of
Python included; the best of three counts. Both must write the same bytes. Only an idle machine gives a meaningful ratio.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.corpus import INVENTED, REAL

TARGET = 1.6
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Time both ways and print their ratio; leave with status 1 if the results differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round over the invented corpus of the tests")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    corpus = INVENTED if given.quick or not REAL.exists() else REAL
    with TemporaryDirectory() as folder:
        alone, together = Path(folder, "alone.json"), Path(folder, "together.json")
        rounds = [
            (timed(corpus, 1, alone), timed(corpus, given.jobs, together)) for _ in range(1 if given.quick else 3)
        ]
        if alone.read_bytes() != together.read_bytes():
            sys.exit("the results differ")
    one, several = min(first for first, _ in rounds), min(second for _, second in rounds)
    figures = {"jobs": given.jobs, "one_seconds": round(one, 2), "jobs_seconds": round(several, 2)}
    figures |= {"ratio": round(one / several, 2), "target": TARGET, "load": round(os.getloadavg()[0], 1)}
    lines = [f"replay of {corpus.name}, {len(list(corpus.rglob('*.gz')))} files; the same bytes both ways"]
    lines += [
        f"one process {one:.1f} s, {given.jobs} processes {several:.1f} s: {one / several:.2f} x (target {TARGET})"
    ]
    print("\n".join(lines))
    if given.write:
        write(lines, figures)


def timed(corpus: Path, jobs: int, out: Path) -> float:
    """Return the wall time of a replay in so many processes, in seconds."""
    command = [sys.executable, "-m", "infold", "replay", str(corpus), "--jobs", str(jobs), "--json", str(out)]
    begun = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - begun


def write(lines: list[str], figures: dict[str, float]) -> None:
    """Keep the figures in `benchmarks/results`."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    record = {"command": "python benchmarks/replay_jobs.py --write", "commit": commit, "machine": machine, **figures}
    (RESULTS / "replay_jobs.json").write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    (RESULTS / "replay_jobs.txt").write_text("\n".join([f"{machine}, commit {commit}", *lines]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
