"""OpenHands completion logs."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, calls_of, results_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_the_response_is_the_last_reply_with_usage(read: Read) -> None:
    """The response follows the request's messages, with cost, and usage less what the cache served."""
    session = read("openhands-completion.json").sessions[0]
    reply = session.messages[-1]

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=300, output=50, cache_read=700, total=1050)
    assert (reply.cost, reply.finish, [call.call_id for call in calls_of(reply)]) == (0.25, "tool-calls", ["w2"])


def test_the_requests_messages_are_the_session(read: Read) -> None:
    """System prompt, tools and results are read from the request."""
    session = read("openhands-completion.json").sessions[0]

    assert session.system == "You are an agent."
    assert "execute_bash" in session.tools
    assert [result.output for m in session.messages for result in results_of(m)] == ["silence"]
