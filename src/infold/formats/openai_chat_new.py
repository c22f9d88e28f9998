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
from infold.formats.media import parse_data_url
from infold.formats.slots import (
    has_address,
    is_image,
    is_pdf,
    mentioned,
    provider_value,
    shown,
    shown_text,
    told_output,
)

_SOUND = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
"""The kinds of sound that a request may hold, and what it calls them."""


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
    wire_id, output = ids.get(part.call_id, part.call_id), told_output(part)
    if not wire_id:
        return {"role": "function", "name": part.tool, "content": output}
    return {"role": "tool", "tool_call_id": wire_id, "content": output}


def _new_content(parts: tuple[Part, ...]) -> str | list[Item]:
    """Text alone stays text; media whose bytes or address are at hand make a list of blocks."""
    files = [part for part in parts if isinstance(part, FilePart)]
    media = {place: block for place, file in enumerate(files) if (block := _new_medium(file)) is not None}
    text = lines([shown_text(parts), *(mentioned(file) for place, file in enumerate(files) if place not in media)])
    return [{"type": "text", "text": text or "Attached:"}, *media.values()] if media else text


def _new_medium(file: FilePart) -> Item | None:
    if is_image(file) or has_address(file):
        return {"type": "image_url", "image_url": {"url": file.reference}}
    if is_pdf(file):
        return {"type": "file", "file": {"filename": file.name or "attached.pdf", "file_data": file.reference}}
    found = parse_data_url(file.reference)
    sound = _SOUND.get(file.media_type)
    if found is None or sound is None:
        return None
    return {"type": "input_audio", "input_audio": {"data": found.data, "format": sound}}
