"""Anthropic Messages: items, infold's own messages, streams."""

from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    MessageId,
    ReasoningPart,
    StepStartPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    is_genuine_user,
    is_signed,
)
from infold.formats.anthropic import decode, encode, encode_new, looks_like
from infold.formats.codec import json_text
from infold.formats.media import media_digest
from infold.formats.registry import ANTHROPIC_MESSAGES, builder_for
from infold.formats.streams import ReplyBuilder
from infold.testing.script import StreamEvent

USE = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}


RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "out", "cache_control": {"type": "ephemeral"}}


CALLING = {"role": "assistant", "content": [USE]}


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}


HERE = MessageId("x")


def altered(items: list[Any], *parts: Any) -> Any:
    """The last message's items after its parts changed."""
    decoded = decode(items)
    return encode([replace(decoded.messages[-1], parts=parts)], decoded)


def test_results_alone_are_the_tools() -> None:
    """A user item of results only is a tool message; with words beside them it is the user's."""
    words = {"type": "text", "text": "and now this"}
    only, mixed = ([CALLING, {"role": "user", "content": blocks}] for blocks in ([RESULT], [RESULT, words]))
    result = ToolResultPart("t1", "bash", "out")
    assert decode(only).messages[1] == ToolMessage(MessageId("m1"), (result,))
    assert decode(mixed).messages[1] == UserMessage(MessageId("m1"), (result, TextPart("and now this")))


def test_reminders_beside_results_are_not_the_user() -> None:
    """A harness's reminder after results makes no genuine user message."""
    reminder = {"type": "text", "text": "<system-reminder>x</system-reminder>"}
    assert not is_genuine_user(decode([CALLING, {"role": "user", "content": [RESULT, reminder]}]).messages[1])


def test_thinking_is_kept_byte_for_byte() -> None:
    """Thinking and redacted thinking carry their whole block as provider data, and can be written anew from it."""
    redacted = {"type": "redacted_thinking", "data": "g"}
    message = decode([{"role": "assistant", "content": [THINKING, redacted, USE]}]).messages[0]
    assert is_signed(message)
    assert [part.text for part in message.parts if isinstance(part, ReasoningPart)] == ["hm", ""]
    assert encode_new(message) == [{"role": "assistant", "content": [THINKING, redacted, USE]}]


def test_failed_results_are_errors() -> None:
    """`is_error` is the result's status, both ways."""
    item = {"role": "user", "content": [{**RESULT, "is_error": True}]}
    part = decode([CALLING, item]).messages[1].parts[0]
    assert part == ToolResultPart("t1", "bash", "out", "error")
    own = ToolMessage(HERE, (ToolResultPart("t1", "bash", "gone", "interrupted"), TextPart("note")))
    assert encode_new(own)[0]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": "gone", "is_error": True},
        {"type": "text", "text": "note"},
    ]


def test_a_result_may_hold_media_and_unknown_blocks() -> None:
    """Text and opaque blocks of a result are its output, media its files."""
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    blocks = ["one", {"type": "text", "text": "two"}, image, {"type": "tool_reference", "tool_name": "x"}]
    part = decode([CALLING, {"role": "user", "content": [{**RESULT, "content": blocks}]}]).messages[1].parts[0]
    assert isinstance(part, ToolResultPart)
    assert part.output == 'one\ntwo\n{"type":"tool_reference","tool_name":"x"}'
    assert [file.tokens for file in part.files] == [1_600]


def test_a_pruned_result_keeps_its_marks() -> None:
    """Only the content of a pruned result changes; the caller's block does not."""
    item = {"role": "user", "content": [RESULT]}
    part = decode([CALLING, item]).messages[1].parts[0]
    assert altered([CALLING, item], replace(part, output="stub")) == [
        {"role": "user", "content": [{**RESULT, "content": "stub"}]}
    ]
    assert RESULT["content"] == "out"


def test_results_and_media_may_become_text() -> None:
    """A late or orphan result shown as text stands after the results that are left, a left-out medium is a note."""
    both = {"role": "assistant", "content": [USE, {**USE, "id": "t2"}]}
    second = {**RESULT, "tool_use_id": "t2"}
    item = {"role": "user", "content": [RESULT, second]}
    parts = decode([both, item]).messages[1].parts
    late = {"type": "text", "text": "late"}
    assert altered([both, item], TextPart("late"), parts[1]) == [{"role": "user", "content": [second, late]}]
    assert altered([{"role": "user", "content": [RESULT]}], TextPart("late")) == [{"role": "user", "content": [late]}]
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    for block in (image, {"type": "search_result"}):
        assert altered([{"role": "user", "content": [block]}], TextPart("late")) == [
            {"role": "user", "content": [late]}
        ]


def test_own_results_join_the_callers() -> None:
    """infold's own result stands with the caller's before any text, in a copy; its other messages stay apart."""
    both = {"role": "assistant", "content": [USE, {**USE, "id": "t2"}]}
    words = {"type": "text", "text": "and now this"}
    item = {"role": "user", "content": [RESULT, words], "x": 1}
    decoded = decode([both, item])
    own = ToolMessage(HERE, (ToolResultPart("t2", "bash", "gone", "interrupted"),))
    block = {"type": "tool_result", "tool_use_id": "t2", "content": "gone", "is_error": True}
    assert encode([*decoded.messages, own], decoded)[1:] == [{**item, "content": [RESULT, block, words]}]
    assert item["content"] == [RESULT, words]
    note = UserMessage(HERE, (TextPart("note"),))
    assert len(encode([*decoded.messages, note], decoded)) == 3


