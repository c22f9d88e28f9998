"""What a scripted model says, as Responses would: whole, streamed, and a request refused for its size."""

from collections.abc import Iterator
from itertools import count

import msgspec

from infold.core.messages import Usage
from infold.testing.scripted_answers import Item, Reply, Told, finish_of, pieces_of

STATUSES = {"length": "incomplete", "content-filter": "incomplete", "error": "failed", "abort": "cancelled"}
REASONS = {"length": "max_output_tokens", "content-filter": "content_filter"}
FAILED = {"code": "server_error", "message": "a scripted failure"}
CREATED = 1_700_000_000


def body(reply: Reply) -> Item:
    """The reply as one object."""
    finish = finish_of(reply.say)
    details = {"reason": REASONS[finish]} if finish in REASONS else None
    return {
        **_head(reply),
        "status": STATUSES.get(finish, "completed"),
        "error": FAILED if finish == "error" else None,
        "incomplete_details": details,
        "output": _items(reply),
        "usage": _usage(reply.usage),
    }


def events(reply: Reply) -> Iterator[Told]:
    """The reply as the events of a stream, numbered."""
    whole = body(reply)
    numbers = count()
    for event in _events(reply, whole):
        yield Told({**event, "sequence_number": next(numbers)}, event["type"])


def overflow(tokens: int, window_tokens: int) -> Item:
    """The body of status 400 for a request that is too large."""
    words = (
        f"Input tokens exceed the configured limit of {window_tokens} tokens. Your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    return {
        "error": {
            "message": words,
            "type": "invalid_request_error",
            "param": "input",
            "code": "context_length_exceeded",
        }
    }


def _events(reply: Reply, whole: Item) -> Iterator[Item]:
    begun = {**_head(reply), "status": "in_progress", "error": None, "incomplete_details": None, "output": []}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        for event in _item_events(item):
            yield {**event, "output_index": index}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _item_events(item: Item) -> Iterator[Item]:
    empty: dict[str, Item] = {
        "reasoning": {"summary": []},
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    yield {"type": "response.output_item.added", "item": {**item, **empty[item["type"]]}}
    at: Item = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            yield from _summary_events(item["summary"][0], at)
        case "message":
            yield from _text_events(item["content"][0], at)
        case _:
            told = "response.function_call_arguments"
            yield from ({"type": f"{told}.delta", "delta": piece, **at} for piece in pieces_of(item["arguments"]))
            yield {"type": f"{told}.done", "arguments": item["arguments"], "name": item["name"], **at}
    yield {"type": "response.output_item.done", "item": item}


def _summary_events(part: Item, at: Item) -> Iterator[Item]:
    at = {**at, "summary_index": 0}
    yield {"type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}, **at}
    for piece in pieces_of(part["text"]):
        yield {"type": "response.reasoning_summary_text.delta", "delta": piece, **at}
    yield {"type": "response.reasoning_summary_text.done", "text": part["text"], **at}
    yield {"type": "response.reasoning_summary_part.done", "part": part, **at}


def _text_events(part: Item, at: Item) -> Iterator[Item]:
    at = {**at, "content_index": 0}
    yield {"type": "response.content_part.added", "part": {**part, "text": ""}, **at}
    for piece in pieces_of(part["text"]):
        yield {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **at}
    yield {"type": "response.output_text.done", "text": part["text"], "logprobs": [], **at}
    yield {"type": "response.content_part.done", "part": part, **at}


def _head(reply: Reply) -> Item:
    fixed: Item = {
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    head = {"id": f"resp_{reply.number}", "object": "response", "created_at": CREATED, "model": reply.model}
    return {**head, **fixed, "temperature": 1.0, "top_p": 1.0}


def _items(reply: Reply) -> list[Item]:
    said, number = reply.say, reply.number
    summary = [{"type": "summary_text", "text": said.reasoning}]
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": "c2VhbGVk"}
    content = [{"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}]
    message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content, "status": "completed"}
    calls = [_call(f"{number}_{index}", name, arguments) for index, (name, arguments) in enumerate(said.calls)]
    has_text = bool(said.text or not calls)
    return [*([thought] if said.reasoning else []), *([message] if has_text else []), *calls]


def _call(key: str, name: str, arguments: Item) -> Item:
    call = {"type": "function_call", "id": f"fc_{key}", "call_id": f"call_{key}", "name": name, "status": "completed"}
    return {**call, "arguments": msgspec.json.encode(arguments).decode()}


def _usage(usage: Usage) -> Item:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output + usage.reasoning,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.context,
    }
