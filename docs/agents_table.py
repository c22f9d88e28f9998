"""Write or check the tables of agents, frameworks, Pythons and licences in the docs, from what is in `benchmarks/results`.

python docs/agents_table.py           exits 1 and shows the difference if a table is stale
python docs/agents_table.py --write   brings them up to date
"""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["TABLES", "current", "main"]

GUIDES = Path(__file__).parent / "guides"
REFERENCE = Path(__file__).parent / "reference"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


Record = Mapping[str, Any]
NOT_RUN = "*Not recorded yet.*"
RATES, BUSY = (10, 50, 100, 200, 500), 0.6
"""Requests a second of the table of sizes, and how much of a core a gateway is to use."""


def _agents(record: Record) -> Iterator[str]:
    yield "| agent | version | wire format | below | beyond | folds | largest / window | remarks |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in record["rows"]:
        sizes = f"{row['largest_tokens']:,} / {row['window_tokens']:,}"
        results = (row["below"], row["beyond"], str(row["folds"]), sizes, row["remarks"])
        yield f"| {' | '.join((row['agent'], row['version'] or 'none', row['wire'], *results))} |"


def _outputs(record: Record) -> Iterator[str]:
    yield "| agent | version | window | result | most output | least output | requests | refused | folds | first fold at |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row in record["rows"]:
        names = ("window_tokens", "result", "most_tokens", "least_tokens", "requests", "refused", "folds")
        values = [f"{row[name]:,}" if isinstance(row[name], int) else row[name] for name in names]
        yield f"| {' | '.join((row['agent'], row['version'] or 'none', *values))} | {row['first_fold']:.0%} |"


def _frameworks(record: Record) -> Iterator[str]:
    yield "| framework | plug | package | tests | result |"
    yield "|---|---|---|---|---|"
    for row in record["rows"]:
        package = f"{row['package']} {row['version']}".strip()
        yield f"| {row['framework']} | `{row['plug']}` | {package} | {row['tests']} | {row['result']} |"


def _suites(record: Record) -> Iterator[str]:
    """A line for each suite; the tests that fail only with infold are named."""
    yield "| suite | files | tests | requests with infold | failed | failed without infold too | new failures |"
    yield "|---|---|---|---|---|---|---|"
    for row in record["rows"]:
        counts = (row["files"], row["tests"], row["requests"], row["failed"], row["failed_bare"], len(row["new"]))
        yield f"| {row['package']} | {' | '.join(f'{count:,}' for count in counts)} |"
        yield from (f"| `{test}` | | | | | | |" for test in row["new"])


def _wheels(record: Record) -> Iterator[str]:
    """A line for each extra, a column for each Python."""
    rows = record["rows"]
    pythons = sorted({row["python"] for row in rows}, key=lambda version: tuple(map(int, version.split("."))))
    found = {(row["extra"], row["python"]): row for row in rows}
    extras = list(dict.fromkeys(row["extra"] for row in rows))
    yield f"| extra | packages | {' | '.join(f'Python {python}' for python in pythons)} | checked |"
    yield f"|---|---|{'---|' * len(pythons)}---|"
    for extra in extras:
        ran = [found[extra, python] for python in pythons if (extra, python) in found]
        counts = sorted({row["packages"] for row in ran})
        packages = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        results = [found[extra, python]["result"] if (extra, python) in found else "not run" for python in pythons]
        checks = next((row["checks"] for row in ran if row["result"] == "passed"), "")
        named = f"`{extra}`" if extra != "none" else "none"
        yield f"| {named} | {packages} | {' | '.join(results)} | {checks} |"


def _licences(record: Record) -> Iterator[str]:
    """A line for each package: its licence and the extras that install it."""
    yield "| package | licence | installed by |"
    yield "|---|---|---|"
    for row in record["rows"]:
        extras = ["the library itself"] if "none" in row["extras"] else [f"`{extra}`" for extra in row["extras"]]
        yield f"| {row['name']} | {row['licence']} | {', '.join(extras)} |"


def _sizes(record: Record) -> Iterator[str]:
    """What a rate of requests needs, by the measured CPU of one."""
    load, memory = record["load"], record["memory"]
    server = next(row for row in record["servers"] if row["server"] == "infold")
    seconds = server["cpu_ms"] / 1e3
    yield f"| requests/s of {load['request_kb']} kB | cores in use | replicas | memory, all replicas |"
    yield "|---|---|---|---|"
    for rate in RATES:
        replicas = ceil(rate * seconds / BUSY)
        yield f"| {rate} | {rate * seconds:.1f} | {replicas} | {replicas * memory['resident_mb'][-1] / 1e3:.1f} GB |"
    yield ""
    yield f"Measured: {server['cpu_ms']:.1f} ms of CPU for such a request, with {load['streams']} open streams;"
    added = record["replies"]["ms"]["infold"] - record["replies"]["ms"]["direct"]
    yield f"{memory['resident_mb'][-1]:.0f} MB resident after {memory['requests']:,} requests; {added:.1f} ms added to a reply"
    yield f"({record['machine']}; `python benchmarks/gateway.py --write`)."


def _replicas(record: Record) -> Iterator[str]:
    """CPU by the number of replicas, and what came of the soaks."""
    yield "| replicas | CPU by request, against one | requests under kills | killed | sent again | lost | twice | memory growth |"
    yield "|---|---|---|---|---|---|---|---|"
    soaks = {row["replicas"]: row for row in record.get("soak", ())}
    for row in record.get("cpu", ()):
        ratio = f"{row['cpu_ms'] / record['cpu'][0]['cpu_ms']:.2f}"
        soak = soaks.get(row["replicas"])
        if soak is None:
            yield f"| {row['replicas']} | {ratio} | | | | | | |"
            continue
        repeated = sum(soak["repeated"].values())
        counts = f"{soak['answered']:,} | {soak['kills']} | {repeated} | {soak['lost']} | {soak['doubled']}"
        yield f"| {row['replicas']} | {ratio} | {counts} | {soak['memory']['growth']:.2f} |"
    yield ""
    yield f"Measured on {record['machine']}, with PostgreSQL on the same machine (`{record['command']}`)."


class Table(NamedTuple):
    """A table of a guide: the page, the name of its results and its marks, and how they become lines."""

    page: Path
    name: str
    lines: Callable[[Record], Iterator[str]]


TABLES = (
    Table(GUIDES / "agents.md", "agents", _agents),
    Table(GUIDES / "agents.md", "agent_outputs", _outputs),
    Table(GUIDES / "integrations.md", "frameworks", _frameworks),
    Table(GUIDES / "integrations.md", "suites", _suites),
    Table(GUIDES / "deploy.md", "gateway", _sizes),
    Table(GUIDES / "deploy.md", "replicas", _replicas),
    Table(REFERENCE / "versions.md", "wheels", _wheels),
    Table(REFERENCE / "licences.md", "licences", _licences),
)


def main(arguments: list[str] | None = None) -> int:
    """Check the tables or, asked to, write them; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check the tables of results in the docs, or bring them up to date")
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
    path = RESULTS / f"{table.name}.json"
    lines = table.lines(json.loads(path.read_text("utf-8"))) if path.exists() else [NOT_RUN]
    return f"{before}{begin}\n\n{chr(10).join(lines)}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
