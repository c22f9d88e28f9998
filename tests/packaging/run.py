"""Build the wheel and the source distribution, and install the wheel with each extra on each Python: `make wheels`.

python -m tests.packaging.run                    every extra, on every supported Python that uv finds
python -m tests.packaging.run cli server         these extras only; the rows of the others stay
python -m tests.packaging.run --root DIR         also on the Python of a root file system, by chroot (needs root)
python -m tests.packaging.run --release          refuse what must not be published

Each pair has a fresh environment, in which `smoke.py` runs. The table goes to `benchmarks/results/wheels.txt`, its data to
`wheels.json`; `docs/agents_table.py --write` brings the docs up to date. A root file system with a newer Python is made with
`debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates sid DIR`. The status reports whether all passed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, to_builtins

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "benchmarks" / "results"
COMMAND = "make wheels"
UV = Path(sys.executable).with_name("uv")
MINORS = (11, 12, 13, 14, 15)
BARE = "none"
LEFT_OUT = ("dev",)
LICENCES = """
import json
from importlib.metadata import distributions
fields = ("Name", "License-Expression", "License")
found = [[*(one.metadata[name] or "" for name in fields), one.metadata.get_all("Classifier") or []] for one in distributions()]
print(json.dumps(found))
"""
"""Prints what the installed packages state about their licences."""

LONGEST_REASON = 120
NO_NAMES = ("dual license", "unknown")
LONGEST_NAME = 60
"""Some packages state the text of their licence in place of its name."""

CLASSIFIED = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""From a classifier to the usual short name."""

HEADINGS = ("python", "extra", "packages", "checks", "result")


class Python(Struct, frozen=True):
    """A Python: its program, and the root file system it is in."""

    version: str
    program: str
    root: Path = Path("/")

    @property
    def prefix(self) -> tuple[str, ...]:
        """What stands before a command that is to run with it."""
        return () if self.root == Path("/") else ("chroot", str(self.root))


class Row(Struct, frozen=True):
    """What came of one extra on one Python; `packages` counts those installed with infold."""

    python: str
    extra: str
    packages: int
    checks: str
    result: str


class Outcome(Struct, frozen=True):
    """A row, and the licence of each package that was installed for it."""

    row: Row
    licences: dict[str, str]


def main(arguments: list[str] | None = None) -> int:
    """Build, install, run, print and keep; the status reports whether everything passed."""
    parser = argparse.ArgumentParser(description="Build the wheel and install it with each extra on each Python.")
    parser.add_argument("extras", nargs="*", help="only these extras; 'none' is the library alone")
    parser.add_argument("--root", type=Path, action="append", default=[], help="a root file system with a Python")
    parser.add_argument("--python", action="append", default=[], help="only on these, such as 3.13")
    parser.add_argument("--release", action="store_true", help="refuse what must not be published")
    parser.add_argument("--dist", type=Path, help="keep wheel and source distribution in this folder")
    chosen = parser.parse_args(arguments)
    if chosen.release:
        changes = (PROJECT / "CHANGELOG.md").read_text("utf-8")
        status = run("git", "status", "--porcelain", "--untracked-files=no").stdout
        faults = release_faults(project(), changes, status)
    if chosen.release and faults:
        print(*faults, sep="\n", file=sys.stderr)
        return 1
    extras = chosen.extras or [BARE, *extras_of(project())]
    with tempfile.TemporaryDirectory(prefix="infold-wheels-") as folder:
        wheel = build(chosen.dist or Path(folder) / "dist")
        pythons = [*host_pythons(), *(python_of(root.resolve()) for root in chosen.root)]
        wanted = [
            python for python in pythons if not chosen.python or python.version.rpartition(".")[0] in chosen.python
        ]
        ended = [outcome_of(python, extra, wheel, Path(folder)) for python in wanted for extra in extras]
    keep_licences(ended)
    keep([one.row for one in ended])
    return int(any(one.row.result != "passed" for one in ended))


