"""Telling formats apart, and saying so when none fits."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infold.errors import BrokenInput, UnknownFormat
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import FORMAT_NAMES, read_bytes, read_transcript

EXPECTED = {
    "aider.chat.md": "aider",
    "claude-code.jsonl": "claude-code",
    "codex.jsonl": "codex",
    "copilot-cli.jsonl": "copilot-cli",
    "gemini-cli.json": "gemini-cli",
    "gemini-cli.jsonl": "gemini-cli",
    "infold.jsonl": "infold",
    "inspect.json": "inspect",
    "langgraph.json": "langgraph",
    "mini-swe-agent-text.traj.json": "mini-swe-agent",
    "mini-swe-agent.traj.json": "mini-swe-agent",
    "opencode.json": "opencode",
    "openhands-completion.json": "openhands-completion",
    "openhands-events.json": "openhands-events",
    "openhands-events.jsonl": "openhands-events",
    "pi.jsonl": "pi",
    "specstory.md": "specstory",
    "sse-replay.txt": "sse-replay",
    "swe-agent-1.0.traj": "swe-agent",
    "swe-agent.traj": "swe-agent",
    "tau.json": "tau",
    "tau2.json": "tau2",
}
each_file = pytest.mark.parametrize("name", EXPECTED)


def test_every_format_has_a_fixture(data: Path) -> None:
    """No format is without a transcript of our own, and no transcript without a format."""
    assert set(EXPECTED.values()) == set(FORMAT_NAMES)
    assert {path.name for path in data.iterdir()} == set(EXPECTED)


@each_file
def test_content_tells_the_format(name: str, data: Path) -> None:
    """A transcript is recognised by what it holds, whatever it is called."""
    assert read_bytes((data / name).read_bytes(), name="unnamed").format == EXPECTED[name]


@each_file
def test_a_named_format_reads_the_same(name: str, data: Path) -> None:
    """Naming the format gives what recognising it gives."""
    content = (data / name).read_bytes()

    assert read_bytes(content, name=name, format=EXPECTED[name]) == read_bytes(content, name=name)


@each_file
def test_fixtures_are_lawful(name: str, data: Path, check_laws: Callable[[RecordedSession], None]) -> None:
    """Every session of our own transcripts keeps the laws."""
    for session in read_transcript(data / name).sessions:
        check_laws(session)


@each_file
def test_compressed_reads_the_same(name: str, data: Path) -> None:
    """Compression is told by content and changes nothing."""
    content = (data / name).read_bytes()

    assert read_bytes(gzip.compress(content), name=name) == read_bytes(content, name=name)


def test_an_unknown_format_says_what_was_tried() -> None:
    """The error lists the formats and how to name one."""
    with pytest.raises(UnknownFormat, match="--format NAME") as caught:
        read_bytes(b'{"colour": "blue"}', name="sky.json")

    assert caught.value.tried == FORMAT_NAMES


def test_lines_of_no_format_are_unknown() -> None:
    """Lines of JSON that no format knows are an unknown format, not a broken document."""
    with pytest.raises(UnknownFormat):
        read_bytes(b'{"colour": "blue"}\n{"colour": "red"}\n', name="sky.jsonl")


def test_a_name_that_is_no_format_is_refused(data: Path) -> None:
    """A mistyped format is told with the right ones."""
    with pytest.raises(UnknownFormat, match="claude-code"):
        read_transcript(data / "pi.jsonl", format="claude")


def test_the_wrong_format_finds_no_message(data: Path) -> None:
    """Naming a format that does not fit is a broken input with a way out."""
    with pytest.raises(BrokenInput, match="holds no message"):
        read_transcript(data / "pi.jsonl", format="codex")


def test_a_name_helps_where_content_does_not() -> None:
    """A history of aider that lost its first lines is still read by its name."""
    transcript = read_bytes(b"#### Ring the bell  \n\nIt rings.\n", name="project.aider.chat.history.md")

    assert transcript.format == "aider"
    assert len(transcript.sessions[0].messages) == 2


def test_progress_is_told_in_bytes_on_disk(tmp_path: Path, data: Path) -> None:
    """Whoever watches sees the bytes read grow to the size of the file, compressed or not."""
    path = tmp_path / "session.gz"
    path.write_bytes(gzip.compress((data / "claude-code.jsonl").read_bytes()))
    seen: list[tuple[int, int]] = []

    read_transcript(path, progress=lambda done, total: seen.append((done, total)))

    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_sessions_of_one_name_are_told_apart(data: Path) -> None:
    """Two runs under one id are two sessions with ids of their own."""
    content = (data / "openhands-events.jsonl").read_bytes().replace(b"pony-2", b"pony-1")

    assert [session.id for session in read_bytes(content, name="runs").sessions] == ["pony-1", "pony-1#2"]


@pytest.mark.parametrize("longest", [10, 70_000, 200_000])
def test_long_json_lines_of_no_format_are_unknown(longest: int) -> None:
    """Whole documents, one a line, of an agent that is not known are called unknown, not cut off, however long they are."""
    lines = [json.dumps({"id": number, "text": "x" * size}) for number, size in enumerate((longest, 5, longest))]
    with pytest.raises(UnknownFormat, match="in no format infold knows"):
        read_bytes("\n".join(lines).encode(), name="runs.jsonl")


def test_a_document_that_was_cut_off_is_told_so() -> None:
    """One document over several lines that ends too early is still called cut off."""
    with pytest.raises(BrokenInput, match="cut off"):
        read_bytes(b'{\n"messages": [\n{"role": "user"}\n', name="run.json")
