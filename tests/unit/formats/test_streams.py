"""Streamed replies: the body they add up to, what is shown meanwhile, values in pieces."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.core.messages import Finish, TextPart, Usage
from infold.errors import UnknownFormat
from infold.formats.codec import dict_or_empty, dicts_in
from infold.formats.openai_chat import ChatReply
from infold.formats.overflow import Overflow, recognise
from infold.formats.registry import (
    ANTHROPIC_MESSAGES,
    CONVERSE,
    FORMATS,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    WireFormat,
    builder_for,
)
from infold.formats.streams import (
    Delta,
    DeltaKind,
    IndexedEntries,
    ReplyBuilder,
    SseReader,
    TextPieces,
    append_text,
    index_or_none,
    join_pieces,
    join_text,
    merge,
)
from infold.testing import wire_replies
from infold.testing.script import Say, StreamEvent, WireReply
from infold.testing.wire_replies import REPLY_WRITERS, anthropic_body, anthropic_events

BODIES: dict[str, Callable[[WireReply], dict[str, Any]]] = {
    OPENAI_CHAT.name: wire_replies.chat_body,
    OPENAI_RESPONSES.name: wire_replies.responses_body,
    ANTHROPIC_MESSAGES.name: wire_replies.anthropic_body,
    GEMINI.name: wire_replies.gemini_body,
    CONVERSE.name: wire_replies.converse_body,
}


EVENTS: dict[str, Callable[[WireReply], Iterator[StreamEvent]]] = {
    OPENAI_CHAT.name: wire_replies.chat_events,
    OPENAI_RESPONSES.name: wire_replies.responses_events,
    ANTHROPIC_MESSAGES.name: wire_replies.anthropic_events,
    GEMINI.name: wire_replies.gemini_events,
    CONVERSE.name: wire_replies.converse_events,
}


SAYS = st.builds(
    Say,
    text=st.text(max_size=60),
    calls=st.lists(
        st.tuples(
            st.sampled_from(["bash", "read_file"]),
            st.dictionaries(st.text(max_size=8), st.text(max_size=30) | st.integers(-9, 9) | st.none(), max_size=3),
        ),
        max_size=3,
    ).map(tuple),
    reasoning=st.text(max_size=40),
    finish=st.sampled_from([None, "length"]),
)


USAGES = st.builds(Usage, st.integers(0, 9_000), st.integers(1, 900), st.integers(0, 90), st.integers(0, 90))


def streamed(wire: WireFormat, reply: WireReply) -> bytes:
    """A reply as the bytes of its stream."""
    return b"".join(event.encode() for event in EVENTS[wire.name](reply))


def fed(wire: WireFormat, *pieces: bytes) -> ReplyBuilder:
    """A builder that read these pieces."""
    builder = builder_for(wire.name)
    for piece in pieces:
        builder.feed(piece)
    return builder


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    """A stream in pieces."""
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(edges)]


@pytest.mark.slow
@settings(deadline=None)
@given(st.sampled_from(FORMATS), SAYS, USAGES, st.lists(st.integers(0, 9_999), max_size=40))
def test_a_stream_gives_the_body_of_the_whole_reply(wire: WireFormat, say: Say, usage: Usage, cuts: list[int]) -> None:
    """However its bytes are split, a stream makes the body that the call without streaming has."""
    reply = WireReply(say, usage, 1, "m")
    builder = fed(wire, *split(streamed(wire, reply), cuts))

    assert builder.reply() == BODIES[wire.name](reply)
    assert builder.is_finished
    assert builder.error() is None
    assert builder.skipped == 0


@pytest.mark.slow
@settings(deadline=None)
@given(st.sampled_from(FORMATS), SAYS, st.integers(0, 9_999))
def test_a_stream_may_end_anywhere(wire: WireFormat, say: Say, cut: int) -> None:
    """What came before a cut is a body like any other: its text begins the whole text, its parts can be decoded."""
    stream = streamed(wire, WireReply(say, Usage(9, 9), 1, "m"))
    builder = fed(wire, stream[: cut % len(stream)])
    body = builder.reply() or {}

    said = "".join(
        part.text
        for message in wire.decode(wire.reply_items(body)).messages
        for part in message.parts
        if isinstance(part, TextPart)
    )
    assert say.text.startswith(said)
    assert builder.is_finished == (wire.finish(body) is not None)


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    float("nan"),
    "",
    "error",
    "\ud83d",
    [],
    [1],
    [[{}]],
    {},
    {"type": {"a": []}},
)


def spoilt(value: Any, chance: Random) -> Any:
    """A value in which a part here and there is something else."""
    if chance.random() < 0.06:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        return {field: spoilt(inner, chance) for field, inner in value.items() if chance.random() < 0.97}
    return [spoilt(inner, chance) for inner in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.sampled_from(FORMATS), st.integers(0, 2**32))
def test_garbage_never_raises(wire: WireFormat, seed: int) -> None:
    """Fields of any type, missing fields and events in any order leave a builder whose answers can be read."""
    chance = Random(seed)
    say = Say("Hello, you there.", calls=(("bash", {"a": "b"}), ("read", {})), reasoning="Let me think.")
    events = [event for event in EVENTS[wire.name](WireReply(say, Usage(9, 9), 1, "m")) if isinstance(event.data, dict)]
    if chance.random() < 0.3:
        chance.shuffle(events)
    builder = fed(wire, *(b"data: " + json.dumps(spoilt(event.data, chance)).encode() + b"\n\n" for event in events))
    body, error = builder.reply(), builder.error()

    assert isinstance(wire.reply_items(body), list)
    assert isinstance(wire.usage(body), Usage | None)
    assert wire.finish(body) in (*get_args(Finish), None)
    assert error is None or isinstance(error, dict | str)


@settings(deadline=None)
@given(st.sampled_from(FORMATS), st.lists(st.binary(max_size=40)))
def test_noise_never_raises(wire: WireFormat, pieces: list[bytes]) -> None:
    """Bytes that are no stream at all give nothing."""
    builder = fed(wire, *pieces)
    builder.close()

    assert builder.reply() is None


@pytest.mark.parametrize("wire", FORMATS)
def test_what_cannot_be_read_is_skipped_and_counted(wire: WireFormat) -> None:
    """Broken JSON, values that are no objects and JSON nested without end are told, and cost nothing else."""
    reply = WireReply(Say("Hello"), Usage(9, 9), 1, "m")
    noise = b'data: {"broken\n\ndata: [3]\n\ndata: ' + b"[" * 100_000 + b"\n\ndata: null\n\n: comment\n\nevent: x\n\n"
    builder = fed(wire, b"\n" + noise, streamed(wire, reply), noise)

    assert builder.reply() == BODIES[wire.name](reply)
    assert builder.skipped == 8


@pytest.mark.parametrize("wire", FORMATS)
def test_nothing_yet_is_nothing(wire: WireFormat) -> None:
    """Before a reply begins there is none, and no error."""
    builder = fed(wire, b": waiting\n\n")

    assert (builder.reply(), builder.error(), builder.is_finished, builder.skipped) == (None, None, False, 0)


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize(
    "event",
    [
        b'event: error\ndata: {"type":"error","error":{"type":"x","message":"prompt is too long: 9 tokens > 8"}}',
        b'data: {"error":{"message":"prompt is too long: 9 tokens > 8","code":400}}',
        b'data: {"type":"error","code":"x","message":"prompt is too long: 9 tokens > 8","param":null}',
        b'data: {"object":"error","message":"prompt is too long: 9 tokens > 8"}',
        b"event: error\ndata: prompt is too long: 9 tokens > 8",
        b'data: {"type":"response.failed","response":{"status":"failed","error":{"message":"prompt is too long: 9 tokens > 8"}}}',
    ],
)
def test_an_error_in_the_stream_is_understood(wire: WireFormat, event: bytes) -> None:
    """However a stream reports an overflow, the report is one for the table of overflows."""
    builder = fed(wire, event + b"\n\n")
    error = builder.error()
    assert isinstance(error, dict | str)
    overflow = recognise(None, error)

    assert overflow is not None
    assert (overflow.prompt_tokens, overflow.limit_tokens) == (9, 8)


def test_an_error_after_words_leaves_the_words() -> None:
    """A stream that breaks off with an error has both; the first error counts."""
    begun = streamed(OPENAI_CHAT, WireReply(Say("Hello"), Usage(9, 9), 1, "m")).split(b"\n\n")[:2]
    builder = fed(OPENAI_CHAT, b"\n\n".join([*begun, b'data: {"error": {"message": "first"}}', b"", b""]))
    builder.feed(b'data: {"error": {"message": "second"}, "choices": []}\n\n')

    assert builder.error() == {"error": {"message": "first"}}
    assert OPENAI_CHAT.reply_items(builder.reply()) == [{"role": "assistant", "content": "Hello", "refusal": None}]
    assert not builder.is_finished


def test_a_model_may_speak_about_errors() -> None:
    """Words of a reply are no report."""
    say = Say('event: error\ndata: {"error": "prompt is too long: 9 tokens > 8"}')
    for wire in FORMATS:
        assert fed(wire, streamed(wire, WireReply(say, Usage(9, 9), 1, "m"))).error() is None


def test_halves_of_a_character_come_together() -> None:
    """A character escaped in two halves, sent in two chunks, is one."""
    halves = (
        b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\\ude00"}}]}\n\n',
    )
    reply = fed(OPENAI_CHAT, *halves).reply()

    assert reply is not None
    assert reply["choices"][0]["message"]["content"] == "😀"


def test_the_last_event_may_lack_its_empty_line() -> None:
    """Closing a builder reads what the server did not end properly."""
    stream = streamed(OPENAI_CHAT, WireReply(Say("Hello"), Usage(9, 9), 1, "m"))
    builder = fed(OPENAI_CHAT, stream.split(b"data: [DONE]")[0].rstrip(b"\n"))
    assert OPENAI_CHAT.usage(builder.reply()) is None
    builder.close()

    assert OPENAI_CHAT.usage(builder.reply()) == Usage(9, 9, total=18)


def test_too_large_an_event_is_told() -> None:
    """An event over the reader's cap is counted with what could not be read."""
    builder = ReplyBuilder(ChatReply(), SseReader(most_bytes=50))
    builder.feed(b"data: " + b"x" * 100 + b"\n\n")

    assert builder.skipped == 1