def test_pruned_arguments_are_an_object_again() -> None:
    """Arguments go back as the object the API wants, whatever they were made into."""
    part = decode([CALLING]).messages[0].parts[0]
    assert part == ToolCallPart("t1", "bash", '{"command":"ls"}')
    assert altered([CALLING], replace(part, arguments='{"command":"[x]"}'))[0] == {
        "role": "assistant",
        "content": [{**USE, "input": {"command": "[x]"}}],
    }
    assert altered([CALLING], replace(part, arguments="[broken"))[0]["content"][0]["input"] == {"arguments": "[broken"}


def test_documents_cost_by_their_source() -> None:
    """B35: a text document counts as attached text, a PDF as a medium whose bytes have a name, other content by its JSON."""
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "abc"}, "title": "t"}
    pdf = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
        "title": "p",
    }
    blocks = {"type": "document", "source": {"type": "content", "content": []}}
    item = {"role": "user", "content": [text, pdf, blocks]}
    parts = decode([item]).messages[0].parts
    assert parts[:2] == (
        TextPart("abc", synthetic=True, document="t"),
        FilePart("application/pdf", 3_000, "p", "", 3, media_digest("AAAA")),
    )
    assert isinstance(parts[2], TextPart)
    changed = altered([item], replace(parts[0], text="a"), *parts[1:])[0]
    assert changed["content"][0]["source"]["data"] == "a"


def test_server_tools_are_opaque() -> None:
    """B30: what the provider ran itself counts by its JSON and cannot be altered, only left out; its id links it to its call."""
    block = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    item = {"role": "assistant", "content": [block, {"type": "text", "text": "x"}]}
    parts = decode([item]).messages[0].parts
    assert isinstance(parts[0], TextPart)
    assert (parts[0].synthetic, parts[0].opaque, parts[0].links) == (True, True, ("s",))
    assert altered([item], TextPart("?", synthetic=True), TextPart("y"))[0]["content"] == [
        block,
        {"type": "text", "text": "y"},
    ]
    assert altered([item], parts[1]) == [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]
    assert altered([item]) == []


def test_blank_text_is_left_out() -> None:
    """The API refuses blank text, so text that became blank goes with its block or item."""
    item = {"role": "assistant", "content": [{"type": "text", "text": "x"}, USE]}
    use = decode([item]).messages[0].parts[1]
    assert altered([item], TextPart(" "), use) == [CALLING]
    assert altered([{"role": "user", "content": "x"}], TextPart("")) == []
    assert encode_new(UserMessage(HERE, (TextPart(" "),))) == []


def test_sdk_blocks_may_stand_inside_items() -> None:
    """A reply's own content blocks in a dict are read, and come back as they are."""
    use = ToolUseBlock.model_validate({**USE, "caller": {"type": "direct"}})
    said = TextBlock.model_validate({"type": "text", "text": "x", "citations": None})
    item = {"role": "assistant", "content": [said, use]}
    decoded = decode([item])
    assert decoded.messages[0].parts == (TextPart("x"), ToolCallPart("t1", "bash", '{"command":"ls"}'))
    changed = altered([item], TextPart("y"), decoded.messages[0].parts[1])[0]
    assert changed["content"][1] is use


def test_roles_beyond_the_two_are_read() -> None:
    """A system item is a system message; an unknown role is opaque; text may stand bare."""
    items = [
        {"role": "system", "content": "s"},
        {"role": "critic", "content": "c"},
        {"role": "user", "content": ["a", "b"]},
    ]
    messages = decode(items).messages
    assert isinstance(messages[0], SystemMessage)
    assert isinstance(messages[1], UserMessage)
    assert messages[2].parts == (TextPart("a"), TextPart("b"))
    assert encode_new(messages[0]) == [{"role": "system", "content": "s"}]


def test_blocks_of_its_own_tell_the_format() -> None:
    """Tool use, thinking and results of server tools stand in no other format."""
    for block in (USE, RESULT, THINKING, {"type": "bash_code_execution_tool_result"}):
        assert looks_like([{"role": "user", "content": "x"}, {"role": "assistant", "content": ["bare", block]}])
    assert not looks_like([{"role": "user", "content": [{"type": "text", "text": "x"}]}])


def test_new_media_are_linked_or_named() -> None:
    """Images and PDFs with an address are linked, other media named in words."""
    files = [
        FilePart("image/png", 1, reference="https://example.org/a.png"),
        FilePart("application/pdf", 1, reference="https://example.org/a.pdf"),
        FilePart("audio/wav", 1, "a.wav"),
    ]
    assert [block["type"] for block in encode_new(UserMessage(HERE, tuple(files)))[0]["content"]] == [
        "image",
        "document",
        "text",
    ]
    assert encode_new(AssistantMessage(HERE, (ReasoningPart("hm"),))) == []


def test_only_its_own_thinking_goes_back() -> None:
    """Another provider's sealed reasoning is left out; calls are objects."""
    parts = (
        ReasoningPart("", json_text({"type": "reasoning"})),
        StepStartPart(),
        TextPart("t"),
        ToolCallPart("a", "f", '{"b":1}'),
    )
    assert encode_new(AssistantMessage(HERE, parts)) == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "t"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1}}],
        }
    ]


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


THINKING_EVENTS = block(
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
        *THINKING_EVENTS,
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
