"""Gemini: contents, infold's own messages, streams."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

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
    is_signed,
)
from infold.formats.gemini import decode, encode, encode_new, looks_like
from infold.formats.registry import GEMINI, builder_for
from infold.formats.streams import JsonArrayReader, ReplyBuilder, SseEvent
from infold.testing.script import StreamEvent

HERE = MessageId("x")


def calls(*tools: str) -> dict[str, Any]:
    """A model's item that calls tools without ids."""
    return {"role": "model", "parts": [{"functionCall": {"name": tool, "args": {"a": 1}}} for tool in tools]}


def answers(**outputs: object) -> dict[str, Any]:
    """A user's item that answers them by name."""
    return {
        "role": "user",
        "parts": [{"functionResponse": {"name": name, "response": value}} for name, value in outputs.items()],
    }


def altered(items: list[Any], *parts: Any) -> Any:
    """The last message's item after its parts changed."""
    decoded = decode(items)
    return encode([replace(decoded.messages[-1], parts=parts)], decoded)


def test_calls_without_ids_get_some() -> None:
    """Ids are made from positions, the same each time, and answers are found by name and order."""
    items = [calls("read", "bash", "read"), answers(bash={"output": "b"}, read={"output": "r"})]
    decoded = decode(items)
    assert [part.call_id for part in decoded.messages[0].parts if isinstance(part, ToolCallPart)] == [
        "m0.0",
        "m0.0#2",
        "m0.0#3",
    ]
    assert decoded.messages[1].parts == (ToolResultPart("m0.0#2", "bash", "b"), ToolResultPart("m0.0", "read", "r"))
    assert decode(items) == decoded


def call(tool: str, wire_id: str = "") -> dict[str, Any]:
    """A call, with an id or without."""
    return {"functionCall": {**({"id": wire_id} if wire_id else {}), "name": tool, "args": {}}}


def answer(tool: str, output: str, wire_id: str = "") -> dict[str, Any]:
    """A response, with an id or without."""
    return {"functionResponse": {**({"id": wire_id} if wire_id else {}), "name": tool, "response": {"output": output}}}


def pairs(asked: list[Any], answered: list[Any]) -> list[tuple[int, str]]:
    """Which call of one item, by its place, the responses of the next answer, and with what; all of it comes back as it is."""
    items = [{"role": "model", "parts": asked}, {"role": "user", "parts": answered}]
    decoded = decode(items)
    assert all(one is other for one, other in zip(encode(decoded.messages, decoded), items, strict=True))
    places = [part.call_id for part in decoded.messages[0].parts if isinstance(part, ToolCallPart)]
    results = [part for part in decoded.messages[1].parts if isinstance(part, ToolResultPart)]
    return [(places.index(part.call_id), part.output) for part in results]


def test_an_id_may_be_on_one_side_only() -> None:
    """A response without an id answers a call that has one, as the SDK's own helper writes it, and the reverse."""
    assert pairs([call("bash", "a")], [answer("bash", "x")]) == [(0, "x")]
    assert pairs([call("bash")], [answer("bash", "x", "a")]) == [(0, "x")]
    assert pairs([call("bash", "a")], [answer("bash", "x", "b")]) == [(0, "x")]


def test_parallel_calls_are_answered_in_order() -> None:
    """Of several calls of one tool, responses without ids answer the oldest first, whichever have ids."""
    two = [answer("bash", "1"), answer("bash", "2")]
    assert pairs([call("bash", "a"), call("bash", "b")], two) == [(0, "1"), (1, "2")]
    assert pairs([call("bash", "a"), call("bash")], two) == [(0, "1"), (1, "2")]
    assert pairs([call("read", "a"), call("bash", "b"), call("bash")], two) == [(1, "1"), (2, "2")]
    assert pairs([call("bash"), call("bash")], [answer("bash", "1", "x"), answer("bash", "2", "y")]) == [
        (0, "1"),
        (1, "2"),
    ]


