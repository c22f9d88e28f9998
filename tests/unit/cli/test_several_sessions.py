"""Of a file with several sessions every verb takes the longest, says so, and takes another that is named."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main

LONGEST, OTHER = "task-7-trial", "task-8-trial"


@pytest.fixture
def file(data: Path, tmp_path: Path) -> Path:
    """Two sessions, the longer of them last."""
    runs = json.loads((data / "tau.json").read_text("utf-8"))
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(runs[::-1]), "utf-8")
    return path


def run(*arguments: object) -> Result:
    """The outcome of a verb."""
    told = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert told.exit_code == 0, told.output
    return told


def test_inspect_shows_the_longest_and_lists_the_others(file: Path) -> None:
    """Which one it is stands at the top, the others in a table; JSON has the same choice."""
    page = run("inspect", file).stdout

    assert f"session {LONGEST}" in page
    assert "the longest of 2 in this file (listed below)" in page
    assert OTHER in page.partition("Other sessions in this file")[2]
    assert json.loads(run("inspect", file, "--json").stdout)["files"][0]["session"].startswith(LONGEST)
    assert "one of 2 in this file" in run("inspect", file, "--session", OTHER).stdout


@pytest.mark.parametrize("verb", [("compact", "--window", "32k"), ("convert", "--to", "markdown")])
def test_other_verbs_say_which_they_took(file: Path, verb: tuple[str, ...]) -> None:
    """A note on stderr names the longest and the others; with --session there is none."""
    note = run(verb[0], file, *verb[1:]).stderr

    assert "holds 2 sessions; this is '" + LONGEST in note
    assert "--session ID chooses '" + OTHER in note
    assert "sessions" not in run(verb[0], file, *verb[1:], "--session", OTHER).stderr


def test_handles_are_those_of_the_page(file: Path) -> None:
    """A handle without a session is of the longest, which `inspect` shows; others have their id before them."""
    handle = json.loads(run("inspect", file, "--json").stdout)["files"][0]["largest"][0]["handle"]
    hits = json.loads(run("recall", file, handle, "--json").stdout)["hits"]

    assert hits[0]["session"].startswith(LONGEST)
    assert run("recall", file, handle).stdout


def test_a_sub_agent_is_not_taken_for_the_session(data: Path) -> None:
    """The longest that is not a sub-agent's counts."""
    assert run("inspect", data / "tau2.json").stdout.splitlines()[1].startswith("tau2 session sim-1,")
