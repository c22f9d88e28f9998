"""Chat Completions messages."""

from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageFunctionToolCall

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
from infold.errors import BrokenInput
from infold.formats.openai_chat import decode, encode, encode_new, looks_like

CALL = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def one(item: object) -> Any:
    """The single message an item decodes to."""
    return decode([item]).messages[0]


def altered(item: dict[str, Any], *parts: Any, before: tuple[Any, ...] = ()) -> Any:
    """What an item becomes when its message has these parts instead."""
    decoded = decode([*before, item])
    message = replace(decoded.messages[-1], parts=parts)
    return encode([message], decoded)


def test_roles_become_messages() -> None:
    """Each role has its message; developer is another word for system."""
    items = [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": [{"type": "text", "text": "d"}]},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
    ]
    kinds = [SystemMessage, SystemMessage, UserMessage, AssistantMessage]
    decoded = decode(items, first=7)
    assert [type(message) for message in decoded.messages] == kinds
    assert [message.id for message in decoded.messages] == ["m7", "m8", "m9", "m10"]
    assert [message.parts for message in decoded.messages] == [(TextPart(text),) for text in "sdua"]


def test_all_that_a_reply_says_is_read_in_order() -> None:
    """Reasoning, content, refusal and calls of one item are parts of one message."""
    item = {**CALLING, "content": [{"type": "text", "text": "x"}], "refusal": "no", "reasoning_content": "hm"}
    assert one(item).parts == (
        ReasoningPart("hm"),
        TextPart("x"),
        TextPart("no"),
        ToolCallPart("a", "bash", '{"command":"ls"}'),
    )


def test_reasoning_told_twice_counts_once() -> None:
    """A server that gives its reasoning as text and in signed blocks is read without doubling the text."""
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    plain_text, signed = one(
        {"role": "assistant", "content": "a", "reasoning": "hm", "reasoning_details": details}
    ).parts[:2]
    assert (plain_text.text, signed.text) == ("hm", "")
    assert signed.provider_data == '[{"type":"reasoning.encrypted","data":"x"}]'
    only = one({"role": "assistant", "reasoning_details": [{"text": "a"}, {"summary": "b"}]}).parts[0]
    assert only.text == "a\nb"


def test_a_signed_call_carries_its_signature() -> None:
    """Gemini behind this format signs calls in `extra_content`."""
    signed = {**CALL, "extra_content": {"google": {"thought_signature": "s"}}}
    part = one({"role": "assistant", "tool_calls": [signed]}).parts[0]
    assert part.provider_data == '{"google":{"thought_signature":"s"}}'
    assert encode_new(AssistantMessage(MessageId("x"), (part,)))[0]["tool_calls"][0] == signed


def test_results_find_their_calls() -> None:
    """A tool message is the result of the call it names, with its tool's name."""
    result = {
        "role": "tool",
        "tool_call_id": "a",
        "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}],
    }
    assert decode([CALLING, result]).messages[1] == ToolMessage(MessageId("m1"), (ToolResultPart("a", "bash", "1\n2"),))


def test_orphans_and_doubles_are_text() -> None:
    """A result that answers nothing or answers again is synthetic text in the log, and untouched on the wire."""
    result = {"role": "tool", "tool_call_id": "a", "content": "out"}
    items = [result, CALLING, result, result]
    decoded = decode(items)
    assert [type(message.parts[0]) for message in decoded.messages] == [
        TextPart,
        ToolCallPart,
        ToolResultPart,
        TextPart,
    ]
    assert encode(decoded.messages, decoded) == items


