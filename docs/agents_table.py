"""Write or check the tables of `docs/guides/agents.md` and `integrations.md`, which are made from `benchmarks/results`.

python docs/agents_table.py           exits 1 and shows the difference if a table is stale
python docs/agents_table.py --write   brings them up to date
"""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["TABLES", "current", "main"]

GUIDES = Path(__file__).parent / "guides"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def _agents(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| agent | version | wire format | below | beyond | folds | largest / window | remarks |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        sizes = f"{row['largest_tokens']:,} / {row['window_tokens']:,}"
        results = (row["below"], row["beyond"], str(row["folds"]), sizes, row["remarks"])
        yield f"| {' | '.join((row['agent'], row['version'] or 'none', row['wire'], *results))} |"


def _frameworks(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| framework | plug | package | tests | result |"
    yield "|---|---|---|---|---|"
    for row in rows:
        package = f"{row['package']} {row['version']}".strip()
        yield f"| {row['framework']} | `{row['plug']}` | {package} | {row['tests']} | {row['result']} |"


class Table(NamedTuple):
    """A table of a guide: the page, the name of its results and its marks, and how rows become lines."""

    page: Path
    name: str
    lines: Callable[[list[dict[str, Any]]], Iterator[str]]


TABLES = (
    Table(GUIDES / "agents.md", "agents", _agents),
    Table(GUIDES / "integrations.md", "frameworks", _frameworks),
)


def main(arguments: list[str] | None = None) -> int:
    """Check the tables or, asked to, write them; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check the tables of agents and frameworks, or bring them up to date")
    parser.add_argument("--write", action="store_true", help="write the tables instead of checking them")
    write = parser.parse_args(arguments).write
    status = 0
    for table in TABLES:
        page = table.page.read_text("utf-8")
        wanted = current(table, page)
        if write:
            table.page.write_text(wanted, "utf-8")
            continue
        before, after = page.splitlines(keepends=True), wanted.splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(before, after, table.page.name, "as it should be", n=0))
        status |= page != wanted
    return status


def current(table: Table, page: str) -> str:
    """The page with its table as the recorded result has it; raises `ValueError` where the marks are not there."""
    begin, end = (f"<!-- {edge} {table.name}: written by docs/agents_table.py -->" for edge in ("begin", "end"))
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{table.page.name} lacks {begin} or {end}")
    rows = json.loads((RESULTS / f"{table.name}.json").read_text("utf-8"))["rows"]
    return f"{before}{begin}\n\n{chr(10).join(table.lines(rows))}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
