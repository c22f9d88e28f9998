"""OpenAI Responses: items, infold's own messages, streams."""

from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.responses import ResponseFunctionToolCall

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Finish,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    is_provider_summary,
    is_signed,
)
from infold.formats.codec import json_text
from infold.formats.openai_responses import BLANK_IMAGE, decode, encode, encode_new, looks_like
from infold.formats.registry import OPENAI_RESPONSES, builder_for
from infold.formats.streams import ReplyBuilder
from infold.testing.script import StreamEvent

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "g",
}


SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "ok", "annotations": []}],
}


CALL = {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"command":"ls"}', "id": "fc_1"}


OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "out"}


def altered(items: list[Any], place: int, *parts: Any) -> list[object]:
    """The items of one message after its parts changed."""
    decoded = decode(items)
    return encode([replace(decoded.messages[place], parts=parts)], decoded)


def test_neighbours_of_one_side_are_one_message() -> None:
    """What the model did in a step is one message, what the tools answered another."""
    second = {**CALL, "call_id": "b", "id": "fc_2"}
    items = [{"role": "user", "content": "u"}, REASONING, SAID, CALL, second, OUTPUT, {**OUTPUT, "call_id": "b"}, SAID]
    decoded = decode(items, first=3)
    kinds = [UserMessage, AssistantMessage, ToolMessage, AssistantMessage]
    assert [type(message) for message in decoded.messages] == kinds
    assert [message.id for message in decoded.messages] == ["m3", "m4", "m5", "m6"]
    assert [len(sources) for sources in decoded.sources] == [1, 4, 2, 1]
    assert [type(part) for part in decoded.messages[1].parts] == [ReasoningPart, TextPart, ToolCallPart, ToolCallPart]


def test_neighbouring_users_stay_apart() -> None:
    """User and system items are messages of their own."""
    items = [{"role": role, "content": "x"} for role in ("developer", "system", "user", "user")]
    kinds = [SystemMessage, SystemMessage, UserMessage, UserMessage]
    assert [type(message) for message in decode(items).messages] == kinds


def test_reasoning_binds_its_message() -> None:
    """Encrypted reasoning is provider data, and its whole item is kept."""
    message = decode([REASONING, CALL]).messages[0]
    assert is_signed(message)
    assert '"encrypted_content":"g"' in message.parts[0].provider_data  # type: ignore[union-attr]
    assert message.parts[0].text == "hm"  # type: ignore[union-attr]


def test_compaction_items_are_opaque_provider_data() -> None:
    """What the provider itself compacted cannot be read, only given back."""
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "g"}
    message = decode([item]).messages[0]
    (sealed,) = message.parts
    assert is_provider_summary(sealed)
    assert not is_signed(message)
    assert encode_new(message) == [item]


@pytest.mark.parametrize(
    ("call", "tool", "arguments", "changed"),
    [
        ({"type": "custom_tool_call", "name": "patch", "input": "x"}, "patch", '{"input":"x"}', {"input": "y"}),
        (
            {"type": "local_shell_call", "action": {"command": "x"}},
            "local_shell",
            '{"command":"x"}',
            {"action": {"command": "y"}},
        ),
        (
            {"type": "shell_call", "action": {"commands": "x"}},
            "shell",
            '{"commands":"x"}',
            {"action": {"commands": "y"}},
        ),
        (
            {"type": "apply_patch_call", "operation": {"diff": "x"}},
            "apply_patch",
            '{"diff":"x"}',
            {"operation": {"diff": "y"}},
        ),
        (
            {"type": "function_call", "name": "f", "arguments": '{"a":"x"}'},
            "f",
            '{"a":"x"}',
            {"arguments": '{"a":"y"}'},
        ),
    ],
)
def test_every_kind_of_call_is_a_call(call: dict[str, Any], tool: str, arguments: str, changed: dict[str, Any]) -> None:
    """Calls of all kinds have a tool and arguments, and changed arguments go where they came from."""
    item = {**call, "call_id": "a", "status": "completed"}
    part = decode([item]).messages[0].parts[0]
    assert part == ToolCallPart("a", tool, arguments)
    assert altered([item], 0, replace(part, arguments=arguments.replace('"x"', '"y"'))) == [{**item, **changed}]


