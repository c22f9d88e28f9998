"""What infold says as Anthropic Messages."""

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    MessageId,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    UserMessage,
)
from infold.formats.anthropic import encode_new
from infold.formats.codec import json_text

HERE = MessageId("x")


def test_new_media_are_linked_or_named() -> None:
    """Images and PDFs with an address are linked, other media named in words."""
    files = [
        FilePart("image/png", 1, reference="https://example.org/a.png"),
        FilePart("application/pdf", 1, reference="https://example.org/a.pdf"),
        FilePart("audio/wav", 1, "a.wav"),
    ]
    assert [block["type"] for block in encode_new(UserMessage(HERE, tuple(files)))[0]["content"]] == [
        "image",
        "document",
        "text",
    ]
    assert encode_new(AssistantMessage(HERE, (ReasoningPart("hm"),))) == []


def test_only_its_own_thinking_goes_back() -> None:
    """Another provider's sealed reasoning is left out; calls are objects."""
    parts = (
        ReasoningPart("", json_text({"type": "reasoning"})),
        StepStartPart(),
        TextPart("t"),
        ToolCallPart("a", "f", '{"b":1}'),
    )
    assert encode_new(AssistantMessage(HERE, parts)) == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "t"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1}}],
        }
    ]
