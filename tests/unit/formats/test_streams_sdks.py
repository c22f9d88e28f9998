"""The official SDKs and our builders make the same of the same stream."""

from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from infold.core.messages import Usage
from infold.formats.registry import builder_for
from infold.testing import wire_replies
from infold.testing.script import Say, StreamEvent, WireReply

OWN_FIELDS = ("index", "parsed", "parsed_arguments", "parsed_output", "obfuscation")
"""What the SDKs keep or add beside what a provider says."""

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("bash", {"command": "ls -la | head", "limit": 3}),
    ("read_file", {"path": "naïve/☕.txt"}),
    ("todo", {}),
)
SAYS = [
    Say("Hello."),
    Say("Grüße! I will look at both files now, ☕ first.", calls=CALLS, reasoning="Which of them is newer?"),
    Say(calls=CALLS[:1]),
    Say("Half a sent", finish="length", usage=Usage(30, 10, 20, 60, 10)),
]
USER: Any = [{"role": "user", "content": "hi"}]


def transport(stream: bytes) -> httpx2.MockTransport:
    """A service that answers everything with this stream."""
    headers = {"content-type": "text/event-stream"}
    return httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=stream))


def by_openai(stream: bytes) -> openai.OpenAI:
    """A client of that service."""
    return openai.OpenAI(api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport(stream)))


def chat_of_sdk(stream: bytes) -> object:
    """What the SDK makes of a chat stream."""
    with by_openai(stream) as client, client.chat.completions.stream(model="m", messages=USER) as events:
        events.until_done()
        return events.current_completion_snapshot


def response_of_sdk(stream: bytes) -> object:
    """What the SDK makes of a Responses stream: the response that ended it."""
    with by_openai(stream) as client, client.responses.stream(model="m", input="hi") as events:
        return [event for event in events if event.type in ("response.completed", "response.incomplete")][-1].response


def message_of_sdk(stream: bytes) -> object:
    """What the SDK makes of a Messages stream."""
    http = httpx2.Client(transport=transport(stream))
    with (
        anthropic.Anthropic(api_key="k", max_retries=0, http_client=http) as client,
        client.messages.stream(model="m", max_tokens=9, messages=USER) as events,
    ):
        return events.get_final_message()


def built(format_name: str, stream: bytes, read: Callable[[dict[str, Any]], Any]) -> object:
    """What we make of a stream, as the SDK's object."""
    builder = builder_for(format_name)
    builder.feed(stream)
    reply = builder.reply()
    assert reply is not None
    return read(reply)


def told(value: object) -> object:
    """What an SDK's object says, without empty fields and the SDK's own."""
    dump = getattr(value, "to_dict", None)
    value = value if dump is None else dump(mode="json", warnings=False)
    if isinstance(value, dict):
        kept = {field: told(inner) for field, inner in value.items() if field not in OWN_FIELDS}
        return {field: inner for field, inner in kept.items() if inner is not None}
    return [told(inner) for inner in value] if isinstance(value, list) else value


def encoded(events: Any) -> bytes:
    """Events as the bytes of a stream."""
    return b"".join(event.encode() for event in events)


def reply(say: Say) -> WireReply:
    """A reply on its way to the wire."""
    return WireReply(say, say.usage or Usage(100, 20, reasoning=5), 1, "m")


CHUNK = {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 7, "model": "m", "system_fingerprint": "fp"}
INTERLEAVED = [
    {"role": "assistant", "content": None, "refusal": None},
    {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "a", "arguments": ""}}]},
    {"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "b", "arguments": "{"}}]},
    {
        "tool_calls": [
            {"index": 0, "function": {"arguments": '{"x": "☕'}},
            {"index": 1, "function": {"arguments": "}"}},
        ]
    },
    {"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]},
    {"refusal": "No"},
    {"refusal": "pe."},
]


def chat_by_hand() -> bytes:
    """Two calls whose pieces alternate, a refusal, probabilities."""
    events = [
        StreamEvent({**CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in INTERLEAVED
    ]
    token = {"token": "x", "logprob": -0.1, "bytes": [120], "top_logprobs": []}
    last = {"index": 0, "delta": {"content": "x"}, "logprobs": {"content": [token], "refusal": None}}
    ends = [StreamEvent({**CHUNK, "choices": [{**last, "finish_reason": reason}]}) for reason in (None, "tool_calls")]
    return encoded([*events, *ends, StreamEvent("[DONE]")])


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream",
    [chat_by_hand(), *(encoded(wire_replies.chat_events(reply(say))) for say in SAYS)],
    ids=range(1 + len(SAYS)),
)
def test_chat_is_as_the_sdk_has_it(stream: bytes) -> None:
    """Text, refusals, reasoning, calls, probabilities, finish, usage and ids are those of `chat.completions.stream`."""
    ours = built("openai-chat", stream, lambda body: ChatCompletion.construct(**body))

    assert told(ours) == told(chat_of_sdk(stream))


@pytest.mark.slow
@pytest.mark.parametrize("say", SAYS)
def test_a_response_is_as_the_sdk_has_it(say: Say) -> None:
    """The whole response is that of `responses.stream`."""
    stream = encoded(wire_replies.responses_events(reply(say)))
    ours = built("openai-responses", stream, lambda body: Response.construct(**body))

    assert told(ours) == told(response_of_sdk(stream))


@pytest.mark.slow
def test_a_response_that_was_cut_is_as_the_sdk_gathered_it() -> None:
    """Without the event that ends it, a response has the items that the SDK has at that moment."""
    events = list(wire_replies.responses_events(reply(SAYS[1])))[:-1]
    gathered: dict[int, object] = {}
    with by_openai(encoded(events)) as client, client.responses.stream(model="m", input="hi") as stream:
        for event in stream:
            if event.type == "response.output_item.done":
                gathered[event.output_index] = event.item
    ours = built("openai-responses", encoded(events), lambda body: body["output"])

    assert told(ours) == told([gathered[index] for index in sorted(gathered)])


CITED = {"type": "char_location", "cited_text": "x", "document_index": 0, "start_char_index": 0, "end_char_index": 1}
BLOCKS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    ({"type": "redacted_thinking", "data": "gAAA"}, []),
    (
        {"type": "text", "text": "", "citations": []},
        [{"type": "text_delta", "text": "Found."}, {"type": "citations_delta", "citation": CITED}],
    ),
    (
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"query": "☕', '"}')],
    ),
    ({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}, []),
]


def message_by_hand() -> bytes:
    """Blocks of kinds that a script does not write, and a usage that the last event corrects."""
    usage = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0}
    message = {"id": "msg_9", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "stop_reason": None}}]
    for index, (block, deltas) in enumerate(BLOCKS):
        events += [{"type": "content_block_start", "index": index, "content_block": block}]
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events += [{"type": "content_block_stop", "index": index}]
    ended = {"stop_reason": "stop_sequence", "stop_sequence": "###"}
    counts = {
        "output_tokens": 12,
        "input_tokens": 40,
        "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
    }
    events += [{"type": "message_delta", "delta": ended, "usage": counts}, {"type": "message_stop"}]
    return encoded(StreamEvent(event, event["type"]) for event in events)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream",
    [message_by_hand(), *(encoded(wire_replies.anthropic_events(reply(say))) for say in SAYS)],
    ids=range(1 + len(SAYS)),
)
def test_a_message_is_as_the_sdk_has_it(stream: bytes) -> None:
    """Thinking, text, citations, input, stop reason and usage are those of `messages.stream`."""
    ours = built("anthropic-messages", stream, lambda body: Message.construct(**body))

    assert told(ours) == told(message_of_sdk(stream))