def test_functions_of_old_pair_by_name() -> None:
    """The legacy function call has no id; its answer is found by its name and answered in its kind."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    decoded = decode([call, {"role": "function", "name": "f", "content": "1"}])
    assert decoded.messages[1].parts == (ToolResultPart("m0.0", "f", "1"),)
    own = ToolMessage(MessageId("x"), (ToolResultPart("m0.0", "f", "gone"),))
    assert encode([own], decoded) == [{"role": "function", "name": "f", "content": "gone"}]
    assert altered(call, ToolCallPart("m0.0", "f", '{"a":1}'))[0]["function_call"]["arguments"] == '{"a":1}'


def test_custom_tools_take_text() -> None:
    """A custom tool's free text stands in the arguments as a JSON field and goes back as text."""
    call = {"id": "p", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    item = {"role": "assistant", "content": None, "tool_calls": [call]}
    part = one(item).parts[0]
    assert part.arguments == '{"input":"*** Begin"}'
    new = altered(item, replace(part, arguments='{"input":"[cleared]"}'))[0]
    assert new["tool_calls"] == [{"id": "p", "type": "custom", "custom": {"name": "patch", "input": "[cleared]"}}]


def test_media_are_costed() -> None:
    """Images, sound and files cost what they cost, and never as text."""
    blocks = [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "A" * 4_000, "format": "mp3"}},
        {"type": "file", "file": {"file_id": "f1", "filename": "a.pdf"}},
    ]
    parts = one({"role": "user", "content": blocks}).parts
    assert [(part.media_type, part.tokens) for part in parts] == [
        ("image/*", 85),
        ("audio/mp3", 10),
        ("application/pdf", 15_000),
    ]
    assert isinstance(one({"role": "assistant", "audio": {"id": "audio_1"}}).parts[0], FilePart)


def test_what_is_unknown_is_opaque() -> None:
    """Unknown blocks and roles count by their JSON, are nobody's words and come back as they are."""
    block = {"type": "hologram", "hologram": [1]}
    assert one({"role": "user", "content": [block]}).parts == (
        TextPart('{"type":"hologram","hologram":[1]}', synthetic=True, opaque=True),
    )
    assert one({"role": "critic", "content": "x"}).parts[0].synthetic
    assert one({"role": "user", "content": [{"type": "file", "file": 3}]}).parts[0].synthetic


def test_injected_text_is_marked() -> None:
    """A harness's reminder under a request is synthetic, the request is not."""
    parts = one({"role": "user", "content": "Go.\n<system-reminder>x</system-reminder>"}).parts
    assert [part.synthetic for part in parts] == [False, True]


