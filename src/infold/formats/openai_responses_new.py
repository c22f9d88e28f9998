"""What infold itself says, as OpenAI Responses input items."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    SystemMessage,
    ToolCallPart,
    ToolResultPart,
)
from infold.formats.items import Decoded, Item, as_came, id_field, lines, plain, text_field
from infold.formats.openai_responses_blocks import BLANK_IMAGE
from infold.formats.slots import (
    has_address,
    is_image,
    is_pdf,
    mentioned,
    opaque_value,
    provider_value,
    shown,
    shown_text,
)

BOUND_TYPES = ("reasoning", "compaction", "compaction_summary", "context_compaction")
"""Items whose content only the provider can read."""


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Items for a message that came from no wire: one for each call and result, one for all text."""
    ids = aliases or {}
    parts = shown(message)
    role = _ROLES.get(type(message), "user")
    told = tuple(part for part in parts if not _is_item(opaque_value(part)))
    content = shown_text(told) if role == "assistant" else _new_content(told)
    said = [{"role": role, "content": content}] if content else []
    others = [item for part in parts for item in _new_items(part, ids)]
    bound = [item for item in others if item["type"] in BOUND_TYPES]
    rest = [item for item in others if item["type"] not in BOUND_TYPES]
    return [*bound, *said, *rest] if role == "assistant" else [*rest, *said]


_ROLES: dict[type, str] = {SystemMessage: "system", AssistantMessage: "assistant"}


def _new_items(part: Part, ids: Mapping[str, str]) -> list[Item]:
    match part:
        case ToolCallPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [{"type": "function_call", "call_id": call_id, "name": part.tool, "arguments": part.arguments}]
        case ToolResultPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [{"type": "function_call_output", "call_id": call_id, "output": _new_output(part)}]
        case ReasoningPart():
            value = provider_value(part)
            return [value] if isinstance(value, dict) and value.get("type") in BOUND_TYPES else []
        case _:
            value = opaque_value(part)
            return [value] if _is_item(value) else []


def _is_item(value: Item) -> bool:
    """Whether an opaque block is an item of its own; the types of blocks inside a message begin otherwise."""
    return "type" in value and not str(value["type"]).startswith(("input_", "output_"))


def _new_content(parts: tuple[Part, ...]) -> str | list[Item]:
    """Text alone stays text; media whose bytes or address are at hand make a list of blocks."""
    return _with_media(shown_text(parts), [part for part in parts if isinstance(part, FilePart)])


def _new_output(part: ToolResultPart) -> str | list[Item]:
    """The same for what a tool answered."""
    return _with_media(part.output, part.files)


def _with_media(text: str, files: Sequence[FilePart]) -> str | list[Item]:
    media = {place: block for place, file in enumerate(files) if (block := _new_medium(file)) is not None}
    text = lines([text, *(mentioned(file) for place, file in enumerate(files) if place not in media)])
    return [*([{"type": "input_text", "text": text}] if text else []), *media.values()] if media else text


def _new_medium(file: FilePart) -> Item | None:
    if is_image(file) or has_address(file):
        return {"type": "input_image", "detail": "auto", "image_url": file.reference}
    if is_pdf(file):
        return {"type": "input_file", "filename": file.name or "attached.pdf", "file_data": file.reference}
    return None


# Each kind of call wants its own kind of output; a new result knows only the call's id.


def answers_matched(items: list[object], decoded: Decoded) -> list[object]:
    """The items with each answer of infold's own made the kind of output that its call wants."""
    theirs = {id(source) for sources in decoded.sources for source in sources}
    plains = [plain(item) for item in items]
    kinds = {id_field(item, "call_id"): text_field(item, "type") for item in plains if _is_other_call(item)}
    return [
        given if id(given) in theirs else as_came(given, _answer(item, kinds))
        for given, item in zip(items, plains, strict=True)
    ]


def answers_in_order(items: Iterable[object], own: Set[str]) -> Iterator[object]:
    """The items with neighbouring outputs in the order of their calls, where one of them is infold's own answer (I1)."""
    calls: dict[str, int] = {}
    for is_output, run in groupby(items, key=_is_output):
        together = list(run)
        answered = [id_field(plain(item), "call_id", "id") for item in together]
        if not is_output:
            calls |= {call_id: len(calls) + place for place, call_id in enumerate(answered)}
        elif not own.isdisjoint(answered):
            together.sort(key=lambda item: calls.get(id_field(plain(item), "call_id", "id"), len(calls)))
        yield from together


def _is_output(item: object) -> bool:
    return text_field(plain(item), "type").endswith("_output")


def _is_other_call(item: Item) -> bool:
    kind = text_field(item, "type")
    return kind.endswith("_call") and kind != "function_call" and "call_id" in item


def _answer(item: Item, kinds: Mapping[str, str]) -> Item:
    kind = kinds.get(id_field(item, "call_id"))
    if kind is None or item.get("type") != "function_call_output":
        return item
    call_id, output = item["call_id"], _text_of(item["output"])
    match kind:
        case "shell_call":
            run = {"stdout": output, "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
            return {"type": "shell_call_output", "call_id": call_id, "output": [run]}
        case "apply_patch_call":
            return {"type": "apply_patch_call_output", "call_id": call_id, "status": "failed", "output": output}
        case "computer_call":
            screenshot = {"type": "computer_screenshot", "image_url": BLANK_IMAGE}
            return {"type": "computer_call_output", "call_id": call_id, "output": screenshot}
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": call_id, "output": output}
        case _:
            return {"type": f"{kind}_output", "call_id": call_id, "output": output}


def _text_of(output: str | list[Item]) -> str:
    """An output as text, for calls of a kind whose output takes no media."""
    return output if isinstance(output, str) else lines(text_field(block, "text") for block in output)
