"""SWE-agent trajectories, before and since 1.0."""

from collections.abc import Callable

from infold.core.messages import calls_of, is_genuine_user, results_of, text_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_an_action_is_a_call_and_the_next_message_its_result(read: Read) -> None:
    """With the text protocol, action and observation are paired; the last action has no answer."""
    messages = read("swe-agent.traj").sessions[0].messages

    assert [call.arguments for m in messages for call in calls_of(m)] == [
        '{"command":"ls"}',
        '{"command":"submit"}',
    ]
    assert [result.output for m in messages for result in results_of(m)] == ["bug.py"]


def test_the_demonstration_is_not_the_users(read: Read) -> None:
    """Only the task is genuine."""
    messages = read("swe-agent.traj").sessions[0].messages

    assert [text_of(m)[:13] for m in messages if is_genuine_user(m)] == ["We're solving"]


def test_tool_calls_since_1_0_are_read(read: Read) -> None:
    """A result that names its call in a list is paired with it."""
    messages = read("swe-agent-1.0.traj").sessions[0].messages

    assert [(r.call_id, r.tool, r.output) for m in messages for r in results_of(m)] == [("s1", "bash", "bug.py")]