def test_an_endless_stream_is_read_only_so_far() -> None:
    """What comes after the cap on a stream is counted and not kept; the end of the stream is still seen."""
    builder = ReplyBuilder(ChatReply(), most_bytes=1_000)
    for _ in range(50):
        builder.feed(b'data: {"choices": [{"delta": {"content": "0123456789"}}]}\n\n')
    reply = builder.reply()

    assert reply is not None
    assert builder.skipped == 50 - len(reply["choices"][0]["message"]["content"]) // 10 > 25
    builder.feed(b"data: [DONE]\n\n")
    assert builder.is_finished


def test_a_format_is_chosen_by_its_name() -> None:
    """Each wire format has a builder of its own; another name is an error."""
    builders = [builder_for(wire.name) for wire in FORMATS]

    assert len(set(map(id, builders))) == len(FORMATS)
    with pytest.raises(UnknownFormat, match="openai-chat"):
        builder_for("morse")


CHAT_DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.text(max_size=5) | st.none(),
        "role": st.just("assistant"),
        "reasoning_content": st.text(max_size=5),
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {"function": st.fixed_dictionaries({}, optional={"arguments": st.text(max_size=5) | st.none()})},
                optional={"index": st.integers(0, 1) | st.sampled_from([1.0, True, None]), "id": st.sampled_from("ab")},
            ),
            max_size=2,
        ),
    },
)


