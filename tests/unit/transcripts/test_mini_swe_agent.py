"""mini-swe-agent trajectories, with tool calls and with fenced commands."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, calls_of, is_genuine_user, results_of, text_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_usage_cost_and_return_code_are_read(read: Read) -> None:
    """The response beside a reply gives its usage, the run its return code and times."""
    messages = read("mini-swe-agent.traj.json").sessions[0].messages
    reply = messages[1]
    (result,) = results_of(messages[2])

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=40, output=9, cache_read=60, total=109)
    assert (reply.cost, result.exit_status) == (0.01, 1)
    assert result.finished_ms == (result.started_ms or 0) + 1000


def test_the_submission_is_for_people_only(read: Read) -> None:
    """The exit message is kept but never sent."""
    last = read("mini-swe-agent.traj.json").sessions[0].messages[-1]

    assert text_of(last) == ""
    assert not is_genuine_user(last)


def test_a_fenced_command_is_a_call(read: Read) -> None:
    """With the text protocol the command and the message with its return code are paired."""
    messages = read("mini-swe-agent-text.traj.json").sessions[0].messages

    assert [call.arguments for m in messages for call in calls_of(m)] == ['{"command":"ring --loud"}']
    assert [r.exit_status for m in messages for r in results_of(m)] == [0]
