"""OpenAI Chat Completions messages, with the fields compatible servers add.

One item is one message. What a model says stands in several fields of an item; their order here is reasoning,
content, refusal, calls. What the provider refuses is told by `rules.py`, what it replies by `bodies.py`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from infold.core.messages import (
    AssistantMessage,
    FilePart,
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
from infold.formats.items import (
    Decoded,
    Item,
    MalformedError,
    cleaned,
    decode_each,
    id_field,
    json_text,
    lines,
    listed,
    opaque,
    plain,
    provider_text,
    text_field,
    user_text,
)
from infold.formats.media import file_part
from infold.formats.openai_chat_new import encode_new as encode_new
from infold.formats.openai_chat_plain import ROLES, plain_parts
from infold.formats.pairing import Pairing, by_name
from infold.formats.patch import GONE, Codec, Slot, encode_view, gather
from infold.formats.slots import (
    arguments_of,
    left_text,
    replaced_content,
    result_or_text,
    shown_text,
    unpacked_input,
)

NAME = "openai-chat"
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
"""The thinking of compatible servers; where several hold it, the first has the text."""


def looks_like(items: Sequence[object]) -> bool:
    """Whether these could be chat messages; plain user and assistant text could be other formats' too."""
    return bool(items) and all(plain(item).get("role") in ROLES for item in items)


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Chat messages as core messages; `BrokenInput` for an item of a wrong type."""
    return decode_each(NAME, items, _message, first=first, pairing=pairing)


def encode(view: Sequence[Message], decoded: Decoded) -> list[object]:
    """The view as chat messages; untouched ones are the caller's own objects."""
    return encode_view(_CODEC, view, decoded)


def _message(item: Item, message_id: MessageId, pairing: Pairing) -> Message:
    role, content = item.get("role"), item.get("content")
    if role == "user" and type(content) is str:
        return UserMessage(message_id, pairing.announced.marked(user_text(content), message_id, is_users=True))
    if not isinstance(role, str):
        raise MalformedError("it has no role", remedy=f"give a role, one of {', '.join(ROLES)}")
    parts = plain_parts(item, role, pairing, message_id)
    parts = pairing.announced.marked(parts, message_id, is_users=False) or gather(_CODEC, item, pairing, message_id)
    if role == "assistant":
        return AssistantMessage(message_id, parts)
    if role in ("tool", "function"):
        return ToolMessage(message_id, parts)
    if role in ("system", "developer"):
        return SystemMessage(message_id, parts)
    return UserMessage(message_id, parts)


def _slots(item: Item) -> Iterator[Slot]:
    role = item["role"]
    if role not in ROLES:
        yield Slot((), "opaque", item)
    elif role in ("tool", "function"):
        yield Slot((), "result", item)
    elif role == "assistant":
        yield from _reply_slots(item)
    else:
        yield from _content_slots(item, "user" if role == "user" else "text")


def _reply_slots(item: Item) -> Iterator[Slot]:
    fields = [field for field in REASONING_FIELDS if item.get(field)]
    for field in fields:
        yield Slot((field,), "reasoning" if field == fields[0] else "reasoning-again", item[field])
    yield from _content_slots(item, "text")
    if item.get("refusal"):
        yield Slot(("refusal",), "text", item["refusal"])
    for index, call in enumerate(listed(item.get("tool_calls"), "tool_calls")):
        yield Slot(("tool_calls", index), "call", plain(call))
    if item.get("function_call"):
        yield Slot(("function_call",), "legacy-call", plain(item["function_call"]))
    if item.get("audio"):
        yield Slot(("audio",), "audio", {"type": "audio", "audio": plain(item["audio"])})


def _content_slots(item: Item, kind: str) -> Iterator[Slot]:
    content = item.get("content")
    if isinstance(content, str):
        if content or kind == "user":
            yield Slot(("content",), kind, content)
        return
    for index, block in enumerate(listed(content, "content")):
        value = block if isinstance(block, str) else plain(block)
        yield Slot(("content", index), kind, value)


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    value = slot.value
    match slot.kind:
        case "call":
            return (_call(value, pairing, message_id),)
        case "legacy-call":
            return (_legacy_call(value, pairing, message_id),)
        case "result":
            return (_result(value, pairing),)
        case "reasoning" | "reasoning-again":
            text = _reasoning_text(value) if slot.kind == "reasoning" else ""
            return (ReasoningPart(text, *_signature(value)),)
        case "opaque":
            return opaque(value)
        case _:
            return _block_parts(value, is_user=slot.kind == "user")


def _block_parts(block: str | Item, *, is_user: bool) -> tuple[Part, ...]:
    text = block if isinstance(block, str) else block.get("text", block.get("refusal"))
    if isinstance(text, str):
        return user_text(text) if is_user else (TextPart(cleaned(text)),)
    return _medium(plain(block))


