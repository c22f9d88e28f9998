"""OpenCode exports: steps, states of tools, compactions."""

from collections.abc import Callable

from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    StepFinishPart,
    StepStartPart,
    Usage,
    UserMessage,
    calls_of,
    is_genuine_user,
    is_signed,
    results_of,
)
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_a_tool_part_is_a_call_and_a_result(read: Read) -> None:
    """Results stand after the reply, with status, exit status and times; a running tool has none."""
    messages = read("opencode.json").sessions[0].messages
    bash, edit = results_of(messages[2])

    assert [call.call_id for call in calls_of(messages[1])] == ["k1", "k2", "k3"]
    assert (bash.exit_status, bash.started_ms, bash.finished_ms) == (2, 1767607201000, 1767607202000)
    assert (edit.status, edit.output) == ("error", "no such thread")


def test_a_reply_keeps_what_is_known_of_it(read: Read) -> None:
    """Usage, cost, agent, folder, snapshots and provider data survive."""
    reply = read("opencode.json").sessions[0].messages[1]

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=300, output=20, reasoning=5, cache_read=1000, total=1325)
    assert (reply.cost, reply.agent, reply.finish, reply.parent_id) == (0.02, "build", "tool-calls", "msg_1")
    assert is_signed(reply)
    assert [p.snapshot for p in reply.parts if isinstance(p, StepStartPart | StepFinishPart)] == ["aaa", "bbb"]


def test_a_compaction_is_a_request_and_a_summary(read: Read) -> None:
    """The request keeps where the tail begins; the reply to it is the summary."""
    session = read("opencode.json").sessions[0]
    (compaction,) = session.compactions
    request, summary = session.messages[compaction.position : compaction.position + 2]

    assert isinstance(request, UserMessage)
    assert request.parts == (CompactionPart(id="p10", auto=True, first_kept_id=session.messages[1].id),)
    assert isinstance(summary, AssistantMessage)
    assert summary.summary
    assert compaction.summary.startswith("## Goal")
    assert (compaction.first_kept, compaction.tokens_before) == (1, 1325)


def test_synthetic_parts_stay_synthetic(read: Read) -> None:
    """The user's text is genuine, the pasted file beside it is not; a sub-agent's export names its parent."""
    session = read("opencode.json").sessions[0]

    assert [getattr(part, "synthetic", None) for part in session.messages[0].parts] == [False, True]
    assert sum(is_genuine_user(message) for message in session.messages) == 1
    assert session.parent == "ses_0"
