"""Find the test files that run each mutant's line: one run of the fast tests under coverage, about four minutes on one core."""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

from .fast import FAST, LINE_COVERAGE, ROOT, SOURCE, command, environment, present
from .sample import FOLDER
from .statements import Found, Missing

RELATED = FOLDER / "related.json"
FIRST_SECONDS, FIRST_FILES = 12.0, 8
"""The most of a mutant's first stage; most mutants need no more."""


def write_related(places: Mapping[str, Found | Missing]) -> None:
    """Write the test files of each mutant that can be located: those for its first stage, and the rest."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "lines.json"
        run = [*command(present(FAST)), "-p", "tests.mutants.line_coverage"]
        subprocess.run(run, cwd=ROOT, env={**environment(SOURCE), LINE_COVERAGE: str(report)}, check=True)
        found = json.loads(report.read_text("utf-8"))
    stages = {
        name: stages_of(place, found["lines"].get(place.file, {}), found["seconds"])
        for name, place in places.items()
        if isinstance(place, Found)
    }
    rows = [f'  "{name}": {json.dumps(files)}' for name, files in stages.items()]
    RELATED.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def stages_of(place: Found, tests: dict[str, list[str]], seconds: dict[str, float]) -> list[list[str]]:
    """Order the test files that run a line, the one named like its module first, then the quickest; divide them in two.

    A line that runs while tests are collected concerns all of them, so the others follow.
    """
    running = {test for line in place.statement.lines for test in tests.get(str(line), [])}
    concerned = set(seconds) if "" in running else running
    name = f"test_{Path(place.file).name}"
    ordered = sorted(concerned, key=lambda test: (test not in running, Path(test).name != name, seconds[test], test))
    spent = accumulate(seconds[test] for test in ordered)
    quick = [test for test, so_far in zip(ordered, spent, strict=True) if so_far <= FIRST_SECONDS]
    first = quick[:FIRST_FILES] or ordered[:1]
    return [first, ordered[len(first) :]]
