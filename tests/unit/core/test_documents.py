"""Parts as documents for recall."""

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.recall import LONGEST_TITLE, Document, documents_of


def documents(*messages: Message) -> list[Document]:
    """The documents of messages numbered from 0."""
    return list(documents_of(enumerate(messages)))


def said(*parts: Part) -> Message:
    """A reply of these parts."""
    return AssistantMessage(MessageId("a"), parts)


def answered(*parts: Part) -> Message:
    """Results."""
    return ToolMessage(MessageId("t"), parts)


def test_words_are_documents() -> None:
    """Text and thoughts are found under their handles; what is blank or has no words is not."""
    user = UserMessage(MessageId("u"), (TextPart("hello"), TextPart(" ")))

    assert documents(user, said(StepStartPart(), ReasoningPart("hm"), TextPart("hi"))) == [
        Document("0.0", "hello"),
        Document("1.1", "hm", kind="own"),
        Document("1.2", "hi", kind="own"),
    ]


def test_a_short_call_stands_above_its_result() -> None:
    """A result is titled with the call it answers and how it ended."""
    call = ToolCallPart("c", "bash", '{"command": "make\\ttest", "limits": [1, null, {"deep": true}]}')
    result = ToolResultPart("c", "bash", "2 failed", exit_status=2)

    assert documents(said(call), answered(result)) == [
        Document("1.0", "2 failed", "bash command: make test limits: 1 limits: deep: True → exit 2")
    ]


def test_a_long_call_is_a_document_too() -> None:
    """What does not fit above a result is found by itself, decoded."""
    call = ToolCallPart("c", "write", '{"path": "a.py", "content": "' + "x = 1\\n" * 100 + '"}')
    found = documents(said(call), answered(ToolResultPart("c", "write", "ok")))

    assert [document.handle for document in found] == ["0.0", "1.0"]
    assert found[0].text.startswith("path: a.py\ncontent: x = 1\nx = 1")
    assert len(found[1].title) == LONGEST_TITLE


def test_a_call_without_an_answer_is_found() -> None:
    """A call that was never answered, with arguments that are no JSON, is a document as it stands."""
    assert documents(said(ToolCallPart("c", "bash", "not json"))) == [Document("0.0", "not json", "bash", "own")]


def test_a_result_without_its_call_is_found() -> None:
    """A result whose call is not among the messages is titled by its tool and status."""
    assert documents(answered(ToolResultPart("c", "bash", "no", status="error"))) == [
        Document("0.0", "no", "bash → error")
    ]
