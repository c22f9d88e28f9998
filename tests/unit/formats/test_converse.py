"""Bedrock's Converse."""

import copy
from base64 import b64encode
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold import Session, SessionSettings, fit, open_store
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    fingerprint,
)
from infold.core.policy import INFOLD, Policy
from infold.core.summary_request import Additions, shared_request
from infold.formats.overflow import recognise
from infold.formats.registry import CONVERSE, OPENAI_CHAT, detect
from infold.formats.requests import ProviderRequest, Unmanaged, read_request, requested_window, summary_body
from infold.testing.builders import numbered, user
from infold.testing.converse_rules import converse_problems
from infold.testing.script import StreamEvent

Item = dict[str, Any]

POINT: Item = {"cachePoint": {"type": "default", "ttl": "1h"}}
THOUGHT: Item = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
PATH = "/model/us.anthropic.claude-opus-5-5-v1:0/converse"


def said(*blocks: Item | str, role: str = "user") -> Item:
    """An item; a text is a block of text."""
    return {"role": role, "content": [{"text": block} if isinstance(block, str) else block for block in blocks]}


def calls(*ids: str) -> Item:
    """A reply that calls."""
    return said(
        *({"toolUse": {"toolUseId": one, "name": "ls", "input": {"path": "/"}}} for one in ids), role="assistant"
    )


def result(call_id: str, *content: Item, **fields: str) -> Item:
    """A block with a result."""
    return {"toolResult": {"toolUseId": call_id, "content": list(content or ({"text": "a.py"},)), **fields}}


def decoded(*items: Item) -> tuple[Message, ...]:
    """Items as messages."""
    return CONVERSE.decode(items).messages


def test_blocks_without_a_type_are_converse() -> None:
    """B43: content that has no types is Bedrock's; one text among typed blocks or plain content leaves a list chat's."""
    assert detect([said("hi")]) is CONVERSE
    assert detect([said("hi", POINT), calls("a"), said(result("a"))]) is CONVERSE
    assert detect([said("hi"), {"role": "assistant", "content": "hello"}]) is OPENAI_CHAT
    assert detect([{"role": "user", "content": [{"type": "text", "text": "hi"}]}]) is OPENAI_CHAT
    assert detect([{"role": "user", "content": []}]) is OPENAI_CHAT


def test_messages_are_decoded() -> None:
    """B43: text, reasoning, calls and results of each kind are read as what they are."""
    failed = result("b", {"json": {"code": 3}}, status="error")
    first, second, third = decoded(said("hi"), {**calls("a", "b"), "x": 1}, said(result("a"), failed))

    assert first == UserMessage(MessageId("m0"), (TextPart("hi"),))
    assert second.parts == (ToolCallPart("a", "ls", '{"path":"/"}'), ToolCallPart("b", "ls", '{"path":"/"}'))
    assert isinstance(third, ToolMessage)
    assert third.parts == (
        ToolResultPart("a", "ls", "a.py"),
        ToolResultPart("b", "ls", '{"code":3}', "error"),
    )


def test_reasoning_is_kept_with_its_signature() -> None:
    """B43: signed and redacted reasoning go back as they came, bytes included."""
    redacted = {"reasoningContent": {"redactedContent": b"\x00sealed"}}
    items = [said("hi"), said(THOUGHT, redacted, "Yes.", role="assistant")]
    given = CONVERSE.decode(items)
    thought, sealed, text = given.messages[1].parts

    assert isinstance(thought, ReasoningPart)
    assert isinstance(sealed, ReasoningPart)
    assert (thought.text, sealed.text) == ("Hm.", "")
    assert CONVERSE.encode(given.messages, given)[1] is items[1]
    alone = AssistantMessage(MessageId("own"), (thought, sealed, text))
    assert CONVERSE.encode_new(alone)[0]["content"] == [
        THOUGHT,
        {"reasoningContent": {"redactedContent": b64encode(b"\x00sealed").decode()}},
        {"text": "Yes."},
    ]


@pytest.mark.parametrize("data", [b"\x89PNG", b64encode(b"\x89PNG").decode()])
def test_media_are_bytes_or_base64(data: object) -> None:
    """B43: the SDK's bytes and the wire's base64 are the same medium, guarded or not."""
    image = {"image": {"format": "png", "source": {"bytes": data}}}
    (message,) = decoded(said(image, {"guardContent": image}, "See."))
    one, other, _ = message.parts

    assert isinstance(one, FilePart)
    assert (one.media_type, one.byte_size) == ("image/png", 4)
    assert one == other


