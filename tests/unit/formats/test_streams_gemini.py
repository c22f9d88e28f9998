"""Gemini replies out of their pieces, as events and as one JSON array."""

from typing import Any

import msgspec
import pytest

from infold.core.messages import ReasoningPart, TextPart, ToolCallPart, Usage
from infold.formats.gemini import JsonArrayReader
from infold.formats.registry import GEMINI
from infold.formats.sse import SseEvent
from infold.formats.streams import ReplyBuilder, builder_for
from infold.testing.script import StreamEvent

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


# The array's reader.


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
