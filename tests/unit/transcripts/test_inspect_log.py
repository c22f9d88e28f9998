"""Inspect evaluation logs."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, is_genuine_user, is_signed, results_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_events_give_usage_and_times(read: Read) -> None:
    """A model event is matched by message id, a tool event by call; cached input is taken out of the input."""
    messages = read("inspect.json").sessions[0].messages
    reply = messages[1]
    (result,) = results_of(messages[2])

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=60, output=6, reasoning=4, cache_read=40, total=110)
    assert is_signed(reply)
    assert result.finished_ms == (result.started_ms or 0) + 1000


def test_attachments_are_put_back(read: Read) -> None:
    """A text that stands apart is restored; a failed tool keeps its output and is an error."""
    (result,) = results_of(read("inspect.json").sessions[0].messages[2])

    assert (result.output, result.status) == ("ding dong", "error")


def test_the_scaffolds_prompts_are_not_the_users(read: Read) -> None:
    """Only the sample's input is genuine."""
    messages = read("inspect.json").sessions[0].messages

    assert [message.id for message in messages if is_genuine_user(message)] == ["i1"]
