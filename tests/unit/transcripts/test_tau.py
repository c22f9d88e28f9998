"""tau-bench and tau2-bench results."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, calls_of, results_of, text_of
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


def test_the_agent_does_not_see_the_customers_tools(read: Read) -> None:
    """The customer's calls are in the customer's own session, whose parent is the agent's."""
    agent, customer = read("tau2.json").sessions

    assert [r.output for m in agent.messages for r in results_of(m)] == ["line 5"]
    assert [(r.output, r.status) for m in customer.messages for r in results_of(m)] == [("Error: no battery", "error")]
    assert customer.parent == agent.id


def test_roles_are_those_of_the_side_that_reads(read: Read) -> None:
    """In the customer's session the customer's lines are replies and the agent's are the user's."""
    agent, customer = read("tau2.json").sessions
    theirs = [text_of(m) for m in customer.messages if isinstance(m, AssistantMessage) and text_of(m)]

    assert theirs == ["My phone is dead.", "There is none."]
    assert agent.system == "Mend phones."
    reply = agent.messages[2]
    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=100, output=10)
