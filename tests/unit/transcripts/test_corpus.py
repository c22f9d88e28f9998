"""Long transcripts: the invented ones, and the real ones where they are at hand."""

import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.corpus import INVENTED, each_entry
from tests.support.invented_corpus import contents

from infold.core.messages import AssistantMessage, calls_of, results_of
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript
from infold.transcripts.write import to_anthropic, to_markdown, to_openai_chat

IN_PROGRESS_LINES = {
    "claude-code/entireio-cli_1284c080.jsonl.gz": 32,
    "claude-code/repiq_e82ef922.ja.jsonl.gz": 131,
    "claude-code/agent-stuff_ffe99a00.ko.jsonl.gz": 18,
}
"""Results of sub-agents told in progress lines, which the manifest does not count."""
WITHOUT_CALL = {"openhands/multi-swe-bench_output.jsonl.gz": -5}
"""Observations that answer no call (three recalls, two complaints): synthetic text, but counted by the manifest."""
WITH_USAGE = ("claude-code", "codex", "pi", "opencode", "openhands", "gemini", "mini")


def test_the_invented_files_are_as_generated() -> None:
    """The committed files are those that their generator writes."""
    for name, content in contents():
        assert _plain(INVENTED / name, (INVENTED / name).read_bytes()) == _plain(INVENTED / name, content), name


def _plain(path: Path, content: bytes) -> bytes:
    return gzip.decompress(content) if path.suffix == ".gz" else content


@each_entry()
def test_no_tool_result_is_lost(entry: dict[str, Any]) -> None:
    """As many tool results are read as the manifest counts, but for the documented exceptions."""
    sessions = read_transcript(entry["path"]).sessions
    found = sum(len(results_of(message)) for session in sessions for message in session.messages)
    exception = IN_PROGRESS_LINES.get(entry["file"], 0) + WITHOUT_CALL.get(entry["file"], 0)

    assert found == entry["results"] + exception


@each_entry()
def test_real_compactions_are_found(entry: dict[str, Any]) -> None:
    """As many compactions are read as the manifest counts."""
    sessions = read_transcript(entry["path"]).sessions

    assert sum(len(session.compactions) for session in sessions) == entry["summ"]


@each_entry()
def test_sessions_are_lawful(entry: dict[str, Any], check_laws: Callable[[RecordedSession], None]) -> None:
    """Every session read from the corpus keeps the laws."""
    for session in read_transcript(entry["path"]).sessions:
        check_laws(session)


@each_entry(lambda entry: entry["fmt"].startswith(WITH_USAGE))
def test_recorded_usage_is_kept(entry: dict[str, Any]) -> None:
    """Formats that record usage give it to replies, and a plausible amount of it."""
    messages = [m for session in read_transcript(entry["path"]).sessions for m in session.messages]
    billed = [m.usage for m in messages if isinstance(m, AssistantMessage) and m.usage]

    assert billed
    assert max(usage.prompt for usage in billed) > 1_000


@each_entry()
def test_sessions_can_be_written(entry: dict[str, Any]) -> None:
    """Each call is followed by its result in both providers' shapes, and markdown holds every message."""
    for session in read_transcript(entry["path"]).sessions:
        calls = sum(len(calls_of(message)) for message in session.messages)
        _check_openai(to_openai_chat(session), calls)
        _check_anthropic(to_anthropic(session)["messages"], calls)
        assert to_markdown(session).count("\n## ") >= len(session.messages)


def _check_openai(messages: list[dict[str, Any]], calls: int) -> None:
    answered = 0
    for index, message in enumerate(messages):
        wanted = [call["id"] for call in message.get("tool_calls", [])]
        following = messages[index + 1 : index + 1 + len(wanted)]
        assert [m.get("tool_call_id") for m in following] == wanted
        answered += len(wanted)
    assert answered == calls == sum(message["role"] == "tool" for message in messages)


def _check_anthropic(messages: list[dict[str, Any]], calls: int) -> None:
    roles = [message["role"] for message in messages]
    assert roles[0] == "user"
    assert all(first != second for first, second in pairwise(roles))
    found = 0
    for index, message in enumerate(messages):
        wanted = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if wanted:
            given = [b["tool_use_id"] for b in messages[index + 1]["content"] if b["type"] == "tool_result"]
            assert sorted(given) == sorted(wanted)
        found += len(wanted)
    assert found == calls
