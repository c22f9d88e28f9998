"""Run agents that ask for much output beyond windows that hold little more than that, and write the result down.

`python -m tests.e2e.agents.output_table` (part of `make agents`) writes `benchmarks/results/agent_outputs.txt` and `.json`. The
upstream refuses what does not fit with the output it asks for; folds for their price are off. The status says whether all did
their work and folded late.
"""

import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, to_builtins

from infold.core.budget import RESERVE_SHARE
from infold.formats.requests import output_tokens_in

from .clients import DEFAULT_OUTPUT, Agent, reason_missing, version_of
from .runs import Ended, check_finished, work
from .table import DONE, INSTALL, RESULTS, columns

WINDOWS = (48_000, 60_000)
FILE_TOKENS, BEYOND = 1_300, 1.15
"""Tokens of a file, and how much of the window all files take."""
LEAST_FILL = 0.8
HEADINGS = (
    "agent",
    "version",
    "window",
    "result",
    "most output",
    "least output",
    "requests",
    "refused",
    "folds",
    "first fold at",
)


class OutputRow(Struct, frozen=True):
    """What came of a run; `first_fold` is the fill of the window, less the reserve, of the last request before it."""

    agent: str
    version: str
    window_tokens: int
    result: str
    most_tokens: int = 0
    least_tokens: int = 0
    requests: int = 0
    refused: int = 0
    folds: int = 0
    first_fold: float = 0.0


def main(names: list[str]) -> int:
    """Install, run, print and keep; the status says whether everything was done."""
    ended = subprocess.run([str(INSTALL)], check=False)
    if ended.returncode:
        return ended.returncode
    path = RESULTS / "agent_outputs.json"
    kept = [OutputRow(**row) for row in json.loads(path.read_text())["rows"]] if names and path.exists() else []
    rows = [
        next((row for row in kept if (row.agent, row.window_tokens) == (agent.name, window)), None)
        if names and agent.name not in names
        else row_of(agent, window)
        for agent in DEFAULT_OUTPUT
        for window in WINDOWS
    ]
    found = [row for row in rows if row is not None]
    path.write_text(json.dumps({"command": "make agents", "rows": to_builtins(found)}, indent=1) + "\n")
    lines = [HEADINGS, *((*_words(row), f"{row.first_fold:.0%}") for row in found)]
    (RESULTS / "agent_outputs.txt").write_text(columns(lines))
    print(columns(lines))
    return int(any(row.result != DONE for row in found))


def row_of(agent: Agent, window: int) -> OutputRow:
    """Run an agent through one window."""
    if reason := reason_missing(agent):
        return OutputRow(agent.name, "", window, f"not run: {reason}")
    ended, result = None, DONE
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = work(
                agent,
                Path(folder),
                int(BEYOND * window / FILE_TOKENS),
                window=window,
                counts_output=True,
                variables={"INFOLD_COMPACTION_PRICED": "never"},
            )
            check_finished(ended)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            result = f"failed: {str(error).partition(chr(10))[0][:200] or type(error).__name__}"
    row = OutputRow(agent.name, version_of(agent), window, result)
    row = row if ended is None or not ended.work else measured(row, ended)
    print(row, flush=True)
    return row


def measured(row: OutputRow, ended: Ended) -> OutputRow:
    """The row with the figures of a run; a fold that comes early is a failure."""
    sizes = [request.tokens for request in ended.main]
    outputs = [output_tokens_in(request.body) for request in ended.main]
    before = next((size for size, later in pairwise(sizes) if later < size), 0)
    fill = before / (row.window_tokens * (1 - RESERVE_SHARE))
    refused = sum(size + output > row.window_tokens for size, output in zip(sizes, outputs, strict=True))
    result = "failed: folds early" if row.result == DONE and fill < LEAST_FILL else row.result
    figures = (max(outputs), min(outputs), len(sizes), refused, ended.folds, round(fill, 3))
    return OutputRow(row.agent, row.version, row.window_tokens, result, *figures)


def _words(row: OutputRow) -> tuple[str, ...]:
    values = (getattr(row, field) for field in row.__struct_fields__[:-1])
    return tuple(f"{value:,}" if isinstance(value, int) else value for value in values)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
