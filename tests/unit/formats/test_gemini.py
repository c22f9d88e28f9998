"""Gemini contents."""

from typing import Any

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
    UserMessage,
    is_signed,
)
from infold.errors import BrokenInput
from infold.formats.gemini import decode, encode, encode_new, looks_like

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


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (["hi"], "item 0: a str"),
        ([{"role": "user", "text": "x"}], "item 0: it has no parts"),
        ([{"role": "user", "parts": 3}], "item 0: parts is an int"),
        ([{"role": "user", "parts": [3]}], "item 0: an int"),
    ],
)
def test_wrong_types_are_named(items: Any, problem: str) -> None:
    """An item of a wrong type is refused with its place, the problem and what to do."""
    with pytest.raises(BrokenInput, match=problem):
        decode(items)


def test_parts_tell_the_format() -> None:
    """No other format's items have parts."""
    assert looks_like([calls("a")])
    assert not looks_like([{"role": "user", "content": "x"}])
    assert not looks_like([])
