"""Responses input items."""

from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.responses import ResponseFunctionToolCall

from infold.core.messages import (
    AssistantMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    is_signed,
)
from infold.errors import BrokenInput
from infold.formats.openai_responses import decode, encode, looks_like

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "g",
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "ok", "annotations": []}],
}
CALL = {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"command":"ls"}', "id": "fc_1"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "out"}


def altered(items: list[Any], place: int, *parts: Any) -> list[object]:
    """The items of one message after its parts changed."""
    decoded = decode(items)
    return encode([replace(decoded.messages[place], parts=parts)], decoded)


def test_neighbours_of_one_side_are_one_message() -> None:
    """What the model did in a step is one message, what the tools answered another."""
    second = {**CALL, "call_id": "b", "id": "fc_2"}
    items = [{"role": "user", "content": "u"}, REASONING, SAID, CALL, second, OUTPUT, {**OUTPUT, "call_id": "b"}, SAID]
    decoded = decode(items, first=3)
    kinds = [UserMessage, AssistantMessage, ToolMessage, AssistantMessage]
    assert [type(message) for message in decoded.messages] == kinds
    assert [message.id for message in decoded.messages] == ["m3", "m4", "m5", "m6"]
    assert [len(sources) for sources in decoded.sources] == [1, 4, 2, 1]
    assert [type(part) for part in decoded.messages[1].parts] == [ReasoningPart, TextPart, ToolCallPart, ToolCallPart]


def test_neighbouring_users_stay_apart() -> None:
    """User and system items are messages of their own."""
    items = [{"role": role, "content": "x"} for role in ("developer", "system", "user", "user")]
    kinds = [SystemMessage, SystemMessage, UserMessage, UserMessage]
    assert [type(message) for message in decode(items).messages] == kinds


def test_reasoning_binds_its_message() -> None:
    """Encrypted reasoning is provider data, and its whole item is kept."""
    message = decode([REASONING, CALL]).messages[0]
    assert is_signed(message)
    assert '"encrypted_content":"g"' in message.parts[0].provider_data  # type: ignore[union-attr]
    assert message.parts[0].text == "hm"  # type: ignore[union-attr]


def test_compaction_items_are_opaque_provider_data() -> None:
    """What the provider itself compacted cannot be read, only given back."""
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "g"}
    message = decode([item]).messages[0]
    note, sealed = message.parts
    assert isinstance(note, TextPart)
    assert note.synthetic
    assert isinstance(sealed, ReasoningPart)
    assert is_signed(message)
    assert altered([item], 0, note) == [item]


@pytest.mark.parametrize(
    ("call", "tool", "arguments", "changed"),
    [
        ({"type": "custom_tool_call", "name": "patch", "input": "x"}, "patch", '{"input":"x"}', {"input": "y"}),
        (
            {"type": "local_shell_call", "action": {"command": "x"}},
            "local_shell",
            '{"command":"x"}',
            {"action": {"command": "y"}},
        ),
        (
            {"type": "shell_call", "action": {"commands": "x"}},
            "shell",
            '{"commands":"x"}',
            {"action": {"commands": "y"}},
        ),
        (
            {"type": "apply_patch_call", "operation": {"diff": "x"}},
            "apply_patch",
            '{"diff":"x"}',
            {"operation": {"diff": "y"}},
        ),
        (
            {"type": "function_call", "name": "f", "arguments": '{"a":"x"}'},
            "f",
            '{"a":"x"}',
            {"arguments": '{"a":"y"}'},
        ),
    ],
)
def test_every_kind_of_call_is_a_call(call: dict[str, Any], tool: str, arguments: str, changed: dict[str, Any]) -> None:
    """Calls of all kinds have a tool and arguments, and changed arguments go where they came from."""
    item = {**call, "call_id": "a", "status": "completed"}
    part = decode([item]).messages[0].parts[0]
    assert part == ToolCallPart("a", tool, arguments)
    assert altered([item], 0, replace(part, arguments=arguments.replace('"x"', '"y"'))) == [{**item, **changed}]