CHAT_CHOICES = st.fixed_dictionaries(
    {"delta": CHAT_DELTAS},
    optional={
        "index": st.sampled_from([0, 0.0, False, None, 1]),
        "finish_reason": st.sampled_from([None, None, "stop"]),
        "logprobs": st.sampled_from([None, {"content": [{"token": "a"}]}]),
        "stop_reason": st.integers(0, 3),
    },
)


CHAT_EVENTS = st.fixed_dictionaries(
    {"choices": st.lists(CHAT_CHOICES, max_size=2)},
    optional={
        "id": st.sampled_from(["a", "b", None]),
        "object": st.sampled_from(["chat.completion.chunk", "error", None]),
        "created": st.sampled_from([1, 2, 2**70, None]),
        "model": st.sampled_from(["m", "n"]),
        "service_tier": st.sampled_from(["default", None]),
        "usage": st.sampled_from([None, {"prompt_tokens": 3}]),
        "obfuscation": st.sampled_from(["x", None]),
        "error": st.sampled_from([None, {"message": "no"}]),
    },
)


INDEXES = st.sampled_from([0, 1, 1.0, None, True])


ANTHROPIC_EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["content_block_delta", "content_block_delta", "content_block_stop", "error"])},
    optional={
        "index": INDEXES,
        "delta": st.fixed_dictionaries(
            {"type": st.sampled_from(["text_delta", "thinking_delta", "input_json_delta", "signature_delta"])},
            optional={
                name: st.text(max_size=5) | st.none() for name in ("text", "thinking", "partial_json", "signature")
            },
        ),
    },
)


