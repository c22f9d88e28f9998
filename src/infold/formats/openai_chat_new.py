"""What infold itself says, as Chat Completions messages."""

from collections.abc import Mapping

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Part,
    SystemMessage,
    ToolCallPart,
    ToolResultPart,
)
from infold.formats.items import Item, lines
from infold.formats.slots import has_address, mentioned, provider_value, shown, shown_text

__all__ = ["encode_new"]


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Items for a message that came from no wire; several results make several items."""
    ids = aliases or {}
    parts = shown(message)
    if isinstance(message, AssistantMessage):
        return _new_reply(parts, ids)
    results = [_new_result(part, ids) for part in parts if isinstance(part, ToolResultPart)]
    content = _new_content(parts)
    role = "system" if isinstance(message, SystemMessage) else "user"
    return [*results, *([{"role": role, "content": content}] if content else [])]


def _new_reply(parts: tuple[Part, ...], ids: Mapping[str, str]) -> list[Item]:
    calls = [_new_call(part, ids) for part in parts if isinstance(part, ToolCallPart)]
    text = shown_text(parts)
    if not calls:
        return [{"role": "assistant", "content": text}] if text else []
    return [{"role": "assistant", "content": text or None, "tool_calls": calls}]


def _new_call(part: ToolCallPart, ids: Mapping[str, str]) -> Item:
    body = {"name": part.tool, "arguments": part.arguments}
    call = {"id": ids.get(part.call_id) or part.call_id, "type": "function", "function": body}
    signature = provider_value(part)
    return {**call, "extra_content": signature} if isinstance(signature, dict) else call


def _new_result(part: ToolResultPart, ids: Mapping[str, str]) -> Item:
    wire_id = ids.get(part.call_id, part.call_id)
    if not wire_id:
        return {"role": "function", "name": part.tool, "content": part.output}
    return {"role": "tool", "tool_call_id": wire_id, "content": part.output}


def _new_content(parts: tuple[Part, ...]) -> str | list[Item]:
    """Text alone stays text; an image that has an address makes a list of blocks."""
    files = [part for part in parts if isinstance(part, FilePart)]
    text = lines([shown_text(parts), *(mentioned(file) for file in files if not has_address(file))])
    images = [{"type": "image_url", "image_url": {"url": file.reference}} for file in files if has_address(file)]
    return [{"type": "text", "text": text or "Attached:"}, *images] if images else text
