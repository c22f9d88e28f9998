"""What stands beside the messages: instructions and tools of a request, usage and finish of a reply.

A body is a dict, JSON bytes or an SDK object. Usage is told as the core wants it, each token in one field only.
What is missing or is no number is nothing, never an error: a reply counts even when its usage is garbage.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from infold.core.messages import Finish, Usage
from infold.formats.codec import Item, MalformedError, json_text, lines, plain, text_field

# Requests.


def tools_text(body: object) -> str:
    """The tools a request offers and the shape it wants its answer in, as JSON; empty if it has none."""
    request = _plain(body)
    fields = ("tools", "functions", "response_format", "text", "toolConfig", "tool_config")
    given = [request[field] for field in fields if request.get(field)]
    return lines(json_text(value) for value in given)


def chat_system(body: object) -> str:
    """Empty: instructions travel among the messages."""
    del body
    return ""


def responses_system(body: object) -> str:
    """The `instructions`, which may be text or items."""
    return _shown(_plain(body).get("instructions"))


def anthropic_system(body: object) -> str:
    """The `system` text or blocks."""
    return _shown(_plain(body).get("system"))


def gemini_system(body: object) -> str:
    """The system instruction's text."""
    request = _plain(body)
    value = request.get("systemInstruction") or request.get("system_instruction")
    return _shown(_plain(value).get("parts")) if isinstance(value, Mapping) else _shown(value)


