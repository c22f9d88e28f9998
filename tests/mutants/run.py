"""Run the fast tests against every mutant of `sample.toml` (`python -m tests.mutants.run`).

Each mutant is made in a copy of `src`. Of the test files that run its line (`related.json`) the quickest run first, then the
rest. Another test could notice it only in a process that it starts, which coverage does not follow. A run that takes too long
or too much memory counts as killed. The table is written after each mutant, and a later run continues it.
"""

import argparse
import ast
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .fast import FAST, ROOT, SOURCE, command, environment, present
from .related import RELATED, write_related
from .sample import FOLDER, NAMES, Mutant, locate, read_names, read_sample
from .statements import Found, Missing, Names, Tree, replace

BEFORE = FOLDER / "results-before.txt"
MOST_CPU_SECONDS, MOST_IDLE_SECONDS = 300, 60
"""Of one pytest run; the whole fast set computes for about 100 s. Time on the wall says little on a busy machine."""

MOST_BYTES = 6 * 2**30
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
_ROW = re.compile(r"(m\d+) +\S+ +\S+ +\S+ +(killed|survived|timeout) *(.*)")
_ALL_PASSED, _NO_TESTS = 0, 5


@dataclass(frozen=True)
class Outcome:
    """What the tests made of a mutant: killed, survived, timeout or missing, and by which test or why."""

    verdict: str
    by: str = ""

    @property
    def is_killed(self) -> bool:
        """Tell whether the tests noticed the mutant."""
        return self.verdict in ("killed", "timeout")


