"""Readings and replacements shared by formats."""

import pytest

from infold.core.messages import FilePart, ReasoningPart, StepStartPart, TextPart, ToolCallPart, ToolResultPart
from infold.formats.codec import (
    arguments_of,
    left_text,
    opaque_value,
    parsed_arguments,
    provider_value,
    replaced_content,
    unpacked_input,
)
from infold.formats.registry import format_named


@pytest.mark.parametrize(
    ("given", "text"), [('{"a"', '{"a"'), ({"a": 1}, '{"a":1}'), (None, "{}"), ("\ud800", "\ufffd")]
)
def test_arguments_are_text(given: object, text: str) -> None:
    """Arguments are what the model wrote, broken or not; parsed ones become JSON again."""
    assert arguments_of(given) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1}', {"a": 1}),
        ("[1]", {"arguments": [1]}),
        ("{", {"arguments": "{"}),
        ("[" * 9_999, {"arguments": "[" * 9_999}),
    ],
)
def test_arguments_are_an_object_again(text: str, value: dict[str, object]) -> None:
    """What is no object is wrapped, for the wire takes nothing else."""
    assert parsed_arguments(text) == value


def test_free_text_is_unpacked() -> None:
    """A custom tool's text stands in the field `input`, whatever that holds."""
    assert unpacked_input(ToolCallPart("a", "t", '{"input":"x"}')) == "x"
    assert unpacked_input(ToolCallPart("a", "t", '{"input":{"b":1}}')) == '{"b":1}'


def test_what_is_left_is_joined() -> None:
    """Texts of all kinds join; parts that are gone or have none add nothing."""
    parts = (
        TextPart("a"),
        None,
        ReasoningPart("b"),
        ToolCallPart("x", "t", "c"),
        ToolResultPart("x", "t", "d"),
        StepStartPart(),
    )
    assert left_text(parts) == "abcd"


def test_replaced_content_keeps_chosen_media() -> None:
    """Text lends its fields to the new text, media stay while the part has them, empty text has no block."""
    file = FilePart("image/png", 1)
    content = [{"type": "text", "text": "long", "x": 1}, {"type": "image"}]

    def read(block: object) -> tuple[FilePart | TextPart, ...]:
        return (file,) if block == {"type": "image"} else (TextPart("long"),)

    kept = ToolResultPart("a", "t", "s", files=(file,))
    assert replaced_content(content, kept, read, text_type="text") == [
        {"type": "text", "text": "s", "x": 1},
        {"type": "image"},
    ]
    assert replaced_content(["bare"], ToolResultPart("a", "t", "s"), read, text_type="t") == [
        {"type": "t", "text": "s"}
    ]
    assert replaced_content(content, ToolResultPart("a", "t", ""), read, text_type="text") == []


@pytest.mark.parametrize(("data", "value"), [("", None), ('"s"', "s"), ("{", None)])
def test_provider_data_is_parsed_with_tolerance(data: str, value: object) -> None:
    """Damaged provider data is as good as none."""
    assert provider_value(ReasoningPart("", data)) == value


@pytest.mark.parametrize(
    ("wire", "block"),
    [
        ("anthropic-messages", {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        ("openai-responses", {"type": "mcp_approval_request", "id": "a1", "name": "x"}),
        ("gemini", {"toolCall": {"id": "t1", "toolType": "SEARCH"}}),
    ],
)
def test_an_opaque_block_without_its_source_is_the_same_block(wire: str, block: dict[str, object]) -> None:
    """B30: a session that is opened again by its new messages alone sends what infold does not know as it came."""
    known = format_named(wire)
    item = {"role": "model", "parts": [block]} if wire == "gemini" else block
    if wire == "anthropic-messages":
        item = {"role": "assistant", "content": [block]}
    message = known.decode([item]).messages[0]

    assert known.encode_new(message) == [item]


@pytest.mark.parametrize("text", ["no JSON", "[1]", '{"role": "critic"}'])
def test_what_is_no_block_stays_text(text: str) -> None:
    """An opaque part that is no block of its own is shown as its JSON."""
    part = TextPart(text, synthetic=True, opaque=True)

    assert (opaque_value(part), opaque_value(TextPart('{"type": "x"}'))) == ({}, {})