RESPONSES_EVENTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "response.output_text.delta",
                "response.function_call_arguments.delta",
                "response.reasoning_summary_text.delta",
                "response.refusal.delta",
                "response.output_text.done",
            ]
        )
    },
    optional={
        "output_index": INDEXES,
        "content_index": INDEXES,
        "summary_index": INDEXES,
        "item_id": st.sampled_from(["a", "b", None]),
        "delta": st.text(max_size=5) | st.none(),
        "text": st.text(max_size=5),
        "logprobs": st.sampled_from([[], None, [{"token": "a"}]]),
        "sequence_number": st.integers(0, 9),
    },
)


GROWING = st.one_of(
    st.tuples(st.just(OPENAI_CHAT), st.lists(CHAT_EVENTS, max_size=6)),
    st.tuples(st.just(ANTHROPIC_MESSAGES), st.lists(ANTHROPIC_EVENTS, max_size=6)),
    st.tuples(st.just(OPENAI_RESPONSES), st.lists(RESPONSES_EVENTS, max_size=6)),
)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(GROWING, st.booleans(), st.booleans())
def test_events_one_by_one_are_what_they_are_in_a_row(
    stream: tuple[WireFormat, list[dict[str, Any]]], named: bool, escaped: bool
) -> None:
    """Whether each event comes in a piece of its own, or byte by byte: the reply, its end and its errors are the same."""
    wire, told = stream
    names = [f"event: {event.get('type', 'x')}\n" if named else "" for event in told]
    events = [
        f"{name}data: {json.dumps(event, ensure_ascii=escaped)}\n\n" for name, event in zip(names, told, strict=True)
    ]
    pieces = [event.encode("utf-8", "surrogatepass") for event in events]
    one, other = fed(wire, *pieces), fed(wire, *(bytes([byte]) for byte in b"".join(pieces)))

    assert one.reply() == other.reply()
    assert json.dumps(one.reply(), sort_keys=True) == json.dumps(other.reply(), sort_keys=True)
    assert (one.is_finished, one.error(), one.skipped) == (other.is_finished, other.error(), other.skipped)


def test_a_stream_is_read_up_to_its_limit_however_it_comes() -> None:
    """Bytes are counted alike whichever way they are read."""
    event = 'data: {"choices": [{"index": 0, "delta": {"content": "äöü"}}]}\n\n'.encode()
    one, other = (ReplyBuilder(ChatReply(), most_bytes=3 * len(event)) for _ in range(2))
    for _ in range(6):
        one.feed(event)
    for byte in event * 6:
        other.feed(bytes([byte]))

    assert one.reply() == other.reply()
    assert (one.skipped, other.skipped) == (3, 3)


