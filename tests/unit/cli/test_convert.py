"""`infold convert` writes a session in four shapes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main
from infold.transcripts.registry import read_bytes, read_transcript


def convert(*arguments: object) -> Result:
    """The verb's outcome."""
    return CliRunner().invoke(main, ["convert", *map(str, arguments)])


@pytest.mark.parametrize("name", ["claude-code.jsonl", "opencode.json", "aider.chat.md", "tau2.json"])
def test_jsonl_loses_nothing(data: Path, name: str) -> None:
    """All sessions come back as they were; every verb reads the log again."""
    written = convert(data / name, "--to", "jsonl").stdout_bytes

    assert read_bytes(written, name="log").sessions == read_transcript(data / name).sessions


def test_jsonl_of_one_session(data: Path) -> None:
    """With --session the log holds that one alone."""
    written = convert(data / "claude-code.jsonl", "--to", "jsonl", "--session", "agent-bee").stdout_bytes

    assert [session.id for session in read_bytes(written, name="log").sessions] == ["agent-bee"]


def test_a_request_becomes_a_log_and_comes_back(request_file: Path, tmp_path: Path) -> None:
    """The messages of each wire format survive our own log."""
    log = tmp_path / "log.jsonl"
    assert convert(request_file, "--to", "jsonl", "-o", log).exit_code == 0
    again = convert(log, "--to", "openai").stdout

    assert "Count the kites." in again
    assert again == convert(request_file, "--to", "openai").stdout


def test_openai_is_a_request(data: Path) -> None:
    """The body has messages, each call answered by the next."""
    body = json.loads(convert(data / "pi.jsonl", "--to", "openai").stdout)

    assert {message["role"] for message in body["messages"]} <= {"system", "user", "assistant", "tool"}


def test_anthropic_has_the_system_prompt_apart(chat_file: Path) -> None:
    """System messages that open a chat are the system prompt there."""
    body = json.loads(convert(chat_file, "--to", "anthropic").stdout)

    assert body["system"] == "You count kites."
    assert body["messages"][0]["role"] == "user"
    assert "You count kites." not in json.dumps(body["messages"])


def test_markdown_is_for_people(data: Path) -> None:
    """One heading per message."""
    assert "\n## User\n" in convert(data / "claude-code.jsonl", "--to", "markdown").stdout


def test_other_sessions_are_mentioned(data: Path) -> None:
    """Where one of several sessions is written, stderr says which."""
    note = convert(data / "claude-code.jsonl", "--to", "openai").stderr

    assert "this is 'sess-1' (7 messages), the longest; --session ID chooses 'agent-bee' (3 messages" in note


def test_a_file_is_written(data: Path, tmp_path: Path) -> None:
    """With -o nothing is on stdout."""
    out = tmp_path / "session.md"
    shown = convert(data / "pi.jsonl", "--to", "markdown", "-o", out)

    assert (shown.exit_code, shown.stdout) == (0, "")
    assert out.read_text("utf-8").startswith("# Session pi-1")


def test_the_shape_must_be_named(data: Path) -> None:
    """Without --to it is bad usage, and the shapes are listed."""
    shown = convert(data / "pi.jsonl")

    assert shown.exit_code == 2
    assert "anthropic" in shown.stderr


@pytest.mark.slow
def test_a_corpus_file_is_converted(corpus: Path) -> None:
    """A long session comes back whole from our own log."""
    path = corpus / "pi.jsonl.gz"

    assert (
        read_bytes(convert(path, "--to", "jsonl").stdout_bytes, name="log").sessions == read_transcript(path).sessions
    )
