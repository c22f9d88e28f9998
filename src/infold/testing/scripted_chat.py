"""What a scripted model says, as Chat Completions would: whole, streamed, and a request refused for its size."""

from collections.abc import Iterator

import msgspec

from infold.core.messages import Usage
from infold.testing.scripted_answers import Item, Reply, Told, finish_of, pieces_of

FINISHES = {"tool-calls": "tool_calls", "content-filter": "content_filter"}
CREATED = 1_700_000_000


def body(reply: Reply) -> Item:
    """The reply as one object."""
    calls = _calls(reply)
    message: Item = {"role": "assistant", "content": reply.say.text or (None if calls else ""), "refusal": None}
    message |= {"reasoning_content": reply.say.reasoning} if reply.say.reasoning else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    usage = {"usage": _usage(reply.usage)} if reply.reports_usage else {}
    return {**_head(reply, "chat.completion"), "choices": [choice], **usage}


def events(reply: Reply) -> Iterator[Told]:
    """The reply as the chunks of a stream; usage comes last, in a chunk of its own, and only where it is wanted."""
    opening = None if reply.say.calls and not reply.say.text else ""
    yield _chunk(reply, {"role": "assistant", "content": opening, "refusal": None})
    yield from (_chunk(reply, {"reasoning_content": piece}) for piece in pieces_of(reply.say.reasoning))
    yield from (_chunk(reply, {"content": piece}) for piece in pieces_of(reply.say.text))
    for index, call in enumerate(_calls(reply)):
        begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield _chunk(reply, {"tool_calls": [begun]})
        for piece in pieces_of(call["function"]["arguments"]):
            yield _chunk(reply, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(reply, {}, finish=_finish(reply))
    if reply.reports_usage:
        yield Told({**_head(reply, "chat.completion.chunk"), "choices": [], "usage": _usage(reply.usage)})
    yield Told("[DONE]")


def overflow(tokens: int, window_tokens: int) -> Item:
    """The body of status 400 for a request that is too large."""
    words = (
        f"This model's maximum context length is {window_tokens} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    error = {"message": words, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    return {"error": error}


def _head(reply: Reply, kind: str) -> Item:
    return {"id": f"chatcmpl-{reply.number}", "object": kind, "created": CREATED, "model": reply.model}


def _chunk(reply: Reply, delta: Item, finish: str | None = None) -> Told:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return Told({**_head(reply, "chat.completion.chunk"), "choices": [choice]})


def _calls(reply: Reply) -> list[Item]:
    return [
        {
            "id": f"call_{reply.number}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": msgspec.json.encode(arguments).decode()},
        }
        for index, (name, arguments) in enumerate(reply.say.calls)
    ]


def _finish(reply: Reply) -> str:
    finish = finish_of(reply.say)
    return FINISHES.get(finish, finish)


def _usage(usage: Usage) -> Item:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output + usage.reasoning,
        "total_tokens": usage.context,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
