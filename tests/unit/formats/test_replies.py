"""What stands beside the messages of a request or a reply."""

from typing import Any

import msgspec
import pytest
from anthropic.types import Usage as AnthropicUsage
from openai.types import CompletionUsage

from infold.core.messages import Finish, Usage
from infold.formats.registry import (
    ANTHROPIC_MESSAGES,
    FORMATS,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    WireFormat,
    builder_for,
)

CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "total_tokens": 130,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 20},
}
RESPONSES_USAGE = {
    "input_tokens": 100,
    "output_tokens": 30,
    "total_tokens": 130,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "output_tokens_details": {"reasoning_tokens": 20},
}
ANTHROPIC_USAGE = {
    "input_tokens": 30,
    "output_tokens": 30,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 10,
    "output_tokens_details": {"thinking_tokens": 20},
}
GEMINI_USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 10,
    "thoughtsTokenCount": 20,
    "totalTokenCount": 130,
}


@pytest.mark.parametrize(
    ("wire", "body", "usage"),
    [
        (OPENAI_CHAT, {"usage": CHAT_USAGE}, Usage(30, 10, 20, 60, 10, 130)),
        (OPENAI_RESPONSES, {"usage": RESPONSES_USAGE}, Usage(30, 10, 20, 60, 10, 130)),
        (
            OPENAI_RESPONSES,
            {"type": "response.completed", "response": {"usage": RESPONSES_USAGE}},
            Usage(30, 10, 20, 60, 10, 130),
        ),
        (ANTHROPIC_MESSAGES, {"usage": ANTHROPIC_USAGE}, Usage(30, 10, 20, 60, 10)),
        (
            ANTHROPIC_MESSAGES,
            {"type": "message_start", "message": {"usage": ANTHROPIC_USAGE}},
            Usage(30, 10, 20, 60, 10),
        ),
        (GEMINI, {"usageMetadata": GEMINI_USAGE}, Usage(40, 10, 20, 60, 0, 130)),
        (GEMINI, {"usage_metadata": {"prompt_token_count": 5, "total_token_count": 5}}, Usage(5, total=5)),
        (OPENAI_CHAT, {"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}}, Usage(5, cache_read=4)),
    ],
)
def test_usage_counts_each_token_once(wire: WireFormat, body: dict[str, Any], usage: Usage) -> None:
    """Input excludes the cache and output the reasoning, whatever the provider includes; bytes read the same."""
    assert wire.usage(body) == usage
    assert wire.usage(msgspec.json.encode(body)) == usage


def test_usage_of_sdk_objects_is_read() -> None:
    """An SDK's usage object inside a body is as good as a dict."""
    assert OPENAI_CHAT.usage({"usage": CompletionUsage.model_validate(CHAT_USAGE)}) == Usage(30, 10, 20, 60, 10, 130)
    assert ANTHROPIC_MESSAGES.usage({"usage": AnthropicUsage.model_validate(ANTHROPIC_USAGE)}) == Usage(
        30, 10, 20, 60, 10
    )


def test_the_last_iteration_is_what_stands_in_the_window() -> None:
    """After server tools the total is the last sampling's; a compaction's own tokens are paid for, and not in the window."""
    iterations = [
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
        {"type": "message", "input_tokens": 20, "cache_read_input_tokens": 7, "output_tokens": 6},
        {"type": "compaction", "input_tokens": 900, "output_tokens": 9},
        {
            "type": "compaction",
            "cache_read_input_tokens": 50,
            "output_tokens": 1,
            "iterations": [{"type": "compaction"}],
        },
        {"type": "compaction", "input_tokens": "many"},
    ]
    usage = ANTHROPIC_MESSAGES.usage({"usage": {"input_tokens": 30, "output_tokens": 11, "iterations": iterations}})
    assert usage is not None
    assert usage.context == 33
    assert usage.compaction == Usage(900, 10, cache_read=50)


@pytest.mark.parametrize("edits", [None, "all", {}, {"applied_edits": 3}, {"applied_edits": ["x", {}]}])
def test_no_edits_clear_nothing(edits: object) -> None:
    """Edits that are missing or unreadable have cleared nothing."""
    assert ANTHROPIC_MESSAGES.usage({"usage": ANTHROPIC_USAGE, "context_management": edits}) == Usage(
        30, 10, 20, 60, 10
    )


def test_what_the_provider_cleared_is_read() -> None:
    """B8: tokens that a provider cleared from a request are reported with its usage, in a stream with its last but one event."""
    edits = [{"type": "clear_tool_uses_20250919", "cleared_input_tokens": 700}, {"cleared_input_tokens": 30}]
    body = {"usage": ANTHROPIC_USAGE, "context_management": {"applied_edits": edits}}
    events = [
        {"type": "message_start", "message": {"role": "assistant", "usage": ANTHROPIC_USAGE}},
        {**body, "type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
    ]
    builder = builder_for("anthropic-messages")
    for event in events:
        builder.feed(b"data: " + msgspec.json.encode(event) + b"\n\n")

    assert ANTHROPIC_MESSAGES.usage(body) == Usage(30, 10, 20, 60, 10, cleared=730)
    assert ANTHROPIC_MESSAGES.usage(builder.reply()) == Usage(30, 10, 20, 60, 10, cleared=730)


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize(
    "body",
    [
        {},
        None,
        3,
        "x",
        b"{",
        {"usage": None, "usageMetadata": 3},
        {"usage": {"prompt_tokens": "many", "input_tokens": None}},
        {"usage": {"prompt_tokens": -4, "input_tokens": -4}},
        {"usage": [1]},
    ],
)
def test_garbage_usage_is_none(wire: WireFormat, body: object) -> None:
    """What is missing or no number is no usage, and no error."""
    assert wire.usage(body) is None
    assert wire.finish(body) is None
    assert wire.reply_items(body) == []


def test_odd_numbers_inside_usage_count_as_none() -> None:
    """Details that exceed their sum or are no numbers never make a negative count."""
    odd = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}, "completion_tokens": float("nan")}
    assert OPENAI_CHAT.usage({"usage": odd}) == Usage(0, 0, 0, 9)


@pytest.mark.parametrize(
    ("wire", "body", "finish"),
    [
        (OPENAI_CHAT, {"choices": [{"finish_reason": "stop"}]}, "stop"),
        (OPENAI_CHAT, {"choices": [{"finish_reason": "tool_calls"}]}, "tool-calls"),
        (OPENAI_CHAT, {"choices": [{"finish_reason": "length"}]}, "length"),
        (OPENAI_CHAT, {"choices": [{"finish_reason": "content_filter"}]}, "content-filter"),
        (OPENAI_CHAT, {"choices": [{"finish_reason": "new_one"}]}, "other"),
        (OPENAI_CHAT, {"choices": [{"finish_reason": None}]}, None),
        (ANTHROPIC_MESSAGES, {"stop_reason": "end_turn"}, "stop"),
        (ANTHROPIC_MESSAGES, {"stop_reason": "refusal"}, "content-filter"),
        (ANTHROPIC_MESSAGES, {"stop_reason": "model_context_window_exceeded"}, "length"),
        (ANTHROPIC_MESSAGES, {"stop_reason": "pause_turn"}, "other"),
        (ANTHROPIC_MESSAGES, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, "tool-calls"),
        (OPENAI_RESPONSES, {"status": "completed", "output": [{"type": "message"}]}, "stop"),
        (OPENAI_RESPONSES, {"status": "completed", "output": [{"type": "function_call"}]}, "tool-calls"),
        (OPENAI_RESPONSES, {"response": {"status": "failed"}}, "error"),
        (OPENAI_RESPONSES, {"status": "cancelled"}, "abort"),
        (OPENAI_RESPONSES, {"status": "in_progress"}, None),
        (OPENAI_RESPONSES, {"status": "incomplete"}, "other"),
        (OPENAI_RESPONSES, {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        (GEMINI, {"candidates": [{"finishReason": "STOP"}]}, "stop"),
        (
            GEMINI,
            {"candidates": [{"finishReason": "STOP", "content": {"parts": [{"functionCall": {}}]}}]},
            "tool-calls",
        ),
        (GEMINI, {"candidates": [{"finish_reason": "SAFETY"}]}, "content-filter"),
        (GEMINI, {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}, "error"),
    ],
)
def test_every_provider_tells_why_it_stopped(wire: WireFormat, body: dict[str, Any], finish: Finish | None) -> None:
    """Each provider's reasons map to ours; a new one is `other`, an unfinished reply has none."""
    assert wire.finish(body) == finish


@pytest.mark.parametrize(
    ("wire", "body", "system"),
    [
        (OPENAI_CHAT, {"messages": []}, ""),
        (OPENAI_RESPONSES, {"instructions": "be brief"}, "be brief"),
        (ANTHROPIC_MESSAGES, {"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        (ANTHROPIC_MESSAGES, {"system": "s"}, "s"),
        (ANTHROPIC_MESSAGES, {}, ""),
        (GEMINI, {"systemInstruction": {"parts": [{"text": "a"}]}}, "a"),
        (GEMINI, {"system_instruction": "s"}, "s"),
        (OPENAI_RESPONSES, {"instructions": [{"role": "user", "content": "x"}]}, '{"role":"user","content":"x"}'),
    ],
)
def test_instructions_beside_the_messages_are_found(wire: WireFormat, body: dict[str, Any], system: str) -> None:
    """What a request tells the model outside its messages is counted too."""
    assert wire.system_text(body) == system


def test_tools_are_counted_as_json() -> None:
    """Tool schemas and answer schemas are what they are on the wire."""
    assert OPENAI_CHAT.tools_text({"tools": [{"a": 1}], "response_format": {"b": 2}}) == '[{"a":1}]\n{"b":2}'
    assert OPENAI_CHAT.tools_text({}) == ""


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (OPENAI_CHAT, {"choices": [{"message": {"role": "assistant", "content": "x"}}]}),
        (OPENAI_RESPONSES, {"output": [{"type": "message", "role": "assistant", "content": "x"}]}),
        (ANTHROPIC_MESSAGES, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}),
        (GEMINI, {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}]}),
    ],
)
def test_a_reply_becomes_a_message(wire: WireFormat, body: dict[str, Any]) -> None:
    """The items of a reply decode like those of a history."""
    message = wire.decode(wire.reply_items(body)).messages[0]
    assert [getattr(part, "text", None) for part in message.parts] == ["x"]
