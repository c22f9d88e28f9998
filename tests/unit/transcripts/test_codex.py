"""Codex rollouts: replies put together, usage, opaque compactions."""

from collections.abc import Callable

from infold.core.messages import (
    AssistantMessage,
    SystemMessage,
    Usage,
    calls_of,
    is_genuine_user,
    is_signed,
    results_of,
)
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_items_of_one_reply_are_one_message(read: Read) -> None:
    """Reasoning and parallel calls before the outputs are one message, whose usage is the count that follows."""
    messages = read("codex.jsonl").sessions[0].messages
    reply = next(message for message in messages if isinstance(message, AssistantMessage))

    assert [call.tool for call in calls_of(reply)] == ["exec_command", "apply_patch"]
    assert is_signed(reply)
    assert reply.usage == Usage(input=100, output=60, reasoning=40, cache_read=900, total=1100)


def test_a_repeated_count_is_not_usage(read: Read) -> None:
    """Each reply is billed once, though the counts are repeated."""
    messages = read("codex.jsonl").sessions[0].messages
    totals = [message.usage.total for message in messages if isinstance(message, AssistantMessage) and message.usage]

    assert totals == [1100, 210]


def test_instructions_are_not_the_users(read: Read) -> None:
    """Developer text is a system message and AGENTS.md is synthetic; the question is genuine."""
    session = read("codex.jsonl").sessions[0]

    assert isinstance(session.messages[0], SystemMessage)
    assert sum(is_genuine_user(message) for message in session.messages) == 1
    assert session.system == "You keep tide tables."


def test_exit_status_is_in_the_preamble(read: Read) -> None:
    """Both of Codex's ways to tell a status are understood."""
    messages = read("codex.jsonl").sessions[0].messages

    assert [result.exit_status for message in messages for result in results_of(message)] == [3, 0]


def test_an_opaque_compaction_has_no_text(read: Read) -> None:
    """An encrypted compaction is recorded with the tokens before it and adds no message."""
    session = read("codex.jsonl").sessions[0]
    (compaction,) = session.compactions

    assert (compaction.summary, compaction.tokens_before) == ("", 1100)
    assert isinstance(session.messages[compaction.position], AssistantMessage)