def project() -> dict[str, object]:
    """The table `[project]` of `pyproject.toml`."""
    found: dict[str, object] = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def extras_of(stated: Mapping[str, object]) -> list[str]:
    """The extras that a user may install."""
    optional = stated["optional-dependencies"]
    assert isinstance(optional, dict)
    return sorted(set(optional) - set(LEFT_OUT))


def release_faults(stated: Mapping[str, object], changes: str, uncommitted: str) -> list[str]:
    """What keeps a version from being published, one line each, by its metadata, its changelog and git's short status."""
    version, urls = str(stated["version"]), stated["urls"]
    assert isinstance(urls, dict)
    faults = [
        f"pyproject.toml: {name} is {url}; state the public address" for name, url in urls.items() if ".example" in url
    ]
    if not re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        faults.append(f"CHANGELOG.md: no heading '## {version} - YYYY-MM-DD'; name the release and its day")
    if uncommitted.strip():
        faults.append("git: there are changes that are not committed; commit them")
    return faults


def build(dist: Path) -> Path:
    """Build both distributions, the wheel from the source distribution; return the wheel."""
    built = run(UV, "build", "-q", "--out-dir", dist, PROJECT)
    wheels = sorted(dist.glob(f"infold-{project()['version']}-*.whl"))
    if built.returncode or not wheels:
        raise SystemExit(f"the wheel could not be built: {built.stderr}")
    return wheels[-1]


def host_pythons() -> list[Python]:
    """Each supported Python of this machine, as uv finds it or as pyenv has it; none is downloaded."""
    programs = [find_python(f"3.{minor}") for minor in MINORS]
    return [Python(version_of((program,)), program) for program in programs if program]


def find_python(minor: str) -> str | None:
    """The program of a Python, such as 3.13; the shims of pyenv stand for no Python unless one is activated."""
    asked = run(UV, "python", "find", "--no-project", "--no-python-downloads", "--system", minor)
    if asked.returncode == 0:
        return asked.stdout.strip()
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(program) for program in sorted(versions.glob(f"{minor}.*/bin/python"), reverse=True)), None)


def python_of(root: Path) -> Python:
    """The Python of a root file system."""
    return Python(version_of(("chroot", str(root), "python3")), "/usr/bin/python3", root)


def version_of(command: tuple[str, ...]) -> str:
    """The version that a Python states, such as 3.13.0."""
    return run(*command, "-c", "import platform; print(platform.python_version())").stdout.strip()


def outcome_of(python: Python, extra: str, wheel: Path, folder: Path) -> Outcome:
    """Install infold with one extra into a fresh environment and run its checks there."""
    inside = folder if python.root == Path("/") else Path("/tmp") / folder.name  # its own /tmp
    outside = python.root / inside.relative_to("/")
    outside.mkdir(exist_ok=True)
    try:
        uv = prepare(python, outside)
        for file in (wheel, Path(__file__).with_name("smoke.py")):
            shutil.copy(file, outside)
        program = inside / "env" / "bin" / "python"
        made = run(*python.prefix, uv, "venv", "-q", "--clear", "--python", python.program, inside / "env")
        named = f"infold[{extra}]" if extra != BARE else "infold"
        wanted = f"{named} @ file://{inside / wheel.name}"
        installed = run(*python.prefix, uv, "pip", "install", "-q", "--python", program, wanted)
        listed = run(*python.prefix, program, "-I", "-c", LICENCES).stdout
        ended = run(*python.prefix, program, "-I", inside / "smoke.py", extra, str(project()["version"]))
    finally:
        shutil.rmtree(outside / "env", ignore_errors=True)
        if python.root != Path("/"):
            shutil.rmtree(outside, ignore_errors=True)
    ready = made.returncode == installed.returncode == 0
    result = "passed" if ready and ended.returncode == 0 else "failed" if ready else "not installed"
    checks = ended.stdout.strip() if result == "passed" else last_line(ended if ready else installed)
    licences = {name.lower(): licence_of(*stated) for name, *stated in json.loads(listed or "[]") if name != "infold"}
    row = Row(python.version, extra, len(licences), checks, result)
    print(f"{row.python} {row.extra}: {row.result}, {row.packages} packages, {row.checks}", flush=True)
    return Outcome(row, licences)


