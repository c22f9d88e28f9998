"""Anthropic Messages.

One item is one message; tool results stand in user items. The API accepts consecutive user items and joins them, so
infold's own messages stay apart from the caller's; only results join, for they must come first in the joined turn.
Thinking goes back block by block as it came. What the provider refuses is told by `rules.py`, what it replies by `bodies.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    ToolResultPart,
    UserMessage,
)
from infold.formats.anthropic_messages_new import THINKING
from infold.formats.anthropic_messages_new import encode_new as encode_new
from infold.formats.items import (
    Decoded,
    Item,
    MalformedError,
    cleaned,
    decode_each,
    id_field,
    listed,
    opaque,
    plain,
    provider_text,
    text_field,
    user_text,
)
from infold.formats.media import file_part
from infold.formats.pairing import Pairing
from infold.formats.patch import GONE, Codec, Slot, begun_by_user, encode_view, gather
from infold.formats.slots import (
    arguments_of,
    left_text,
    parsed_arguments,
    replaced_content,
    result_or_text,
    shown_text,
)

NAME = "anthropic-messages"
ROLES = ("user", "assistant", "system")
OWN_BLOCKS = frozenset(
    {"tool_use", "tool_result", "image", "document", "search_result", "server_tool_use", "container_upload", *THINKING}
)
"""Blocks that no other format has; all results of server tools end in `_tool_result`."""


def looks_like(items: Sequence[object]) -> bool:
    """Whether some block is of a kind that only this format has."""
    return any(_is_own(block) for item in items for block in _blocks_of(plain(item)))


def _blocks_of(item: Item) -> Sequence[object]:
    content = item.get("content") if item.get("role") in ROLES else None
    return content if isinstance(content, list | tuple) else ()


def _is_own(block: object) -> bool:
    kind = text_field(plain(block), "type") if not isinstance(block, str) else ""
    return kind in OWN_BLOCKS or kind.endswith("_tool_result")


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Messages as core messages; `BrokenInput` for an item of a wrong type."""
    return decode_each(NAME, items, _message, first=first, pairing=pairing)


def encode(view: Sequence[Message], decoded: Decoded) -> list[object]:
    """The view as Messages; untouched ones are the caller's own objects."""
    return encode_view(_CODEC, begun_by_user(view), decoded, joined=_joined)


def _joined(before: Item, first: Item, second: Item) -> Item | None:
    """Two user items as one where both bring results, which must come first, in the order of the calls before them."""
    items = [item for item in (first, second) if item.get("role") == "user" and isinstance(item.get("content"), list)]
    if len(items) < 2 or not all(any(not _is_no_result(block) for block in item["content"]) for item in items):
        return None
    asked = [
        id_field(block, "id") for block in map(_plain_block, _blocks_of(before)) if block.get("type") == "tool_use"
    ]
    places = {call_id: place for place, call_id in enumerate(asked)}
    content = sorted([*first["content"], *second["content"]], key=lambda block: _place(block, places))
    return {**second, **first, "content": content}


def _place(block: object, places: Mapping[str, int]) -> int:
    """Where a block stands among the results of a step; all else comes after them."""
    return len(places) + 1 if _is_no_result(block) else places.get(id_field(plain(block), "tool_use_id"), len(places))


def _plain_block(block: object) -> Item:
    return {} if isinstance(block, str) else plain(block)


def _message(item: Item, message_id: MessageId, pairing: Pairing) -> Message:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str):
        raise MalformedError("it has no role", remedy=f"give a role, one of {', '.join(ROLES)}")
    if role == "user" and type(content) is str:
        return UserMessage(message_id, pairing.announced.marked(user_text(content), message_id, is_users=True))
    if item.get("tool_calls") or item.get("function_call"):
        raise MalformedError(
            "it calls tools as OpenAI's chat messages do, in a list of Anthropic's",
            remedy="give all items in one format",
        )
    parts = gather(_CODEC, item, pairing, message_id)
    if role == "assistant":
        return AssistantMessage(message_id, parts)
    if role == "system":
        return SystemMessage(message_id, parts)
    return ToolMessage(message_id, parts) if _is_all_results(content) else UserMessage(message_id, parts)


def _is_all_results(content: object) -> bool:
    blocks = content if isinstance(content, list | tuple) else ()
    return bool(blocks) and not any(map(_is_no_result, blocks))