def test_results_and_media_may_become_text() -> None:
    """A late or orphan result that is shown as text is a message of its own, a left-out medium is a note."""
    note = {"role": "user", "content": "late"}
    assert altered([CALL, OUTPUT], 1, TextPart("late")) == [note]
    assert altered([OUTPUT], 0, TextPart("late")) == [note]
    image = {"type": "input_image", "image_url": "https://example.org/a.png"}
    for block in (image, {"type": "hologram"}):
        assert altered([{"role": "user", "content": [block]}], 0, TextPart("[left out]")) == [
            {"role": "user", "content": [{"type": "input_text", "text": "[left out]"}]}
        ]
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}, {"type": "hologram"}]}
    parts = decode([refusal]).messages[0].parts
    assert altered([refusal], 0, TextPart("n"), TextPart("?")) == [
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "n"}, {"type": "hologram"}]}
    ]
    assert altered([{"type": "zebra"}], 0, replace(parts[1], text="?")) == [{"type": "zebra"}]


def test_only_the_changed_item_of_a_message_is_copied() -> None:
    """Items of a message beside the changed one are the caller's own."""
    items = [REASONING, SAID, CALL]
    parts = decode(items).messages[0].parts
    new = altered(items, 0, parts[0], parts[1], replace(parts[2], arguments="{}"))
    assert new[0] is REASONING
    assert new[1] is SAID
    assert new[2] == {**CALL, "arguments": "{}"}
    assert altered(items, 0, parts[2]) == [CALL]


def test_text_keeps_its_annotations() -> None:
    """Clipped text stands in the block it came from."""
    assert altered([SAID], 0, TextPart("o")) == [
        {**SAID, "content": [{"type": "output_text", "text": "o", "annotations": []}]}
    ]
    assert altered([{"role": "user", "content": "long", "x": 1}], 0, TextPart("l")) == [
        {"role": "user", "content": "l", "x": 1}
    ]
    assert altered([SAID], 0, TextPart("")) == []


def test_server_tools_and_unknown_items_are_opaque() -> None:
    """What infold has no reading for counts by its JSON, on the side it is from."""
    items = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "zebra"},
        {"type": "tool_search_output", "call_id": "t"},
    ]
    decoded = decode([*items, {"type": "additional_tools", "role": "developer"}])
    assert [type(message) for message in decoded.messages] == [AssistantMessage, ToolMessage, SystemMessage]
    assert all(part.synthetic for message in decoded.messages for part in message.parts if isinstance(part, TextPart))


def test_orphans_are_text_and_sdk_objects_are_read() -> None:
    """An output without a call is text; an SDK's call object is a call."""
    assert decode([OUTPUT]).messages[0].parts == (TextPart("out", synthetic=True),)
    call = ResponseFunctionToolCall.model_validate(CALL)
    decoded = decode([call, OUTPUT])
    assert decoded.messages[1].parts == (ToolResultPart("a", "bash", "out"),)
    assert encode(decoded.messages, decoded)[0] is call


@pytest.mark.parametrize(
    "items", [[REASONING], [SAID], [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], [OUTPUT]]
)
def test_items_and_blocks_of_its_own_tell_the_format(items: list[object]) -> None:
    """One item or block that no other format has is enough."""
    assert looks_like(items)
    assert not looks_like([{"role": "user", "content": "x"}, {"type": "human", "content": "x"}])


def test_several_actions_of_a_computer_are_counted() -> None:
    """B30: a computer call of either shape is a call, with what it asks for as its arguments."""
    call = {"type": "computer_call", "call_id": "c", "actions": [{"type": "type", "text": "x" * 900}]}
    (part,) = decode([call]).messages[0].parts

    assert isinstance(part, ToolCallPart)
    assert "x" * 900 in part.arguments


