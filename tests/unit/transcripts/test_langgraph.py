"""LangGraph thread states."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, SystemMessage, Usage, is_genuine_user, results_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_a_reply_keeps_usage_model_and_reasoning(read: Read) -> None:
    """LangChain's input includes the cache and its output the reasoning; ours do not."""
    reply = read("langgraph.json").sessions[0].messages[2]

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=40, output=15, reasoning=5, cache_read=60, total=120)
    assert reply.model is not None
    assert reply.model.provider == "deepseek"


def test_results_and_system_messages_keep_their_place(read: Read) -> None:
    """A system message in the middle stays there; a failed tool is an error."""
    messages = read("langgraph.json").sessions[0].messages
    (result,) = results_of(messages[3])

    assert isinstance(messages[1], SystemMessage)
    assert (result.tool, result.status) == ("web_search", "error")


def test_a_middlewares_summary_is_a_compaction(read: Read) -> None:
    """The summary is synthetic and recorded as a compaction."""
    session = read("langgraph.json").sessions[0]

    assert [compaction.position for compaction in session.compactions] == [4]
    assert sum(is_genuine_user(message) for message in session.messages) == 1
