"""Drive every framework with its newest and its oldest supported version: `python -m tests.frameworks.run` (`make frameworks`).

Each version has an environment of its own in `.venv-frameworks/`. The table goes to `benchmarks/results/frameworks.txt`, its
data to `frameworks.json`; `docs/agents_table.py --write` brings the guide up to date. With names of frameworks only those are
run, and the rows of the others stay. The status tells whether all passed.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from msgspec import Struct, to_builtins

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "benchmarks" / "results"
ENVIRONMENTS = PROJECT / ".venv-frameworks"
COMMAND = "make frameworks"
UV = Path(sys.executable).with_name("uv")
HEADINGS = ("framework", "plug", "package", "version", "tests", "result")


class Framework(Struct, frozen=True):
    """A framework: its plug, the package whose version is told, and what is installed for its newest and its oldest version."""

    name: str
    plug: str
    package: str
    newest: tuple[str, ...]
    oldest: tuple[str, ...]
    module: str


FRAMEWORKS = (
    Framework(
        "LangChain",
        "langchain.InfoldMiddleware",
        "langchain",
        ("langchain",),
        ("langchain==1.1.0", "langgraph-prebuilt<1.0.9"),
        "langchain",
    ),
    Framework(
        "OpenAI Agents SDK",
        "openai_agents.InfoldFilter",
        "openai-agents",
        ("openai-agents",),
        ("openai-agents==0.12.0", "openai==2.30.0"),
        "openai_agents",
    ),
    Framework(
        "Pydantic AI",
        "pydantic_ai.Infold",
        "pydantic-ai-slim",
        ("pydantic-ai-slim",),
        ("pydantic-ai-slim==2.0.0",),
        "pydantic_ai",
    ),
    Framework(
        "LiteLLM",
        "litellm.InfoldLogger",
        "litellm",
        ("litellm[proxy]",),
        ("litellm==1.80.0", "mcp", "openai<2.30"),
        "litellm",
    ),
    Framework(
        "Google ADK", "google_adk.InfoldPlugin", "google-adk", ("google-adk",), ("google-adk==1.10.0",), "google_adk"
    ),
    Framework(
        "Strands",
        "strands.InfoldMiddleware",
        "strands-agents",
        ("strands-agents",),
        ("strands-agents==1.54.0",),
        "strands",
    ),
    Framework(
        "Microsoft Agent Framework",
        "agent_framework.InfoldChatMiddleware",
        "agent-framework-core",
        ("agent-framework-core",),
        ("agent-framework-core==1.0.0",),
        "agent_framework",
    ),
    Framework(
        "Haystack", "haystack.InfoldCompactor", "haystack-ai", ("haystack-ai",), ("haystack-ai==3.1.0",), "haystack"
    ),
    Framework("CrewAI", "crewai.install", "crewai", ("crewai",), ("crewai==1.14.0",), "crewai"),
    Framework(
        "inspect_ai",
        "inspect_ai.InfoldCompaction",
        "inspect-ai",
        ("inspect-ai",),
        ("inspect-ai==0.3.180",),
        "inspect_ai",
    ),
)


class Row(Struct, frozen=True):
    """What came of one version of a framework."""

    framework: str
    plug: str
    package: str
    version: str
    tests: str
    result: str


def main(names: list[str]) -> int:
    """Install, run, print and keep; the status tells whether every version passed."""
    path = RESULTS / "frameworks.json"
    kept = [Row(**row) for row in json.loads(path.read_text())["rows"]] if names and path.exists() else []
    rows = []
    for framework in FRAMEWORKS:
        if names and framework.module not in names:
            rows += [row for row in kept if row.framework == framework.name]
            continue
        rows += [row_of(framework, "newest", framework.newest), row_of(framework, "oldest", framework.oldest)]
    path.write_text(json.dumps({"command": COMMAND, "rows": to_builtins(rows)}, indent=1) + "\n")
    (RESULTS / "frameworks.txt").write_text(table(rows))
    print(table(rows))
    return int(any(row.result != "passed" for row in rows))


def row_of(framework: Framework, age: str, requirements: tuple[str, ...]) -> Row:
    """Install one version and run the framework's tests with it."""
    folder = ENVIRONMENTS / f"{framework.module}-{age}"
    python = folder / "bin" / "python"
    run(UV, "venv", "-q", "--allow-existing", folder)
    needed = ("pytest", "hypothesis", *requirements)
    installed = run(UV, "pip", "install", "-q", "--upgrade", "--python", python, PROJECT, *needed)
    version = run(UV, "pip", "show", "--python", python, framework.package).stdout
    found = re.search(r"^Version: (\S+)", version, re.MULTILINE)
    module = f"tests/frameworks/test_{framework.module}.py"
    options = ("-q", "-p", "no:cacheprovider", "-W", "ignore::ImportWarning")  # CrewAI's own, when it is imported
    ended = run(python, "-m", "pytest", *options, module) if found else installed
    lines = (ended.stdout or ended.stderr or "").strip().splitlines() or [""]
    counted = [
        line for line in lines if re.match(r"\d+ (?:passed|failed|skipped|error)", line)
    ]  # a framework may go on printing
    tests = re.sub(r" in .*|, \d+ warnings?", "", (counted or lines)[-1])
    result = "passed" if found and ended.returncode == 0 else "failed" if found else "not installed"
    row = Row(framework.name, framework.plug, framework.package, found[1] if found else "", tests, result)
    print(f"{row.framework} {row.version}: {row.tests}", flush=True)
    return row


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """Run a command in the project, with infold as it is here."""
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}{os.pathsep}{PROJECT}"}
    return subprocess.run(
        list(map(str, command)), check=False, capture_output=True, text=True, cwd=PROJECT, env=environment
    )


def table(rows: list[Row]) -> str:
    """Return rows as aligned text."""
    lines = [
        HEADINGS,
        *((row.framework, row.plug, row.package, row.version, row.tests, row.result) for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