def test_an_id_keeps_its_call() -> None:
    """A call whose id comes in the same item is not taken by a response without one; the same id twice answers once."""
    asked = [call("bash", "a"), call("bash", "b"), call("bash")]
    assert pairs(asked, [answer("bash", "1"), answer("bash", "2", "b"), answer("bash", "3", "a")]) == [
        (2, "1"),
        (1, "2"),
        (0, "3"),
    ]
    assert pairs(asked[:2], [answer("bash", "1", "a"), answer("bash", "2", "a"), answer("bash", "3", "b")]) == [
        (0, "1"),
        (1, "3"),
    ]


def test_own_answers_stand_in_the_order_of_the_calls() -> None:
    """An answer of infold's, which has its call's id, stands where its call does beside answers without ids."""
    items = [{"role": "model", "parts": [call("bash", "a"), call("bash", "b")]}, {"parts": [answer("bash", "1")]}]
    decoded = decode(items)
    own = ToolMessage(HERE, (ToolResultPart("b", "bash", "gone", "interrupted"),))
    encoded: Any = encode([decoded.messages[0], own, decoded.messages[1]], decoded)

    assert [part["functionResponse"].get("id") for part in encoded[1]["parts"]] == [None, "b"]


def test_both_spellings_are_read() -> None:
    """The SDK's snake case means the same as the REST spelling, and stays when altered."""
    call = {
        "role": "model",
        "parts": [{"function_call": {"id": "c", "name": "f", "args": {}}, "thought_signature": b"s"}],
    }
    answer = {"role": "user", "parts": [{"function_response": {"id": "c", "name": "f", "response": {"result": "x"}}}]}
    messages = decode([call, answer]).messages
    assert is_signed(messages[0])
    assert messages[1] == ToolMessage(MessageId("m1"), (ToolResultPart("c", "f", "x"),))
    pruned = altered([call, answer], ToolResultPart("c", "f", "stub"))
    assert pruned[0]["parts"][0]["function_response"]["response"] == {"result": "stub"}
    changed = altered([call], replace(messages[0].parts[0], arguments='{"b":2}'))
    assert changed[0]["parts"][0]["function_call"]["args"] == {"b": 2}


def test_responses_are_objects_of_any_kind() -> None:
    """One textual field is the output itself, an error is an error, all else is JSON."""
    items = [calls("a", "b", "c"), answers(a={"error": "bad"}, b={"rows": [1]}, c={"output": 3})]
    parts = decode(items).messages[1].parts
    assert [(part.output, part.status) for part in parts if isinstance(part, ToolResultPart)] == [
        ("bad", "error"),
        ('{"rows":[1]}', "completed"),
        ('{"output":3}', "completed"),
    ]
    pruned = altered(items, *(replace(part, output="stub") for part in parts))
    fields = [part["functionResponse"]["response"] for part in pruned[0]["parts"]]
    assert fields == [{"error": "stub"}, {"output": "stub"}, {"output": "stub"}]


def test_thoughts_and_signatures_are_reasoning() -> None:
    """A thought is reasoning; a signature beside text is signed reasoning without text of its own."""
    item = {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "ok", "thoughtSignature": "s"}]}
    message = decode([item]).messages[0]
    assert [type(part) for part in message.parts] == [ReasoningPart, TextPart, ReasoningPart]
    assert is_signed(message)
    thought, text, mark = message.parts
    assert altered([item], thought, replace(text, text="k"), mark)[0]["parts"][1] == {
        "text": "k",
        "thoughtSignature": "s",
    }
    assert altered([item], thought, text) == [{"role": "model", "parts": [item["parts"][0], {"text": "ok"}]}]
    assert altered([item], text, mark) == [{"role": "model", "parts": [item["parts"][1]]}]
    clipped = altered([item], ReasoningPart("h"), text, mark)
    assert clipped[0]["parts"][0] == {"text": "h", "thought": True}


