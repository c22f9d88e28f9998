"""aider chat histories."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, calls_of, is_genuine_user, results_of, text_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_each_start_is_a_session(read: Read) -> None:
    """A history of two starts is two sessions, each with its model."""
    first, second = read("aider.chat.md").sessions

    assert first.model is not None
    assert second.model is not None
    assert (first.model.id, second.model.id) == ("gpt-4o", "claude-opus-4-6")


def test_program_lines_are_results(read: Read) -> None:
    """Every block of program lines is one result; quoted lines inside a fence are the model's."""
    messages = read("aider.chat.md").sessions[0].messages
    outputs = [result.output for message in messages for result in results_of(message)]

    assert len(outputs) == 3
    assert outputs[-1] == "Applied edit to bell.py\nRunning pytest -q\n1 failed"
    assert any("> not a program line" in text_of(message) for message in messages)


def test_user_lines_are_joined(read: Read) -> None:
    """Consecutive user lines are one message."""
    messages = read("aider.chat.md").sessions[0].messages

    assert [text_of(m) for m in messages if is_genuine_user(m)] == ["Fix the bell\nin bell.py"]


def test_usage_is_read_before_or_after_the_reply(read: Read) -> None:
    """Old versions tell the usage before a reply, new ones after it."""
    replies = [
        message
        for session in read("aider.chat.md").sessions
        for message in session.messages
        if isinstance(message, AssistantMessage) and message.usage
    ]

    assert [(m.usage.input, m.usage.output, m.cost) for m in replies if m.usage] == [(1200, 45, 0.17), (2500, 45, 0.02)]
    assert [call.arguments for call in calls_of(replies[0])] == ['{"command":"pytest -q"}']
