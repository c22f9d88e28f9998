"""Messages in the shape of OpenAI's chat API, as benchmarks and litellm record them."""

from typing import Any

from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from infold.formats.transcripts.blocks import call_part, plain_text, read_blocks, reply_parts, result_part
from infold.formats.transcripts.values import items, mapping, string


def chat_message(value: dict[str, Any], message_id: str, *, created_ms: int | None = None) -> Message | None:
    """One chat message as a core message, or None if it has no role known."""
    name = MessageId(message_id)
    match value.get("role"):
        case "system" | "developer":
            return SystemMessage(name, (TextPart(plain_text(reply_parts(value.get("content")))),), created_ms)
        case "user" | "human":
            return UserMessage(name, read_blocks(value.get("content")), created_ms)
        case "assistant" | "ai":
            return AssistantMessage(name, _reply(value), created_ms)
        case "tool" | "function":
            return ToolMessage(name, (_result(value),), created_ms)
        case _:
            return None


def _reply(value: dict[str, Any]) -> tuple[Part, ...]:
    return (*_thoughts(value), *reply_parts(value.get("content")), *chat_calls(value))


def _thoughts(value: dict[str, Any]) -> tuple[Part, ...]:
    blocks = reply_parts(value.get("thinking_blocks"))
    thought = string(value.get("reasoning_content") or value.get("reasoning"))
    return blocks or ((ReasoningPart(thought),) if thought else ())


def chat_calls(value: dict[str, Any]) -> tuple[ToolCallPart, ...]:
    """The calls of an assistant message, the old single `function_call` among them."""
    legacy = mapping(value.get("function_call"))
    if legacy:
        return (call_part(_legacy_id(legacy), string(legacy.get("name")), legacy.get("arguments")),)
    return tuple(_call(mapping(call)) for call in items(value.get("tool_calls")))


def _call(call: dict[str, Any]) -> ToolCallPart:
    function = mapping(call.get("function")) or call
    arguments = function.get("arguments", function.get("args"))
    signature = mapping(call.get("provider_specific_fields"))
    return call_part(string(call.get("id")), string(function.get("name")), arguments, signature)


def _result(value: dict[str, Any]) -> Part:
    if value.get("role") == "function":
        return result_part(_legacy_id(value), value)
    found = result_part(string(value.get("tool_call_id") or value.get("id")), value)
    return replace(found, status="error") if value.get("error") is True else found


def _legacy_id(value: dict[str, Any]) -> str:
    return f"function-{string(value.get('name'))}"