@pytest.mark.parametrize(
    ("name", "ends", "is_over"),
    [
        ("openai-chat", b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n', False),
        ("openai-chat", b"data: [DONE]\n\n", True),
        ("anthropic-messages", b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n', False),
        ("anthropic-messages", b'event: message_stop\ndata: {"type": "message_stop"}\n\n', True),
        ("openai-responses", b'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n', True),
    ],
)
def test_the_last_word_is_told_from_the_end(name: str, ends: bytes, is_over: bool) -> None:
    """A reply that is finished may still tell its usage; one that is over says nothing more."""
    builder = builder_for(name)
    assert not builder.is_over
    builder.feed(ends)

    assert (builder.is_finished, builder.is_over) == (True, is_over)


NAMES = [wire.name for wire in FORMATS]


SAY = Say(
    "All is well, 世界 🙂.", (("bash", {"command": "ls"}), ("read", {"path": "a"})), reasoning="First I look around."
)


def stream_of(format_name: str, say: Say = SAY) -> bytes:
    """A scripted reply as the bytes of a stream."""
    return b"".join(told.encode() for told in REPLY_WRITERS[format_name].events(WireReply(say, Usage(1, 1), 1, "m")))


def said(format_name: str, *events: Any) -> list[tuple[DeltaKind, str]]:
    """What events say, as pairs."""
    stream = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    return [(delta.kind, delta.text) for delta in builder_for(format_name).feed(stream)]


def chat(**delta: Any) -> dict[str, Any]:
    """A chunk of a chat stream."""
    return {"choices": [{"index": 0, "delta": delta}]}


def call(name: str = "", **fields: Any) -> dict[str, Any]:
    """A chunk that holds a piece of a call."""
    return chat(tool_calls=[{"function": {"name": name, "arguments": "{}"}, **fields}])


def text_of(deltas: list[Delta], kind: DeltaKind) -> str:
    """All text of a kind."""
    return "".join(delta.text for delta in deltas if delta.kind == kind)


@pytest.mark.parametrize("name", NAMES)
def test_text_reasoning_and_calls_are_told(name: str) -> None:
    """S3.10: in the order they are said, in every format."""
    deltas = builder_for(name).feed(stream_of(name))

    assert text_of(deltas, "reasoning") == SAY.reasoning
    assert text_of(deltas, "text") == SAY.text
    assert [delta.text for delta in deltas if delta.kind == "call"] == ["bash", "read"]
    assert [kind for kind, _ in _runs(deltas)] == ["reasoning", "text", "call"]


def _runs(deltas: list[Delta]) -> list[tuple[DeltaKind, str]]:
    runs: list[tuple[DeltaKind, str]] = []
    for delta in deltas:
        if not runs or runs[-1][0] != delta.kind:
            runs.append((delta.kind, ""))
    return runs


@pytest.mark.parametrize("name", NAMES)
def test_bytes_may_come_in_any_pieces(name: str) -> None:
    """S3.10: split within a character or a line, the same is said."""
    reader, stream = builder_for(name), stream_of(name)
    deltas = [delta for byte in stream for delta in reader.feed(bytes([byte]))]

    assert deltas + reader.close() == builder_for(name).feed(stream)


def test_a_gemini_array_is_read_too() -> None:
    """S3.10: its stream may be one JSON array."""
    events = [told.data for told in REPLY_WRITERS["gemini"].events(WireReply(SAY, Usage(1, 1), 1, "m"))]

    assert text_of(builder_for("gemini").feed(msgspec.json.encode(events)), "text") == SAY.text


def test_the_last_event_counts_without_its_empty_line() -> None:
    """S3.10: some servers end a stream with its last character."""
    reader = builder_for("openai-chat")

    assert reader.feed(b'data: {"choices": [{"delta": {"content": "Well"}}]}') == []
    assert reader.close() == [Delta("text", "Well")]


def test_an_unknown_format_is_told() -> None:
    """The error names those there are."""
    with pytest.raises(UnknownFormat):
        builder_for("smoke-signals")


@pytest.mark.parametrize(
    ("chunk", "told"),
    [
        (chat(reasoning_content="Hm."), [("reasoning", "Hm.")]),
        (chat(reasoning="Hm.", reasoning_details=[{"text": "Hm."}]), [("reasoning", "Hm.")]),
        (chat(content=[{"type": "text", "text": "Well"}]), [("text", "Well")]),
        (chat(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]), [("reasoning", "Hm.")]),
        (chat(content=[{"type": "thinking", "thinking": "Hm."}]), [("reasoning", "Hm.")]),
        (chat(refusal="No."), [("text", "No.")]),
        ({"choices": [{"index": 1, "delta": {"content": "other"}}]}, []),
        ({"choices": [{"index": 0, "message": {"content": "whole"}}]}, [("text", "whole")]),
        (chat(content=None), []),
        (chat(content=""), []),
        (chat(tool_calls=[{"index": 0, "custom": {"name": "patch"}}]), [("call", "patch")]),
    ],
)
def test_compatible_servers_have_ways_of_their_own(chunk: dict[str, Any], told: list[tuple[DeltaKind, str]]) -> None:
    """B23: reasoning under other names, text in blocks, a message in place of a delta."""
    assert said("openai-chat", chunk) == told


@pytest.mark.parametrize(
    ("chunks", "begun"),
    [
        ([call("a", index=0, id="1"), call(index=0), call("b", index=1, id="2")], ["a", "b"]),
        ([call("a", index=0, id="1"), call("a", index=0, id="1"), call("a", index=0)], ["a"]),
        ([call("a", index=0, id="1"), call("b", index=0, id="2"), call("b", index=0, id="2")], ["a", "b"]),
        ([call("a"), call("b")], ["a", "b"]),
    ],
    ids=["well behaved", "name repeated", "one index for all", "no index"],
)
def test_a_call_is_told_once(chunks: list[dict[str, Any]], begun: list[str]) -> None:
    """S3.10: servers repeat names, and give several calls one index, or none."""
    assert said("openai-chat", *chunks) == [("call", name) for name in begun]


@pytest.mark.parametrize(
    ("name", "event", "told"),
    [
        ("openai-responses", {"type": "response.refusal.delta", "output_index": 0, "delta": "No."}, [("text", "No.")]),
        (
            "openai-responses",
            {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "Hm."},
            [("reasoning", "Hm.")],
        ),
        (
            "openai-responses",
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "web_search_call"}},
            [],
        ),
        (
            "anthropic-messages",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "W"}},
            [("text", "W")],
        ),
        (
            "anthropic-messages",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "name": "s"}},
            [],
        ),
        ("anthropic-messages", {"type": "ping"}, []),
        ("gemini", {"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}}]}, []),
    ],
)
def test_what_is_said_is_told_and_nothing_else(
    name: str, event: dict[str, Any], told: list[tuple[DeltaKind, str]]
) -> None:
    """S3.10: refusals are text; what the provider does by itself is no call."""
    assert said(name, event) == told


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "stream",
    [
        b"data: \xff\xfe\n\n",
        b"data: [3, null]\n\n",
        b'data: {"choices": 3, "delta": [], "candidates": [3], "item": 3, "type": 3}\n\n',
        b'data: {"choices": [{"delta": {"content": 3, "tool_calls": [3, {"function": {"name": 3}}]}}]}\n\n',
        b'data: {"candidates": [{"content": {"parts": [3, {"text": 3, "functionCall": 3}]}}]}\n\n',
        b"data: [DONE]\n\n",
        b": a comment\n\n" + b"event: nonsense\n\n",
    ],
)
def test_what_cannot_be_read_says_nothing(name: str, stream: bytes) -> None:
    """B10: nothing a provider may send raises."""
    assert builder_for(name).feed(stream) == []


