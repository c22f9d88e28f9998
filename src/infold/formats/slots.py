"""Readings and replacements of slots that several wire formats share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from infold.core.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    ResultStatus,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.formats.items import Item, cleaned, json_text, lines, plain
from infold.formats.pairing import Asked


def arguments_of(value: object) -> str:
    """A call's arguments as the model wrote them, or as JSON where the wire has them parsed."""
    if isinstance(value, str):
        return cleaned(value)
    return "{}" if value is None else json_text(value)


def parsed_arguments(arguments: str) -> Item:
    """Arguments as the object some wires want; what is no object is wrapped in one."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def unpacked_input(part: Part | None) -> str:
    """The free text of a custom tool's call, which stands in our arguments as the field `input`."""
    value = parsed_arguments(left_text((part,))).get("input", "")
    return value if isinstance(value, str) else json_text(value)


def result_or_text(
    asked: Asked | None,
    output: str,
    *,
    status: ResultStatus = "completed",
    exit_status: int | None = None,
    files: tuple[FilePart, ...] = (),
) -> Part:
    """A result for the call it answers; one that answers none is text, for the log takes no orphans."""
    if asked is None:
        return TextPart(output, synthetic=True)
    return ToolResultPart(asked.call_id, asked.tool, output, status, exit_status, files=files)


def shown_text(parts: Iterable[Part]) -> str:
    """The text among these parts, line by line."""
    return lines(part.text for part in parts if isinstance(part, TextPart))


def left_text(parts: Iterable[Part | None]) -> str:
    """What is left of a slot that holds one text, whatever it is called."""
    return "".join(_text(part) for part in parts if part is not None)


def _text(part: Part) -> str:
    if isinstance(part, ToolCallPart):
        return part.arguments
    if isinstance(part, ToolResultPart):
        return part.output
    return part.text if isinstance(part, TextPart | ReasoningPart) else ""


def replaced_content(
    content: object, part: Part | None, read: Callable[[Any], Sequence[Part]], *, text_type: str
) -> object:
    """A result's content with its text replaced; media stay if the part still has them.

    The first text block lends its other fields (a cache mark) to the new text.
    """
    text = left_text((part,))
    if not isinstance(content, list | tuple):
        return text
    result = undigested(part) if isinstance(part, ToolResultPart) else None
    kept = result.files if isinstance(result, ToolResultPart) else ()
    texts = (plain(block) for block in content if not isinstance(block, str) and "text" in plain(block))
    new = {**next(texts, {"type": text_type}), "text": text}
    return [
        *([new] if text else []),
        *(block for block in content if any(undigested(found) in kept for found in read(block))),
    ]


def undigested(part: Part) -> Part:
    """A part without the names of its media's bytes, which a log has only where it keeps them."""
    match part:
        case FilePart() if part.digest:
            return replace(part, digest="")
        case ToolResultPart() if any(file.digest for file in part.files):
            return replace(part, files=tuple(replace(file, digest="") for file in part.files))
        case _:
            return part


def shown(message: Message) -> tuple[Part, ...]:
    """The parts of a message that a model is to see."""
    return tuple(part for part in message.parts if not (isinstance(part, TextPart) and part.ignored))


def mentioned(file: FilePart) -> str:
    """A medium in words, where its bytes are not at hand."""
    reference = "" if file.reference.startswith("data:") else file.reference
    return f"[{' '.join(filter(None, (file.media_type, file.name, reference)))}]"


def told_output(part: ToolResultPart) -> str:
    """Return a result's output with its media in words, for a wire that takes no media in results."""
    return lines([part.output, *map(mentioned, part.files)])


def is_image(file: FilePart) -> bool:
    """Whether a medium is an image whose bytes or address are at hand."""
    return file.media_type.startswith("image/") and (has_address(file) or file.reference.startswith("data:"))


def is_pdf(file: FilePart) -> bool:
    """Whether a medium is a PDF whose bytes are at hand."""
    return file.media_type == "application/pdf" and file.reference.startswith("data:")


def has_address(file: FilePart) -> bool:
    """Whether a provider could fetch this medium by itself."""
    return file.reference.startswith(("https://", "http://"))


def opaque_value(part: Part) -> Item:
    """An opaque part's block as its provider gave it; empty for every other part, and for an item with a role of its own."""
    if not isinstance(part, TextPart) or not part.opaque:
        return {}
    try:
        value = msgspec.json.decode(part.text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) and "role" not in value else {}


def provider_value(part: ReasoningPart | ToolCallPart) -> Any:
    """A part's provider data parsed; nothing where there is none or it cannot be."""
    try:
        return msgspec.json.decode(part.provider_data) if part.provider_data else None
    except msgspec.DecodeError:
        return None
