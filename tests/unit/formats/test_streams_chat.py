"""Chat Completions replies out of their chunks."""

from typing import Any

import pytest

from infold.core.messages import ReasoningPart, Usage
from infold.formats.registry import OPENAI_CHAT
from infold.formats.streams import ReplyBuilder, builder_for
from infold.testing.script import StreamEvent

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "total_tokens": 130,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 20},
}


def chunk(delta: dict[str, Any] | None, *, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    """A chunk with one choice, or with none."""
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish}]
    return StreamEvent({**HEAD, "choices": choices, **more}).encode()


def call(arguments: str, *, index: int | None = 0, call_id: str = "", name: str = "") -> dict[str, Any]:
    """A delta with a piece of one call."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    told: dict[str, Any] = {"function": function} | ({"id": call_id, "type": "function"} if call_id else {})
    return {"tool_calls": [told if index is None else told | {"index": index}]}


def fed(*pieces: bytes) -> ReplyBuilder:
    """A builder that read these pieces."""
    builder = builder_for("openai-chat")
    for piece in pieces:
        builder.feed(piece)
    return builder


def said(*deltas: dict[str, Any]) -> dict[str, Any]:
    """The message these deltas make."""
    reply = fed(*(chunk(delta) for delta in deltas)).reply()
    assert reply is not None
    message: dict[str, Any] = reply["choices"][0]["message"]
    return message


def test_text_usage_and_finish_come_together() -> None:
    """The body is what the call would have given at once; the usage is in a last chunk without choices."""
    builder = fed(
        chunk({"role": "assistant", "content": ""}, usage=None),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, finish="stop"),
        chunk(None, usage=USAGE),
        b"data: [DONE]\n\n",
    )
    reply = builder.reply()

    assert reply == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    assert builder.is_finished
    assert builder.error() is None
    assert OPENAI_CHAT.finish(reply) == "stop"
    assert OPENAI_CHAT.usage(reply) == Usage(40, 10, 20, 60, 0, 130)


def test_calls_are_put_together_in_order() -> None:
    """Pieces of several calls may alternate; each call has its own arguments, in the order of their index."""
    message = said(
        {"role": "assistant", "content": None},
        call("", call_id="c1", name="bash"),
        call('{"comm', index=0),
        call("", index=1, call_id="c2", name="read"),
        call('and":1}', index=0),
        call("{}", index=1),
    )

    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
    ]


@pytest.mark.parametrize("index", [0, None])
def test_calls_with_one_index_are_told_apart(index: int | None) -> None:
    """Some servers give all calls index 0, or none: another id and a name begin another call."""
    message = said(
        call('{"a":', index=index, call_id="c1", name="bash"),
        call("1}", index=index),
        call('{"b":', index=index, call_id="c2", name="bash"),
        call("2}", index=index),
    )

    assert [(made["id"], made["function"]["arguments"]) for made in message["tool_calls"]] == [
        ("c1", '{"a":1}'),
        ("c2", '{"b":2}'),
    ]


def test_repeated_heads_are_one() -> None:
    """Role, id, type and name that a server repeats in every chunk, or changes between them, are told once."""
    message = said(
        {"role": "assistant", **call("{", call_id="c1", name="bash")},
        {"role": "assistant", **call("}", call_id="c1", name="bash")},
        {"role": "assistant", **call(" ", call_id="c9")},
    )

    assert message["role"] == "assistant"
    assert message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{} "}},
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "refusal"])
def test_other_texts_grow_too(field: str) -> None:
    """Thinking and refusals are put together like content."""
    assert said({field: "a"}, {field: "b"}, {"content": "c"})[field] == "ab"


def test_reasoning_details_keep_their_signature() -> None:
    """Signed reasoning is one entry with its signature; sealed reasoning is another."""
    head = {"type": "reasoning.text", "index": 0, "format": "x"}
    message = said(
        {"reasoning_details": [{**head, "text": "think"}]},
        {"reasoning_details": [{**head, "text": "ing"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "c2ln"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "gAAA"}]},
        {"content": "done"},
    )

    assert message["reasoning_details"] == [
        {**head, "text": "thinking", "signature": "c2ln"},
        {"type": "reasoning.encrypted", "index": 1, "data": "gAAA"},
    ]
    part = OPENAI_CHAT.decode([message]).messages[0].parts[0]
    assert isinstance(part, ReasoningPart)
    assert part.text == "thinking"
    assert "c2ln" in part.provider_data


def test_old_function_calls_and_custom_tools_are_understood() -> None:
    """The first form of calls, and calls with free text, grow as well."""
    assert said({"function_call": {"name": "f", "arguments": "{"}}, {"function_call": {"arguments": "}"}}) == {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}"},
    }
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": "l"}}
    assert said({"tool_calls": [custom]}, {"tool_calls": [{"index": 0, "custom": {"input": "s"}}]})["tool_calls"] == [
        {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    ]


def test_only_the_first_choice_is_kept() -> None:
    """Of several choices the first is the reply, whichever comes first."""
    reply = fed(chunk({"content": "B"}, index=1), chunk({"content": "A"}), chunk({}, index=1, finish="length")).reply()

    assert reply is not None
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["A"]
    assert OPENAI_CHAT.finish(reply) is None


def test_probabilities_and_newer_fields_stay() -> None:
    """What infold has no reading for is in the body all the same."""
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}, "native": 1}
    reply = fed(*[StreamEvent({**HEAD, "choices": [choice], "service_tier": "default"}).encode()] * 2).reply()

    assert reply is not None
    assert reply["service_tier"] == "default"
    assert reply["choices"][0]["logprobs"] == {"content": [{"token": "a"}, {"token": "a"}]}
    assert reply["choices"][0]["native"] == 1


def test_a_stream_cut_short_gives_what_there_was() -> None:
    """Text and half a call are there, and no reason to have ended."""
    builder = fed(chunk({"content": "Look"}), chunk(call('{"comm', call_id="c1", name="bash")), b'data: {"choi')
    reply = builder.reply()

    assert not builder.is_finished
    assert OPENAI_CHAT.finish(reply) is None
    assert OPENAI_CHAT.usage(reply) is None
    message = OPENAI_CHAT.decode(OPENAI_CHAT.reply_items(reply)).messages[0]
    assert [getattr(part, "text", "") or getattr(part, "arguments", "") for part in message.parts] == ["Look", '{"comm']


def test_done_without_a_finish_reason_is_an_end() -> None:
    """Some servers never say why they ended, only that they did."""
    assert fed(chunk({"content": "x"}), b"data: [DONE]\n\n").is_finished


def test_a_whole_message_in_one_chunk_is_a_reply() -> None:
    """A server that does not really stream sends its message in one event."""
    message = {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "c", **call("{}", name="f")["tool_calls"][0]}],
    }
    reply = fed(StreamEvent({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()).reply()

    assert reply is not None
    assert reply["choices"][0]["message"]["content"] == "x"
    assert reply["choices"][0]["message"]["tool_calls"][0]["id"] == "c"
