"""`infold mcp` before it serves: what it is asked, and what it refuses in one line."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main

WITHOUT_SDK = "import sys; sys.modules['mcp'] = None; from infold.cli.main import main; main()"
"""The command in a process where the package `mcp` cannot be imported."""


def mcp(*arguments: object) -> Result:
    """The verb's outcome."""
    return CliRunner().invoke(main, ["mcp", *map(str, arguments)])


@pytest.mark.parametrize(
    ("variables", "settings", "place"),
    [
        ({}, "", "data/infold/sessions.sqlite3"),
        ({}, 'store = "set.sqlite3"', "set.sqlite3"),
        ({"INFOLD_STORE": "said.sqlite3"}, 'store = "set.sqlite3"', "said.sqlite3"),
    ],
)
def test_without_a_name_the_store_is_that_of_the_other_verbs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], settings: str, place: str
) -> None:
    """The variable counts, then the settings, then the user's own file; where none is there yet, the line says which."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    own = tmp_path / "config" / "infold" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(settings, "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    told = mcp()

    assert told.exit_code == 1
    assert f"{place}); start one" in told.stderr


@pytest.mark.parametrize("place", ["gone.sqlite3", "sqlite:gone.sqlite3", ".", "~/no-such-folder/gone.sqlite3"])
def test_a_missing_store_is_told_and_not_made(tmp_path: Path, place: str) -> None:
    """A mistyped path is an error, never a new and empty store."""
    named = place if place.startswith("~") else place.replace("gone", str(tmp_path / "gone"))
    told = mcp("--store", named)

    assert told.exit_code == 1
    assert told.stderr.startswith("Error: no store at ")
    assert "~" not in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_makes_no_sense() -> None:
    """No other process could see what a store in memory holds."""
    assert "name a file" in mcp("--store", "memory").stderr


@pytest.mark.slow
def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    """Another kind of file is refused in one line."""
    path = tmp_path / "notes.txt"
    path.write_text("kites " * 1_000)

    assert "it is not an infold store" in mcp("--store", path).stderr


@pytest.mark.slow
def test_a_database_that_does_not_answer_is_told() -> None:
    """The address of a database is no path; one that cannot be reached is told in one line."""
    told = mcp("--store", "postgresql://127.0.0.1:9/none")

    assert told.exit_code == 1
    assert "cannot be reached" in told.stderr


@pytest.mark.parametrize("budget", ["0", "many", "-5"])
def test_a_budget_is_a_number_of_tokens(budget: str) -> None:
    """The budget is written like every other number of tokens."""
    told = mcp("--store", "x", "--budget", budget)

    assert told.exit_code == 2
    assert "not a number of tokens" in told.stderr


@pytest.mark.slow
def test_a_missing_sdk_is_told(tmp_path: Path) -> None:
    """Without the extra, the line says how to get it, and the help can be read all the same."""
    store = tmp_path / "log.sqlite3"
    store.touch()
    command = [sys.executable, "-c", WITHOUT_SDK, "mcp"]
    told = subprocess.run([*command, "--store", store], capture_output=True, text=True, timeout=60, check=False)
    helped = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=False)

    assert told.returncode == 1
    assert told.stderr.startswith("Error: the MCP SDK is not installed")
    assert told.stderr.endswith("pip install 'infold[mcp]'\n")
    assert helped.returncode == 0
