"""Builders: sessions in the words of the domain."""

from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    ReasoningPart,
    ToolCallPart,
    calls_of,
    results_of,
    text_of,
)
from infold.core.policy import PRESETS
from infold.core.tokens import estimate
from infold.testing.builders import (
    calls,
    log_of,
    numbered,
    replies,
    requests_compaction,
    result,
    session,
    summary,
    tokens_of_text,
    user,
)


def test_equal_words_build_equal_sessions() -> None:
    """The same drafts give the same messages, ids included."""
    drafts: list[Message] = [user("hi"), calls("bash", "read"), result(9), result(output="x"), replies("done")]

    assert numbered(drafts) == numbered(drafts)
    assert [message.id for message in numbered(drafts, prefix="x")] == ["x0", "x1", "x2", "x3", "x4"]


def test_results_answer_the_oldest_open_call() -> None:
    """Results without a call id take the calls in order, with the tool's name."""
    messages = numbered([calls("bash", "read"), result(1), result(1)])
    answers = [results_of(message)[0] for message in messages[1:]]

    assert [answer.call_id for answer in answers] == [call.call_id for call in calls_of(messages[0])]
    assert [answer.tool for answer in answers] == ["bash", "read"]


def test_ids_that_are_given_stay() -> None:
    """A draft's own message and call ids are left as they are."""
    named = AssistantMessage(MessageId("mine"), (ToolCallPart("own", "bash", "{}"),))
    messages = numbered([named, result(1)])

    assert (messages[0], results_of(messages[1])[0].call_id) == (named, "own")


def test_a_result_too_many_stays_unpaired() -> None:
    """A result for which no call is open keeps its empty id, so that the log refuses it."""
    assert results_of(numbered([result(1)])[0])[0].call_id == ""


def test_a_summary_answers_the_newest_request() -> None:
    """A summary's parent is the request before it, unless it names one."""
    asked = numbered([user(), requests_compaction(first_kept_id="m0"), summary("s")])
    named = numbered([requests_compaction(), replace(summary(), parent_id=MessageId("other"))])[1]

    assert isinstance(asked[2], AssistantMessage)
    assert isinstance(named, AssistantMessage)
    assert (asked[2].parent_id, named.parent_id) == ("m1", "other")
    assert numbered([summary()])[0] == replace(summary(), id=MessageId("m0"))


def test_text_has_the_tokens_asked_for() -> None:
    """Text is made to measure by the documents' rules."""
    assert estimate(tokens_of_text(137), "ceil") == estimate(tokens_of_text(137), "round") == 137
    assert estimate(results_of(result(50))[0].output, "ceil") == 50


def test_a_reply_may_have_thought_first() -> None:
    """Reasoning stands before the words of a reply, and nowhere if there was none."""
    assert replies("done", reasoning="hm").parts[0] == ReasoningPart("hm")
    assert len(replies("done").parts) == 1


def test_a_session_is_a_log_under_a_policy() -> None:
    """A session takes its way of sizing and stubbing from the policy, and offers recall only if told."""
    policy = PRESETS["opencode-1.1.57"]
    log = session(user("hi"), replies(), policy=policy, recall=True)

    assert (log.rendering.estimate, log.rendering.stub, log.rendering.recall) == ("ceil", policy.stub, True)
    assert [text_of(placed.message) for placed in log.live] == ["hi", "done"]
    assert not log_of(numbered([user()])).rendering.recall