def test_an_event_may_be_named_beside_its_data() -> None:
    """S3.10: where the data does not say its type, the event's name does."""
    stream = b'event: content_block_delta\ndata: {"index": 0, "delta": {"type": "text_delta", "text": "Well"}}\n\n'

    assert builder_for("anthropic-messages").feed(stream) == [Delta("text", "Well")]


def test_halves_of_a_character_are_shown_together() -> None:
    """S3.10: a terminal could not print half a character; one whose other half never comes is told as lost."""
    reader = builder_for("openai-chat")
    halves = (rb"a\ud83d", rb"\ude42b", rb"\ud83d", b"c")
    pieces = [reader.feed(b'data: {"choices": [{"delta": {"content": "' + half + b'"}}]}\n\n') for half in halves]

    assert [delta.text for deltas in pieces for delta in deltas] == ["a", "🙂b", "\ufffdc"]


def merged(*pieces: dict[str, Any]) -> object:
    """What these pieces make together."""
    into: dict[str, Any] = {}
    for piece in pieces:
        merge(into, piece)
    return join_pieces(into)


@pytest.mark.parametrize(
    ("pieces", "together"),
    [
        (({"text": "a"}, {"text": "b"}), {"text": "ab"}),
        (({"text": None}, {"text": "b"}, {"text": None}), {"text": "b"}),
        (({"id": "a", "role": "x"}, {"id": "b", "role": ""}), {"id": "a", "role": "x"}),
        (({"id": ""}, {"id": "b"}), {"id": "b"}),
        (({"name": "get_"}, {"name": "weather"}), {"name": "get_weather"}),
        (({"name": "bash"}, {"name": "bash"}), {"name": "bash"}),
        (({"n": 1}, {"n": 2}), {"n": 2}),
        (({"in": {"text": "a", "n": 1}}, {"in": {"text": "b"}}), {"in": {"text": "ab", "n": 1}}),
        (({"list": [1]}, {"list": [2]}), {"list": [1, 2]}),
        (({"text": 3}, {"text": "b"}), {"text": "b"}),
        (({"text": "a"}, {"text": {"b": 1}}), {"text": {"b": 1}}),
    ],
)
def test_pieces_of_an_object_come_together(pieces: tuple[dict[str, Any], ...], together: dict[str, Any]) -> None:
    """Text grows, lists extend, what servers repeat stays, all else is replaced."""
    assert merged(*pieces) == together


