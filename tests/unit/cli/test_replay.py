"""`infold replay`."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.coding_session import coding_session

from infold.cli.replay import replay
from infold.core.entries import MessageEntry, encode_entry

DATA = Path(__file__).parents[2] / "data" / "transcripts"
SESSION = str(DATA / "claude-code.jsonl")


def run(*arguments: str) -> Result:
    """The verb with these arguments."""
    return CliRunner().invoke(replay, arguments)


def test_policies_are_compared_in_a_table() -> None:
    """Each policy has a row for each window."""
    found = run(SESSION, "--policies", "infold,none", "--window", "8k,16k", "--jobs", "1")

    assert found.exit_code == 0, found.output
    assert "window 8k" in found.output
    assert "window 16k" in found.output
    assert found.output.count("\nnone ") == 2


@pytest.mark.slow
def test_two_runs_give_identical_bytes_however_many_processes(tmp_path: Path) -> None:
    """What is written depends on the files and the plan alone."""
    files = [SESSION, str(DATA / "pi.jsonl"), str(DATA / "codex.jsonl")]
    written = []
    for jobs in ("1", "2"):
        page, told = tmp_path / f"{jobs}.html", tmp_path / f"{jobs}.json"
        found = run(*files, "--window", "8k", "--jobs", jobs, "--html", str(page), "--json", str(told))
        assert found.exit_code == 0, found.output
        written.append((page.read_bytes(), told.read_bytes()))

    assert written[0] == written[1]
    assert [Path(each["path"]).name for each in json.loads(written[0][1])["files"]] == [Path(f).name for f in files]


def test_broken_file_is_skipped_and_told(tmp_path: Path) -> None:
    """The other files are replayed; only a run without any fails."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{")
    mixed, alone = run(str(broken), SESSION, "--jobs", "1"), run(str(broken), "--jobs", "1")

    assert mixed.exit_code == 0
    assert "skipped" in mixed.output
    assert alone.exit_code == 1
    assert "none of the files" in alone.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--policies", "wishful"), "no preset is named 'wishful'"),
        (("--policies", ","), "no policy given"),
        (("--window", "much"), "not a number of tokens"),
        (("--model", "nobodys-model"), "is not known"),
    ],
)
def test_wrong_argument_is_told(arguments: tuple[str, ...], told: str) -> None:
    """A name or a size that means nothing is refused before anything is read."""
    found = run(SESSION, *arguments)

    assert found.exit_code == 2
    assert told in " ".join(found.output.replace("│", " ").split())


def test_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The reason is given in a line."""
    found = run(SESSION, "--jobs", "1", "--json", str(tmp_path / "none" / "out.json"))

    assert found.exit_code == 1
    assert "cannot write" in found.output


def test_model_window_cache_and_overhead_can_be_chosen(tmp_path: Path) -> None:
    """The options reach the plan that is written."""
    shutil.copy(SESSION, tmp_path / "s.jsonl")
    out = tmp_path / "out.json"
    options = ("--model", "gpt-5.4", "--window", "model", "--no-cache", "--overhead", "2k", "--plain", "--jobs", "1")
    found = run(str(tmp_path / "s.jsonl"), *options, "--json", str(out))

    assert found.exit_code == 0, found.output
    plan = json.loads(out.read_bytes())["plan"]
    assert (plan["model"], plan["windows"], plan["caching"], plan["overhead_tokens"]) == ("gpt-5.4", [0], False, 2_000)


@pytest.mark.long
def test_retention_is_measured_on_request(tmp_path: Path) -> None:
    """B3: `--retention` tells what a fold keeps, writes it as JSON, and says which file could not be read."""
    session, unreadable, out = tmp_path / "session.jsonl", tmp_path / "unreadable.jsonl", tmp_path / "out.json"
    session.write_bytes(b"\n".join(encode_entry(MessageEntry(message)) for message in coding_session()[:200]))
    unreadable.write_bytes(b"\x00\x01")
    files = [str(session), str(unreadable)]
    found = CliRunner().invoke(replay, ["--retention", "--jobs", "1", *files, "--json", str(out)])

    assert found.exit_code == 0, found.output
    assert "unreadable.jsonl" in found.stderr
    assert "infold k=10" in found.stdout
    assert json.loads(out.read_text())["lines"]


def test_nothing_to_measure_is_told(tmp_path: Path) -> None:
    """B3: files without a long session are an error with a remedy, not an empty table."""
    short = tmp_path / "short.jsonl"
    short.write_bytes(encode_entry(MessageEntry(coding_session()[0])))
    found = CliRunner().invoke(replay, ["--retention", "--jobs", "1", str(short)])

    assert found.exit_code == 1
    assert "give longer transcripts" in found.stderr