def licence_of(expression: str, text: str, classifiers: list[str]) -> str:
    """The licence that a package states: its expression, its field if that is a name, or its classifier."""
    is_name = text and len(text) <= LONGEST_NAME and "\n" not in text and text.lower() not in NO_NAMES
    if expression or is_name:
        return expression or text
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    return ", ".join(CLASSIFIED.get(name, name) for name in named) or "not stated"


def prepare(python: Python, outside: Path) -> Path:
    """Give a root file system what an installation needs; return the place of uv there."""
    if python.root == Path("/"):
        return UV
    shutil.copy(UV, outside / "uv")
    copy_network_files(python.root)
    return Path("/tmp") / outside.name / "uv"


def copy_network_files(root: Path) -> None:
    """Give a root file system this machine's name resolution and certificates."""
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        source, target = Path("/") / name, root / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def last_line(ended: "subprocess.CompletedProcess[str]") -> str:
    """The last line of what a failed command printed."""
    return ((ended.stderr or ended.stdout).strip().splitlines() or [""])[-1].strip()[:LONGEST_REASON]


def run(*command: object) -> "subprocess.CompletedProcess[str]":
    """Run a command in the project's folder, without this process's own packages."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        list(map(str, command)), check=False, capture_output=True, text=True, cwd=PROJECT, env=environment
    )


def keep(rows: list[Row]) -> None:
    """Write the results, with earlier rows of what was not run now; print the table."""
    path = RESULTS / "wheels.json"
    before = [Row(**row) for row in json.loads(path.read_text("utf-8"))["rows"]] if path.exists() else []
    ran = {(minor_of(row.python), row.extra) for row in rows}
    stated = {BARE, *extras_of(project())}
    kept = [row for row in before if (minor_of(row.python), row.extra) not in ran and row.extra in stated]
    ordered = sorted([*kept, *rows], key=lambda row: (minor_of(row.python), row.extra != BARE, row.extra))
    text = json.dumps({"command": COMMAND, "rows": to_builtins(ordered)}, indent=1)
    path.write_text(text + "\n", "utf-8")
    (RESULTS / "wheels.txt").write_text(table(ordered), "utf-8")
    print(table(ordered))


def keep_licences(outcomes: list[Outcome]) -> None:
    """Write the licence of every package and the extras that install it, with what earlier runs found for other extras."""
    path = RESULTS / "licences.json"
    before = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    ran, stated = {one.row.extra for one in outcomes}, {BARE, *extras_of(project())}
    found: dict[str, dict[str, set[str]]] = {}
    for package in before:
        extras = (set(package["extras"]) - ran) & stated
        if extras:
            found.setdefault(package["name"], {}).setdefault(package["licence"], set()).update(extras)
    for one in outcomes:
        for name, licence in one.licences.items():
            found.setdefault(name, {})[licence] = found.get(name, {}).get(licence, set()) | {one.row.extra}
    packages = [
        {"name": name, "licence": licence, "extras": sorted(extras)}
        for name, licences in sorted(found.items())
        for licence, extras in sorted(licences.items())
    ]
    path.write_text(json.dumps({"command": COMMAND, "rows": packages}, indent=1) + "\n", "utf-8")


def minor_of(version: str) -> tuple[int, ...]:
    """A version's first two numbers."""
    return tuple(map(int, version.split(".")[:2]))


def table(rows: list[Row]) -> str:
    """Return rows as aligned text."""
    lines = [HEADINGS, *((row.python, row.extra, str(row.packages), row.checks, row.result) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