def test_sdk_objects_may_stand_inside_items() -> None:
    """A reply's own call objects in a dict are read, and dumped only when they change."""
    function = {"name": "bash", "arguments": "{}"}
    call = ChatCompletionMessageFunctionToolCall.model_validate({"id": "a", "type": "function", "function": function})
    item: dict[str, Any] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call, call.model_copy(update={"id": "b"})],
    }
    parts = one(item).parts
    assert [part.call_id for part in parts] == ["a", "b"]
    new = altered(item, replace(parts[0], arguments='{"x":1}'), parts[1])[0]
    assert new["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{"x":1}'}
    assert new["tool_calls"][1] is item["tool_calls"][1]
    assert one(ChatCompletionMessage(role="assistant", content="x")).parts == (TextPart("x"),)


def test_a_pruned_result_keeps_the_rest_of_its_item() -> None:
    """Only the text of a result changes: unknown fields, cache marks and media stay."""
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "more"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    item = {"role": "tool", "tool_call_id": "a", "content": blocks, "name": "bash"}
    part = decode([CALLING, item]).messages[1].parts[0]
    assert isinstance(part, ToolResultPart)
    with_media = altered(item, replace(part, output="stub"), before=(CALLING,))[0]
    assert with_media == {**item, "content": [{**blocks[0], "text": "stub"}, blocks[2]]}
    without = altered(item, replace(part, output="stub", files=()), before=(CALLING,))[0]
    assert without == {**item, "content": [{**blocks[0], "text": "stub"}]}


def test_results_and_media_may_become_text() -> None:
    """A late or orphan result that is shown as text is the user's item, a left-out medium is a note."""
    result = {"role": "tool", "tool_call_id": "a", "content": "out"}
    for before in ((), (CALLING,)):
        assert altered(result, TextPart("late"), before=before) == [{"role": "user", "content": "late"}]
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    for block in (image, {"type": "hologram"}):
        assert altered({"role": "user", "content": [block]}, TextPart("[left out]")) == [
            {"role": "user", "content": [{"type": "text", "text": "[left out]"}]}
        ]
    assert altered({"role": "assistant", "content": "x", "audio": {"id": "1"}}, TextPart("x"), TextPart("note")) == [
        {"role": "assistant", "content": "x"}
    ]
    assert altered({"role": "critic", "content": "x"}, TextPart("?")) == [{"role": "user", "content": "?"}]
    hologram = {"role": "assistant", "content": [{"type": "hologram"}]}
    assert altered(hologram, TextPart("?")) == [hologram]


def test_parts_that_are_gone_leave_their_item() -> None:
    """An item loses the fields whose parts are gone, and the item goes with its last part."""
    item = {**CALLING, "content": "x", "reasoning": "hm", "refusal": "no"}
    parts = one(item).parts
    assert altered(item, *parts[1:]) == [{key: value for key, value in item.items() if key != "reasoning"}]
    assert altered(item, parts[3]) == [CALLING]
    assert altered(item, parts[1]) == [{"role": "assistant", "content": "x"}]
    assert altered({"role": "assistant", "reasoning": "hm", "content": None}) == []


def test_text_changes_in_its_own_place() -> None:
    """Clipped text replaces text, in strings and blocks, and an added part becomes an item of its own."""
    assert altered({"role": "user", "content": "long", "name": "ann"}, TextPart("l")) == [
        {"role": "user", "content": "l", "name": "ann"}
    ]
    item = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no!"}, {"type": "text", "text": "b"}]}
    assert altered(item, TextPart("n"), TextPart(""))[0]["content"] == [{"type": "refusal", "refusal": "n"}]
    assert altered({"role": "user", "content": "a"}, TextPart("a"), TextPart("b")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]


def test_bytes_stay_bytes() -> None:
    """In a history of bytes, altered and new messages are bytes too."""
    decoded = decode([b'{"role":"user","content":"long","x":1}'])
    new = UserMessage(MessageId("x"), (TextPart("sum"),))
    view = [new, replace(decoded.messages[0], parts=(TextPart("l"),))]
    assert encode(view, decoded) == [b'{"role":"user","content":"sum"}', b'{"role":"user","content":"l","x":1}']


def test_repeated_ids_go_back_as_they_came() -> None:
    """An answer to a call whose id the server repeated names the wire's id, not the log's."""
    answer = {"role": "tool", "tool_call_id": "a", "content": "1"}
    decoded = decode([CALLING, answer, CALLING])
    own = ToolMessage(MessageId("x"), (ToolResultPart("a#2", "bash", "gone"),))
    assert encode([own], decoded) == [{"role": "tool", "tool_call_id": "a", "content": "gone"}]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([{"role": "user", "content": "a"}, 3], "item 1: an int"),
        ([{"role": "user", "content": 3}], "item 0: content is an int"),
        ([{"content": "x"}], "item 0: it has no role"),
        ([{"role": "assistant", "tool_calls": "x"}], "item 0: tool_calls is a str"),
        ([{"role": "user", "content": [3]}], "item 0: an int"),
        ("hi", "not a list"),
    ],
)
def test_wrong_types_are_named(items: Any, problem: str) -> None:
    """An item of a wrong type is refused with its place, the problem and what to do."""
    with pytest.raises(BrokenInput, match=problem):
        decode(items)


def test_only_known_roles_look_like_chat() -> None:
    """A list in which every item has a role of this format could be chat."""
    assert looks_like([{"role": "user", "content": "x"}, CALLING])
    assert not looks_like([{"role": "model"}])
    assert not looks_like([])


@pytest.mark.parametrize("content", [None, "", "Reading.", "lone \ud800"])
@pytest.mark.parametrize("call", [CALL, CALL | {"id": ""}, CALL | {"function": {"name": "b", "arguments": ""}}])
def test_plain_replies_read_as_all_others(content: str | None, call: dict[str, Any]) -> None:
    """A reply in the plainest shape, which has a quick way of its own, has the parts it has beside unknown fields."""
    plain = {"role": "assistant", "content": content, "tool_calls": [call, call]}
    answer = {"role": "tool", "tool_call_id": call["id"], "content": content}
    quick, slow = decode([plain, answer]), decode([{**plain, "x": 1}, {**answer, "content": content or []}])

    assert [message.parts for message in quick.messages] == [message.parts for message in slow.messages]
    assert quick.aliases == slow.aliases


def test_a_reply_without_content_keeps_what_else_it_has() -> None:
    """Calls beside reasoning, and no content, are not taken for calls alone."""
    thinking = {"role": "assistant", "reasoning_content": "hm", "tool_calls": [CALL]}

    assert [type(part) for part in one(thinking).parts] == [ReasoningPart, ToolCallPart]