def test_text_and_blocks_may_mix() -> None:
    """Text before or after blocks is a block of its own, its pieces joined."""
    block = {"type": "thinking", "thinking": []}
    said = merged({"content": "a"}, {"content": "b"}, {"content": [block]}, {"content": "c"}, {"content": "d"})

    assert said == {"content": [{"type": "text", "text": "ab"}, block, {"type": "text", "text": "cd"}]}
    assert merged({"content": ""}, {"content": [block]}, {"content": ""}) == {"content": [block]}


def test_halves_of_a_character_are_joined() -> None:
    """A character sent as two escapes in two pieces is join_pieces; half a one is marked."""
    assert join_text(["a\ud83d", "\ude00b"]) == "a😀b"
    assert join_text(["\ud83d"]) == "\ufffd"


def test_depth_has_an_end() -> None:
    """What is nested deeper than anything a provider streams is kept as it came."""
    deep: dict[str, Any] = {"text": "x"}
    for _ in range(5_000):
        deep = {"in": deep}

    assert join_pieces(merged(deep)) is not None


def test_slots_grow_by_index() -> None:
    """Entries are told apart by their index and listed in its order; a piece without one is the last entry's."""
    slots = IndexedEntries(lambda *_: False)
    for piece in ({"index": 1, "text": "c"}, {"index": 0, "text": "a"}, {"text": "b"}, {"index": 1, "text": "d"}):
        merge(slots.entry_for(piece), piece)

    assert slots.entries() == [{"index": 0, "text": "ab"}, {"index": 1, "text": "cd"}]