def test_signed_calls_go_back_signed() -> None:
    """A call's signature is provider data, and a call written anew has it."""
    part = {"functionCall": {"id": "c", "name": "f", "args": {}}, "thoughtSignature": "s"}
    message = decode([{"role": "model", "parts": [part]}]).messages[0]
    assert encode_new(message) == [{"role": "model", "parts": [part]}]


def test_media_are_costed() -> None:
    """Inline data, SDK bytes and file addresses are media; their bytes are no text."""
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"inline_data": {"mime_type": "audio/wav", "data": b"\0" * 32_000}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://a/b"}},
    ]
    found = decode([{"parts": parts}]).messages[0].parts
    assert [part.tokens for part in found if isinstance(part, FilePart)] == [4_128, 32, 18_000]
    response = {"name": "f", "response": {"output": "x"}, "parts": parts[:1]}
    items = [calls("f"), {"role": "user", "parts": [{"functionResponse": response}]}]
    result = decode(items).messages[1].parts[0]
    assert isinstance(result, ToolResultPart)
    assert len(result.files) == 1
    assert "parts" in altered(items, replace(result, output="s"))[0]["parts"][0]["functionResponse"]
    assert "parts" not in altered(items, replace(result, files=()))[0]["parts"][0]["functionResponse"]


def test_results_and_media_may_become_text() -> None:
    """A late or orphan result shown as text and a left-out medium are text parts; a model's own parts stay whole."""
    answer = answers(a={"output": "1"})
    for items in ([calls("a"), answer], [answer]):
        assert altered(items, TextPart("late")) == [{"role": "user", "parts": [{"text": "late"}]}]
    for part in ({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, {"zebra": 1}):
        assert altered([{"role": "user", "parts": [part]}], TextPart("late")) == [
            {"role": "user", "parts": [{"text": "late"}]}
        ]
    code = {"role": "model", "parts": [{"executableCode": {"code": "1"}}]}
    assert altered([code], TextPart("?")) == [code]


def test_roles_are_read_with_tolerance() -> None:
    """No role is the user's, `function` is the tools', `system` is a system message, code is opaque."""
    items = [
        {"parts": ["bare", {"text": "x"}]},
        {"role": "system", "parts": [{"text": "s"}]},
        {"role": "model", "parts": [{"executableCode": {"code": "1"}}, {"functionCall": {"name": "f"}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
    ]
    messages = decode(items).messages
    assert [type(message) for message in messages] == [UserMessage, SystemMessage, AssistantMessage, ToolMessage]
    assert messages[0].parts == (TextPart("bare"), TextPart("x"))
    assert altered(items[:1], TextPart("bare"), TextPart("")) == [{"parts": ["bare"]}]
    assert altered(items[:1]) == []


def test_own_answers_join_the_callers() -> None:
    """One turn's answers stand in one item, infold's beside the caller's; the caller's item is not touched."""
    answer = {**answers(a={"output": "1"}), "x": 1}
    answer["parts"].append({"text": "also"})
    decoded = decode([calls("a", "b"), answer])
    own = ToolMessage(HERE, (ToolResultPart("m0.0#2", "b", "gone", "interrupted"),))
    for view in ([decoded.messages[0], own, decoded.messages[1]], [*decoded.messages, own]):
        encoded: Any = encode(view, decoded)
        assert len(encoded) == 2
        assert {"functionResponse": {"name": "b", "response": {"error": "gone"}}} in encoded[1]["parts"][:2]
        assert encoded[1]["parts"][2] == {"text": "also"}
        assert encoded[1]["x"] == 1
    assert len(answer["parts"]) == 2


def test_new_messages_are_contents() -> None:
    """Text, linked files and instructions have their form; hidden and empty parts have none."""
    parts = (
        TextPart("a"),
        TextPart(""),
        TextPart("hidden", ignored=True),
        FilePart("image/png", 1, reference="gs://a/b"),
        FilePart("image/png", 1, "c.png"),
        ReasoningPart("hm"),
    )
    assert encode_new(SystemMessage(HERE, parts)) == [
        {
            "role": "user",
            "parts": [
                {"text": "a"},
                {"fileData": {"mimeType": "image/png", "fileUri": "gs://a/b"}},
                {"text": "[image/png c.png]"},
            ],
        }
    ]
    assert encode_new(UserMessage(HERE, ())) == []


def test_parts_tell_the_format() -> None:
    """No other format's items have parts."""
    assert looks_like([calls("a")])
    assert not looks_like([{"role": "user", "content": "x"}])
    assert not looks_like([])


Piece = dict[str, Any]


CALL = {"functionCall": {"name": "bash", "args": {"command": "ls"}}, "thoughtSignature": "c2ln"}


def piece(*parts: Piece, finish: str | None = None, **usage: int) -> Piece:
    """A piece of a reply."""
    candidate = {"content": {"role": "model", "parts": [*parts]}} | ({"finishReason": finish} if finish else {})
    told = {"usageMetadata": usage} if usage else {}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r", **told}


PIECES = [
    piece({"text": "Let me ", "thought": True}, promptTokenCount=100),
    piece({"text": "see.", "thought": True}),
    piece({"text": "I will "}),
    piece({"text": "look"}, {"text": "."}),
    piece(CALL),
    piece({"functionCall": {"name": "bash", "args": {}}}),
    piece(
        finish="STOP", promptTokenCount=100, cachedContentTokenCount=60, candidatesTokenCount=10, totalTokenCount=110
    ),
]


PARTS = [
    {"text": "Let me see.", "thought": True},
    {"text": "I will look."},
    CALL,
    {"functionCall": {"name": "bash", "args": {}}},
]


def events(pieces: list[Piece]) -> bytes:
    """A stream of events."""
    return b"".join(StreamEvent(one).encode() for one in pieces)


def array(pieces: list[Piece]) -> bytes:
    """A stream as one array, over several lines as the service sends it."""
    return b"[" + b"\r\n,\r\n".join(msgspec.json.format(msgspec.json.encode(one)) for one in pieces) + b"]"


def fed(*pieces: bytes) -> ReplyBuilder:
    """A builder that read these pieces."""
    builder = builder_for("gemini")
    for one in pieces:
        builder.feed(one)
    return builder


@pytest.mark.parametrize("stream", [events(PIECES), array(PIECES), b"\n \r\n" + array(PIECES)])
def test_a_reply_comes_together(stream: bytes) -> None:
    """Neighbouring texts are one, thoughts stand apart, calls are whole; usage is the last that was told."""
    builder = fed(stream)
    reply = builder.reply()

    assert reply is not None
    assert builder.is_finished
    assert reply["candidates"] == [
        {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": PARTS}},
    ]
    assert (reply["modelVersion"], reply["responseId"]) == ("m", "r")
    assert GEMINI.finish(reply) == "tool-calls"
    assert GEMINI.usage(reply) == Usage(40, 10, 0, 60, 0, 110)
    parts = GEMINI.decode(GEMINI.reply_items(reply)).messages[0].parts
    assert [type(part) for part in parts] == [ReasoningPart, TextPart, ToolCallPart, ToolCallPart]


@pytest.mark.parametrize("placeholder", ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"])
def test_a_placeholder_does_not_sign(placeholder: str) -> None:
    """B12: what a client puts in place of a signature binds nothing, so that its loop can be folded; it is sent as it came."""
    part = {"functionCall": {"id": "c", "name": "f", "args": {}}, "thoughtSignature": placeholder}
    items = [{"role": "user", "parts": [{"text": "go"}]}, {"role": "model", "parts": [part]}]
    decoded = decode(items)
    assert not is_signed(decoded.messages[1])
    assert encode(decoded.messages, decoded) == items


def test_a_signature_keeps_its_part() -> None:
    """A part that bears a signature, even an empty text, is not joined to another."""
    signed = {"text": "", "thoughtSignature": "c2ln"}
    reply = fed(events([piece({"text": "a"}), piece(signed), piece({"text": "b"}), piece({"text": "c"})])).reply()

    assert reply is not None
    assert reply["candidates"][0]["content"]["parts"] == [{"text": "a"}, signed, {"text": "bc"}]


def test_media_and_code_stay_as_they_came() -> None:
    """Parts that are no text are in the reply, in their place."""
    parts: list[Piece] = [
        {"text": "a"},
        {"inlineData": {"mimeType": "image/png", "data": "x"}},
        {"executableCode": {"code": "1"}},
    ]
    reply = fed(events([piece(*parts)])).reply()

    assert reply is not None
    assert reply["candidates"][0]["content"]["parts"] == parts


def test_only_the_first_candidate_is_kept() -> None:
    """Of several candidates the first is the reply."""
    second = {"index": 1, "content": {"parts": [{"text": "B"}]}, "finishReason": "STOP"}
    reply = fed(events([{"candidates": [second]}, piece({"text": "A"})])).reply()

    assert reply is not None
    assert GEMINI.reply_items(reply) == [{"role": "model", "parts": [{"text": "A"}]}]
    assert GEMINI.finish(reply) is None


def test_a_refused_prompt_has_no_candidate() -> None:
    """A prompt that was blocked gives a body that says so, and no items."""
    builder = fed(events([{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}]))
    reply = builder.reply()

    assert reply is not None
    assert reply["promptFeedback"] == {"blockReason": "SAFETY"}
    assert GEMINI.reply_items(reply) == []
    assert GEMINI.usage(reply) == Usage(5)


@pytest.mark.parametrize("make", [events, array])
def test_a_stream_cut_short_gives_what_there_was(make: Any) -> None:
    """What came is there, without a reason to have ended."""
    stream = make(PIECES[:4])
    builder = fed(stream[: len(stream) - 30])
    reply = builder.reply()

    assert not builder.is_finished
    assert GEMINI.finish(reply) is None
    assert GEMINI.reply_items(reply)[0] == {"role": "model", "parts": [PARTS[0], {"text": "I will "}]}


def objects(*pieces: bytes, most_bytes: int = 1_000) -> list[str]:
    """What the reader makes of these pieces."""
    reader = JsonArrayReader(most_bytes)
    return [event.data for one in pieces for event in reader.feed(one)] + [event.data for event in reader.close()]


def test_an_array_may_be_split_anywhere() -> None:
    """Braces and quotes inside text, escapes and characters of several bytes are no marks, wherever the bytes end."""
    stream = '[{"a": "}]\\"{\\\\"} , {"b": [{"c": "☕"}], "d": {}}]'.encode()
    whole = ['{"a": "}]\\"{\\\\"}', '{"b": [{"c": "☕"}], "d": {}}']

    assert objects(stream) == whole
    assert objects(*(stream[at : at + 1] for at in range(len(stream)))) == whole
    for at in range(len(stream)):
        assert objects(stream[:at], b"", stream[at:]) == whole


def test_too_large_an_object_is_passed_over_and_told() -> None:
    """An object over the cap is not kept; the next one is read as ever."""
    reader = JsonArrayReader(most_bytes=20)

    assert reader.feed(b'[{"a": "' + b"x" * 10) == []
    assert reader.feed(b"x" * 10 + b'"}, {"b": 1}') == [SseEvent('{"b": 1}')]
    assert reader.dropped == 1


def test_what_is_no_array_of_objects_gives_nothing() -> None:
    """Numbers, closing marks without opening ones and endless strings are borne."""
    assert objects(b"[1, 2]]]]", b'}}[{"a": 1}]') == ['{"a": 1}']
    assert objects(b'["', b"{" * 100) == []
