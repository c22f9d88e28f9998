"""What infold says as Responses input items."""

import pytest

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.formats.codec import json_text
from infold.formats.openai_responses import BLANK_IMAGE, decode, encode, encode_new

HERE = MessageId("x")


def test_text_is_an_easy_message() -> None:
    """Text needs no ids: the short form of a message is enough."""
    assert encode_new(UserMessage(HERE, (TextPart("a"), TextPart("b")))) == [{"role": "user", "content": "a\nb"}]
    assert encode_new(SystemMessage(HERE, (TextPart("a"),))) == [{"role": "system", "content": "a"}]
    assert encode_new(UserMessage(HERE, ())) == []


def test_a_reply_is_reasoning_then_text_then_calls() -> None:
    """The provider's own reasoning goes first, as it came; another provider's stays away."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    parts = (
        TextPart("t"),
        ToolCallPart("a", "f", "{}"),
        ReasoningPart("", json_text(reasoning)),
        ReasoningPart("x", json_text("sig")),
    )
    assert encode_new(AssistantMessage(HERE, parts)) == [
        reasoning,
        {"role": "assistant", "content": "t"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    ]


def test_results_come_before_text() -> None:
    """Results under the user's role stand before what is said."""
    message = UserMessage(HERE, (TextPart("t"), ToolResultPart("a", "f", "out")))
    assert [item.get("type") for item in encode_new(message)] == ["function_call_output", None]


def test_images_with_an_address_are_shown() -> None:
    """A medium whose bytes are gone is named in words, one with an address is linked."""
    files = (FilePart("image/png", 1, reference="https://example.org/a.png"), FilePart("image/png", 1, "b.png"))
    assert encode_new(UserMessage(HERE, files))[0]["content"] == [
        {"type": "input_text", "text": "[image/png b.png]"},
        {"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"},
    ]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("custom_tool_call", {"call_id": "a", "output": "gone"}),
        ("local_shell_call", {"id": "a", "output": "gone"}),
        ("computer_call", {"call_id": "a", "output": {"type": "computer_screenshot", "image_url": BLANK_IMAGE}}),
        ("apply_patch_call", {"call_id": "a", "output": "gone", "status": "failed"}),
        (
            "shell_call",
            {"call_id": "a", "output": [{"stdout": "gone", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]},
        ),
    ],
)
def test_each_kind_of_call_gets_its_kind_of_output(kind: str, fields: dict[str, object]) -> None:
    """An interrupted call is answered in the kind the provider wants; the caller's own answers stay as they are."""
    own = ToolMessage(HERE, (ToolResultPart("a", kind, "gone", "interrupted"),))
    theirs = {"type": "function_call_output", "call_id": "b", "output": "x"}
    calls = [{"type": kind, "call_id": "a"}, {"type": "local_shell_call", "call_id": "b"}]
    decoded = decode([*calls, theirs])

    encoded = encode([decoded.messages[0], own, decoded.messages[1]], decoded)

    assert encoded[2] == {"type": f"{kind}_output", **fields}
    assert encoded[3] is theirs


def test_outputs_stand_in_the_order_of_their_calls() -> None:
    """B12: infold's answer stands where its call does, though the caller's answers around it were one message."""
    calls = [{"type": "function_call", "call_id": one, "name": "read", "arguments": "{}"} for one in "abc"]
    theirs = [{"type": "function_call_output", "call_id": one, "output": one} for one in "ac"]
    decoded = decode([*calls, *theirs])
    own = ToolMessage(HERE, (ToolResultPart("b", "read", "gone", "interrupted"),))

    encoded = encode([*decoded.messages, own], decoded)

    assert [item["call_id"] for item in encoded[3:] if isinstance(item, dict)] == ["a", "b", "c"]
    assert encoded[3] is theirs[0]
    assert encoded[5] is theirs[1]


def test_media_with_bytes_are_blocks() -> None:
    """B35: an image and a PDF whose bytes are at hand are sent as such, in messages and results; other media are named."""
    image = FilePart("image/png", 9, reference="data:image/png;base64,AAAA", digest="d")
    paper = FilePart("application/pdf", 9, "a.pdf", "data:application/pdf;base64,AAAA", digest="e")
    sound = FilePart("audio/ogg", 9, reference="data:audio/ogg;base64,AAAA", digest="f")
    blocks = [
        {"type": "input_text", "text": "see\n[audio/ogg]"},
        {"type": "input_image", "detail": "auto", "image_url": image.reference},
        {"type": "input_file", "filename": "a.pdf", "file_data": paper.reference},
    ]

    assert encode_new(UserMessage(HERE, (TextPart("see"), image, paper, sound))) == [
        {"role": "user", "content": blocks}
    ]
    result = ToolMessage(HERE, (ToolResultPart("c", "shot", "see", files=(image, paper, sound)),))
    assert encode_new(result) == [{"type": "function_call_output", "call_id": "c", "output": blocks}]


def test_outputs_of_other_calls_are_text() -> None:
    """B12, B35: a call of a kind whose output takes no media is answered with the text alone."""
    image = FilePart("image/png", 9, reference="data:image/png;base64,AAAA", digest="d")
    decoded = decode([{"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}])
    result = ToolMessage(HERE, (ToolResultPart("c", "local_shell", "done", files=(image,)),))

    assert encode([*decoded.messages, result], decoded)[-1] == {
        "type": "local_shell_call_output",
        "id": "c",
        "output": "done",
    }