def test_documents_are_text_or_media() -> None:
    """B43: a document's text is text with its title, anything else a medium of its type, by name or by address."""
    sources: list[Item] = [
        {"text": "Read me."},
        {"content": [{"text": "One."}, {"text": "Two."}]},
        {"bytes": b"a,b"},
        {"s3Location": {"uri": "s3://b/k"}},
    ]
    documents = ({"document": {"format": "csv", "name": "n", "source": source}} for source in sources)
    (message,) = decoded(said(*documents))

    assert [part.text for part in message.parts if isinstance(part, TextPart)] == ["Read me.", "One.\nTwo."]
    files = [part for part in message.parts if isinstance(part, FilePart)]
    assert [(file.media_type, file.name, file.reference) for file in files] == [
        ("text/csv", "n", ""),
        ("text/csv", "n", "s3://b/k"),
    ]


def test_guarded_and_cited_text_is_text() -> None:
    """B43: what a person says under guard is theirs, and what a model says with citations is its own."""
    guarded = {"guardContent": {"text": {"text": "Never push.", "qualifiers": ["query"]}}}
    cited = {"citationsContent": {"content": [{"text": "It "}, {"text": "is."}], "citations": [{"title": "t"}]}}
    items = [said(guarded), said(cited, role="assistant")]
    given = CONVERSE.decode(items)

    assert [part.text for message in given.messages for part in message.parts if isinstance(part, TextPart)] == [
        "Never push.",
        "It is.",
    ]
    clipped = [replace(message, parts=(TextPart("Short."),)) for message in given.messages]
    assert CONVERSE.encode(clipped, given) == [
        said({"guardContent": {"text": {"text": "Short.", "qualifiers": ["query"]}}}),
        said("Short.", role="assistant"),
    ]


def test_a_cache_point_may_move() -> None:
    """B43: a cache point is no part of the message: moving it is no edit of the history, and an unchanged one stays in place."""
    marked, bare = said("hi", POINT), said("hi")
    assert fingerprint(*decoded(marked)) == fingerprint(*decoded(bare))

    session = Session(open_store("memory"), "s", SessionSettings(window=64_000, format=CONVERSE.name))
    session.prepare([marked])
    session.record({"output": {"message": said("Yes.", role="assistant")}, "stopReason": "end_turn"})
    items = [bare, said("Yes.", role="assistant"), said("And?", POINT)]
    assert session.prepare(items).messages == items


def test_a_cache_point_that_follows_nothing_is_left_out() -> None:
    """B43: where the block before it is removed, a cache point goes too, and so does a message of nothing else."""
    given = CONVERSE.decode([said("one", POINT, "two", POINT), said("three", POINT, role="assistant")])
    first, second = given.messages
    view = [replace(first, parts=first.parts[1:]), replace(second, parts=())]

    assert CONVERSE.encode(view, given) == [said("two", POINT)]


def test_a_changed_view_alternates() -> None:
    """B43: messages of infold's own join their neighbours, results first and in the order of the calls."""
    given = CONVERSE.decode([said("go"), calls("a", "b"), said(result("b")), said("Wait.", POINT)])
    own = ToolMessage(MessageId("own"), (ToolResultPart("a", "ls", "interrupted", "error"),))
    sent = CONVERSE.encode([*given.messages[:3], own, given.messages[3]], given)

    assert converse_problems(sent) == ()
    assert sent[2] == said(result("a", {"text": "interrupted"}, status="error"), result("b"), "Wait.", POINT)


@pytest.mark.parametrize(("policy", "mark"), [(INFOLD, "[pruned: "), (FOLDS, "[Earlier conversation, folded")])
def test_the_callers_objects_are_left_alone(policy: Policy, mark: str) -> None:
    """B25, B43: stubs and a fold copy what they change, give all else back as the very objects, and everything alternates."""
    items = [said("Port it. Never touch vendor/.", POINT)]
    for step in range(40):
        items += [calls(f"c{step}"), said(result(f"c{step}", {"text": f"part {step} is fine. " * 60}))]
    before = copy.deepcopy(items)
    fitted = fit(items, window=6_000, policy=policy)

    assert items == before
    assert mark in str(fitted.messages)
    assert fitted.messages[-1] is items[-1]
    assert converse_problems(fitted.messages) == ()
    assert "Never touch vendor/." in str(fitted.messages[0])