def _slots(item: Item) -> Iterator[Slot]:
    role, content = item["role"], item.get("content")
    if role not in ROLES:
        yield Slot((), "opaque", item)
    elif isinstance(content, str):
        if content or role == "user":
            yield Slot(("content",), role, content)
    else:
        for index, block in enumerate(listed(content, "content")):
            yield Slot(("content", index), role, block if isinstance(block, str) else plain(block))


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    block = slot.value
    if isinstance(block, str):
        return user_text(block) if slot.kind == "user" else (TextPart(cleaned(block)),)
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return user_text(block["text"]) if slot.kind == "user" else (TextPart(cleaned(block["text"])),)
        case "tool_use":
            return (_call(block, pairing, message_id),)
        case "tool_result":
            return (_result(block, pairing),)
        case _:
            return _other(block)


def _other(block: Item) -> tuple[Part, ...]:
    """What stands in a message or inside a result beside text."""
    match block.get("type"):
        case "thinking" | "redacted_thinking":
            return (ReasoningPart(text_field(block, "thinking"), provider_text(block)),)
        case "image":
            return (_medium(block, "image/*"),)
        case "document":
            return _document(block)
        case _:
            return opaque(block)


def _call(block: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    tool = text_field(block, "name")
    call_id = pairing.call(id_field(block, "id"), tool, message_id)
    return ToolCallPart(call_id, tool, arguments_of(block.get("input")))


def _result(block: Item, pairing: Pairing) -> Part:
    content = block.get("content")
    blocks = () if isinstance(content, str) else listed(content, "content of a tool_result")
    parts = [part for inner in blocks for part in _inside(inner)]
    return result_or_text(
        pairing.result(id_field(block, "tool_use_id")),
        cleaned(content) if isinstance(content, str) else shown_text(parts),
        status="error" if block.get("is_error") is True else "completed",
        files=tuple(part for part in parts if isinstance(part, FilePart)),
    )


def _inside(inner: object) -> tuple[Part, ...]:
    """A block inside a tool result."""
    if isinstance(inner, str):
        return (TextPart(cleaned(inner)),)
    block = plain(inner)
    text = block.get("text")
    return (TextPart(cleaned(text)),) if isinstance(text, str) else _other(block)


def _medium(block: Item, media_type: str) -> FilePart:
    source = plain(block.get("source") or {})
    return file_part(
        "anthropic",
        text_field(source, "media_type") or media_type,
        data=text_field(source, "data"),
        reference=text_field(source, "url", "file_id"),
        name=text_field(block, "title"),
    )


def _document(block: Item) -> tuple[Part, ...]:
    """A document is a medium unless its source is text, which costs what its text costs."""
    source = plain(block.get("source") or {})
    if source.get("type") == "text":
        return (TextPart(text_field(source, "data"), synthetic=True, document=text_field(block, "title")),)
    if source.get("type") == "content":
        return opaque(block)
    return (_medium(block, "application/pdf"),)


def _replaced(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    block, text = slot.value, left_text(parts)
    if not any(parts):
        return GONE
    if isinstance(block, str):
        return text or GONE
    match block.get("type"):
        case "tool_use":
            return {**block, "input": parsed_arguments(text)}
        case "tool_result" if isinstance(parts[0], ToolResultPart):
            content = replaced_content(block.get("content"), parts[0], _inside, text_type="text")
            return {**block, "content": content}
        case _:
            return _replaced_text(slot, text)


def _retold(slot: Slot, text: str) -> Item:
    return {"type": "text", "text": text} if slot.path else {"role": "user", "content": text}


def _replaced_text(slot: Slot, text: str) -> Any:
    """A text or text document with other text; the API refuses empty text.

    A user's block that infold has no reading for becomes text; a model's stays whole, for others may depend on it.
    """
    block = slot.value
    source = block.get("source")
    if block.get("type") == "document" and isinstance(source, dict) and source.get("type") == "text":
        return {**block, "source": {**source, "data": text}}
    if not text.strip():
        return GONE
    if block.get("type") == "text":
        return {**block, "text": text}
    return block if slot.kind == "assistant" or block.get("type") in THINKING else _retold(slot, text)


def _tidied(item: Item) -> Item | None:
    """Nothing without content; results first, for one may have become text."""
    content = item.get("content")
    if not content or isinstance(content, str) or item.get("role") != "user":
        return item if content else None
    return {**item, "content": sorted(content, key=_is_no_result)}


def _is_no_result(block: object) -> bool:
    return isinstance(block, str) or plain(block).get("type") != "tool_result"


_CODEC = Codec(slots=_slots, parts=_parts, replaced=_replaced, retold=_retold, tidied=_tidied, new=encode_new)
