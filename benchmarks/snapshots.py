"""What a snapshot of a working tree costs: ten thousand files, of which a few have changed since the one before.

Run `python benchmarks/snapshots.py` (`--write` keeps the figures in `benchmarks/results/`, `--files` takes another number). Two
copies of one seeded tree: in one a snapshot is taken, in the other, an ordinary repository, `git add -A` is run, in turn, after
the same few files were written anew in both. Both are wall time, processes and all, and the median of many rounds; what counts is
their ratio (target 1.5). `first` is the one that reads every file, `nothing changed` the one that finds nothing to do, `diff` the
difference of two snapshots with its contents. Not measured: trees that are not in the page cache, many large files.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeAlias

from infold.agent.snapshots import Snapshots

Figures: TypeAlias = dict[str, float]

RESULTS = Path(__file__).parent / "results"
FILES, FOLDER_FILES, CHANGED = 10_000, 50, 5
ROUNDS = 25
RATIO_TARGET = 1.5
SEED = 7


def main() -> int:
    """Measure, print, and with `--write` keep; the status tells whether the target is met."""
    parser = argparse.ArgumentParser(description="What a snapshot of a working tree costs.")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--files", type=int, default=FILES, help="files of the tree")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder).resolve(), chosen.files)
    print(table(figures))
    if chosen.write:
        keep(figures)
    return int(figures["ratio"] > RATIO_TARGET)


def measured(folder: Path, files: int) -> Figures:
    """All figures, in milliseconds."""
    ours, theirs = folder / "ours", folder / "theirs"
    paths = make_tree(ours, files)
    shutil.copytree(ours, theirs)
    for root in (ours, theirs):
        git(root, "init", "--quiet")
    snapshots = Snapshots(ours, folder / "place")
    first, first_add = timed(snapshots.take), timed(lambda: git(theirs, "add", "-A"))
    rounds = [one_round(snapshots, (ours, theirs), paths, number) for number in range(ROUNDS)]
    before = snapshots.take()
    change(ours, paths, ROUNDS)
    after = snapshots.take()
    assert len(snapshots.diff(before, after)) == CHANGED, snapshots.note
    taken, added, idle, idle_add = (median(column) for column in zip(*rounds, strict=True))
    return {
        "files": files,
        "first_ms": first,
        "first_add_ms": first_add,
        "changed_ms": taken,
        "changed_add_ms": added,
        "ratio": round(taken / added, 2),
        "idle_ms": idle,
        "idle_add_ms": idle_add,
        "diff_ms": median(timed(lambda: snapshots.diff(before, after)) for _ in range(ROUNDS)),
    }


def one_round(
    snapshots: Snapshots, roots: tuple[Path, Path], paths: list[Path], number: int
) -> tuple[float, float, float, float]:
    """A few files changed in both trees; each in turn goes first, so that neither finds the machine warmer."""
    for root in roots:
        change(root, paths, number)
    acts: list[Callable[[], object]] = [snapshots.take, lambda: git(roots[1], "add", "-A")]
    order = (0, 1) if number % 2 else (1, 0)
    spent = {at: timed(acts[at]) for at in order}
    idle = {at: timed(acts[at]) for at in order}
    return spent[0], spent[1], idle[0], idle[1]


def make_tree(root: Path, files: int) -> list[Path]:
    """A tree of small text files in folders of fifty; gives their paths within it."""
    chance = random.Random(SEED)
    paths = [Path(f"part{n // FOLDER_FILES // 20}") / f"unit{n // FOLDER_FILES}" / f"file{n}.py" for n in range(files)]
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("".join(f"line {chance.random()}\n" for _ in range(chance.randrange(5, 80))))
    return paths


def change(root: Path, paths: list[Path], number: int) -> None:
    """Write a few files anew, others each time."""
    for at in range(CHANGED):
        path = root / paths[(number * CHANGED + at) * 37 % len(paths)]
        path.write_text(path.read_text() + f"changed {number}\n")


def git(root: Path, *words: str) -> None:
    """git as its user runs it."""
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def timed(act: Callable[[], object]) -> float:
    """Milliseconds that pass."""
    started = perf_counter()
    act()
    return round((perf_counter() - started) * 1e3, 2)


def table(figures: Figures) -> str:
    """The figures as text, with the target beside them."""
    rows = (("first", "first"), ("few files changed", "changed"), ("nothing changed", "idle"))
    return "\n".join(
        [
            f"{figures['files']:,} files              snapshot ms   git add -A ms",
            *(f"{name:<25}{figures[f'{key}_ms']:>12,.1f}{figures[f'{key}_add_ms']:>16,.1f}" for name, key in rows),
            f"{'diff':<25}{figures['diff_ms']:>12,.1f}",
            f"few files changed, against git add -A: {figures['ratio']:.2f} (target {RATIO_TARGET})",
        ]
    )


def keep(figures: Figures) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": "python benchmarks/snapshots.py --write", "commit": commit, "machine": machine, **figures}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "snapshots.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "snapshots.txt").write_text(f"{machine}, commit {commit}\n{table(figures)}\n")


if __name__ == "__main__":
    sys.exit(main())
