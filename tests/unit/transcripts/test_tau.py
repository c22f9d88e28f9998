"""tau-bench results."""

from collections.abc import Callable

from infold.core.messages import calls_of, results_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_each_dialogue_is_a_session(read: Read) -> None:
    """Dialogues are named after task and trial, and their policy is the system prompt."""
    first, second = read("tau.json").sessions

    assert (first.id, second.id) == ("task-7-trial-1", "task-8-trial-1")
    assert first.system == "Sell train tickets."


def test_a_reused_call_id_is_made_unique(read: Read) -> None:
    """The later call has an id of its own and keeps its own result; the repair is noted."""
    transcript = read("tau.json")
    messages = transcript.sessions[0].messages

    assert [call.call_id for m in messages for call in calls_of(m)] == ["same", "same#2"]
    assert [(r.call_id, r.output) for m in messages for r in results_of(m)] == [("same", "09:10"), ("same#2", "booked")]
    assert [skip.repaired for skip in transcript.skipped] == [True]
