"""Write or check the table of `docs/guides/agents.md`, which is made from `benchmarks/results/agents.json`.

python docs/agents_table.py           exits 1 and shows the difference if the table is stale
python docs/agents_table.py --write   brings it up to date
"""

import argparse
import difflib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PAGE", "current", "main"]

PAGE = Path(__file__).parent / "guides" / "agents.md"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "agents.json"
BEGIN, END = (f"<!-- {edge} agents: written by docs/agents_table.py -->" for edge in ("begin", "end"))


def main(arguments: list[str] | None = None) -> int:
    """Check the table or, asked to, write it; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check the table of agents.md, or bring it up to date")
    parser.add_argument("--write", action="store_true", help="write the table instead of checking it")
    write = parser.parse_args(arguments).write
    page = PAGE.read_text("utf-8")
    wanted = current(page)
    if write:
        PAGE.write_text(wanted, "utf-8")
        return 0
    before, after = page.splitlines(keepends=True), wanted.splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(before, after, PAGE.name, "as it should be", n=0))
    return int(page != wanted)


def current(page: str) -> str:
    """The page with its table as the recorded result has it; raises `ValueError` where the marks are not there."""
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{PAGE.name} lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{chr(10).join(_lines())}\n\n{END}{after}"


def _lines() -> Iterator[str]:
    yield "| agent | version | wire format | below | beyond | folds | largest / window | remarks |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in json.loads(RESULTS.read_text("utf-8"))["rows"]:
        sizes = f"{row['largest_tokens']:,} / {row['window_tokens']:,}"
        cells = (
            row["agent"],
            row["version"] or "none",
            row["wire"],
            row["below"],
            row["beyond"],
            str(row["folds"]),
            sizes,
        )
        yield f"| {' | '.join((*cells, row['remarks']))} |"


if __name__ == "__main__":
    sys.exit(main())
