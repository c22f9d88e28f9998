"""The four wire formats as a client of them sees it: where requests go, what a reply looks like, how a refusal is worded."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

Item: TypeAlias = dict[str, Any]

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
ABOUT = "Run a command in the shell and return its output."
OVERFLOW = {
    "openai-chat": "This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens.",
    "openai-responses": "Your input exceeds the context window of this model. It contains {size} tokens > {limit}.",
    "anthropic-messages": "prompt is too long: {size} tokens > {limit} maximum",
    "gemini": "The input token count ({size}) exceeds the maximum number of tokens allowed ({limit}).",
}


class Exchange(NamedTuple):
    """One request of a recorded history: the items before the reply, and the items of the reply."""

    sent: list[Item]
    reply: list[Item]


class Wire(NamedTuple):
    """One format: its name, the path of its requests, the field that holds the items, a model that speaks it."""

    name: str
    path: str
    field: str
    model: str


CHAT = Wire("openai-chat", "/v1/chat/completions", "messages", "gpt-4o")
RESPONSES = Wire("openai-responses", "/v1/responses", "input", "gpt-5")
ANTHROPIC = Wire("anthropic-messages", "/v1/messages", "messages", "claude-sonnet-4-5")
GEMINI = Wire("gemini", "/v1beta/models/gemini-2.5-pro:generateContent", "contents", "gemini-2.5-pro")
WIRES = {wire.name: wire for wire in (CHAT, RESPONSES, ANTHROPIC, GEMINI)}


def exchanges(wire: Wire, items: list[Item]) -> Iterator[Exchange]:
    """Divide a history at its replies; the last exchange has no reply if the history ends with a request.

    A reply of the Responses interface is all items up to the next of the client's, elsewhere it is one item. Replies that
    open the history, or that follow one another, are sent as the history has them.
    """
    end = 0
    for at, item in enumerate(items):
        if at == 0 or at < end or not is_reply(item):
            continue
        end = at + 1
        while wire is RESPONSES and end < len(items) and is_reply(items[end]):
            end += 1
        yield Exchange(items[:at], items[at:end])
    if end < len(items):
        yield Exchange(items, [])


def is_reply(item: Item) -> bool:
    """Return whether an item is of the model's making."""
    if item.get("role") in ("assistant", "model"):
        return True
    return item.get("type") in ("function_call", "reasoning", "novel_item")


def reply_body(wire: Wire, items: list[Item], *, sent_bytes: int, number: int) -> Item:
    """Return the body of a reply that adds these items; a token of its usage is four bytes."""
    counted, said = sent_bytes // 4, len(json.dumps(items)) // 4
    match wire.name:
        case "openai-chat":
            choice = {
                "index": 0,
                "message": items[0],
                "finish_reason": "tool_calls" if "tool_calls" in items[0] else "stop",
            }
            usage = {"prompt_tokens": counted, "completion_tokens": said, "total_tokens": counted + said}
            return {
                "id": f"chat-{number}",
                "object": "chat.completion",
                "created": 1,
                "choices": [choice],
                "usage": usage,
            }
        case "openai-responses":
            usage = {"input_tokens": counted, "output_tokens": said, "total_tokens": counted + said}
            fields = {"id": f"resp-{number}", "object": "response", "created_at": 1, "status": "completed"}
            return {**fields, "output": items, "usage": usage}
        case "anthropic-messages":
            content = items[0]["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            called = any(block["type"] == "tool_use" for block in blocks)
            fields = {"id": f"msg-{number}", "type": "message", "role": "assistant", "content": blocks}
            usage = {"input_tokens": counted, "output_tokens": said}
            return {**fields, "stop_reason": "tool_use" if called else "end_turn", "usage": usage}
        case _:
            usage = {"promptTokenCount": counted, "candidatesTokenCount": said, "totalTokenCount": counted + said}
            return {"candidates": [{"content": items[0], "finishReason": "STOP"}], "usageMetadata": usage}


def text_item(wire: Wire, text: str) -> Item:
    """Return a reply of plain text."""
    match wire.name:
        case "openai-responses":
            return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        case "gemini":
            return {"role": "model", "parts": [{"text": text}]}
        case _:
            return {"role": "assistant", "content": text}


def user_item(wire: Wire, text: str) -> Item:
    """Return a user's message of plain text."""
    if wire.name == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def request_body(wire: Wire, items: list[Item], system: str) -> Item:
    """Return the body of a request with one tool."""
    tools: list[Item]
    function = {"name": "bash", "description": ABOUT, "parameters": SCHEMA}
    match wire.name:
        case "openai-chat":
            leading = [{"role": "system", "content": system}] if system else []
            return {
                "model": wire.model,
                "tools": [{"type": "function", "function": function}],
                "messages": leading + items,
            }
        case "openai-responses":
            tools = [{"type": "function", **function}]
            return {"model": wire.model, "tools": tools, "instructions": system, "input": items, "store": False}
        case "anthropic-messages":
            tools = [{"name": "bash", "description": ABOUT, "input_schema": SCHEMA}]
            return {"model": wire.model, "max_tokens": 500, "system": system, "tools": tools, "messages": items}
        case _:
            tools = [{"functionDeclarations": [function]}]
            return {"systemInstruction": {"parts": [{"text": system}]}, "tools": tools, "contents": items}


def refusal(wire: Wire, *, size: int, limit: int) -> Item:
    """Return the body of a refusal for size, in the words of the provider."""
    message = OVERFLOW[wire.name].format(size=size, limit=limit)
    match wire.name:
        case "anthropic-messages":
            return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        case "gemini":
            return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
        case _:
            error = {"message": message, "type": "invalid_request_error", "param": wire.field}
            return {"error": {**error, "code": "context_length_exceeded"}}
