"""Hypothesis strategies for histories as callers give them, in each wire format.

Every history drawn is one its provider accepts: calls are answered at once, thinking comes first. Fields and blocks
that infold does not know are strewn in, for they must survive.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st
from msgspec import Struct

from infold.formats.registry import ANTHROPIC_MESSAGES, CONVERSE, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat

Item: TypeAlias = dict[str, Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""
INJECTED = (
    "<system-reminder>\nKeep the list of tasks up to date.\n</system-reminder>",
    "[Request interrupted by user]",
)
WORDS = ("Fix the failing test.", "Читай файл", "請修正錯誤", "naïve café ☕", "a < b and c > d", "x" * 400)


class WireHistory(Struct, frozen=True):
    """A format and a list of items in it."""

    format: WireFormat
    items: list[Any]


class Dumpable:
    """An item in the guise of an SDK's object."""

    def __init__(self, item: Item) -> None:
        self.item = item

    def model_dump(self, **_: object) -> Item:
        """The item as a dict of its own, as pydantic would give it."""
        copy: Item = msgspec.json.decode(msgspec.json.encode(self.item))
        return copy


class _Call(Struct, frozen=True):
    id: str
    tool: str
    arguments: dict[str, str]
    output: str
    is_error: bool


class _Step(Struct, frozen=True):
    thinking: str
    text: str
    calls: tuple[_Call, ...]


class _Turn(Struct, frozen=True):
    asked: str
    has_image: bool
    steps: tuple[_Step, ...]
    answer: str


def texts() -> st.SearchStrategy[str]:
    """Text that is not blank: words of several scripts, markup, what harnesses inject, anything."""
    anything = st.text(min_size=1, max_size=40).filter(str.strip)
    return st.one_of(st.sampled_from(WORDS), anything, st.sampled_from([f"Go on.\n{text}" for text in INJECTED]))


@st.composite
def _calls(draw: st.DrawFn, key: str) -> tuple[_Call, ...]:
    count = draw(st.integers(0, 3))
    return tuple(
        _Call(
            id=f"call_{key}_{number}",
            tool=draw(st.sampled_from(["bash", "read_file", "edit"])),
            arguments=draw(st.dictionaries(st.sampled_from(["path", "command", "text"]), texts(), max_size=2)),
            output=draw(texts()),
            is_error=draw(st.booleans()),
        )
        for number in range(count)
    )


@st.composite
def _turn(draw: st.DrawFn, key: int) -> _Turn:
    steps = tuple(
        _Step(draw(st.sampled_from(["", "Let me look."])), draw(st.sampled_from(["", "Reading."])), calls)
        for number in range(draw(st.integers(0, 2)))
        if (calls := draw(_calls(f"{key}_{number}")))
    )
    return _Turn(draw(texts()), draw(st.booleans()), steps, draw(texts()))


@st.composite
def _histories(draw: st.DrawFn, wire: WireFormat, render: Callable[[_Turn, Item], list[Item]]) -> WireHistory:
    turns = [draw(_turn(key)) for key in range(draw(st.integers(1, 3)))]
    extra = draw(st.sampled_from([{}, {"x_unknown": {"deep": [1, None, "é"]}}]))
    return WireHistory(wire, [item for turn in turns for item in render(turn, extra)])


def chat_histories() -> st.SearchStrategy[WireHistory]:
    """Histories as Chat Completions messages."""
    return _histories(OPENAI_CHAT, _chat)


def responses_histories() -> st.SearchStrategy[WireHistory]:
    """Histories as Responses input items."""
    return _histories(OPENAI_RESPONSES, _responses)


def anthropic_histories() -> st.SearchStrategy[WireHistory]:
    """Histories as Anthropic Messages."""
    return _histories(ANTHROPIC_MESSAGES, _anthropic)


def gemini_histories() -> st.SearchStrategy[WireHistory]:
    """Histories as Gemini contents, with and without call ids."""
    return st.one_of(_histories(GEMINI, _gemini), _histories(GEMINI, _gemini_without_ids))


def converse_histories() -> st.SearchStrategy[WireHistory]:
    """Histories as messages of Bedrock's Converse, with cache points."""
    return _histories(CONVERSE, _converse)


def wire_histories() -> st.SearchStrategy[WireHistory]:
    """Histories of all five formats."""
    anthropics = st.one_of(anthropic_histories(), converse_histories())
    return st.one_of(chat_histories(), responses_histories(), anthropics, gemini_histories())


@st.composite
def guises(draw: st.DrawFn, items: list[Item]) -> list[object]:
    """The items, each as a dict, as JSON bytes or as an SDK's object."""
    kinds: list[Callable[[Item], object]] = [lambda item: item, msgspec.json.encode, Dumpable]
    return [draw(st.sampled_from(kinds))(item) for item in items]


def _chat(turn: _Turn, extra: Item) -> list[Item]:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}}
    blocks = [{"type": "text", "text": turn.asked, **extra}, image]
    items: list[Item] = [{"role": "user", "content": blocks if turn.has_image else turn.asked, **extra}]
    for step in turn.steps:
        reply: Item = {"role": "assistant", "content": step.text or None, **extra}
        if step.thinking:
            reply["reasoning_content"] = step.thinking
        reply["tool_calls"] = [_chat_call(call, extra) for call in step.calls]
        items += [reply, *({"role": "tool", "tool_call_id": call.id, "content": call.output} for call in step.calls)]
    return [*items, {"role": "assistant", "content": turn.answer}]


