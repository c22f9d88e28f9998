"""`infold compact` shows what a compaction does and writes what would be sent."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main

KEYS = {
    *("file", "format", "session", "policy", "budget", "counting", "changed", "tokens", "by_category", "events"),
    *("left", "checkpoint", "kept", "messages", "written"),
}


def compact(*arguments: object) -> Result:
    """The verb's outcome."""
    return CliRunner().invoke(main, ["compact", *map(str, arguments)])


def told(*arguments: object) -> dict[str, Any]:
    """What the verb tells in JSON."""
    shown = compact(*arguments, "--json")
    assert shown.exit_code == 0, shown.stderr
    page: dict[str, Any] = json.loads(shown.stdout)
    return page


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """A chat of eighty steps with a rule at its beginning, about 50k tokens."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Count kites. Never touch the string."}]
    for step in range(80):
        call = {"id": f"c{step}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": f"kite {step} " * 200})
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"model": "gpt-4o", "messages": messages, "user": "ada"}), "utf-8")
    return path


def test_before_and_after_are_shown(long_file: Path) -> None:
    """The page has both sizes, what was done and why, the checkpoint and what was kept."""
    page = compact(long_file, "--window", "8k").stdout

    assert page.startswith("fits: ")
    assert "pruned" in page
    assert "folded" in page
    assert "the trigger was reached" in page
    assert "Never touch the string." in page
    assert "Kept unchanged: " in page
    assert page.endswith("nothing was written; -o OUT writes the request\n")


def test_what_a_person_asks_for_is_done_though_it_is_off(long_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1.1, S8.2: the switches are for what happens by itself; this command is a person's own."""
    monkeypatch.setenv("INFOLD_DISABLE_AUTOCOMPACT", "1")
    monkeypatch.setenv("INFOLD_DISABLE_PRUNE", "1")

    assert told(long_file, "--window", "8k")["changed"]


def test_json_has_stable_keys(long_file: Path, data: Path) -> None:
    """A request and a transcript, changed or not, are told with the same keys."""
    assert set(told(long_file, "--window", "8k")) == KEYS
    assert set(told(data / "pi.jsonl", "--window", "64k")) == KEYS


def test_what_fits_as_it_is_stays_in_its_categories(data: Path) -> None:
    """A recorded summary is one before and after, whatever role the record gave it."""
    page = told(data / "claude-code.jsonl", "--window", "1m")

    assert page["by_category"]["before"]["summary"] > 0
    assert page["by_category"]["before"] == page["by_category"]["after"]


def test_the_request_fits(long_file: Path) -> None:
    """The most it can be by the provider's count is within what is usable, and less than before."""
    page = told(long_file, "--window", "8k")

    assert page["changed"]
    assert page["tokens"]["upper"] <= page["budget"]["limit_tokens"]
    assert page["tokens"]["after"] < page["tokens"]["before"]


def test_a_request_keeps_its_shape(request_file: Path, tmp_path: Path) -> None:
    """Written back, a request of each provider has its own fields, and untouched messages as they were."""
    out = tmp_path / "out.json"
    assert compact(request_file, "--window", "64k", "-o", out).exit_code == 0

    assert json.loads(out.read_bytes()) == json.loads(request_file.read_bytes())


def test_a_compacted_request_is_written(long_file: Path, tmp_path: Path) -> None:
    """The other fields of the body stay; the messages are fewer and hold the rule."""
    out = tmp_path / "out.json"
    shown = compact(long_file, "--window", "8k", "-o", out)
    body = json.loads(out.read_bytes())

    assert shown.stdout.endswith(f"written to {out}\n")
    assert (body["model"], body["user"]) == ("gpt-4o", "ada")
    assert len(body["messages"]) < 161
    assert "Never touch the string." in json.dumps(body)


@pytest.mark.parametrize("shape", ["openai", "anthropic", "jsonl"])
def test_a_transcript_is_written_as_a_request(data: Path, tmp_path: Path, shape: str) -> None:
    """What is written can be inspected again."""
    out = tmp_path / "out.json"
    assert compact(data / "claude-code.jsonl", "--window", "64k", "--to", shape, "-o", out).exit_code == 0

    assert CliRunner().invoke(main, ["inspect", str(out)]).exit_code == 0


def test_stdout_can_take_the_request(long_file: Path) -> None:
    """With -o - the request alone is on stdout."""
    assert "messages" in json.loads(compact(long_file, "--window", "8k", "-o", "-").stdout)


def test_a_preview_writes_nothing(long_file: Path, tmp_path: Path) -> None:
    """The request is shown part by part, and OUT is not made."""
    out = tmp_path / "out.json"
    shown = compact(long_file, "--window", "8k", "--preview", "-o", out)

    assert "The request: " in shown.stdout
    assert not out.exists()


def test_every_preset_can_be_tried(long_file: Path) -> None:
    """A document's policy is named on the page; an unknown one is bad usage."""
    assert told(long_file, "--window", "64k", "--policy", "opencode-1.18")["policy"] == "opencode-1.18"
    assert compact(long_file, "--window", "64k", "--policy", "nonesuch").exit_code == 2


def test_what_fits_is_left_alone(data: Path) -> None:
    """A short session in a large window is kept whole, and the page says so."""
    page = compact(data / "codex.jsonl", "--window", "1m").stdout

    assert page.startswith("fits unchanged: ")
    assert "Kept: everything" in page


def test_an_empty_message_is_told_though_all_fits(data: Path) -> None:
    """B12: what says nothing is not sent, and the page does not claim that all was kept."""
    page = compact(data / "pi.jsonl", "--window", "1m").stdout

    assert page.startswith("fits: ")
    assert "empty message" in page
    assert "Kept unchanged: 7 of 8 messages" in page
    assert "Done, as the session" not in page


def test_the_recorded_model_gives_the_window(data: Path) -> None:
    """Without --window the model's own is taken; without either there is none to take."""
    assert told(data / "claude-code.jsonl")["budget"]["limit_tokens"] > 900_000
    shown = compact(data / "tau.json")
    assert shown.exit_code == 1
    assert "--window TOKENS or --model NAME" in shown.stderr


def test_a_window_too_small_is_told_with_numbers(long_file: Path) -> None:
    """What cannot fit ends with status 1 and the one advice that the command can follow."""
    shown = compact(long_file, "--window", "300")

    assert shown.exit_code == 1
    assert len(shown.stderr.splitlines()) == 1
    assert "are usable; give a larger --window" in shown.stderr
    assert "leave nothing of a window of 100; give a larger --window" in compact(long_file, "--window", "100").stderr


@pytest.mark.parametrize("window", ["huge", "0", "-8k", "k", "", "1.k", "9" * 5_000])
def test_a_bad_window_is_bad_usage(data: Path, window: str) -> None:
    """What is not a number of tokens ends with status 2 and an example."""
    shown = compact(data / "pi.jsonl", "--window", window)

    assert shown.exit_code == 2
    assert "such as 8000, 64k or 1m" in shown.stderr


def test_recorded_usage_does_not_count(data: Path) -> None:
    """A session whose recorded requests were large is measured by what it holds."""
    assert told(data / "codex.jsonl", "--window", "16k")["changed"] is False


@pytest.mark.slow
@pytest.mark.parametrize("window", ["8k", "32k", "128k"])
def test_a_corpus_file_fits_each_window(corpus: Path, window: str) -> None:
    """A session of 160k tokens fits 8k, 32k and 128k."""
    page = told(corpus / "claude-code.en.jsonl.gz", "--window", window)

    assert page["tokens"]["upper"] <= page["budget"]["limit_tokens"]
    assert page["checkpoint"]
