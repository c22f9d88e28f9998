"""Scripted replies in the five wire formats: whole, as a stream, and a request rejected for its size."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import count

import msgspec
from msgspec import Struct

from infold.core.messages import Usage
from infold.formats.codec import Item
from infold.formats.registry import ANTHROPIC_MESSAGES, CONVERSE, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES
from infold.testing.script import StreamEvent, WireReply, split_text

CREATED = 1_700_000_000


class ReplyWriter(Struct, frozen=True):
    """How one provider writes a reply: as one object, as the events of a stream, and as the body of status 400."""

    body: Callable[[WireReply], Item]
    events: Callable[[WireReply], Iterator[StreamEvent]]
    overflow: Callable[[int, int], Item]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# Chat Completions.

_CHAT_FINISHES = {"tool-calls": "tool_calls", "content-filter": "content_filter"}


def chat_body(reply: WireReply) -> Item:
    calls = _chat_calls(reply)
    message: Item = {"role": "assistant", "content": reply.say.text or (None if calls else ""), "refusal": None}
    message |= {"reasoning_content": reply.say.reasoning} if reply.say.reasoning else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": _CHAT_FINISHES.get(reply.finish, reply.finish)}
    usage = {"usage": _chat_usage(reply.usage)} if reply.reports_usage else {}
    return {**_chat_head(reply, "chat.completion"), "choices": [choice], **usage}


def chat_events(reply: WireReply) -> Iterator[StreamEvent]:
    """Yield the chunks of a stream; usage comes last, in a chunk of its own, and only if it was asked for."""
    opening = None if reply.say.calls and not reply.say.text else ""
    yield _chat_chunk(reply, {"role": "assistant", "content": opening, "refusal": None})
    yield from (_chat_chunk(reply, {"reasoning_content": text}) for text in split_text(reply.say.reasoning))
    yield from (_chat_chunk(reply, {"content": text}) for text in split_text(reply.say.text))
    for index, call in enumerate(_chat_calls(reply)):
        begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield _chat_chunk(reply, {"tool_calls": [begun]})
        for text in split_text(call["function"]["arguments"]):
            yield _chat_chunk(reply, {"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    yield _chat_chunk(reply, {}, finish=_CHAT_FINISHES.get(reply.finish, reply.finish))
    if reply.reports_usage:
        head = _chat_head(reply, "chat.completion.chunk")
        yield StreamEvent({**head, "choices": [], "usage": _chat_usage(reply.usage)})
    yield StreamEvent("[DONE]")


def chat_overflow(tokens: int, window_tokens: int) -> Item:
    words = (
        f"This model's maximum context length is {window_tokens} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    error = {"message": words, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    return {"error": error}


def _chat_head(reply: WireReply, kind: str) -> Item:
    return {"id": f"chatcmpl-{reply.number}", "object": kind, "created": CREATED, "model": reply.model}


def _chat_chunk(reply: WireReply, delta: Item, finish: str | None = None) -> StreamEvent:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return StreamEvent({**_chat_head(reply, "chat.completion.chunk"), "choices": [choice]})


def _chat_calls(reply: WireReply) -> list[Item]:
    functions = [{"name": name, "arguments": _json(arguments)} for name, arguments in reply.say.calls]
    return [
        {"id": f"call_{reply.number}_{index}", "type": "function", "function": function}
        for index, function in enumerate(functions)
    ]


def _chat_usage(usage: Usage) -> Item:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output + usage.reasoning,
        "total_tokens": usage.context,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


# Responses.

_STATUSES = {"length": "incomplete", "content-filter": "incomplete", "error": "failed", "abort": "cancelled"}
_REASONS = {"length": "max_output_tokens", "content-filter": "content_filter"}


def responses_body(reply: WireReply) -> Item:
    return {
        **_responses_head(reply),
        "status": _STATUSES.get(reply.finish, "completed"),
        "error": {"code": "server_error", "message": "a scripted failure"} if reply.finish == "error" else None,
        "incomplete_details": {"reason": _REASONS[reply.finish]} if reply.finish in _REASONS else None,
        "output": _responses_items(reply),
        "usage": {
            "input_tokens": reply.usage.prompt,
            "input_tokens_details": {
                "cached_tokens": reply.usage.cache_read,
                "cache_write_tokens": reply.usage.cache_write,
            },
            "output_tokens": reply.usage.output + reply.usage.reasoning,
            "output_tokens_details": {"reasoning_tokens": reply.usage.reasoning},
            "total_tokens": reply.usage.context,
        },
    }


def responses_events(reply: WireReply) -> Iterator[StreamEvent]:
    """Yield the numbered events of a stream."""
    numbers = count()
    for event in _responses_events(reply, responses_body(reply)):
        yield StreamEvent({**event, "sequence_number": next(numbers)}, event["type"])


def compacted_body(reply: WireReply, asked: Item) -> Item:
    """Return the answer to a request for compaction: all messages of the user, then one sealed item."""
    items = asked.get("input") or []
    given = [{"role": "user", "content": items}] if isinstance(items, str) else items
    users = [{"type": "message", **item} for item in given if item.get("role") == "user"]
    for item in users:
        if isinstance(item["content"], str):
            item["content"] = [{"type": "input_text", "text": item["content"]}]
    sealed = b64encode(reply.say.text.encode()).decode()
    return {
        "id": f"resp_{reply.number}",
        "object": "response.compaction",
        "created_at": CREATED,
        "output": [
            *users,
            {"type": "compaction", "id": f"cmp_{reply.number}", "encrypted_content": sealed},
        ],
        "usage": responses_body(reply)["usage"],
    }


def responses_overflow(tokens: int, window_tokens: int) -> Item:
    words = (
        f"Input tokens exceed the configured limit of {window_tokens} tokens. Your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    error = {"message": words, "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
    return {"error": error}


def _responses_events(reply: WireReply, whole: Item) -> Iterator[Item]:
    begun = {**_responses_head(reply), "status": "in_progress", "error": None, "incomplete_details": None, "output": []}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        for event in _responses_item_events(item):
            yield {**event, "output_index": index}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _responses_item_events(item: Item) -> Iterator[Item]:
    empty: dict[str, Item] = {
        "reasoning": {"summary": []},
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    yield {"type": "response.output_item.added", "item": {**item, **empty[item["type"]]}}
    at: Item = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            names = ("response.reasoning_summary_part", "response.reasoning_summary_text")
            yield from _part_events(*names, item["summary"][0], {**at, "summary_index": 0})
        case "message":
            names = ("response.content_part", "response.output_text")
            yield from _part_events(*names, item["content"][0], {**at, "content_index": 0}, logprobs=[])
        case _:
            name = "response.function_call_arguments"
            yield from ({"type": f"{name}.delta", "delta": text, **at} for text in split_text(item["arguments"]))
            yield {"type": f"{name}.done", "arguments": item["arguments"], "name": item["name"], **at}
    yield {"type": "response.output_item.done", "item": item}


def _part_events(part_name: str, text_name: str, part: Item, at: Item, **more: object) -> Iterator[Item]:
    yield {"type": f"{part_name}.added", "part": {**part, "text": ""}, **at}
    for text in split_text(part["text"]):
        yield {"type": f"{text_name}.delta", "delta": text, **more, **at}
    yield {"type": f"{text_name}.done", "text": part["text"], **more, **at}
    yield {"type": f"{part_name}.done", "part": part, **at}


def _responses_head(reply: WireReply) -> Item:
    head = {"id": f"resp_{reply.number}", "object": "response", "created_at": CREATED, "model": reply.model}
    fixed: Item = {
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return {**head, **fixed, "temperature": 1.0, "top_p": 1.0}


def _responses_items(reply: WireReply) -> list[Item]:
    say, number = reply.say, reply.number
    summary = [{"type": "summary_text", "text": say.reasoning}]
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": "c2VhbGVk"}
    content = [{"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}]
    message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content, "status": "completed"}
    calls = [_responses_call(f"{number}_{index}", *call) for index, call in enumerate(say.calls)]
    return [*([thought] if say.reasoning else []), *([message] if say.text or not calls else []), *calls]


def _responses_call(key: str, name: str, arguments: Item) -> Item:
    call = {"type": "function_call", "id": f"fc_{key}", "call_id": f"call_{key}", "name": name, "status": "completed"}
    return {**call, "arguments": _json(arguments)}


# Anthropic Messages.

_ANTHROPIC_FINISHES = {
    "stop": "end_turn",
    "tool-calls": "tool_use",
    "length": "max_tokens",
    "content-filter": "refusal",
    "other": "pause_turn",
}


def anthropic_body(reply: WireReply) -> Item:
    return {
        "id": f"msg_{reply.number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": _anthropic_blocks(reply),
        "stop_reason": _ANTHROPIC_FINISHES.get(reply.finish, reply.finish),
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.usage.input,
            "cache_read_input_tokens": reply.usage.cache_read,
            "cache_creation_input_tokens": reply.usage.cache_write,
            "output_tokens": reply.usage.output + reply.usage.reasoning,
            "output_tokens_details": {"thinking_tokens": reply.usage.reasoning},
        },
    }


def anthropic_events(reply: WireReply) -> Iterator[StreamEvent]:
    """Yield the events of a stream; the first counts the input, the last but one the output."""
    return anthropic_body_events(anthropic_body(reply))


def anthropic_body_events(body: Item) -> Iterator[StreamEvent]:
    """Yield a whole reply as the events of a stream."""
    return (StreamEvent(event, event["type"]) for event in _anthropic_events(body))


def anthropic_overflow(tokens: int, window_tokens: int) -> Item:
    words = f"prompt is too long: {tokens} tokens > {window_tokens} maximum"
    return {"type": "error", "error": {"type": "invalid_request_error", "message": words}, "request_id": "req_scripted"}


def _anthropic_events(whole: Item) -> Iterator[Item]:
    late = ("output_tokens", "output_tokens_details", "iterations")
    input_usage = {field: value for field, value in whole["usage"].items() if field not in late}
    output_usage = {field: value for field, value in whole["usage"].items() if field in late}
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**input_usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        empty: dict[str, Item] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
            "compaction": {"content": None, "encrypted_content": None},
        }
        start = {**block, **empty.get(block["type"], {})}
        yield {"type": "content_block_start", "content_block": start, "index": index}
        for delta in _anthropic_deltas(block):
            yield {"type": "content_block_delta", "delta": delta, "index": index}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": output_usage}
    yield {"type": "message_stop"}


def _anthropic_deltas(block: Item) -> Iterator[Item]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": text} for text in split_text(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": text} for text in split_text(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            text = _json(block["input"]) if block["input"] else ""
            yield from ({"type": "input_json_delta", "partial_json": part} for part in ("", *split_text(text)))
        case "compaction":
            sealed = {"content": block["content"], "encrypted_content": block["encrypted_content"]}
            yield {"type": "compaction_delta", **sealed}
        case _:  # all of it is in the event that starts the block
            return


def _anthropic_blocks(reply: WireReply) -> list[Item]:
    say = reply.say
    thought = {"type": "thinking", "thinking": say.reasoning, "signature": say.signature}
    text = {"type": "text", "text": say.text}
    calls = [
        {"type": "tool_use", "id": f"toolu_{reply.number}_{index}", "name": name, "input": arguments}
        for index, (name, arguments) in enumerate(say.calls)
    ]
    return [*([thought] if say.reasoning else []), *([text] if say.text else []), *calls]


# Gemini.

_GEMINI_FINISHES = {
    "stop": "STOP",
    "tool-calls": "STOP",
    "length": "MAX_TOKENS",
    "content-filter": "SAFETY",
    "error": "MALFORMED_FUNCTION_CALL",
}


def gemini_body(reply: WireReply) -> Item:
    thoughts = [{"text": reply.say.reasoning, "thought": True}] if reply.say.reasoning else []
    texts = [{"text": reply.say.text}] if reply.say.text else []
    return _gemini_response(reply, [*thoughts, *texts, *_gemini_calls(reply)], is_last=True)


def gemini_events(reply: WireReply) -> Iterator[StreamEvent]:
    """Yield the responses of a stream; the last one has no parts, but the finish reason and the usage."""
    thoughts = ({"text": text, "thought": True} for text in split_text(reply.say.reasoning))
    texts = ({"text": text} for text in split_text(reply.say.text))
    parts: list[Item] = [*thoughts, *texts, *_gemini_calls(reply)]
    for part in parts:
        yield StreamEvent(_gemini_response(reply, [part]))
    yield StreamEvent(_gemini_response(reply, [], is_last=True))


def gemini_overflow(tokens: int, window_tokens: int) -> Item:
    words = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window_tokens})."
    return {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}


def _gemini_response(reply: WireReply, parts: list[Item], *, is_last: bool = False) -> Item:
    candidate: Item = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage = {"promptTokenCount": reply.usage.prompt}
    if is_last:
        candidate["finishReason"] = _GEMINI_FINISHES.get(reply.finish, "OTHER")
        usage |= {"cachedContentTokenCount": reply.usage.cache_read, "candidatesTokenCount": reply.usage.output}
        usage |= {"thoughtsTokenCount": reply.usage.reasoning, "totalTokenCount": reply.usage.context}
    head = {"modelVersion": reply.model, "responseId": f"reply-{reply.number}"}
    return {"candidates": [candidate], "usageMetadata": usage, **head}


def _gemini_calls(reply: WireReply) -> list[Item]:
    """Return the calls; the first one after reasoning has its signature."""
    signature: Item = {"thoughtSignature": "c2lnbmVk"} if reply.say.reasoning else {}
    calls = [
        {"id": f"call-{reply.number}-{index}", "name": name, "args": arguments}
        for index, (name, arguments) in enumerate(reply.say.calls)
    ]
    return [{"functionCall": call, **({} if index else signature)} for index, call in enumerate(calls)]


# Bedrock's Converse.

_CONVERSE_FINISHES = {
    "stop": "end_turn",
    "tool-calls": "tool_use",
    "length": "max_tokens",
    "content-filter": "content_filtered",
    "error": "malformed_model_output",
}


def converse_body(reply: WireReply) -> Item:
    return {
        "output": {"message": {"role": "assistant", "content": _converse_blocks(reply)}},
        "stopReason": _CONVERSE_FINISHES.get(reply.finish, reply.finish),
        **_converse_metadata(reply),
    }


def converse_events(reply: WireReply) -> Iterator[StreamEvent]:
    """Yield the events of a stream; only a call has one that starts its block, and `p` fills each up to a similar length."""
    yield StreamEvent({"role": "assistant", "p": "abc"}, "messageStart")
    for index, block in enumerate(_converse_blocks(reply)):
        place = {"contentBlockIndex": index, "p": "abcdef"}
        if "toolUse" in block:
            start = {name: value for name, value in block["toolUse"].items() if name != "input"}
            yield StreamEvent({"start": {"toolUse": start}, **place}, "contentBlockStart")
        for delta in _converse_deltas(block):
            yield StreamEvent({"delta": delta, **place}, "contentBlockDelta")
        yield StreamEvent(place, "contentBlockStop")
    yield StreamEvent({"stopReason": _CONVERSE_FINISHES.get(reply.finish, reply.finish), "p": "a"}, "messageStop")
    yield StreamEvent({**_converse_metadata(reply), "p": "ab"}, "metadata")


def converse_overflow(tokens: int, window_tokens: int) -> Item:
    words = f"prompt is too long: {tokens} tokens > {window_tokens} maximum"
    return {"__type": "ValidationException", "message": f"The model returned the following errors: {words}"}


def _converse_metadata(reply: WireReply) -> Item:
    usage = {"inputTokens": reply.usage.input, "outputTokens": reply.usage.output + reply.usage.reasoning}
    cached = {"cacheReadInputTokens": reply.usage.cache_read, "cacheWriteInputTokens": reply.usage.cache_write}
    return {"usage": {**usage, "totalTokens": reply.usage.context, **cached}, "metrics": {"latencyMs": 1}}


def _converse_blocks(reply: WireReply) -> list[Item]:
    say = reply.say
    thought = {"reasoningContent": {"reasoningText": {"text": say.reasoning, "signature": say.signature}}}
    calls = [
        {"toolUse": {"toolUseId": f"tooluse_{reply.number}_{index}", "name": name, "input": arguments}}
        for index, (name, arguments) in enumerate(say.calls)
    ]
    return [*([thought] if say.reasoning else []), *([{"text": say.text}] if say.text else []), *calls]


def _converse_deltas(block: Item) -> Iterator[Item]:
    if "toolUse" in block:
        text = _json(block["toolUse"]["input"]) if block["toolUse"]["input"] else ""
        yield from ({"toolUse": {"input": piece}} for piece in split_text(text))
    elif "reasoningContent" in block:
        thought = block["reasoningContent"]["reasoningText"]
        yield from ({"reasoningContent": {"text": piece}} for piece in split_text(thought["text"]))
        yield {"reasoningContent": {"signature": thought["signature"]}}
    else:
        yield from ({"text": piece} for piece in split_text(block["text"]))


REPLY_WRITERS = {
    OPENAI_CHAT.name: ReplyWriter(chat_body, chat_events, chat_overflow),
    OPENAI_RESPONSES.name: ReplyWriter(responses_body, responses_events, responses_overflow),
    ANTHROPIC_MESSAGES.name: ReplyWriter(anthropic_body, anthropic_events, anthropic_overflow),
    GEMINI.name: ReplyWriter(gemini_body, gemini_events, gemini_overflow),
    CONVERSE.name: ReplyWriter(converse_body, converse_events, converse_overflow),
}
