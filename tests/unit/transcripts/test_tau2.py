"""tau2-bench results."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, results_of, text_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


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