def test_server_tools_are_opaque() -> None:
    """B43: calls that the provider itself answers are none of the caller's; both stay together."""
    use = {"toolUse": {"toolUseId": "s1", "name": "web", "input": {}, "type": "server_tool_use"}}
    (message,) = decoded(said(use, result("s1", type="web_result"), "So.", role="assistant"))
    one, other, _ = message.parts

    assert isinstance(one, TextPart)
    assert isinstance(other, TextPart)
    assert one.opaque
    assert one.links == other.links == ("s1",)


# Requests and replies.


def test_a_request_is_read() -> None:
    """B43: tools, output, cache lifetime and Claude's own fields are found where Converse has them."""
    tools = [{"toolSpec": {"name": "ls"}}, POINT]
    fields = {
        "anthropic_beta": ["context-1m-2025-08-07"],
        "thinking": {"block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    }
    body = {
        "messages": [said("hi")],
        "system": [{"text": "Be brief."}],
        "toolConfig": {"tools": tools},
        "inferenceConfig": {"maxTokens": 77},
        "additionalModelRequestFields": fields,
    }
    asked = read_request(CONVERSE, body, f"{PATH}-stream")

    assert isinstance(asked, ProviderRequest)
    assert (asked.tools, asked.output_tokens, asked.cache_seconds, asked.streams) == (tools, 77, 3_600, True)
    assert asked.model == "us.anthropic.claude-opus-5-5-v1:0"
    assert asked.drops_thinking
    assert requested_window(CONVERSE, body, {}) == 1_000_000
    assert CONVERSE.system_text(body) == "Be brief."


@pytest.mark.parametrize(
    ("path", "fields", "tokens"),
    [
        ("/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aprompt%2FABCDEFGHIJ/converse", {}, None),
        (PATH, {"context_management": {"edits": [{"type": "strange_1"}]}}, None),
        (PATH, {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, 0),
        (PATH, {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, 100_000),
    ],
)
def test_what_the_provider_holds_or_cuts_is_known(path: str, fields: Item, tokens: int | None) -> None:
    """B34, B43: a stored prompt and unknown edits are left to the provider; known edits are taken into account."""
    asked = read_request(CONVERSE, {"messages": [said("hi"), calls("a")], "additionalModelRequestFields": fields}, path)

    assert isinstance(asked, Unmanaged) if tokens is None else isinstance(asked, ProviderRequest)
    assert getattr(asked, "edited_from_tokens", None) == tokens


def test_a_shared_summary_thinks_as_the_request_does() -> None:
    """B16, B43: what the cache depends on stays: thinking, effort, tools; no tool is forced, and the roles alternate."""
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 4_000}}
    body = {
        "toolConfig": {"tools": [{"toolSpec": {"name": "ls"}}], "toolChoice": {"any": {}}},
        "inferenceConfig": {"maxTokens": 9_000, "temperature": 1},
        "outputConfig": {"effort": "low", "textFormat": {"type": "json_schema"}},
        "additionalModelRequestFields": thinking,
    }
    shown = [said("go"), calls("a"), said(result("a"))]
    request = shared_request("", numbered([user("go")]), Additions(), output_tokens=500)
    made = summary_body(CONVERSE, body, request, shown)

    assert made["toolConfig"] == {"tools": [{"toolSpec": {"name": "ls"}}]}
    assert made["additionalModelRequestFields"] == thinking
    assert made["inferenceConfig"] == {"maxTokens": 9_000, "temperature": 1}
    assert made["outputConfig"] == {"effort": "low"}
    assert converse_problems(made["messages"]) == ()
    assert made["messages"][:2] == shown[:2]


def test_usage_is_read() -> None:
    """B43: input excludes the cache, so the context is the sum of all four; hourly writes are told apart."""
    counts = {"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 300, "cacheWriteInputTokens": 40}
    usage = CONVERSE.usage(
        {"usage": {**counts, "totalTokens": 355, "cacheDetails": [{"ttl": "1h", "inputTokens": 40}]}}
    )

    assert usage == Usage(10, 5, cache_read=300, cache_write=40, cache_write_hour=40)
    assert usage is not None
    assert usage.context == 355
    assert CONVERSE.usage({"usage": {"inputTokens": None}}) is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("tool_use", "tool-calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content-filter"),
        ("content_filtered", "content-filter"),
        ("malformed_tool_use", "error"),
        ("something_new", "other"),
        (None, None),
    ],
)
def test_why_a_reply_ended(reason: str | None, finish: str | None) -> None:
    """B43: each of Converse's stop reasons is known."""
    assert CONVERSE.finish({"stopReason": reason}) == finish


@pytest.mark.parametrize(
    ("words", "prompt", "limit"),
    [
        ("Input is too long for requested model.", None, None),
        (
            "The model returned the following errors: prompt is too long: 208310 tokens > 200000 maximum",
            208_310,
            200_000,
        ),
        ("Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input.", None, None),
    ],
)
def test_refusals_for_size_are_known(words: str, prompt: int | None, limit: int | None) -> None:
    """B43: a ValidationException for the size is an overflow, as a body and in the words of the SDK's exception."""
    error = f"An error occurred (ValidationException) when calling the Converse operation: {words}"
    for overflow in (recognise(400, {"__type": "ValidationException", "message": words}), recognise(None, error)):
        assert overflow is not None
        assert (overflow.prompt_tokens, overflow.limit_tokens) == (prompt, limit)
    assert recognise(429, {"message": "Too many tokens, please wait before trying again."}) is None


# Streams.


def streamed(*events: tuple[str, Item]) -> Item:
    """The reply in these events, in Amazon's framing."""
    builder = CONVERSE.new_builder()
    for name, event in events:
        builder.feed(StreamEvent(event, name).encode_frame())
    assert builder.skipped == 0
    return builder.reply() or {}


def at(index: int, **delta: object) -> tuple[str, Item]:
    """A delta of a block."""
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}


