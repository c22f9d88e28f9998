"""What infold says as Chat Completions messages."""

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
)
from infold.formats.openai_chat import encode_new


def test_new_messages_have_their_plainest_form() -> None:
    """What infold says is plain text where it can be; results and text under one role become several items."""
    mixed = UserMessage(
        MessageId("x"),
        (
            TextPart("hi"),
            ToolResultPart("a", "bash", "out"),
            TextPart("hidden", ignored=True),
            FilePart("image/png", 9, "a.png"),
        ),
    )
    assert encode_new(mixed) == [
        {"role": "tool", "tool_call_id": "a", "content": "out"},
        {"role": "user", "content": "hi\n[image/png a.png]"},
    ]
    image = FilePart("image/png", 9, reference="https://example.org/a.png")
    assert encode_new(UserMessage(MessageId("x"), (image,)))[0]["content"][1]["type"] == "image_url"
    assert encode_new(AssistantMessage(MessageId("x"), (ReasoningPart("hm"),))) == []
    assert encode_new(SystemMessage(MessageId("x"), (TextPart("s"),))) == [{"role": "system", "content": "s"}]


def test_a_reply_that_calls_may_have_no_text() -> None:
    """Calls stand beside text or without it."""
    call = ToolCallPart("a", "bash", "{}")
    body = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    assert encode_new(AssistantMessage(MessageId("x"), (call,))) == [
        {"role": "assistant", "content": None, "tool_calls": [body]}
    ]
    assert encode_new(AssistantMessage(MessageId("x"), (TextPart("t"), call)))[0]["content"] == "t"
