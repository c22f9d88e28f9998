"""pi session files."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, is_genuine_user, results_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_usage_and_cost_are_on_each_reply(read: Read) -> None:
    """pi's own numbers are taken over as they are."""
    reply = read("pi.jsonl").sessions[0].messages[1]

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=1, output=20, cache_read=300, cache_write=40, total=361)
    assert (reply.cost, reply.finish) == (0.5, "tool-calls")


def test_a_compaction_points_at_the_first_kept_message(read: Read) -> None:
    """The index of the kept entry is turned into the index of its message; the summary is synthetic."""
    session = read("pi.jsonl").sessions[0]
    (compaction,) = session.compactions

    assert compaction.tokens_before == 5000
    assert compaction.first_kept is not None
    assert session.messages[compaction.first_kept].id == "entry-5"
    assert not is_genuine_user(session.messages[compaction.position])


def test_a_command_of_the_user_is_a_call_by_the_user(read: Read) -> None:
    """A bash execution becomes call and result, and the call says who made it."""
    messages = read("pi.jsonl").sessions[0].messages
    call = messages[5]
    (result,) = results_of(messages[6])

    assert isinstance(call, AssistantMessage)
    assert call.agent == "user"
    assert (result.output, result.exit_status) == ("pie", 0)


def test_an_aborted_reply_is_kept_empty(read: Read) -> None:
    """A reply without content still tells why it ended."""
    reply = read("pi.jsonl").sessions[0].messages[-1]

    assert isinstance(reply, AssistantMessage)
    assert (reply.parts, reply.finish, reply.error) == ((), "abort", "Request was aborted.")
