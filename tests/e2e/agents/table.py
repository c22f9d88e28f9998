"""Run every agent below and beyond its window and write the result down: `python -m tests.e2e.agents.table` (`make agents`).

The table goes to `benchmarks/results/agents.txt`, its data to `agents.json`; `docs/agents_table.py --write` brings the guide up
to date. With names of agents only those are run, and the rows of the others stay. The status tells whether all did their work.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, to_builtins

from .clients import AGENTS, Agent, reason_missing, version_of
from .runs import FEW_FILES, LARGE_WINDOW, Ended, check_finished, check_small, check_untouched, work

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
INSTALL = Path(__file__).parent / "install.sh"
COMMAND = "make agents"
DONE = "done"
HEADINGS = ("agent", "version", "wire format", "below", "beyond", "folds", "largest", "window", "remarks")


class Row(Struct, frozen=True):
    """What came of an agent; `folds` and `largest_tokens` are of the run beyond its window of so many tokens."""

    agent: str
    version: str
    wire: str
    below: str
    beyond: str
    folds: int
    largest_tokens: int
    window_tokens: int
    remarks: str


def main(names: list[str]) -> int:
    """Install, run, print and keep; the status tells whether everything was done."""
    ended = subprocess.run([str(INSTALL)], check=False)
    if ended.returncode:
        return ended.returncode
    path = RESULTS / "agents.json"
    kept = {row["agent"]: row for row in json.loads(path.read_text())["rows"]} if names and path.exists() else {}
    rows = [
        Row(**kept[agent.name]) if agent.name in kept and agent.name not in names else row_of(agent) for agent in AGENTS
    ]
    path.write_text(json.dumps({"command": COMMAND, "rows": to_builtins(rows)}, indent=1) + "\n")
    (RESULTS / "agents.txt").write_text(table(rows))
    print(table(rows))
    return int(any(row.version and (row.below, row.beyond) != (DONE, DONE) for row in rows))


def row_of(agent: Agent) -> Row:
    """Run an agent twice; one that is not installed here has no version and its reason as a remark."""
    if reason := reason_missing(agent):
        return Row(agent.name, "", agent.wire, "not run", "not run", 0, 0, agent.window, reason)
    below, _ = tried(agent, FEW_FILES, LARGE_WINDOW, check_untouched)
    beyond, ended = tried(agent, agent.many_files, agent.window, check_small)
    folds, largest = (ended.folds, ended.largest) if ended and ended.work else (0, 0)
    row = Row(agent.name, version_of(agent), agent.wire, below, beyond, folds, largest, agent.window, agent.remarks)
    print(f"{row.agent} {row.version}: below {below}, beyond {beyond}, {folds} folds", flush=True)
    return row


def tried(agent: Agent, files: int, window: int, check: Callable[[Ended], None]) -> tuple[str, Ended | None]:
    """What came of one run, in a word or in the words of what failed, and the run."""
    ended = None
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = work(agent, Path(folder), files, window=window)
            check_finished(ended)
            check(ended)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            return f"failed: {str(error).partition(chr(10))[0][:200] or type(error).__name__}", ended
    return DONE, ended


def table(rows: list[Row]) -> str:
    """The rows as text, in columns."""
    return columns(
        [
            HEADINGS,
            *(tuple(f"{value:,}" if isinstance(value, int) else value for value in _values(row)) for row in rows),
        ]
    )


def columns(cells: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text, in columns."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)
    return "\n".join(lines) + "\n"


def _values(row: Row) -> tuple[str | int, ...]:
    return tuple(getattr(row, field) for field in row.__struct_fields__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
