"""Responses replies out of their events."""

from typing import Any

import pytest

from infold.core.messages import Finish, ReasoningPart, TextPart, ToolCallPart, Usage
from infold.formats.registry import OPENAI_RESPONSES
from infold.formats.streams import ReplyBuilder, builder_for
from infold.testing.script import StreamEvent

Event = dict[str, Any]

BEGUN: Event = {
    "id": "resp_1",
    "object": "response",
    "status": "in_progress",
    "model": "m",
    "output": [],
    "usage": None,
}
USAGE = {
    "input_tokens": 100,
    "output_tokens": 30,
    "total_tokens": 130,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens_details": {"reasoning_tokens": 20},
}
THOUGHT: Event = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "bash",
    "arguments": "",
    "status": "in_progress",
}


def told(kind: str, index: int | None = None, **more: Any) -> Event:
    """An event of the stream."""
    return {"type": f"response.{kind}", **({} if index is None else {"output_index": index}), **more}


def text(piece: str, *, index: int = 1, place: int = 0) -> Event:
    """A piece of text."""
    return told("output_text.delta", index, content_index=place, item_id="msg_1", delta=piece)


PIECES = [
    told("created", response=BEGUN),
    told("output_item.added", 0, item=THOUGHT),
    told("reasoning_summary_part.added", 0, summary_index=0, part={"type": "summary_text", "text": ""}),
    told("reasoning_summary_text.delta", 0, summary_index=0, delta="Think"),
    told("reasoning_summary_text.delta", 0, summary_index=0, delta="ing"),
    told("output_item.added", 1, item=MESSAGE),
    told("content_part.added", 1, content_index=0, part={"type": "output_text", "text": "", "annotations": []}),
    text("Hel"),
    text("lo"),
    told("output_item.added", 2, item=CALL),
    told("function_call_arguments.delta", 2, item_id="fc_1", delta='{"a"'),
    told("function_call_arguments.delta", 2, item_id="fc_1", delta=":1}"),
]
WRITTEN: list[Event] = [
    {**THOUGHT, "summary": [{"type": "summary_text", "text": "Thinking"}]},
    {**MESSAGE, "content": [{"type": "output_text", "text": "Hello", "annotations": []}]},
    {**CALL, "arguments": '{"a":1}'},
]
OUTPUT = [
    {**WRITTEN[0], "encrypted_content": "gAAA"},
    {**WRITTEN[1], "status": "completed"},
    {**WRITTEN[2], "status": "completed"},
]


def fed(*events: Event) -> ReplyBuilder:
    """A builder that read these events."""
    builder = builder_for("openai-responses")
    for event in events:
        builder.feed(StreamEvent(event, event["type"]).encode())
    return builder


def ended(status: str, **more: Any) -> Event:
    """The event that ends a response, with all of it."""
    return told(status, response={**BEGUN, "status": status, "output": OUTPUT, "usage": USAGE, **more})


def test_the_last_event_is_the_reply() -> None:
    """Where the whole response comes, it is the body."""
    builder = fed(*PIECES, ended("completed"))
    reply = builder.reply()

    assert reply == ended("completed")["response"]
    assert builder.is_finished
    assert OPENAI_RESPONSES.finish(reply) == "tool-calls"
    assert OPENAI_RESPONSES.usage(reply) == Usage(40, 10, 20, 60, 0, 130)


def test_a_stream_cut_short_gives_what_there_was() -> None:
    """Without its last event a reply is made of the deltas, and has no reason to have ended."""
    builder = fed(*PIECES)
    reply = builder.reply()

    assert reply is not None
    assert not builder.is_finished
    assert reply["id"] == "resp_1"
    assert reply["output"] == WRITTEN
    assert OPENAI_RESPONSES.finish(reply) is None
    assert OPENAI_RESPONSES.usage(reply) is None
    parts = OPENAI_RESPONSES.decode(OPENAI_RESPONSES.reply_items(reply)).messages[0].parts
    assert [type(part) for part in parts] == [ReasoningPart, TextPart, ToolCallPart]


