"""Views given back on the wire. The laws are in `property/test_wire_identity.py`."""

from msgspec.structs import replace

from infold.core.messages import StepFinishPart, StepStartPart, TextPart, ToolCallPart
from infold.formats import anthropic
from infold.formats.openai_chat import decode, encode

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ITEM = {
    "role": "assistant",
    "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
    "tool_calls": [CALL],
}


def test_parts_may_go_and_others_change_at_once() -> None:
    """Where parts are missing, those left are found by id or by how they begin."""
    decoded = decode([ITEM])
    _, two, call = decoded.messages[0].parts
    assert isinstance(call, ToolCallPart)
    view = replace(decoded.messages[0], parts=(two, replace(call, arguments='{"a":1}')))

    changed = {**CALL, "function": {"name": "f", "arguments": '{"a":1}'}}
    assert encode([view], decoded) == [{**ITEM, "content": [{"type": "text", "text": "two"}], "tool_calls": [changed]}]


def test_parts_no_wire_knows_are_not_sent() -> None:
    """Step marks that infold adds to a message leave its item as it is."""
    decoded = decode([ITEM])
    view = replace(decoded.messages[0], parts=(*decoded.messages[0].parts, StepFinishPart("stop")))

    assert encode([view], decoded) == [ITEM]


def test_an_item_none_of_whose_slots_changed_is_the_source() -> None:
    """A message of several items copies only what it must."""
    decoded = decode([ITEM])
    view = replace(decoded.messages[0], parts=(*decoded.messages[0].parts, TextPart("more")))

    encoded = encode([view], decoded)
    assert encoded[0] is ITEM
    assert encoded[1] == {"role": "assistant", "content": "more"}


def test_a_part_that_goes_is_not_taken_for_a_step_mark() -> None:
    """B12, B32: thinking leaves an item whose message has step marks, and the call behind it stays as it was."""
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    decoded = anthropic.decode([{"role": "assistant", "content": [thought, call]}])
    message = decoded.messages[0]
    view = replace(message, parts=(*message.parts[1:], StepStartPart("tree")))

    assert anthropic.encode([view], decoded) == [{"role": "assistant", "content": [call]}]