def _chat_call(call: _Call, extra: Item) -> Item:
    return {"id": call.id, "type": "function", "function": _function(call), **extra}


def _function(call: _Call) -> Item:
    return {"name": call.tool, "arguments": msgspec.json.encode(call.arguments).decode()}


def _responses(turn: _Turn, extra: Item) -> list[Item]:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
    blocks = [{"type": "input_text", "text": turn.asked, **extra}, *([image] if turn.has_image else [])]
    items: list[Item] = [{"type": "message", "role": "user", "content": blocks, **extra}]
    for step in turn.steps:
        key = step.calls[0].id
        items += [_reasoning(f"rs_{key}", step.thinking)] if step.thinking else []
        items += [_said(f"msg_{key}", step.text)] if step.text else []
        items += [{"type": "function_call", "call_id": call.id, **_function(call), **extra} for call in step.calls]
        items += [{"type": "function_call_output", "call_id": call.id, "output": call.output} for call in step.calls]
    return [*items, {"role": "assistant", "content": turn.answer}]


def _reasoning(item_id: str, text: str) -> Item:
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": "gAAAAB=="}


def _said(item_id: str, text: str) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def _anthropic(turn: _Turn, extra: Item) -> list[Item]:
    cached = {"cache_control": {"type": "ephemeral"}} if extra else {}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    blocks = [*([image] if turn.has_image else []), {"type": "text", "text": turn.asked, **cached}]
    items: list[Item] = [{"role": "user", "content": blocks}]
    for step in turn.steps:
        thinking = {"type": "thinking", "thinking": step.thinking, "signature": "c2ln"}
        said = [*([thinking] if step.thinking else []), *([{"type": "text", "text": step.text}] if step.text else [])]
        uses = [{"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments} for call in step.calls]
        items.append({"role": "assistant", "content": [*said, *uses]})
        items.append({"role": "user", "content": [_tool_result(call, cached) for call in step.calls]})
    return [*items, {"role": "assistant", "content": turn.answer}]


def _tool_result(call: _Call, cached: Item) -> Item:
    content = [{"type": "text", "text": call.output}] if cached else call.output
    return {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": call.is_error, **cached}


def _converse(turn: _Turn, extra: Item) -> list[Item]:
    image = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    point = [{"cachePoint": {"type": "default"}}] if extra else []
    blocks = [*([image] if turn.has_image else []), {"text": turn.asked}, *point]
    items: list[Item] = [{"role": "user", "content": blocks, **extra}]
    for step in turn.steps:
        thinking = {"reasoningContent": {"reasoningText": {"text": step.thinking, "signature": "c2ln"}}}
        said = [*([thinking] if step.thinking else []), *([{"text": step.text}] if step.text else [])]
        uses = [{"toolUse": {"toolUseId": call.id, "name": call.tool, "input": call.arguments}} for call in step.calls]
        items.append({"role": "assistant", "content": [*said, *uses]})
        items.append({"role": "user", "content": [*(_converse_result(call) for call in step.calls), *point]})
    return [*items, {"role": "assistant", "content": [{"text": turn.answer}]}]


def _converse_result(call: _Call) -> Item:
    status = "error" if call.is_error else "success"
    content = [{"json": {"output": call.output}}] if call.is_error else [{"text": call.output}]
    return {"toolResult": {"toolUseId": call.id, "content": content, "status": status}}


def _gemini(turn: _Turn, extra: Item) -> list[Item]:
    image = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    items: list[Item] = [{"role": "user", "parts": [{"text": turn.asked}, *([image] if turn.has_image else [])]}]
    for step in turn.steps:
        thought = [{"text": step.thinking, "thought": True}] if step.thinking else []
        said = [{"text": step.text, "thoughtSignature": "c2ln"}] if step.text else []
        uses = [_function_call(call, signed=bool(thought) and call is step.calls[0]) for call in step.calls]
        items.append({"role": "model", "parts": [*thought, *said, *uses], **extra})
        items.append({"role": "user", "parts": [_function_response(call) for call in step.calls]})
    return [*items, {"role": "model", "parts": [{"text": turn.answer}]}]


def _function_call(call: _Call, *, signed: bool) -> Item:
    wire: Item = {"functionCall": {"id": call.id, "name": call.tool, "args": call.arguments}}
    return {**wire, "thoughtSignature": "c2ln"} if signed else wire


def _function_response(call: _Call) -> Item:
    response = {"error": call.output} if call.is_error else {"output": call.output}
    return {"functionResponse": {"id": call.id, "name": call.tool, "response": response}}


def _gemini_without_ids(turn: _Turn, extra: Item) -> list[Item]:
    items = _gemini(turn, extra)
    for part in (part for item in items for part in item["parts"]):
        for body in (part.get("functionCall"), part.get("functionResponse")):
            if body is not None:
                del body["id"]
    return items