def test_results_and_media_may_become_text() -> None:
    """A late or orphan result that is shown as text is a message of its own, a left-out medium is a note."""
    note = {"role": "user", "content": "late"}
    assert altered([CALL, OUTPUT], 1, TextPart("late")) == [note]
    assert altered([OUTPUT], 0, TextPart("late")) == [note]
    image = {"type": "input_image", "image_url": "https://example.org/a.png"}
    for block in (image, {"type": "hologram"}):
        assert altered([{"role": "user", "content": [block]}], 0, TextPart("[left out]")) == [
            {"role": "user", "content": [{"type": "input_text", "text": "[left out]"}]}
        ]
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}, {"type": "hologram"}]}
    parts = decode([refusal]).messages[0].parts
    assert altered([refusal], 0, TextPart("n"), TextPart("?")) == [
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "n"}, {"type": "hologram"}]}
    ]
    assert altered([{"type": "zebra"}], 0, replace(parts[1], text="?")) == [{"type": "zebra"}]


def test_only_the_changed_item_of_a_message_is_copied() -> None:
    """Items of a message beside the changed one are the caller's own."""
    items = [REASONING, SAID, CALL]
    parts = decode(items).messages[0].parts
    new = altered(items, 0, parts[0], parts[1], replace(parts[2], arguments="{}"))
    assert new[0] is REASONING
    assert new[1] is SAID
    assert new[2] == {**CALL, "arguments": "{}"}
    assert altered(items, 0, parts[2]) == [CALL]


def test_text_keeps_its_annotations() -> None:
    """Clipped text stands in the block it came from."""
    assert altered([SAID], 0, TextPart("o")) == [
        {**SAID, "content": [{"type": "output_text", "text": "o", "annotations": []}]}
    ]
    assert altered([{"role": "user", "content": "long", "x": 1}], 0, TextPart("l")) == [
        {"role": "user", "content": "l", "x": 1}
    ]
    assert altered([SAID], 0, TextPart("")) == []


def test_server_tools_and_unknown_items_are_opaque() -> None:
    """What infold has no reading for counts by its JSON, on the side it is from."""
    items = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "zebra"},
        {"type": "tool_search_output", "call_id": "t"},
    ]
    decoded = decode([*items, {"type": "additional_tools", "role": "developer"}])
    assert [type(message) for message in decoded.messages] == [AssistantMessage, ToolMessage, SystemMessage]
    assert all(part.synthetic for message in decoded.messages for part in message.parts if isinstance(part, TextPart))


def test_orphans_are_text_and_sdk_objects_are_read() -> None:
    """An output without a call is text; an SDK's call object is a call."""
    assert decode([OUTPUT]).messages[0].parts == (TextPart("out", synthetic=True),)
    call = ResponseFunctionToolCall.model_validate(CALL)
    decoded = decode([call, OUTPUT])
    assert decoded.messages[1].parts == (ToolResultPart("a", "bash", "out"),)
    assert encode(decoded.messages, decoded)[0] is call


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([SAID, 3], "item 1: an int"),
        ([SAID, {"role": "user", "content": 3}], "item 1: content is an int"),
        ([{"content": "x"}], "item 0: it has neither a type nor a role"),
        ([{"type": "function_call_output", "output": 3}], "item 0: output is an int"),
        ("hi", "not a list"),
    ],
)
def test_wrong_types_are_named(items: Any, problem: str) -> None:
    """An item of a wrong type is refused with its place, the problem and what to do."""
    with pytest.raises(BrokenInput, match=problem):
        decode(items)


@pytest.mark.parametrize(
    "items", [[REASONING], [SAID], [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], [OUTPUT]]
)
def test_items_and_blocks_of_its_own_tell_the_format(items: list[object]) -> None:
    """One item or block that no other format has is enough."""
    assert looks_like(items)
    assert not looks_like([{"role": "user", "content": "x"}, {"type": "human", "content": "x"}])


def test_several_actions_of_a_computer_are_counted() -> None:
    """B30: a computer call of either shape is a call, with what it asks for as its arguments."""
    call = {"type": "computer_call", "call_id": "c", "actions": [{"type": "type", "text": "x" * 900}]}
    (part,) = decode([call]).messages[0].parts

    assert isinstance(part, ToolCallPart)
    assert "x" * 900 in part.arguments
