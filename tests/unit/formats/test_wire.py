"""The formats by name and by what they look like."""

import time
from typing import Any

import msgspec
import pytest

from infold.errors import BrokenInput, UnknownFormat
from infold.formats.wire import (
    ANTHROPIC_MESSAGES,
    FORMATS,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    WireFormat,
    detect,
    format_named,
)

MICROSECONDS_A_MESSAGE = 100
"""Thirty times what it takes on an idle core, so that only a change of kind fails, even under coverage."""


@pytest.mark.parametrize("wire", FORMATS)
def test_every_format_is_found_by_name(wire: WireFormat) -> None:
    """Names are unique and lead to their format."""
    assert format_named(wire.name) is wire


def test_an_unknown_name_lists_the_known() -> None:
    """A wrong name is told with the right ones."""
    with pytest.raises(UnknownFormat, match="openai-chat"):
        format_named("openai")


@pytest.mark.parametrize(
    ("items", "wire"),
    [
        ([{"role": "user", "content": "x"}], OPENAI_CHAT),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}, {"role": "tool", "content": "x"}], OPENAI_CHAT),
        ([{"role": "user", "content": "x"}, {"type": "function_call", "call_id": "a"}], OPENAI_RESPONSES),
        (
            [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "tool_result"}]}],
            ANTHROPIC_MESSAGES,
        ),
        ([b'{"role":"user","parts":[{"text":"x"}]}'], GEMINI),
    ],
)
def test_marks_tell_the_format(items: list[Any], wire: WireFormat) -> None:
    """One mark anywhere is enough; what has none is chat."""
    assert detect(items) is wire


def test_what_is_in_no_format_is_told() -> None:
    """Items of no format and items that are none are different errors."""
    with pytest.raises(UnknownFormat, match="name the format"):
        detect([{"speaker": "ann", "said": "x"}])
    with pytest.raises(BrokenInput, match="give a dict"):
        detect([3])


def nested(depth: int) -> dict[str, Any]:
    """An object inside an object, and so on."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("wire", "item"),
    [
        (OPENAI_CHAT, {"role": "user", "content": [{"type": "?", "x": nested(50_000)}]}),
        (OPENAI_CHAT, b'{"role":"user","content":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
        (OPENAI_RESPONSES, {"type": "shell_call", "call_id": "a", "action": nested(50_000)}),
        (ANTHROPIC_MESSAGES, {"role": "assistant", "content": [{"type": "tool_use", "input": nested(50_000)}]}),
        (GEMINI, {"role": "model", "parts": [{"functionCall": {"name": "f", "args": nested(50_000)}}]}),
    ],
)
def test_depth_is_told_and_not_fallen_into(wire: WireFormat, item: object) -> None:
    """What is nested too deep is refused by name; no recursion error escapes."""
    with pytest.raises(BrokenInput, match="item 0: nested too deep"):
        wire.decode([item])
    with pytest.raises(BrokenInput, match="nested too deep"):
        wire.tools_text({"tools": [nested(50_000)]})


@pytest.mark.slow
@pytest.mark.parametrize("wire", FORMATS)
def test_plain_text_is_quick(wire: WireFormat) -> None:
    """Ten thousand plain messages decode and encode in microseconds each."""
    roles = ("user", "model" if wire is GEMINI else "assistant")
    text = "Some text of moderate length, as people write it. " * 8
    body: dict[str, Any] = {"parts": [{"text": text}]} if wire is GEMINI else {"content": text}
    items = [{"role": roles[number % 2], **body} for number in range(10_000)]

    started = time.process_time()
    decoded = wire.decode(items)
    encoded = wire.encode(decoded.messages, decoded)
    spent = time.process_time() - started

    assert len(encoded) == len(items)
    assert spent / len(items) * 1e6 < MICROSECONDS_A_MESSAGE
    assert msgspec.json.encode(encoded) == msgspec.json.encode(items)
