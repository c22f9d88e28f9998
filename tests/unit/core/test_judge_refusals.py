"""Answers that decline to summarise."""

import pytest

from infold.core.entries import Verdict
from infold.core.judge import LONGEST_REFUSAL, Answer, judge
from infold.core.messages import Message
from infold.testing.builders import numbered, replies, user

HEAD = numbered((user("Port the parser."), replies("The parser was ported.")))


def verdict(text: str, head: tuple[Message, ...] = HEAD) -> Verdict:
    """What the judge says of an answer."""
    return judge(Answer(text), head, replaced_tokens=5_000, answer_tokens=50)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that request.",
        "I’m very sorry; this is not something I do.",
        "I am sorry, there is nothing I can say.",
        "Sorry, the record is not something I can describe.",
        "I cannot summarise this conversation for you.",
        "I can't assist with that, as it is against the rules.",
        "i can not do that for reasons of policy",
        "I'm unable to continue with this conversation.",
        "I am not able to provide a summary of this.",
        "As an AI model I do not write such notes at all.",
        "Unfortunately, I have to decline to write these notes.",
        "Je suis désolé, mais je ne peux pas résumer cela.",
        "Es tut mir leid, dabei kann ich nicht helfen.",
        "Lo siento, no puedo ayudar con esta petición.",
        "抱歉，我无法总结这段对话内容，请换一种方式提问。",
        "申し訳ありませんが、この会話を要約することはできません。",
        "죄송하지만 이 대화를 요약할 수 없습니다. 양해 부탁드립니다.",
        "<thinking>They ask for notes.</thinking> I'm sorry, but I can't help with that.",
    ],
)
def test_a_refusal_is_no_summary(text: str) -> None:
    """B5: a short answer that begins by declining is rejected as refused, in whatever language, after a scratchpad or not."""
    found = verdict(text)

    assert not found.is_accepted
    assert found.faults == ("refused",)


@pytest.mark.parametrize(
    "text",
    [
        "The parser was ported; the model said 'I'm sorry, I can't' once and then did it.",
        "The user is sorry that the parser was not ported sooner.",
        "The parser was ported. I cannot say more from the record.",
    ],
)
def test_a_summary_may_quote_a_refusal(text: str) -> None:
    """B5: only an answer that begins by declining is one."""
    assert verdict(text).is_accepted


def test_a_long_answer_is_read_to_its_end() -> None:
    """B5: models decline briefly; a long answer that opens with an apology is judged by what it says."""
    opening = "Sorry, the record is long, so these notes are brief. "
    long = opening + "The parser was ported. " * (LONGEST_REFUSAL // 20)

    assert len(long) > LONGEST_REFUSAL
    assert verdict(long).is_accepted


def test_a_refusal_is_told_before_its_brevity() -> None:
    """B5: where an answer is both short and a refusal, the fault says what happened."""
    assert verdict("I can't.").faults == ("refused",)
    assert verdict("ported").faults == ("too-short",)
