"""What a scripted model says, as Anthropic Messages would: whole, streamed, and a request refused for its size."""

from collections.abc import Iterator

import msgspec

from infold.core.messages import Usage
from infold.testing.scripted_answers import Item, Reply, Told, finish_of, pieces_of

FINISHES = {
    "stop": "end_turn",
    "tool-calls": "tool_use",
    "length": "max_tokens",
    "content-filter": "refusal",
    "other": "pause_turn",
}


def body(reply: Reply) -> Item:
    """The reply as one object."""
    finish = finish_of(reply.say)
    return {
        "id": f"msg_{reply.number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": _blocks(reply),
        "stop_reason": FINISHES.get(finish, finish),
        "stop_sequence": None,
        "usage": _usage(reply.usage),
    }


def events(reply: Reply) -> Iterator[Told]:
    """The reply as the events of a stream; what was sent is counted in the first, what was said in the last but one."""
    for event in _events(body(reply)):
        yield Told(event, event["type"])


def overflow(tokens: int, window_tokens: int) -> Item:
    """The body of status 400 for a request that is too large."""
    words = f"prompt is too long: {tokens} tokens > {window_tokens} maximum"
    return {"type": "error", "error": {"type": "invalid_request_error", "message": words}, "request_id": "req_scripted"}


def _events(whole: Item) -> Iterator[Item]:
    usage = whole["usage"]
    opening = {field: count for field, count in usage.items() if not field.startswith("output")}
    yield {
        "type": "message_start",
        "message": {**whole, "content": [], "stop_reason": None, "usage": {**opening, "output_tokens": 1}},
    }
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        for event in _block_events(block):
            yield {**event, "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {field: count for field, count in usage.items() if field.startswith("output")},
    }
    yield {"type": "message_stop"}


def _block_events(block: Item) -> Iterator[Item]:
    empty: dict[str, Item] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    yield {"type": "content_block_start", "content_block": {**block, **empty[block["type"]]}}
    yield from ({"type": "content_block_delta", "delta": delta} for delta in _deltas(block))
    yield {"type": "content_block_stop"}


def _deltas(block: Item) -> Iterator[Item]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in pieces_of(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces_of(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            text = msgspec.json.encode(block["input"]).decode() if block["input"] else ""
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces_of(text)))


def _blocks(reply: Reply) -> list[Item]:
    said = reply.say
    thought = {"type": "thinking", "thinking": said.reasoning, "signature": said.signature}
    text = {"type": "text", "text": said.text}
    calls = [
        {"type": "tool_use", "id": f"toolu_{reply.number}_{index}", "name": name, "input": arguments}
        for index, (name, arguments) in enumerate(said.calls)
    ]
    return [*([thought] if said.reasoning else []), *([text] if said.text else []), *calls]


def _usage(usage: Usage) -> Item:
    return {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.output + usage.reasoning,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
