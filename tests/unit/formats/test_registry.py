"""The formats by name and by what they look like."""

import time
from typing import Any

import msgspec
import pytest
from tests.support.provider_rules import problems

from infold.core.messages import calls_of, results_of
from infold.errors import BrokenInput, UnknownFormat
from infold.formats.registry import (
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


@pytest.mark.parametrize("wrong", [{"content": "oops"}, {"role": "usr", "content": "x"}])
def test_the_item_that_fits_no_format_is_named(wrong: dict[str, str]) -> None:
    """One wrong item among hundreds is found without searching."""
    with pytest.raises(UnknownFormat, match="item 321 of these messages"):
        detect([{"role": "user", "content": "a"}] * 321 + [wrong] + [{"role": "user", "content": "a"}] * 9)


def test_the_item_that_is_no_object_is_named() -> None:
    """The same for what is no message at all."""
    with pytest.raises(BrokenInput, match="item 2: None stands where an object belongs"):
        detect([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, None])


def test_items_of_different_formats_are_told() -> None:
    """Each item alone would do; together they are in no format."""
    with pytest.raises(UnknownFormat, match="different formats"):
        detect([{"role": "user", "content": "x"}, {"role": "model", "parts": [{"text": "y"}]}])


@pytest.mark.parametrize("messages", [iter(()), "hello", {"role": "user"}])
def test_what_is_no_list_is_refused(messages: Any) -> None:
    """A generator, a text and a lone message are told as what they are."""
    with pytest.raises(BrokenInput, match="give a list of messages"):
        detect(messages)


def test_calls_of_another_format_are_no_anthropic_messages() -> None:
    """A call as OpenAI writes it, answered as Anthropic does, is refused by its place and never dropped."""
    call = {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    items = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    ]

    with pytest.raises(BrokenInput, match="item 1: it calls tools as OpenAI"):
        detect(items).decode(items)
    with pytest.raises(BrokenInput, match="item 0: it calls tools as OpenAI"):
        ANTHROPIC_MESSAGES.decode([{"role": "assistant", "function_call": {"name": "x", "arguments": "{}"}}])


@pytest.mark.parametrize(
    ("wire", "items"),
    [
        (
            OPENAI_CHAT,
            [
                {"role": "assistant", "tool_calls": [{"id": 1, "type": "function", "function": {"name": "x"}}]},
                {"role": "tool", "tool_call_id": 1, "content": "a"},
            ],
        ),
        (
            ANTHROPIC_MESSAGES,
            [
                {"role": "assistant", "content": [{"type": "tool_use", "id": 1, "name": "x", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": 1, "content": "a"}]},
            ],
        ),
        (
            OPENAI_RESPONSES,
            [
                {"type": "function_call", "call_id": 1, "name": "x", "arguments": "{}"},
                {"type": "function_call_output", "call_id": 1, "output": "a"},
            ],
        ),
    ],
)
def test_ids_that_are_numbers_pair(wire: WireFormat, items: list[Any]) -> None:
    """A result finds its call where both name it by a number."""
    items = [{"role": "user", "content": "go"}, *items]
    _, calls, results = wire.decode(items).messages

    assert [call.call_id for call in calls_of(calls)] == [result.call_id for result in results_of(results)] == ["1"]
    assert problems(wire, items) == ()


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


@pytest.mark.parametrize(
    ("wire", "items", "problem"),
    [
        (ANTHROPIC_MESSAGES, [{"role": "user", "content": "a"}, None], "item 1: None"),
        (ANTHROPIC_MESSAGES, [{"role": "user", "content": 3}], "item 0: content is an int"),
        (ANTHROPIC_MESSAGES, [{"content": "x"}], "item 0: it has no role"),
        (
            ANTHROPIC_MESSAGES,
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": 3}]}],
            "item 0: content of a tool_result is an int",
        ),
        (ANTHROPIC_MESSAGES, [{"role": "user", "content": [3]}], "item 0: an int"),
        (OPENAI_CHAT, [{"role": "user", "content": "a"}, 3], "item 1: an int"),
        (OPENAI_CHAT, [{"role": "user", "content": 3}], "item 0: content is an int"),
        (OPENAI_CHAT, [{"content": "x"}], "item 0: it has no role"),
        (OPENAI_CHAT, [{"role": "assistant", "tool_calls": "x"}], "item 0: tool_calls is a str"),
        (OPENAI_CHAT, [{"role": "user", "content": [3]}], "item 0: an int"),
        (OPENAI_CHAT, "hi", "not a list"),
        (OPENAI_RESPONSES, [{"role": "user", "content": "a"}, 3], "item 1: an int"),
        (
            OPENAI_RESPONSES,
            [{"role": "user", "content": "a"}, {"role": "user", "content": 3}],
            "item 1: content is an int",
        ),
        (OPENAI_RESPONSES, [{"content": "x"}], "item 0: it has neither a type nor a role"),
        (OPENAI_RESPONSES, [{"type": "function_call_output", "output": 3}], "item 0: output is an int"),
        (OPENAI_RESPONSES, "hi", "not a list"),
        (GEMINI, ["hi"], "item 0: a str"),
        (GEMINI, [{"role": "user", "text": "x"}], "item 0: it has no parts"),
        (GEMINI, [{"role": "user", "parts": 3}], "item 0: parts is an int"),
        (GEMINI, [{"role": "user", "parts": [3]}], "item 0: an int"),
    ],
)
def test_wrong_types_are_named(wire: WireFormat, items: Any, problem: str) -> None:
    """An item of a wrong type is refused with its place, the problem and what to do."""
    with pytest.raises(BrokenInput, match=problem):
        wire.decode(items)
