"""`infold replay`."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.coding_session import coding_session

from infold.cli.main import main
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
        (("--shard", "0/4"), "'0/4' is not a shard; use 1/4"),
        (("--shard", "5/4"), "is not a shard"),
        (("--shard", "half"), "is not a shard"),
        (("--merge", "--window", "8k"), "--merge takes how to replay from the shards; remove --window"),
        (("--retention", "--shard", "1/2"), "remove --shard"),
        (("--engine", "clouds"), "is not one of 'processes', 'ray'"),
    ],
)
def test_wrong_argument_is_told(arguments: tuple[str, ...], told: str) -> None:
    """A name or a size that means nothing is refused before anything is read."""
    found = run(SESSION, *arguments)

    assert found.exit_code == 2
    assert told in " ".join(found.output.replace("│", " ").split())


def test_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The reason is given in a line, before anything is replayed."""
    found = run(SESSION, "--jobs", "1", "--json", str(tmp_path / "none" / "out.json"))

    assert found.exit_code == 1
    assert "cannot write" in found.output
    assert "window" not in found.output


def test_folder_is_searched(tmp_path: Path) -> None:
    """Transcripts of a folder are replayed in the order of their names; hidden and other files are left alone."""
    for name in ("b/two.jsonl", "a/one.jsonl", "b/.git/three.jsonl", "b/code.py", ".four.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SESSION, tmp_path / name)
    (tmp_path / "notes.md").write_text("# Notes\n")
    out = tmp_path / "out.csv"
    found = run(str(tmp_path), "--policies", "none", "--jobs", "1", "--results", str(out))

    assert found.exit_code == 0, found.output
    names = [Path(line.split(",")[1]).name for line in out.read_text().splitlines()[1:]]
    assert list(dict.fromkeys(names)) == ["one.jsonl", "two.jsonl"]
    assert "notes.md: it is not a transcript" in " ".join(found.output.split())


def test_folder_without_transcripts_is_told(tmp_path: Path) -> None:
    """The error names the folder and what is looked for."""
    found = run(str(tmp_path))

    assert found.exit_code == 1
    assert "no transcript is in" in found.output
    assert ".jsonl" in found.output


def test_shards_merge_into_the_whole(tmp_path: Path) -> None:
    """Two shards, merged, give the bytes of one run: tables, JSON, page and rows."""
    files = [SESSION, str(DATA / "pi.jsonl"), str(DATA / "tau.json")]

    def replayed(name: str, *arguments: str) -> list[str | bytes]:
        outputs = [tmp_path / f"{name}{suffix}" for suffix in (".json", ".html", ".csv", ".parquet")]
        options = zip(("--json", "--html", "--calls", "--results"), map(str, outputs), strict=True)
        found = run(*arguments, *(word for option in options for word in option))
        assert found.exit_code == 0, found.output
        return [found.output, *(path.read_bytes() for path in outputs)]

    plan = ("--policies", "none", "--window", "8k", "--jobs", "1")
    whole = replayed("whole", *files, *plan)
    for number in ("1", "2"):
        replayed(number, *files, *plan, "--shard", f"{number}/2")

    assert replayed("merged", str(tmp_path / "2.json"), str(tmp_path / "1.json"), "--merge") == whole


def test_shard_without_files_is_empty(tmp_path: Path) -> None:
    """With more shards than files the last ones have nothing to do; this is said and is not an error."""
    out = tmp_path / "out.csv"
    found = run(SESSION, "--shard", "2/2", "--results", str(out))

    assert found.exit_code == 0, found.output
    assert "shard 2/2 has no files" in found.stderr
    assert len(out.read_text().splitlines()) == 1


@pytest.mark.parametrize("shard", ["missing", "foreign"])
def test_merge_of_something_else_is_told(shard: str, tmp_path: Path) -> None:
    """A file that is not a result, or a shard that is missing, ends in an error with the fix."""
    out = tmp_path / "1.json"
    run(SESSION, "--jobs", "1", "--shard", "1/2", "--json", str(out))
    found = CliRunner().invoke(main, ["replay", "--merge", str(out) if shard == "missing" else SESSION])

    assert found.exit_code == 1
    assert ("shard 2/2 is missing" if shard == "missing" else "is not a result of") in found.output


@pytest.mark.skipif(sys.platform == "win32", reason="names are text there")
def test_name_of_a_file_need_not_be_text(tmp_path: Path) -> None:
    """A name that is not UTF-8 is written with escapes."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    shutil.copy(SESSION, path)
    found = run(
        str(tmp_path), "--jobs", "1", "--json", str(tmp_path / "out.json"), "--html", str(tmp_path / "out.html")
    )

    assert found.exit_code == 0, found.output
    assert json.loads((tmp_path / "out.json").read_bytes())["files"][0]["path"].endswith("\\xff.jsonl")


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
