"""Anthropic Messages."""

from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from msgspec.structs import replace

from infold.core.messages import (
    FilePart,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    is_genuine_user,
    is_signed,
)
from infold.errors import BrokenInput
from infold.formats.anthropic import decode, encode, encode_new, looks_like
from infold.formats.media import digest_of

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
        FilePart("application/pdf", 3_000, "p", "", 3, digest_of("AAAA")),
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


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([CALLING, None], "item 1: None"),
        ([{"role": "user", "content": 3}], "item 0: content is an int"),
        ([{"content": "x"}], "item 0: it has no role"),
        ([{"role": "user", "content": [{**RESULT, "content": 3}]}], "item 0: content of a tool_result is an int"),
        ([{"role": "user", "content": [3]}], "item 0: an int"),
    ],
)
def test_wrong_types_are_named(items: Any, problem: str) -> None:
    """An item of a wrong type is refused with its place, the problem and what to do."""
    with pytest.raises(BrokenInput, match=problem):
        decode(items)


def test_blocks_of_its_own_tell_the_format() -> None:
    """Tool use, thinking and results of server tools stand in no other format."""
    for block in (USE, RESULT, THINKING, {"type": "bash_code_execution_tool_result"}):
        assert looks_like([{"role": "user", "content": "x"}, {"role": "assistant", "content": ["bare", block]}])
    assert not looks_like([{"role": "user", "content": [{"type": "text", "text": "x"}]}])
