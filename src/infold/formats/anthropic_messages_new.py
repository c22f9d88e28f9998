"""What infold itself says, as Anthropic Messages."""

from collections.abc import Mapping

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.formats.items import Item
from infold.formats.media import parse_data_url
from infold.formats.slots import (
    has_address,
    is_image,
    is_pdf,
    mentioned,
    opaque_value,
    parsed_arguments,
    provider_value,
    shown,
)

THINKING = ("thinking", "redacted_thinking")


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Items for a message that came from no wire: results first, as the API wants them."""
    ids = aliases or {}
    parts = shown(message)
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    blocks = [block for part in parts for block in _new_blocks(part, ids)]
    if not isinstance(message, AssistantMessage):
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    if isinstance(message, SystemMessage):
        role = "system"
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return [{"role": role, "content": blocks[0]["text"]}]
    return [{"role": role, "content": blocks}] if blocks else []


def _new_blocks(part: Part, ids: Mapping[str, str]) -> list[Item]:
    match part:
        case TextPart():
            block, text = opaque_value(part), {"type": "text", "text": part.text}
            return [block] if "type" in block else [text] if part.text.strip() else []
        case ToolCallPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [{"type": "tool_use", "id": call_id, "name": part.tool, "input": parsed_arguments(part.arguments)}]
        case ToolResultPart():
            return [_new_result(part, ids)]
        case FilePart():
            return [_new_medium(part)]
        case ReasoningPart():
            value = provider_value(part)
            return [value] if isinstance(value, dict) and value.get("type") in THINKING else []
        case _:
            return []


def _new_result(part: ToolResultPart, ids: Mapping[str, str]) -> Item:
    call_id = ids.get(part.call_id) or part.call_id
    media = [_new_medium(file) for file in part.files]
    content = [*([{"type": "text", "text": part.output}] if part.output.strip() else []), *media]
    block: Item = {"type": "tool_result", "tool_use_id": call_id, "content": content if media else part.output}
    return block if part.status == "completed" else {**block, "is_error": True}


def _new_medium(part: FilePart) -> Item:
    found = parse_data_url(part.reference)
    source: Item = {"type": "url", "url": part.reference}
    if found is not None:
        source = {"type": "base64", "media_type": found.media_type, "data": found.data}
    if is_image(part):
        return {"type": "image", "source": source}
    if is_pdf(part) or (has_address(part) and part.media_type == "application/pdf"):
        return {"type": "document", "source": source, **({"title": part.name} if part.name and found else {})}
    return {"type": "text", "text": mentioned(part)}
