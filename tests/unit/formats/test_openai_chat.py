"""OpenAI Chat Completions: items, infold's own messages, streams."""

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
    Usage,
    UserMessage,
)
from infold.formats.openai_chat import decode, encode, encode_new, looks_like
from infold.formats.registry import OPENAI_CHAT, builder_for
from infold.formats.streams import ReplyBuilder
from infold.testing.script import StreamEvent

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


HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "total_tokens": 130,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 20},
}


def chunk(delta: dict[str, Any] | None, *, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    """A chunk with one choice, or with none."""
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish}]
    return StreamEvent({**HEAD, "choices": choices, **more}).encode()


def call(arguments: str, *, index: int | None = 0, call_id: str = "", name: str = "") -> dict[str, Any]:
    """A delta with a piece of one call."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    told: dict[str, Any] = {"function": function} | ({"id": call_id, "type": "function"} if call_id else {})
    return {"tool_calls": [told if index is None else told | {"index": index}]}


def fed(*pieces: bytes) -> ReplyBuilder:
    """A builder that read these pieces."""
    builder = builder_for("openai-chat")
    for piece in pieces:
        builder.feed(piece)
    return builder


def said(*deltas: dict[str, Any]) -> dict[str, Any]:
    """The message these deltas make."""
    reply = fed(*(chunk(delta) for delta in deltas)).reply()
    assert reply is not None
    message: dict[str, Any] = reply["choices"][0]["message"]
    return message


def test_text_usage_and_finish_come_together() -> None:
    """The body is what the call would have given at once; the usage is in a last chunk without choices."""
    builder = fed(
        chunk({"role": "assistant", "content": ""}, usage=None),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, finish="stop"),
        chunk(None, usage=USAGE),
        b"data: [DONE]\n\n",
    )
    reply = builder.reply()

    assert reply == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    assert builder.is_finished
    assert builder.error() is None
    assert OPENAI_CHAT.finish(reply) == "stop"
    assert OPENAI_CHAT.usage(reply) == Usage(40, 10, 20, 60, 0, 130)


def test_calls_are_put_together_in_order() -> None:
    """Pieces of several calls may alternate; each call has its own arguments, in the order of their index."""
    message = said(
        {"role": "assistant", "content": None},
        call("", call_id="c1", name="bash"),
        call('{"comm', index=0),
        call("", index=1, call_id="c2", name="read"),
        call('and":1}', index=0),
        call("{}", index=1),
    )

    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
    ]


@pytest.mark.parametrize("index", [0, None])
def test_calls_with_one_index_are_told_apart(index: int | None) -> None:
    """Some servers give all calls index 0, or none: another id and a name begin another call."""
    message = said(
        call('{"a":', index=index, call_id="c1", name="bash"),
        call("1}", index=index),
        call('{"b":', index=index, call_id="c2", name="bash"),
        call("2}", index=index),
    )

    assert [(made["id"], made["function"]["arguments"]) for made in message["tool_calls"]] == [
        ("c1", '{"a":1}'),
        ("c2", '{"b":2}'),
    ]


def test_repeated_heads_are_one() -> None:
    """Role, id, type and name that a server repeats in every chunk, or changes between them, are told once."""
    message = said(
        {"role": "assistant", **call("{", call_id="c1", name="bash")},
        {"role": "assistant", **call("}", call_id="c1", name="bash")},
        {"role": "assistant", **call(" ", call_id="c9")},
    )

    assert message["role"] == "assistant"
    assert message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{} "}},
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "refusal"])
def test_other_texts_grow_too(field: str) -> None:
    """Thinking and refusals are put together like content."""
    assert said({field: "a"}, {field: "b"}, {"content": "c"})[field] == "ab"


def test_reasoning_details_keep_their_signature() -> None:
    """Signed reasoning is one entry with its signature; sealed reasoning is another."""
    head = {"type": "reasoning.text", "index": 0, "format": "x"}
    message = said(
        {"reasoning_details": [{**head, "text": "think"}]},
        {"reasoning_details": [{**head, "text": "ing"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "c2ln"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "gAAA"}]},
        {"content": "done"},
    )

    assert message["reasoning_details"] == [
        {**head, "text": "thinking", "signature": "c2ln"},
        {"type": "reasoning.encrypted", "index": 1, "data": "gAAA"},
    ]
    part = OPENAI_CHAT.decode([message]).messages[0].parts[0]
    assert isinstance(part, ReasoningPart)
    assert part.text == "thinking"
    assert "c2ln" in part.provider_data


def test_old_function_calls_and_custom_tools_are_understood() -> None:
    """The first form of calls, and calls with free text, grow as well."""
    assert said({"function_call": {"name": "f", "arguments": "{"}}, {"function_call": {"arguments": "}"}}) == {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}"},
    }
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": "l"}}
    assert said({"tool_calls": [custom]}, {"tool_calls": [{"index": 0, "custom": {"input": "s"}}]})["tool_calls"] == [
        {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    ]


def test_only_the_first_choice_is_kept() -> None:
    """Of several choices the first is the reply, whichever comes first."""
    reply = fed(chunk({"content": "B"}, index=1), chunk({"content": "A"}), chunk({}, index=1, finish="length")).reply()

    assert reply is not None
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["A"]
    assert OPENAI_CHAT.finish(reply) is None


def test_probabilities_and_newer_fields_stay() -> None:
    """What infold has no reading for is in the body all the same."""
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}, "native": 1}
    reply = fed(*[StreamEvent({**HEAD, "choices": [choice], "service_tier": "default"}).encode()] * 2).reply()

    assert reply is not None
    assert reply["service_tier"] == "default"
    assert reply["choices"][0]["logprobs"] == {"content": [{"token": "a"}, {"token": "a"}]}
    assert reply["choices"][0]["native"] == 1


def test_a_stream_cut_short_gives_what_there_was() -> None:
    """Text and half a call are there, and no reason to have ended."""
    builder = fed(chunk({"content": "Look"}), chunk(call('{"comm', call_id="c1", name="bash")), b'data: {"choi')
    reply = builder.reply()

    assert not builder.is_finished
    assert OPENAI_CHAT.finish(reply) is None
    assert OPENAI_CHAT.usage(reply) is None
    message = OPENAI_CHAT.decode(OPENAI_CHAT.reply_items(reply)).messages[0]
    assert [getattr(part, "text", "") or getattr(part, "arguments", "") for part in message.parts] == ["Look", '{"comm']


def test_done_without_a_finish_reason_is_an_end() -> None:
    """Some servers never say why they ended, only that they did."""
    assert fed(chunk({"content": "x"}), b"data: [DONE]\n\n").is_finished


def test_a_whole_message_in_one_chunk_is_a_reply() -> None:
    """A server that does not really stream sends its message in one event."""
    message = {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "c", **call("{}", name="f")["tool_calls"][0]}],
    }
    reply = fed(StreamEvent({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()).reply()

    assert reply is not None
    assert reply["choices"][0]["message"]["content"] == "x"
    assert reply["choices"][0]["message"]["tool_calls"][0]["id"] == "c"