def test_finished_items_are_taken_whole() -> None:
    """An item's end brings what its deltas lack: the seal, the status."""
    done = [told("output_item.done", index, item=item) for index, item in enumerate(OUTPUT)]
    reply = fed(*PIECES, *done).reply()

    assert reply is not None
    assert reply["output"] == OUTPUT


@pytest.mark.parametrize("output", [[], None])
def test_items_stand_in_for_an_empty_end(output: object) -> None:
    """Some servers end with a response without output; then the items that came before are the output."""
    done = [told("output_item.done", index, item=item) for index, item in enumerate(OUTPUT)]
    reply = fed(told("created", response=BEGUN), *done, ended("completed", output=output)).reply()

    assert reply is not None
    assert reply["output"] == OUTPUT
    assert OPENAI_RESPONSES.finish(reply) == "tool-calls"


@pytest.mark.parametrize(
    ("status", "more", "finish"),
    [
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, "content-filter"),
        ("failed", {"error": {"code": "server_error", "message": "x"}}, "error"),
        ("cancelled", {}, "abort"),
    ],
)
def test_every_end_is_one(status: str, more: Event, finish: Finish) -> None:
    """A response that failed or was cut off by its provider is finished, and says why."""
    builder = fed(*PIECES, ended(status, **more))

    assert builder.is_finished
    assert OPENAI_RESPONSES.finish(builder.reply()) == finish
    assert (builder.error() is not None) == (status == "failed")


def test_a_text_is_mended_by_its_end() -> None:
    """The event that ends a text, a part or a call has all of it, should a delta have been lost."""
    reply = fed(
        *PIECES[:8],
        told("output_text.done", 1, content_index=0, text="Hello"),
        told("output_item.added", 2, item=CALL),
        told("function_call_arguments.done", 2, arguments='{"a":1}'),
        told("reasoning_summary_part.done", 0, summary_index=0, part={"type": "summary_text", "text": "Thinking"}),
    ).reply()

    assert reply is not None
    assert reply["output"] == WRITTEN


def test_every_kind_of_text_grows() -> None:
    """Refusals, raw reasoning, free text for custom tools, calls of remote tools and code are all put together."""
    kinds = {
        "refusal": {
            "type": "message",
            "id": "i",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "ab"}],
        },
        "reasoning_text": {"type": "reasoning", "id": "i", "content": [{"type": "reasoning_text", "text": "ab"}]},
        "custom_tool_call_input": {"type": "custom_tool_call", "id": "i", "input": "ab"},
        "mcp_call_arguments": {"type": "mcp_call", "id": "i", "arguments": "ab"},
        "code_interpreter_call_code": {"type": "code_interpreter_call", "id": "i", "code": "ab"},
    }
    for kind, item in kinds.items():
        deltas = [told(f"{kind}.delta", 0, item_id="i", content_index=0, delta=piece) for piece in "ab"]
        reply = fed(*deltas).reply()
        assert reply is not None
        assert reply["output"] == [item]


def test_items_and_blocks_keep_their_order() -> None:
    """Whatever order they begin in, items and blocks stand by their index."""
    reply = fed(text("d", place=1), text("c", place=0), text("a", index=0), text("b", index=0, place=1)).reply()

    assert reply is not None
    assert [[part["text"] for part in item["content"]] for item in reply["output"]] == [["a", "b"], ["c", "d"]]


def test_events_that_add_nothing_are_passed_over() -> None:
    """Progress of server tools, and events without a place, change nothing."""
    reply = fed(
        *PIECES,
        told("web_search_call.searching", 0, item_id="ws"),
        told("output_text.delta", delta="x"),
        told("content_part.added", 9, content_index=0, part={"type": "output_text"}),
        told("output_item.added", 5, item=None),
        told("in_progress"),
        {"type": "keepalive"},
    ).reply()

    assert reply is not None
    assert reply["output"] == WRITTEN
