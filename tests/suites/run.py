"""Run the frameworks' own test suites with infold in every run: `python -m tests.suites.run` (`make suites`).

A suite comes from the framework's source distribution and has an environment of its own in `.venv-suites/`. Of a suite, the files
are run in which agents run; in the others infold cannot be. What fails is run again without infold: what passes then, and fails
with infold once more, is a new failure. The table goes to `benchmarks/results/suites.txt`, its data to `suites.json`. With names
of suites only those are run, and the rows of the others stay. The status tells whether there is a new failure.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

from msgspec import Struct, to_builtins

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "benchmarks" / "results"
FOLDER = PROJECT / ".venv-suites"
COMMAND = "make suites"
WINDOW = 200_000
UV = Path(sys.executable).with_name("uv")
HEADINGS = ("suite", "package", "files", "tests", "requests", "failed", "failed without infold", "new failures")


class Suite(Struct, frozen=True):
    """A framework's suite: its distribution with the extras that its tests need, their packages, and which files are run."""

    name: str
    module: str
    package: str
    version: str
    extras: str
    needed: tuple[str, ...]
    runs: str


SUITES = (
    Suite(
        "OpenAI Agents SDK",
        "openai_agents",
        "openai-agents",
        "0.24.0",
        "voice,viz,litellm,realtime,sqlalchemy,encrypt,redis",
        ("pytest-mock", "inline-snapshot", "fakeredis", "aiosqlite", "fastapi", "pymongo", "rich", "textual"),
        r"Runner\.run|AgentRunner|run_streamed|run_sync",
    ),
    Suite(
        "Strands",
        "strands",
        "strands-agents",
        "1.62.0",
        "a2a,anthropic,gemini,litellm,llamaapi,mistral,ollama,openai,writer,sagemaker,otel,web-fetch",
        ("moto", "pytest-timeout", "tenacity"),
        r"\bAgent\(",
    ),
)


class Row(Struct, frozen=True):
    """What came of a suite; `new` names the tests that fail with infold alone."""

    suite: str
    package: str
    files: int
    tests: int
    requests: int
    failed: int
    failed_bare: int
    new: list[str]


class Outcome(Struct, frozen=True):
    """What came of one run: how many tests, which failed (as pytest names them), and the requests that infold was in."""

    tests: int
    failed: list[str]
    requests: int


def main(names: list[str]) -> int:
    """Set up, run, print and keep; the status tells whether a suite has a new failure."""
    path = RESULTS / "suites.json"
    kept = [Row(**row) for row in json.loads(path.read_text())["rows"]] if names and path.exists() else []
    rows = []
    for suite in SUITES:
        if names and suite.module not in names:
            rows += [row for row in kept if row.suite == suite.name]
            continue
        rows.append(row_of(suite))
    record = {"command": COMMAND, "window_tokens": WINDOW, "rows": to_builtins(rows)}
    path.write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "suites.txt").write_text(table(rows))
    print(table(rows))
    return int(any(row.new for row in rows))


def row_of(suite: Suite) -> Row:
    """Run a suite with infold, what fails without it, and what is left with it again."""
    source = set_up(suite)
    tests = sorted((source / "tests").rglob("test_*.py"))
    files = [str(file.relative_to(source)) for file in tests if re.search(suite.runs, file.read_text("utf-8"))]
    forced = run_tests(suite, source, files, forced=True)
    failed_bare = run_again(suite, source, forced.failed, forced=False)
    new = run_again(suite, source, [test for test in forced.failed if test not in failed_bare], forced=True)
    row = Row(
        suite.name,
        f"{suite.package} {suite.version}",
        len(files),
        forced.tests,
        forced.requests,
        len(forced.failed),
        len(failed_bare),
        new,
    )
    print("\n".join([f"{row.suite}: {row.tests} tests, {row.failed} failed, {len(new)} new", *new]), flush=True)
    return row


def run_again(suite: Suite, source: Path, tests: list[str], *, forced: bool) -> list[str]:
    """Return which of these fail; files that cannot be imported are run apart, because pytest runs nothing beside them."""
    groups = ([test for test in tests if is_file == ("::" not in test)] for is_file in (True, False))
    failed = {test for group in groups if group for test in run_tests(suite, source, group, forced=forced).failed}
    return [test for test in tests if test in failed]


def set_up(suite: Suite) -> Path:
    """Make the environment of a suite and return the folder of its source distribution."""
    folder = FOLDER / suite.module
    sources, wanted = FOLDER / "sources", f"{suite.package}=={suite.version}"
    found = sources / f"{suite.package.replace('-', '_')}-{suite.version}"
    if not found.exists():
        run(UV, "venv", "-q", "--allow-existing", "--seed", folder)
        download = (folder / "bin" / "python", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", suite.package)
        run(*download, "-d", sources, wanted)
        with tarfile.open(f"{found}.tar.gz") as archive:
            archive.extractall(sources, filter="data")
    run(UV, "venv", "-q", "--allow-existing", folder)
    needed = ("pytest", "pytest-asyncio", "pytest-xdist", *suite.needed)
    install = (UV, "pip", "install", "-q", "--python", folder / "bin" / "python")
    run(*install, PROJECT, f"{suite.package}[{suite.extras}] @ {found.as_uri()}", *needed)
    return found


def run_tests(suite: Suite, source: Path, tests: list[str], *, forced: bool) -> Outcome:
    """Run tests of a suite in its own folder, with infold as it is here or without it."""
    python = FOLDER / suite.module / "bin" / "python"
    with TemporaryDirectory() as counts:
        report = Path(counts) / "report.xml"
        options = [
            "-q",
            "-n",
            "2",
            "--continue-on-collection-errors",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            "-o",
            "junit_family=xunit1",
        ]
        plugin = ["-p", "suite_plugin"] if forced else []
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (PROJECT / "src", Path(__file__).parent))),
            "INFOLD_SUITE_MODULE": f"force_{suite.module}",
            "INFOLD_SUITE_WINDOW": str(WINDOW),
            "INFOLD_SUITE_COUNTS": counts,
        }
        command = [str(python), "-m", "pytest", *options, *plugin, *tests]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=source, env=environment)
        if not report.exists():
            raise RuntimeError(f"the suite of {suite.name} did not run: {ended.stdout[-2_000:]}{ended.stderr[-2_000:]}")
        cases = list(ET.parse(report).iter("testcase"))  # written by pytest just now
        failed = [name_of(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
        requests = sum(int(file.read_text()) for file in Path(counts).glob("*.count"))
    return Outcome(len(cases), list(dict.fromkeys(failed)), requests)


def name_of(case: ET.Element) -> str:
    """Return a test as pytest takes it on its command line; a file that cannot be imported is a test without a class."""
    file, owner, name = case.get("file", ""), case.get("classname", ""), case.get("name", "")
    if not owner:
        return file
    module = file.removesuffix(".py").replace("/", ".")
    classes = [part for part in owner.removeprefix(module).split(".") if part]
    return "::".join([file, *classes, name])


def run(*command: object) -> None:
    """Run a command of the set-up."""
    ended = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True, cwd=PROJECT)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {ended.stdout[-2_000:]}{ended.stderr[-2_000:]}")


def table(rows: list[Row]) -> str:
    """Return rows as aligned text."""
    lines = [HEADINGS, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text, column by column."""
    counts = (row.files, row.tests, row.requests, row.failed, row.failed_bare, len(row.new))
    return (row.suite, row.package, *map(str, counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
