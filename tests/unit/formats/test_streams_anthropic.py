"""Messages replies out of their events."""

from typing import Any

import pytest

from infold.core.messages import ReasoningPart, TextPart, ToolCallPart, Usage
from infold.formats.registry import ANTHROPIC_MESSAGES
from infold.formats.streams import ReplyBuilder, builder_for
from infold.testing.script import StreamEvent

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {
        "input_tokens": 30,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 10,
        "output_tokens": 1,
    },
}
START = {"type": "message_start", "message": MESSAGE}
STOP = {"type": "message_stop"}


def block(
    index: int, content_block: dict[str, Any], *deltas: dict[str, Any], stops: bool = True
) -> list[dict[str, Any]]:
    """The events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": content_block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        *([{"type": "content_block_stop", "index": index}] if stops else []),
    ]


def ends(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    """The event that says why a message ended, and what it cost."""
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def text(piece: str) -> dict[str, Any]:
    """A piece of text."""
    return {"type": "text_delta", "text": piece}


def json(piece: str) -> dict[str, Any]:
    """A piece of a call's input."""
    return {"type": "input_json_delta", "partial_json": piece}


THINKING = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Let me "},
    {"type": "thinking_delta", "thinking": "see."},
    {"type": "signature_delta", "signature": "c2ln"},
)
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}


def fed(*events: dict[str, Any]) -> ReplyBuilder:
    """A builder that read these events."""
    builder = builder_for("anthropic-messages")
    for event in events:
        builder.feed(StreamEvent(event, event["type"]).encode())
    return builder


def content(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks these events make."""
    reply = fed(START, *events).reply()
    assert reply is not None
    blocks: list[dict[str, Any]] = reply["content"]
    return blocks


def test_a_message_comes_together() -> None:
    """Thinking keeps its signature, text and input their order; the first event's usage is completed by the last one's."""
    builder = fed(
        START,
        {"type": "ping"},
        *THINKING,
        *block(1, {"type": "text", "text": ""}, text("I will "), text("look.")),
        *block(2, TOOL, json(""), json('{"comm'), json('and": "ls"}')),
        ends("tool_use", output_tokens=30, output_tokens_details={"thinking_tokens": 20}, input_tokens=None),
        STOP,
    )
    reply = builder.reply()

    assert reply is not None
    assert builder.is_finished
    assert reply["id"] == "msg_1"
    assert reply["content"] == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": "I will look."},
        {**TOOL, "input": {"command": "ls"}},
    ]
    assert ANTHROPIC_MESSAGES.finish(reply) == "tool-calls"
    assert ANTHROPIC_MESSAGES.usage(reply) == Usage(30, 10, 20, 60, 10)
    parts = ANTHROPIC_MESSAGES.decode(ANTHROPIC_MESSAGES.reply_items(reply)).messages[0].parts
    assert [type(part) for part in parts] == [ReasoningPart, TextPart, ToolCallPart]


def test_calls_without_input_have_none() -> None:
    """A tool that takes nothing is called with an empty object."""
    assert content(*block(0, TOOL, json(""))) == [TOOL]
    assert content(*block(0, TOOL)) == [TOOL]


@pytest.mark.parametrize("broken", ['{"path": "/tm', "[1, 2]", "no JSON", "null"])
def test_input_that_is_no_object_is_kept_as_text(broken: str) -> None:
    """The API takes only objects back, so half an input stands inside one."""
    assert content(*block(0, TOOL, json(broken), stops=False))[0]["input"] == {"arguments": broken}


def test_blocks_that_come_whole_stay() -> None:
    """Sealed thinking and results of server tools are in the event that begins them; citations are added to text."""
    sealed = {"type": "redacted_thinking", "data": "gAAA"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}
    cited = [{"type": "citations_delta", "citation": {"cited_text": name}} for name in "ab"]
    compacted = {"type": "compaction_delta", "content": "So far", "encrypted_content": "x"}

    assert content(
        *block(0, sealed),
        *block(1, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, json('{"query": "q"}')),
        *block(2, found),
        *block(3, {"type": "text", "text": "", "citations": None}, text("x"), *cited),
        *block(4, {"type": "compaction", "content": None}, compacted),
    ) == [
        sealed,
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        found,
        {"type": "text", "text": "x", "citations": [{"cited_text": "a"}, {"cited_text": "b"}]},
        {"type": "compaction", "content": "So far", "encrypted_content": "x"},
    ]


def test_a_stream_cut_short_gives_what_there_was() -> None:
    """What was said is there, with the usage of the beginning and no reason to have ended."""
    builder = fed(START, *block(0, {"type": "text", "text": ""}, text("Half a sen"), stops=False))
    reply = builder.reply()

    assert not builder.is_finished
    assert ANTHROPIC_MESSAGES.finish(reply) is None
    assert ANTHROPIC_MESSAGES.usage(reply) == Usage(30, 1, 0, 60, 10)
    assert ANTHROPIC_MESSAGES.reply_items(reply) == [
        {"role": "assistant", "content": [{"type": "text", "text": "Half a sen"}]}
    ]


def test_a_lost_beginning_loses_no_text() -> None:
    """Text whose block or message never began is text all the same; input of an unknown call is not a call."""
    deltas = [{"type": "content_block_delta", "index": 0, "delta": text("x")}]
    deltas += [{"type": "content_block_delta", "index": 1, "delta": json("{}")}]
    reply = fed(*deltas, ends(output_tokens=3)).reply()

    assert reply is not None
    assert reply["content"] == [{"type": "text", "text": "x"}]
    assert ANTHROPIC_MESSAGES.finish(reply) == "stop"


def test_the_end_brings_more_than_a_reason() -> None:
    """What else the last event tells is in the body; what it leaves empty stays as it was."""
    end = {
        **ends("refusal", output_tokens=2, iterations=[{"output_tokens": 2}]),
        "context_management": {"applied_edits": []},
    }
    end["delta"] |= {"stop_details": {"category": "x"}, "container": None}
    reply = fed(START, end).reply()

    assert reply is not None
    assert reply["stop_details"] == {"category": "x"}
    assert reply["context_management"] == {"applied_edits": []}
    assert reply["usage"]["iterations"] == [{"output_tokens": 2}]
    assert "container" not in reply
