"""The programs of `examples/` run as printed, without a key, and teach what they say."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LONGEST_LINES = 60
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "MODEL", "TRANSCRIPTS")

PRINTS = {
    "raw_sdk_agent.py": ("(Compacted)", "The rule is in the last request: True"),
    "streaming_recall_agent.py": ("password left the window", "password is quay-4711."),
    "sub_agents.py": ("port:second-half", "can be recalled: def berth_16_42"),
    "custom_policy.py": ("long tail", "rule is in every one of them"),
    "plugin.py": ("put off at", "plugin's words are in the request: True", "written and not applied yet"),
    "gateway_two_agents.py": ("Ada (OpenAI)", "Bo (Anthropic)", "last request was managed", "of 8,000 tokens"),
}
"""From an example to what it must print."""


def run(*command: str, cwd: Path = EXAMPLES) -> str:
    """What a program prints in a process of its own, without keys; it fails with the program's own words."""
    environ = {name: value for name, value in os.environ.items() if name not in KEYS}
    environ |= {"MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run([sys.executable, *command], cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout


def programs() -> Iterator[ParameterSet]:
    """The examples; those that import Anthropic's SDK take more than two seconds."""
    for name in sorted(PRINTS):
        is_long = "nthropic" in (EXAMPLES / name).read_text("utf-8")
        yield pytest.param(name, marks=pytest.mark.long if is_long else pytest.mark.slow)


@pytest.mark.parametrize("name", list(programs()))
def test_example_runs(name: str) -> None:
    """It ends well, from any folder, and prints what it is there to show."""
    printed = run(str(EXAMPLES / name), cwd=ROOT)

    assert [words for words in PRINTS[name] if words not in printed] == []


def test_examples_are_short_and_listed() -> None:
    """Each begins with two lines on what it shows, has at most 60 lines, is run here, and is in the list of examples."""
    found = {path.name: path.read_text("utf-8") for path in EXAMPLES.glob("*.py")}
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text("utf-8")))

    assert found.keys() == {*PRINTS, "offline.py"}
    assert listed == {*found, *(path.name for path in EXAMPLES.glob("*.ipynb"))}
    assert [name for name, text in found.items() if text.count("\n") > LONGEST_LINES] == []
    assert [name for name, text in found.items() if not re.match(r'"""[^\n"]+\n[^\n"]+"""\n', text)] == []


@pytest.mark.long
def test_notebook_runs() -> None:
    """The cells of the notebook run in order and end with the largest request of each policy."""
    pytest.importorskip("matplotlib")
    cells = json.loads((EXAMPLES / "replay_transcripts.ipynb").read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    printed = run("-c", "\n".join(sources))
    largest = dict(line.split() for line in printed.splitlines() if line.startswith(("infold", "none")))

    assert int(largest["infold"]) <= 32_000 < int(largest["none"])
    assert all(cell.get("outputs", []) == [] for cell in cells)


@pytest.mark.long
def test_queries_of_the_guide_run(tmp_path: Path) -> None:
    """The queries of the guide to replays run on the files that its command writes."""
    pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    data = ROOT / "tests" / "data" / "transcripts" / "claude-code.jsonl"
    outputs = ("--results", "results.parquet", "--calls", "calls.parquet")
    run("-m", "infold", "replay", str(data), "--window", "64k,128k", *outputs, cwd=tmp_path)
    guide = (ROOT / "docs" / "guides" / "replay.md").read_text("utf-8")
    queries = re.findall(r"^```python results\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    printed = [run("-c", query, cwd=tmp_path) for query in queries]

    assert len(queries) == 2
    assert "turn-window" in printed[0]
    assert "sess-1" in printed[1]