def main() -> None:
    """Locate all mutants, run those that the table does not have yet, and print the number killed."""
    options = _options()
    mutants, names = read_sample(), read_names(options.names)
    places = locate(mutants, names)
    missing = {name: Outcome("missing", place.reason) for name, place in places.items() if isinstance(place, Missing)}
    report_missing(mutants, missing)
    if options.locate:
        sys.exit(bool(missing))
    for target in sorted(set(FAST) - set(present(FAST))):
        print(f"Not part of this tree: {target}. Put what replaces it into `FAST`.", file=sys.stderr)
    compile_dir(SOURCE, quiet=2)  # each copy takes the compiled modules with it
    table = read_table(options.results)
    if not table:
        check_control()
    table |= missing
    if options.related or not RELATED.exists():
        write_related(places)
    stages = read_stages(mutants, whole=options.whole)
    waiting = [one for one in mutants if (one.id == options.only if options.only else one.id not in table)]
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = {
            pool.submit(run_mutant, mutant, place.file, names, stages[mutant.id]): mutant.id
            for mutant in waiting
            if isinstance(place := places[mutant.id], Found)
        }
        for done in as_completed(runs):
            name, outcome = runs[done], done.result()
            table[name] = outcome
            write_table(options.results, mutants, table)
            print(f"{name} {outcome.verdict} {outcome.by}", flush=True)
    write_table(options.results, mutants, table)
    print(summary(mutants, table))
    if options.results != BEFORE and BEFORE.exists():
        compare(read_table(BEFORE), table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the fast tests against every mutant of the sample.")
    parser.add_argument(
        "--results", type=Path, default=FOLDER / "results-now.txt", help="the table to write or continue"
    )
    parser.add_argument("--names", type=Path, default=NAMES, help="old identifiers and their new names")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--only", metavar="ID", help="run this mutant, again if the table has it")
    parser.add_argument("--locate", action="store_true", help="only report the mutants that cannot be located")
    parser.add_argument("--related", action="store_true", help="find again which test files run which mutant")
    parser.add_argument("--whole", action="store_true", help="the second stage is the whole fast set")
    return parser.parse_args()


def report_missing(mutants: Sequence[Mutant], missing: dict[str, Outcome]) -> None:
    """Print the mutants whose statement cannot be located."""
    for mutant in mutants:
        if mutant.id in missing:
            where = f"{mutant.anchor.file} {mutant.anchor.function}"
            print(f"{mutant.id} cannot be located ({where}): {missing[mutant.id].by}", file=sys.stderr)
            print(f"    {mutant.anchor.line[:160]}", file=sys.stderr)
    print(f"{len(mutants) - len(missing)} of {len(mutants)} mutants located", flush=True)


def read_stages(mutants: Sequence[Mutant], *, whole: bool) -> dict[str, list[list[str]]]:
    """Read which test files to run for each mutant, in two stages; the second is the whole fast set if some are gone."""
    related: dict[str, list[list[str]]] = json.loads(RELATED.read_text("utf-8"))
    stages: dict[str, list[list[str]]] = {}
    for mutant in mutants:
        first, rest = related.get(mutant.id, [[], []])
        is_stale = mutant.id not in related or present([*first, *rest]) != [*first, *rest]
        stages[mutant.id] = [present(first), list(FAST) if whole or is_stale else rest]
    return stages


def check_control() -> None:
    """Run the whole fast set on modules written back from their syntax trees, as mutants are; exit if a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        source = _copied(folder)
        for path in source.rglob("*.py"):
            path.write_text(ast.unparse(ast.parse(path.read_text("utf-8"))), "utf-8")
        outcome = run_tests(source, present(FAST))
    if outcome.verdict != "survived":
        sys.exit(f"The fast tests fail without a mutant ({outcome.verdict}: {outcome.by}). Make them pass first.")
    print("The fast tests pass without a mutant", flush=True)


def run_mutant(mutant: Mutant, file: str, names: Names, stages: Sequence[Sequence[str]]) -> Outcome:
    """Make the mutant in a copy of the source, and run its test files, stage by stage, until one fails."""
    with tempfile.TemporaryDirectory() as folder:
        source = _copied(folder)
        tree = Tree(source / "infold", file)
        place = tree.locate(mutant.anchor, names)
        assert isinstance(place, Found)
        replace(place.statement, mutant.anchor, mutant.replacement, names)
        path = place.statement.path
        path.write_text(ast.unparse(tree.modules[path]), "utf-8")
        outcome = Outcome("survived")
        for targets in map(present, stages):
            if targets and not outcome.is_killed:
                outcome = run_tests(source, targets)
        return outcome


def run_tests(source: Path, targets: Sequence[str]) -> Outcome:
    """Run pytest on the source in a folder until the first failure."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command(targets),
            cwd=ROOT,
            env=environment(source),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_limit,
        )
        try:
            code = _ended(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        failed = _FAILED.search(output.read())
    if code in (_ALL_PASSED, _NO_TESTS):
        return Outcome("survived")
    if failed:
        return Outcome("killed", failed[1])
    return Outcome("timeout") if code is None or code < 0 else Outcome("killed", f"pytest ended with {code}")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for a process and return its exit code; `None` if it has computed nothing for too long."""
    computed, since = 0, time.monotonic()
    while time.monotonic() - since < MOST_IDLE_SECONDS:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(2)
        with suppress(OSError):
            fields = Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            if ticks > computed + 5:
                computed, since = ticks, time.monotonic()
    return None


def _copied(folder: str) -> Path:
    return shutil.copytree(SOURCE, Path(folder) / "src")


def read_table(path: Path) -> dict[str, Outcome]:
    """Read a table, without mutants that could not be located; nothing if there is no file yet."""
    rows = map(_ROW.fullmatch, path.read_text("utf-8").splitlines()) if path.exists() else ()
    return {row[1]: Outcome(row[2], row[3]) for row in rows if row}


def write_table(path: Path, mutants: Sequence[Mutant], table: dict[str, Outcome]) -> None:
    """Write the outcomes so far, in the order of the sample."""
    rows = [("id", "file", "function", "operator", "outcome", "by")]
    for mutant in mutants:
        if outcome := table.get(mutant.id):
            where = mutant.anchor
            rows.append((mutant.id, where.file, where.function, mutant.operator, outcome.verdict, outcome.by))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    path.write_text("\n".join([*lines, "", summary(mutants, table), ""]), "utf-8")


def summary(mutants: Iterable[Mutant], table: dict[str, Outcome]) -> str:
    """Return the number killed in one line."""
    outcomes = [table[mutant.id] for mutant in mutants if mutant.id in table]
    killed = sum(outcome.is_killed for outcome in outcomes)
    survived = sum(outcome.verdict == "survived" for outcome in outcomes)
    missing = len(outcomes) - killed - survived
    return f"{killed} killed, {survived} survived, {missing} missing, of {len(outcomes)} mutants"


def compare(before: dict[str, Outcome], now: dict[str, Outcome]) -> None:
    """Print the mutants that were killed before and are not now; exit with 1 if fewer are killed."""
    for name, outcome in now.items():
        if name in before and before[name].is_killed and not outcome.is_killed:
            print(f"{name} was killed by {before[name].by or 'a timeout'} and is {outcome.verdict} now")
    sys.exit(sum(one.is_killed for one in now.values()) < sum(one.is_killed for one in before.values()))


if __name__ == "__main__":
    main()