def test_slots_may_begin_anew_at_an_index() -> None:
    """Where the pieces themselves say so, one index holds several entries, in their order."""
    slots = IndexedEntries(lambda held, piece: held.get("id") != piece.get("id", held.get("id")))
    for piece in (
        {"index": 0, "id": "a", "text": "1"},
        {"index": 0, "id": "b", "text": "2"},
        {"index": 0, "text": "3"},
    ):
        merge(slots.entry_for(piece), piece)

    assert [entry["text"] for entry in slots.entries()] == ["1", "23"]


def test_what_is_of_a_wrong_type_is_nothing() -> None:
    """Readers of untrusted values give an empty one."""
    assert (
        dict_or_empty(3),
        dict_or_empty([]),
        dicts_in(3),
        dicts_in([1, {}, None]),
        index_or_none("0"),
        index_or_none(True),
    ) == (
        {},
        {},
        [],
        [{}],
        None,
        None,
    )
    into: dict[str, Any] = {}
    append_text(into, "text", 3)
    assert into == {}


def test_text_is_joined_only_when_asked_for() -> None:
    """A piece is put beside those before it, so that a long text costs no more by the piece than a short one."""
    into: dict[str, Any] = {}
    for _ in range(1_000):
        append_text(into, "text", "piece ")

    assert isinstance(into["text"], TextPieces)
    assert len(into["text"]) == 1_000
    assert join_pieces(into) == {"text": "piece " * 1_000}


def frame(payload: bytes, *, kind: bytes = b":event-type") -> bytes:
    """One frame of Amazon's event stream."""
    headers = bytes([len(kind)]) + kind + b"\x07\x00\x05chunk"
    size = 16 + len(headers) + len(payload)
    return size.to_bytes(4) + len(headers).to_bytes(4) + b"crc1" + headers + payload + b"crc2"


def framed(event: object) -> bytes:
    """An event as Bedrock sends it."""
    return frame(msgspec.json.encode({"bytes": b64encode(msgspec.json.encode(event)).decode(), "p": "abc"}))


@settings(deadline=None)
@given(SAYS, USAGES, st.lists(st.integers(0, 9_999), max_size=20))
def test_a_stream_of_bedrock_is_read(say: Say, usage: Usage, cuts: list[int]) -> None:
    """In Amazon's framing, however its bytes are split, a stream makes the same body."""
    reply = WireReply(say, usage, 1, "m")
    stream = b"".join(framed(event.data) for event in anthropic_events(reply))
    builder = fed(ANTHROPIC_MESSAGES, *split(stream, cuts))

    assert builder.reply() == anthropic_body(reply)
    assert builder.is_over
    assert builder.skipped == 0


def test_an_exception_in_a_stream_of_bedrock_is_an_error() -> None:
    """A refusal for size is recognised in a frame too."""
    words = b'{"message": "Input is too long for requested model."}'
    builder = fed(ANTHROPIC_MESSAGES, frame(words, kind=b":exception-type"))

    assert recognise(None, dict_or_empty(builder.error())) == Overflow("bedrock")


@pytest.mark.parametrize(
    "stream",
    [
        b"\0" * 40,
        b"\0\xff\xff\xff" + b"\xff" * 40,
        frame(b"no object"),
        frame(b"{}"),
        frame(b'{"bytes": "?"}'),
        frame(b'{"bytes": 3}'),
    ],
    ids=["too short", "too long", "no object", "no bytes", "no base64", "a number"],
)
def test_a_broken_frame_is_skipped(stream: bytes) -> None:
    """What cannot be read is counted; a frame of an impossible length ends the reading, any other does not."""
    good = framed({"type": "message_start", "message": {"role": "assistant", "content": []}})
    builder = fed(ANTHROPIC_MESSAGES, stream, good)
    builder.close()

    assert builder.skipped == 1
    assert (builder.reply() is None) == (stream[:4] in (b"\0\0\0\0", b"\0\xff\xff\xff"))
