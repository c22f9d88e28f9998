"""A compaction carried out by messages is recognised by metadata alone."""

import pytest

from infold.core.log import (
    MessageIndex,
    checkpoint_from_foreign,
    is_finished_summary,
    request_answered_by,
    tail_start_id,
)
from infold.core.messages import AssistantMessage, Finish, Message, MessageId, TextPart, UserMessage
from infold.testing.builders import numbered, replies, requests_compaction, session, summary, user


@pytest.mark.parametrize(
    ("message", "finished"),
    [
        (summary(), True),
        (summary(finish="length"), True),
        (summary(finish=None), False),
        (summary(finish="error"), False),
        (summary(error="refused"), False),
        (replies("[Conversation Summary] not one"), False),
        (user(), False),
    ],
)
def test_only_a_summary_written_to_its_end_is_finished(message: Message, finished: bool) -> None:
    """S4.2, B26: a failed or unfinished summary is no boundary, and text that looks like one is none."""
    assert is_finished_summary(message) is finished


def spine_of(*drafts: Message) -> MessageIndex:
    """The storage of a session of these messages."""
    return session(*drafts).message_index


def test_a_summary_finds_the_request_it_answers() -> None:
    """S4.1: a finished summary answers the request that its parent id names."""
    message_index = spine_of(user(), requests_compaction())
    answer = AssistantMessage(
        MessageId("s"), (TextPart("so far"),), parent_id=MessageId("m1"), summary=True, finish="stop"
    )

    assert request_answered_by(answer, message_index) is message_index.items[1].message


@pytest.mark.parametrize("parent", [None, "m0", "elsewhere"])
def test_a_summary_of_no_request_answers_none(parent: str | None) -> None:
    """S4.1: without a parent, or with one that asked for nothing, a summary is no boundary."""
    parent_id = None if parent is None else MessageId(parent)
    answer = AssistantMessage(MessageId("s"), (TextPart("so far"),), parent_id=parent_id, summary=True, finish="stop")

    assert request_answered_by(answer, spine_of(user(), requests_compaction())) is None


@pytest.mark.parametrize(("wanted", "first_kept"), [("m2", 2), ("m3", 4), ("gone", None), (None, 5)])
def test_the_tail_begins_where_it_may(wanted: str | None, first_kept: int | None) -> None:
    """S4.1, B12: a foreign tail begins as it says, or at the next legal cut; without one, after the request."""
    finish: Finish = "stop"
    message_index = spine_of(
        user(), replies(), user(), requests_compaction(first_kept_id=wanted), replies("meanwhile"), user("and this")
    )
    request = message_index.items[3].message
    assert isinstance(request, UserMessage)
    answer = AssistantMessage(MessageId("s"), (TextPart("so far"),), summary=True, finish=finish)

    adopted = checkpoint_from_foreign(request, answer, message_index)

    assert (adopted.text, adopted.narrative, adopted.reason) == ("so far", "so far", "import")
    assert adopted.first_kept == (4 if wanted is None else first_kept)


def test_a_request_may_ask_for_no_tail() -> None:
    """S3.1: a request says where its tail begins only if it has one."""
    (plain,) = numbered([requests_compaction()])
    (with_tail,) = numbered([requests_compaction(first_kept_id="m7")])
    assert isinstance(plain, UserMessage)
    assert isinstance(with_tail, UserMessage)

    assert tail_start_id(plain) is None
    assert tail_start_id(with_tail) == "m7"
