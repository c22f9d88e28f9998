"""What a streamed reply says while it is being said."""

from typing import Any

import msgspec
import pytest

from infold.core.messages import Usage
from infold.errors import UnknownFormat
from infold.formats.registry import FORMATS
from infold.formats.streams import Delta, Kind, deltas_for
from infold.testing.script import Say, WireReply
from infold.testing.wire_replies import REPLY_WRITERS

NAMES = [wire.name for wire in FORMATS]
SAY = Say(
    "All is well, 世界 🙂.", (("bash", {"command": "ls"}), ("read", {"path": "a"})), reasoning="First I look around."
)


def stream_of(format_name: str, say: Say = SAY) -> bytes:
    """A scripted reply as the bytes of a stream."""
    return b"".join(told.encode() for told in REPLY_WRITERS[format_name].events(WireReply(say, Usage(1, 1), 1, "m")))


def said(format_name: str, *events: Any) -> list[tuple[Kind, str]]:
    """What events say, as pairs."""
    stream = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    return [(delta.kind, delta.text) for delta in deltas_for(format_name).feed(stream)]


def chat(**delta: Any) -> dict[str, Any]:
    """A chunk of a chat stream."""
    return {"choices": [{"index": 0, "delta": delta}]}


def call(name: str = "", **fields: Any) -> dict[str, Any]:
    """A chunk that holds a piece of a call."""
    return chat(tool_calls=[{"function": {"name": name, "arguments": "{}"}, **fields}])


def text_of(deltas: list[Delta], kind: Kind) -> str:
    """All text of a kind."""
    return "".join(delta.text for delta in deltas if delta.kind == kind)


@pytest.mark.parametrize("name", NAMES)
def test_text_reasoning_and_calls_are_told(name: str) -> None:
    """S3.10: in the order they are said, in every format."""
    deltas = deltas_for(name).feed(stream_of(name))

    assert text_of(deltas, "reasoning") == SAY.reasoning
    assert text_of(deltas, "text") == SAY.text
    assert [delta.text for delta in deltas if delta.kind == "call"] == ["bash", "read"]
    assert [kind for kind, _ in _runs(deltas)] == ["reasoning", "text", "call"]


def _runs(deltas: list[Delta]) -> list[tuple[Kind, str]]:
    runs: list[tuple[Kind, str]] = []
    for delta in deltas:
        if not runs or runs[-1][0] != delta.kind:
            runs.append((delta.kind, ""))
    return runs


@pytest.mark.parametrize("name", NAMES)
def test_bytes_may_come_in_any_pieces(name: str) -> None:
    """S3.10: split within a character or a line, the same is said."""
    reader, stream = deltas_for(name), stream_of(name)
    deltas = [delta for byte in stream for delta in reader.feed(bytes([byte]))]

    assert deltas + reader.close() == deltas_for(name).feed(stream)


def test_a_gemini_array_is_read_too() -> None:
    """S3.10: its stream may be one JSON array."""
    events = [told.data for told in REPLY_WRITERS["gemini"].events(WireReply(SAY, Usage(1, 1), 1, "m"))]

    assert text_of(deltas_for("gemini").feed(msgspec.json.encode(events)), "text") == SAY.text


def test_the_last_event_counts_without_its_empty_line() -> None:
    """S3.10: some servers end a stream with its last character."""
    reader = deltas_for("openai-chat")

    assert reader.feed(b'data: {"choices": [{"delta": {"content": "Well"}}]}') == []
    assert reader.close() == [Delta("text", "Well")]


def test_an_unknown_format_is_told() -> None:
    """The error names those there are."""
    with pytest.raises(UnknownFormat):
        deltas_for("smoke-signals")


# What compatible servers do.


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
def test_compatible_servers_have_ways_of_their_own(chunk: dict[str, Any], told: list[tuple[Kind, str]]) -> None:
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
        ("openai-responses", {"type": "response.refusal.delta", "delta": "No."}, [("text", "No.")]),
        ("openai-responses", {"type": "response.reasoning_text.delta", "delta": "Hm."}, [("reasoning", "Hm.")]),
        ("openai-responses", {"type": "response.output_item.added", "item": {"type": "web_search_call"}}, []),
        (
            "anthropic-messages",
            {"type": "content_block_start", "content_block": {"type": "text", "text": "W"}},
            [("text", "W")],
        ),
        (
            "anthropic-messages",
            {"type": "content_block_start", "content_block": {"type": "server_tool_use", "name": "s"}},
            [],
        ),
        ("anthropic-messages", {"type": "ping"}, []),
        ("gemini", {"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}}]}, []),
    ],
)
def test_what_is_said_is_told_and_nothing_else(name: str, event: dict[str, Any], told: list[tuple[Kind, str]]) -> None:
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
    assert deltas_for(name).feed(stream) == []


def test_an_event_may_be_named_beside_its_data() -> None:
    """S3.10: where the data does not say its type, the event's name does."""
    stream = b'event: content_block_delta\ndata: {"delta": {"type": "text_delta", "text": "Well"}}\n\n'

    assert deltas_for("anthropic-messages").feed(stream) == [Delta("text", "Well")]


def test_halves_of_a_character_come_together() -> None:
    """S3.10: a terminal could not print half a character; one whose other half never comes is told as lost."""
    reader = deltas_for("openai-chat")
    halves = (rb"a\ud83d", rb"\ude42b", rb"\ud83d", b"c")
    pieces = [reader.feed(b'data: {"choices": [{"delta": {"content": "' + half + b'"}}]}\n\n') for half in halves]

    assert [delta.text for deltas in pieces for delta in deltas] == ["a", "🙂b", "\ufffdc"]
