"""Wire values, slots, and patched copies."""

from types import MappingProxyType

import pytest
from msgspec import Raw
from msgspec.structs import replace
from openai.types.chat import ChatCompletionMessage

from infold.core.messages import (
    FilePart,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.errors import BrokenInput
from infold.formats import anthropic
from infold.formats.codec import (
    MalformedError,
    arguments_object,
    arguments_text,
    as_dict,
    block_list,
    custom_input,
    encode_like,
    id_field,
    join_decoded,
    json_text,
    opaque_value,
    provider_value,
    remaining_text,
    replace_content,
    replace_surrogates,
    text_field,
    user_parts,
)
from infold.formats.openai_chat import decode, encode
from infold.formats.pairing import Pairing
from infold.formats.registry import format_named


def test_a_dict_is_itself() -> None:
    """A dict is read as it stands, not copied."""
    item = {"role": "user"}
    assert as_dict(item) is item


@pytest.mark.parametrize("guise", [b'{"role":"user"}', bytearray(b'{"role":"user"}'), Raw(b'{"role":"user"}')])
def test_json_bytes_are_parsed(guise: bytes | bytearray | Raw) -> None:
    """Bytes in any wrapping are read as JSON and given back as bytes, `Raw` as `Raw`."""
    assert as_dict(guise) == {"role": "user"}
    again = encode_like(guise, {"role": "tool"})
    assert isinstance(again, Raw if isinstance(guise, Raw) else bytes)
    assert as_dict(again) == {"role": "tool"}


def test_sdk_objects_are_dumped() -> None:
    """An SDK's reply object can stand in the list as it is."""
    assert as_dict(ChatCompletionMessage(role="assistant", content="x")) == {"role": "assistant", "content": "x"}


@pytest.mark.parametrize("wrong", [3, None, "text", ["a"], b"{", b"[1]", b"\xff"])
def test_what_is_no_object_is_refused(wrong: object) -> None:
    """Numbers, text, lists and broken JSON are no items."""
    with pytest.raises(BrokenInput, match="give"):
        as_dict(wrong)


def test_any_mapping_will_do() -> None:
    """A mapping that is no dict is read as one."""
    assert as_dict(MappingProxyType({"role": "user"})) == {"role": "user"}


def test_stretches_join_in_order() -> None:
    """Two decodings of one history become one, with the ids of both."""
    call = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}
    pairing = Pairing()
    head = decode([call, call], pairing=pairing)
    both = join_decoded(head, decode([{"role": "user", "content": "x"}], first=2, pairing=pairing))
    assert [message.id for message in both.messages] == ["m0", "m1", "m2"]
    assert both.aliases == {"a#2": "a"}


def test_bytes_with_lone_surrogates_are_read() -> None:
    """JSON that escapes half a character is read all the same, and can be written again."""
    item = as_dict(b'{"content":"a\\ud83d"}')
    assert replace_surrogates(item["content"]) == "a\ufffd"
    assert encode_like(b"", item) == '{"content":"a\ufffd"}'.encode()


def test_lone_surrogates_never_reach_the_core() -> None:
    """Text with half a character in it gets U+FFFD in its place."""
    part = user_parts("ok \ud800 é")[0]
    assert part == TextPart("ok \ufffd é")
    assert replace_surrogates("é") == "é"


def test_json_is_written_for_odd_values() -> None:
    """Numbers beyond 64 bits, SDK objects and lone surrogates do not stop the writer."""
    assert json_text({"n": 2**70}) == '{"n":1180591620717411303424}'
    assert json_text([ChatCompletionMessage(role="assistant")]) == '[{"role":"assistant"}]'
    assert json_text("\ud800") == '"\ufffd"'
    assert json_text({"a": 1}) == '{"a":1}'


def test_what_cannot_be_json_is_refused() -> None:
    """Keys of a wrong kind and circles are told as broken input."""
    circle: dict[str, object] = {}
    circle["self"] = circle
    for wrong in (circle, {(1, 2): "\ud800"}):
        with pytest.raises(MalformedError):
            json_text(wrong)


def test_blocks_are_a_list_or_nothing() -> None:
    """Nothing is no blocks; a number is a mistake."""
    assert block_list(None, "content") == ()
    with pytest.raises(MalformedError, match="content is an int"):
        block_list(3, "content")


def test_the_first_text_field_counts() -> None:
    """Fields that are missing, empty or no text are passed over."""
    assert text_field({"a": 3, "b": "", "c": "x"}, "a", "b", "c") == "x"
    assert text_field({}, "a") == ""


def test_ids_may_be_whole_numbers() -> None:
    """An id that is a number is the text of it, in the order of the fields; yes and no are none."""
    assert id_field({"a": "", "b": 7, "c": "x"}, "a", "b", "c") == "7"
    assert id_field({"a": "x", "b": 7}, "a", "b") == "x"
    assert id_field({"a": True}, "a") == ""


def test_a_malformed_item_has_its_place() -> None:
    """Whoever catches the error can ask which item it was."""
    with pytest.raises(MalformedError, match=r"openai-chat: item 1: content is an int") as caught:
        decode([{"role": "user", "content": "x"}, {"role": "user", "content": 5}])

    assert caught.value.index == 1


def test_numbers_beyond_a_double_are_kept() -> None:
    """B25: a number that no double holds is written as a number again, by the quick encoder and the slow one."""
    assert json_text(as_dict(b'{"a": 1e400, "b": [-2.5E+999]}')) == '{"a":1E+400,"b":[-2.5E+999]}'
    slow = json_text(as_dict(b'{"a": 1e400, "b": "\\ud800", "c": 1e5000}'))
    assert slow == '{"a":1' + "0" * 400 + ',"b":"\ufffd","c":"1E+5000"}'
    with pytest.raises(MalformedError, match="beyond all bounds"):
        as_dict(b'{"a": 1e9999999999999999999999}')


@pytest.mark.parametrize(
    ("given", "text"), [('{"a"', '{"a"'), ({"a": 1}, '{"a":1}'), (None, "{}"), ("\ud800", "\ufffd")]
)
def test_arguments_are_text(given: object, text: str) -> None:
    """Arguments are what the model wrote, broken or not; parsed ones become JSON again."""
    assert arguments_text(given) == text


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
    assert arguments_object(text) == value


def test_free_text_is_unpacked() -> None:
    """A custom tool's text stands in the field `input`, whatever that holds."""
    assert custom_input(ToolCallPart("a", "t", '{"input":"x"}')) == "x"
    assert custom_input(ToolCallPart("a", "t", '{"input":{"b":1}}')) == '{"b":1}'


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
    assert remaining_text(parts) == "abcd"


def test_replaced_content_keeps_chosen_media() -> None:
    """Text lends its fields to the new text, media stay while the part has them, empty text has no block."""
    file = FilePart("image/png", 1)
    content = [{"type": "text", "text": "long", "x": 1}, {"type": "image"}]

    def read(block: object) -> tuple[FilePart | TextPart, ...]:
        return (file,) if block == {"type": "image"} else (TextPart("long"),)

    kept = ToolResultPart("a", "t", "s", files=(file,))
    assert replace_content(content, kept, read, text_type="text") == [
        {"type": "text", "text": "s", "x": 1},
        {"type": "image"},
    ]
    assert replace_content(["bare"], ToolResultPart("a", "t", "s"), read, text_type="t") == [{"type": "t", "text": "s"}]
    assert replace_content(content, ToolResultPart("a", "t", ""), read, text_type="text") == []


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