def test_every_kind_of_block_is_put_together() -> None:
    """B43: reasoning, redacted reasoning, citations, results and images of a stream are as in a whole reply."""
    reply = streamed(
        ("messageStart", {"role": "assistant"}),
        at(0, reasoningContent={"text": "H"}),
        at(0, reasoningContent={"text": "m."}),
        at(0, reasoningContent={"signature": "c2ln"}),
        at(1, reasoningContent={"redactedContent": "eA=="}),
        at(2, text="So"),
        at(2, text="."),
        at(2, citation={"title": "t"}),
        ("contentBlockStart", {"contentBlockIndex": 3, "start": {"toolResult": {"toolUseId": "s", "type": "x"}}}),
        at(3, toolResult=[{"text": "a"}]),
        ("contentBlockStart", {"contentBlockIndex": 4, "start": {"image": {"format": "png"}}}),
        at(4, image={"source": {"bytes": "eA=="}}),
        ("contentBlockStart", {"contentBlockIndex": 5, "start": {"toolUse": {"toolUseId": "c", "name": "ls"}}}),
        at(5, toolUse={"input": '{"pa'}),
        ("messageStop", {"stopReason": "tool_use", "p": "abc"}),
    )

    assert reply["output"]["message"]["content"] == [
        THOUGHT,
        {"reasoningContent": {"redactedContent": "eA=="}},
        {"citationsContent": {"content": [{"text": "So."}], "citations": [{"title": "t"}]}},
        {"toolResult": {"toolUseId": "s", "type": "x", "content": [{"text": "a"}]}},
        {"image": {"format": "png", "source": {"bytes": "eA=="}}},
        {"toolUse": {"toolUseId": "c", "name": "ls", "input": {"arguments": '{"pa'}}},
    ]
    assert reply["stopReason"] == "tool_use"


def test_an_exception_in_a_stream_is_an_error() -> None:
    """B43: a stream that is refused for its size says so, whatever its frame is called."""
    builder = CONVERSE.new_builder()
    builder.feed(
        StreamEvent({"message": "Input is too long for requested model."}, "validationException").encode_frame()
    )
    error = builder.error()

    assert isinstance(error, dict)
    assert recognise(None, error) is not None