def _medium(block: Item) -> tuple[Part, ...]:
    inner = block.get(str(block.get("type")))
    if not isinstance(inner, dict):
        return opaque(block)
    match block["type"]:
        case "image_url":
            url, detail = text_field(inner, "url"), text_field(inner, "detail")
            return (file_part("openai", "image/*", reference=url, detail=detail),)
        case "input_audio":
            kind = f"audio/{text_field(inner, 'format') or 'wav'}"
            return (file_part("openai", kind, data=text_field(inner, "data")),)
        case "audio":
            return (file_part("openai", "audio/wav", reference=text_field(inner, "id")),)
        case "file":
            reference = text_field(inner, "file_data", "file_id")
            name = text_field(inner, "filename")
            return (file_part("openai", "application/pdf", reference=reference, name=name),)
        case _:
            return opaque(block)


def _reasoning_text(value: object) -> str:
    if isinstance(value, str):
        return cleaned(value)
    return lines(text_field(plain(detail), "text", "summary") for detail in listed(value, "reasoning"))


def _signature(value: object) -> list[str]:
    """Provider data, where the wire has any: reasoning in blocks may be signed or encrypted."""
    return [provider_text(value)] if value and not isinstance(value, str) else []


def _legacy_call(call: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    name = text_field(call, "name")
    return ToolCallPart(pairing.call("", name, message_id), name, arguments_of(call.get("arguments")))


def _call(call: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    body = plain(call.get("function") or call.get("custom") or {})
    name = text_field(body, "name")
    arguments = json_text({"input": body["input"]}) if "input" in body else arguments_of(body.get("arguments"))
    call_id = pairing.call(id_field(call, "id"), name, message_id)
    return ToolCallPart(call_id, name, arguments, *_signature(call.get("extra_content")))


def _result(item: Item, pairing: Pairing) -> Part:
    content = item.get("content")
    blocks = () if isinstance(content, str) else listed(content, "content")
    parts = [part for block in blocks for part in _inside(block)]
    output = cleaned(content) if isinstance(content, str) else shown_text(parts)
    asked = pairing.result(id_field(item, "tool_call_id") or by_name(text_field(item, "name")))
    return result_or_text(asked, output, files=tuple(part for part in parts if isinstance(part, FilePart)))


def _replaced(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    if not any(parts):
        return GONE
    match slot.kind:
        case "call":
            return _replaced_call(slot.value, parts[0])
        case "legacy-call":
            return {**slot.value, "arguments": left_text(parts)}
        case "result":
            return _replaced_result(slot, parts[0])
        case "audio":
            return slot.value["audio"]
        case _:
            return _replaced_text(slot, left_text(parts))


def _retold(slot: Slot, text: str) -> Any:
    """Text for a medium or a result; a result in words is no tool's any more."""
    if not slot.path:
        return {"role": "user", "content": text}
    return GONE if slot.kind == "audio" else {"type": "text", "text": text}


def _replaced_call(call: Item, part: Part | None) -> Item:
    if "custom" in call:
        return {**call, "custom": {**plain(call["custom"]), "input": unpacked_input(part)}}
    return {**call, "function": {**plain(call["function"]), "arguments": left_text((part,))}}


def _replaced_result(slot: Slot, part: Part | None) -> Item:
    """A result with other text; one that answers no call can only be text."""
    if isinstance(part, TextPart):
        return {"role": "user", "content": part.text}
    content = replaced_content(slot.value.get("content"), part, _inside, text_type="text")
    return {**slot.value, "content": content}


def _inside(block: str | Item) -> tuple[Part, ...]:
    """A block inside a result."""
    return _block_parts(block, is_user=False)


def _replaced_text(slot: Slot, text: str) -> Any:
    """A text slot with other text; a user's block that infold has no reading for becomes text."""
    value = slot.value
    if not text:
        return GONE
    if isinstance(value, str):
        return text
    if "refusal" in value:
        return {**value, "refusal": text}
    return {**value, "text": text} if "text" in value else _unread(slot, text)


def _unread(slot: Slot, text: str) -> Any:
    """A model's own blocks stay whole, for other blocks may depend on them."""
    if slot.kind == "opaque":
        return {"role": "user", "content": text}
    return {"type": "text", "text": text} if slot.kind == "user" else slot.value


def _tidied(item: Item) -> Item | None:
    """Mend an item that lost slots: a reply may lack content if it calls, no message may lack both."""
    copy = {key: value for key, value in item.items() if key != "tool_calls" or value}
    if copy.get("content") or copy.get("refusal"):
        return copy
    if "tool_calls" in copy or "function_call" in copy or "audio" in copy:
        return {**copy, "content": None}
    return None


_CODEC = Codec(slots=_slots, parts=_parts, replaced=_replaced, retold=_retold, tidied=_tidied, new=encode_new)
