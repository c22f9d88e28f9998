"""What a scripted model says, as Gemini would: whole, streamed, and a request refused for its size."""

from collections.abc import Iterator

from infold.core.messages import Usage
from infold.testing.scripted_answers import Item, Reply, Told, finish_of, pieces_of

FINISHES = {
    "stop": "STOP",
    "tool-calls": "STOP",
    "length": "MAX_TOKENS",
    "content-filter": "SAFETY",
    "error": "MALFORMED_FUNCTION_CALL",
}


def body(reply: Reply) -> Item:
    """The reply as one object."""
    said = reply.say
    thoughts = [{"text": said.reasoning, "thought": True}] if said.reasoning else []
    texts = [{"text": said.text}] if said.text else []
    return _piece(reply, [*thoughts, *texts, *_calls(reply)], is_last=True)


def events(reply: Reply) -> Iterator[Told]:
    """The reply as the pieces of a stream; the last one, which says nothing, tells why it ended and what it cost."""
    for thought in pieces_of(reply.say.reasoning):
        yield Told(_piece(reply, [{"text": thought, "thought": True}]))
    for text in pieces_of(reply.say.text):
        yield Told(_piece(reply, [{"text": text}]))
    for call in _calls(reply):
        yield Told(_piece(reply, [call]))
    yield Told(_piece(reply, [], is_last=True))


def overflow(tokens: int, window_tokens: int) -> Item:
    """The body of status 400 for a request that is too large."""
    words = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window_tokens})."
    return {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}


def _piece(reply: Reply, parts: list[Item], *, is_last: bool = False) -> Item:
    finish = finish_of(reply.say)
    ending: Item = {"finishReason": FINISHES.get(finish, "OTHER")} if is_last else {}
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **ending}
    usage = _usage(reply.usage) if is_last else {"promptTokenCount": reply.usage.prompt}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": reply.model,
        "responseId": f"reply-{reply.number}",
    }


def _calls(reply: Reply) -> list[Item]:
    """The calls; the first one after thinking bears its signature."""
    seal: Item = {"thoughtSignature": "c2lnbmVk"} if reply.say.reasoning else {}
    return [
        {
            "functionCall": {"id": f"call-{reply.number}-{index}", "name": name, "args": arguments},
            **({} if index else seal),
        }
        for index, (name, arguments) in enumerate(reply.say.calls)
    ]


def _usage(usage: Usage) -> Item:
    return {
        "promptTokenCount": usage.prompt,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.context,
    }