def test_outputs_of_every_kind_are_results() -> None:
    """Text, blocks, shell runs, patches and screenshots all become results."""
    calls = [
        {"type": kind, "call_id": kind} for kind in ("function_call", "shell_call", "apply_patch_call", "computer_call")
    ]
    run = {"stdout": "1", "stderr": "2", "outcome": {"type": "exit", "exit_code": 2}}
    screenshot = {"type": "computer_screenshot", "image_url": "https://example.org/a.png"}
    blocks = [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "https://example.org/b.png"}]
    outputs: list[dict[str, Any]] = [
        {"type": "function_call_output", "call_id": "function_call", "output": blocks},
        {"type": "shell_call_output", "call_id": "shell_call", "output": [run]},
        {"type": "apply_patch_call_output", "call_id": "apply_patch_call", "status": "failed", "output": "bad"},
        {"type": "computer_call_output", "call_id": "computer_call", "output": screenshot},
    ]
    results = decode([*calls, *outputs]).messages[1].parts
    assert all(isinstance(part, ToolResultPart) for part in results)
    assert [part.output for part in results if isinstance(part, ToolResultPart)] == ["t", "1\n2", "bad", ""]
    assert [part.status for part in results if isinstance(part, ToolResultPart)] == [
        "completed",
        "completed",
        "error",
        "completed",
    ]
    assert [len(part.files) for part in results if isinstance(part, ToolResultPart)] == [1, 0, 0, 1]
    assert results[1].exit_status == 2  # type: ignore[union-attr]
    pruned = [replace(part, output="stub", files=()) for part in results]
    assert altered([*calls, *outputs], 1, *pruned) == [
        {**outputs[0], "output": [{"type": "input_text", "text": "stub"}]},
        {**outputs[1], "output": [{**run, "stdout": "stub", "stderr": ""}]},
        {**outputs[2], "output": "stub"},
        {**outputs[3], "output": {"type": "computer_screenshot", "image_url": BLANK_IMAGE}},
    ]
    clipped = [replace(part, output="stub") for part in results]
    assert altered([*calls, *outputs], 1, *clipped)[3] == outputs[3]


def test_media_are_costed() -> None:
    """Images, files and sound in a user's item are media parts."""
    blocks = [
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
        {"type": "input_file", "file_id": "f", "filename": "a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "A" * 4_000, "format": "mp3"}},
        {"type": "hologram"},
    ]
    parts = decode([{"role": "user", "content": blocks}]).messages[0].parts
    assert [part.tokens for part in parts if isinstance(part, FilePart)] == [85, 15_000, 10]
    assert isinstance(parts[3], TextPart)
    assert parts[3].synthetic


HERE = MessageId("x")


def test_text_is_an_easy_message() -> None:
    """Text needs no ids: the short form of a message is enough."""
    assert encode_new(UserMessage(HERE, (TextPart("a"), TextPart("b")))) == [{"role": "user", "content": "a\nb"}]
    assert encode_new(SystemMessage(HERE, (TextPart("a"),))) == [{"role": "system", "content": "a"}]
    assert encode_new(UserMessage(HERE, ())) == []


def test_a_reply_is_reasoning_text_and_calls() -> None:
    """The provider's own reasoning stays as it came; another provider's stays away."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    parts = (
        ReasoningPart("", json_text(reasoning)),
        ReasoningPart("x", json_text("sig")),
        TextPart("t"),
        ToolCallPart("a", "f", "{}"),
    )
    assert encode_new(AssistantMessage(HERE, parts)) == [
        reasoning,
        {"role": "assistant", "content": "t"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    ]


def test_joined_replies_keep_their_order() -> None:
    """Reasoning stands right before what it led to, also where two replies are one message."""
    thoughts = [{"type": "reasoning", "id": f"rs_{number}", "summary": []} for number in (1, 2)]
    one, other = (ReasoningPart("", json_text(thought)) for thought in thoughts)
    items = encode_new(AssistantMessage(HERE, (one, TextPart("a"), TextPart("b"), other, ToolCallPart("c", "f", "{}"))))

    assert [item.get("id") or item.get("content") or item.get("call_id") for item in items] == [
        *("rs_1", "a\nb"),
        *("rs_2", "c"),
    ]


def test_results_come_before_text() -> None:
    """Results under the user's role stand before what is said."""
    message = UserMessage(HERE, (TextPart("t"), ToolResultPart("a", "f", "out")))
    assert [item.get("type") for item in encode_new(message)] == ["function_call_output", None]


def test_images_with_an_address_are_shown() -> None:
    """A medium whose bytes are gone is named in words, one with an address is linked."""
    files = (FilePart("image/png", 1, reference="https://example.org/a.png"), FilePart("image/png", 1, "b.png"))
    assert encode_new(UserMessage(HERE, files))[0]["content"] == [
        {"type": "input_text", "text": "[image/png b.png]"},
        {"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"},
    ]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("custom_tool_call", {"call_id": "a", "output": "gone"}),
        ("local_shell_call", {"id": "a", "output": "gone"}),
        ("computer_call", {"call_id": "a", "output": {"type": "computer_screenshot", "image_url": BLANK_IMAGE}}),
        ("apply_patch_call", {"call_id": "a", "output": "gone", "status": "failed"}),
        (
            "shell_call",
            {"call_id": "a", "output": [{"stdout": "gone", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]},
        ),
    ],
)
def test_each_kind_of_call_gets_its_kind_of_output(kind: str, fields: dict[str, object]) -> None:
    """An interrupted call is answered in the kind the provider wants; the caller's own answers stay as they are."""
    own = ToolMessage(HERE, (ToolResultPart("a", kind, "gone", "interrupted"),))
    theirs = {"type": "function_call_output", "call_id": "b", "output": "x"}
    calls = [{"type": kind, "call_id": "a"}, {"type": "local_shell_call", "call_id": "b"}]
    decoded = decode([*calls, theirs])

    encoded = encode([decoded.messages[0], own, decoded.messages[1]], decoded)

    assert encoded[2] == {"type": f"{kind}_output", **fields}
    assert encoded[3] is theirs