def _shown(value: object) -> str:
    """Text, or the text of blocks; what has none is shown as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return lines(text_field(_plain(block), "text") or json_text(block) for block in value)
    return json_text(value) if value else ""


# Replies.


def chat_reply(body: object) -> list[object]:
    """The items a reply adds to the history."""
    message = _first(_plain(body).get("choices")).get("message")
    return [message] if message else []


def responses_reply(body: object) -> list[object]:
    """The items a reply adds to the history."""
    output = _plain(body).get("output")
    return [*output] if isinstance(output, list | tuple) else []


def anthropic_reply(body: object) -> list[object]:
    """The items a reply adds to the history."""
    content = _plain(body).get("content")
    return [{"role": "assistant", "content": content}] if content else []


def gemini_reply(body: object) -> list[object]:
    """The items a reply adds to the history."""
    content = _first(_plain(body).get("candidates")).get("content")
    return [content] if content else []


def chat_usage(body: object) -> Usage | None:
    """Usage of Chat Completions: prompt and completion include what their details tell apart."""
    usage = _usage_object(body, "usage")
    if not _has_number(usage, "prompt_tokens", "completion_tokens", "total_tokens"):
        return None
    sent, said = _plain(usage.get("prompt_tokens_details")), _plain(usage.get("completion_tokens_details"))
    cached = _number(sent, "cached_tokens") or _number(usage, "prompt_cache_hit_tokens")
    return _inclusive(
        usage,
        prompt=_number(usage, "prompt_tokens"),
        completion=_number(usage, "completion_tokens"),
        cached=cached,
        written=_number(sent, "cache_write_tokens"),
        reasoning=_number(said, "reasoning_tokens"),
    )


def responses_usage(body: object) -> Usage | None:
    """Usage of Responses: input and output include what their details tell apart."""
    usage = _usage_object(body, "usage")
    if not _has_number(usage, "input_tokens", "output_tokens", "total_tokens"):
        return None
    sent, said = _plain(usage.get("input_tokens_details")), _plain(usage.get("output_tokens_details"))
    return _inclusive(
        usage,
        prompt=_number(usage, "input_tokens"),
        completion=_number(usage, "output_tokens"),
        cached=_number(sent, "cached_tokens"),
        written=_number(sent, "cache_write_tokens"),
        reasoning=_number(said, "reasoning_tokens"),
    )


def _inclusive(usage: Item, *, prompt: int, completion: int, cached: int, written: int, reasoning: int) -> Usage:
    return Usage(
        input=max(0, prompt - cached - written),
        output=max(0, completion - reasoning),
        reasoning=reasoning,
        cache_read=cached,
        cache_write=written,
        total=_number(usage, "total_tokens") or None,
    )


def anthropic_usage(body: object) -> Usage | None:
    """Usage of Messages, whose input already excludes the cache.

    After server tools a reply has several iterations; what stands in the window is the last one's, so that is the total.
    """
    usage = _usage_object(body, "usage")
    if not _has_number(usage, "input_tokens", "output_tokens"):
        return None
    thinking = _number(_plain(usage.get("output_tokens_details")), "thinking_tokens")
    return Usage(
        input=_number(usage, "input_tokens"),
        output=max(0, _number(usage, "output_tokens") - thinking),
        reasoning=thinking,
        cache_read=_number(usage, "cache_read_input_tokens"),
        cache_write=_number(usage, "cache_creation_input_tokens"),
        total=_last_iteration(usage.get("iterations")),
    )


def _last_iteration(iterations: object) -> int | None:
    entries = [_plain(entry) for entry in iterations] if isinstance(iterations, list) else []
    sampled = [entry for entry in entries if entry.get("type", "message") == "message"]
    fields = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    return sum(_number(sampled[-1], field) for field in fields) or None if sampled else None


def gemini_usage(body: object) -> Usage | None:
    """Usage of generateContent: the prompt includes the cache, thoughts stand beside the candidates."""
    usage = _usage_object(body, "usageMetadata") or _usage_object(body, "usage_metadata")
    counted = {key.replace("_", "").lower(): value for key, value in usage.items()}
    if not _has_number(counted, "prompttokencount", "candidatestokencount", "totaltokencount"):
        return None
    cached = _number(counted, "cachedcontenttokencount")
    prompt = _number(counted, "prompttokencount") + _number(counted, "tooluseprompttokencount")
    return Usage(
        input=max(0, prompt - cached),
        output=_number(counted, "candidatestokencount"),
        reasoning=_number(counted, "thoughtstokencount"),
        cache_read=cached,
        total=_number(counted, "totaltokencount") or None,
    )


_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "tool_use": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "safety": "content-filter",
    "recitation": "content-filter",
    "blocklist": "content-filter",
    "prohibited_content": "content-filter",
    "spii": "content-filter",
    "image_safety": "content-filter",
    "language": "content-filter",
    "failed": "error",
    "error": "error",
    "malformed_function_call": "error",
    "unexpected_tool_call": "error",
    "cancelled": "abort",
}


def _finish(reason: object) -> Finish | None:
    return _FINISHES.get(reason.lower(), "other") if isinstance(reason, str) and reason else None


def chat_finish(body: object) -> Finish | None:
    """Why a chat reply ended; nothing while it has not."""
    return _finish(_first(_plain(body).get("choices")).get("finish_reason"))


def anthropic_finish(body: object) -> Finish | None:
    """Why a reply ended; in a stream the delta says so."""
    reply = _plain(body)
    return _finish(reply.get("stop_reason") or _plain(reply.get("delta")).get("stop_reason"))


def responses_finish(body: object) -> Finish | None:
    """Why a response ended: its status, unless what it holds says more."""
    reply = _plain(body)
    reply = _plain(reply.get("response")) or reply
    status = reply.get("status")
    if status == "incomplete":
        return _finish(_plain(reply.get("incomplete_details")).get("reason")) or "other"
    if status != "completed":
        return None if status in (None, "queued", "in_progress") else _finish(status)
    output = _listed(reply.get("output"))
    return "tool-calls" if any(str(_plain(item).get("type")) in _AWAITED for item in output) else "stop"


_AWAITED = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call"}
)


def gemini_finish(body: object) -> Finish | None:
    """Why a candidate ended; one that calls a function ends with STOP all the same."""
    candidate = _first(_plain(body).get("candidates"))
    finish = _finish(candidate.get("finishReason") or candidate.get("finish_reason"))
    parts = _listed(_plain(candidate.get("content")).get("parts"))
    calls = any({"functionCall", "function_call"} & _plain(part).keys() for part in parts)
    return "tool-calls" if finish == "stop" and calls else finish


# Reading what may be anything.


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _plain(value: object) -> Item:
    try:
        return plain(value) if value is not None and not isinstance(value, str | int | float | list) else {}
    except MalformedError:
        return {}


def _first(value: Any) -> Item:
    return _plain(value[0]) if isinstance(value, list | tuple) and value else {}


def _usage_object(body: object, field: str) -> Item:
    """The usage of a reply, or of a stream's event that carries one."""
    reply = _plain(body)
    holders = (reply, _plain(reply.get("message")), _plain(reply.get("response")))
    return next((found for holder in holders if (found := _plain(holder.get(field)))), {})


def _number(usage: Mapping[str, Any], field: str) -> int:
    value = usage.get(field)
    is_count = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return int(value) if is_count and value is not None else 0


def _has_number(usage: Mapping[str, Any], *fields: str) -> bool:
    return any(isinstance(usage.get(field), int | float) and usage[field] >= 0 for field in fields)