def test_outputs_stand_in_the_order_of_their_calls() -> None:
    """B12: infold's answer stands where its call does, though the caller's answers around it were one message."""
    calls = [{"type": "function_call", "call_id": one, "name": "read", "arguments": "{}"} for one in "abc"]
    theirs = [{"type": "function_call_output", "call_id": one, "output": one} for one in "ac"]
    decoded = decode([*calls, *theirs])
    own = ToolMessage(HERE, (ToolResultPart("b", "read", "gone", "interrupted"),))

    encoded = encode([*decoded.messages, own], decoded)

    assert [item["call_id"] for item in encoded[3:] if isinstance(item, dict)] == ["a", "b", "c"]
    assert encoded[3] is theirs[0]
    assert encoded[5] is theirs[1]


def test_media_with_bytes_are_blocks() -> None:
    """B35: an image and a PDF whose bytes are at hand are sent as such, in messages and results; other media are named."""
    image = FilePart("image/png", 9, reference="data:image/png;base64,AAAA", digest="d")
    paper = FilePart("application/pdf", 9, "a.pdf", "data:application/pdf;base64,AAAA", digest="e")
    sound = FilePart("audio/ogg", 9, reference="data:audio/ogg;base64,AAAA", digest="f")
    blocks = [
        {"type": "input_text", "text": "see\n[audio/ogg]"},
        {"type": "input_image", "detail": "auto", "image_url": image.reference},
        {"type": "input_file", "filename": "a.pdf", "file_data": paper.reference},
    ]

    assert encode_new(UserMessage(HERE, (TextPart("see"), image, paper, sound))) == [
        {"role": "user", "content": blocks}
    ]
    result = ToolMessage(HERE, (ToolResultPart("c", "shot", "see", files=(image, paper, sound)),))
    assert encode_new(result) == [{"type": "function_call_output", "call_id": "c", "output": blocks}]


def test_outputs_of_other_calls_are_text() -> None:
    """B12, B35: a call of a kind whose output takes no media is answered with the text alone."""
    image = FilePart("image/png", 9, reference="data:image/png;base64,AAAA", digest="d")
    decoded = decode([{"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}])
    result = ToolMessage(HERE, (ToolResultPart("c", "local_shell", "done", files=(image,)),))

    assert encode([*decoded.messages, result], decoded)[-1] == {
        "type": "local_shell_call_output",
        "id": "c",
        "output": "done",
    }


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


STREAMED_CALL = {
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
    told("output_item.added", 2, item=STREAMED_CALL),
    told("function_call_arguments.delta", 2, item_id="fc_1", delta='{"a"'),
    told("function_call_arguments.delta", 2, item_id="fc_1", delta=":1}"),
]


WRITTEN: list[Event] = [
    {**THOUGHT, "summary": [{"type": "summary_text", "text": "Thinking"}]},
    {**MESSAGE, "content": [{"type": "output_text", "text": "Hello", "annotations": []}]},
    {**STREAMED_CALL, "arguments": '{"a":1}'},
]


STREAMED = [
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
    return told(status, response={**BEGUN, "status": status, "output": STREAMED, "usage": USAGE, **more})


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
    done = [told("output_item.done", index, item=item) for index, item in enumerate(STREAMED)]
    reply = fed(*PIECES, *done).reply()

    assert reply is not None
    assert reply["output"] == STREAMED


@pytest.mark.parametrize("output", [[], None])
def test_items_stand_in_for_an_empty_end(output: object) -> None:
    """Some servers end with a response without output; then the items that came before are the output."""
    done = [told("output_item.done", index, item=item) for index, item in enumerate(STREAMED)]
    reply = fed(told("created", response=BEGUN), *done, ended("completed", output=output)).reply()

    assert reply is not None
    assert reply["output"] == STREAMED
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
        told("output_item.added", 2, item=STREAMED_CALL),
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
