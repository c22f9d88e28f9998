"""Blocks of content and outputs of tools in OpenAI Responses items."""

from collections.abc import Sequence

from infold.core.messages import FilePart, Part, ResultStatus, TextPart, ToolResultPart
from infold.formats.items import Item, cleaned, id_field, lines, listed, opaque, plain, text_field, user_text
from infold.formats.media import file_part
from infold.formats.pairing import Asked, Pairing
from infold.formats.slots import left_text, replaced_content, result_or_text, shown_text


def result(item: Item, pairing: Pairing) -> Part:
    """What a tool answered, in whichever kind of output."""
    asked = pairing.result(id_field(item, "call_id"), id_field(item, "id"))
    output = item.get("output")
    if item["type"] == "shell_call_output":
        return _shell_result(listed(output, "output"), asked)
    blocks = [output] if isinstance(output, str | dict) else listed(output, "output")
    parts = [part for block in blocks for part in _inside(block)]
    files = tuple(part for part in parts if isinstance(part, FilePart))
    status: ResultStatus = "error" if item.get("status") == "failed" else "completed"
    return result_or_text(asked, shown_text(parts), status=status, files=files)


def _inside(block: object) -> tuple[Part, ...]:
    """A block inside an output."""
    return block_parts(block if isinstance(block, str) else plain(block), is_user=False)


def _shell_result(runs: Sequence[object], asked: Asked | None) -> Part:
    """What several commands printed; the last exit status is the result's."""
    printed = [plain(run) for run in runs]
    codes = [plain(run.get("outcome") or {}).get("exit_code") for run in printed]
    code = codes[-1] if codes and isinstance(codes[-1], int) else None
    output = lines(text_field(run, stream) for run in printed for stream in ("stdout", "stderr"))
    return result_or_text(asked, output, exit_status=code)


def block_parts(block: str | Item, *, is_user: bool) -> tuple[Part, ...]:
    """The parts of one block of content."""
    text = block if isinstance(block, str) else block.get("text", block.get("refusal"))
    if isinstance(text, str):
        return user_text(text) if is_user else (TextPart(cleaned(text)),)
    return _medium(plain(block))


def _medium(block: Item) -> tuple[Part, ...]:
    reference = text_field(block, "image_url", "file_data", "file_url", "file_id")
    match block.get("type"):
        case "input_image" | "computer_screenshot":
            detail = text_field(block, "detail")
            return (file_part("openai", "image/*", reference=reference, detail=detail),)
        case "input_file":
            name = text_field(block, "filename")
            return (file_part("openai", "application/pdf", reference=reference, name=name),)
        case "input_audio":
            sound = plain(block.get("input_audio") or {})
            kind = f"audio/{text_field(sound, 'format') or 'wav'}"
            return (file_part("openai", kind, data=text_field(sound, "data")),)
        case _:
            return opaque(block)


def replaced_result(item: Item, part: Part | None) -> Item:
    """An output item with other text, and without media that the part has no more."""
    output = item.get("output")
    if item["type"] == "shell_call_output":
        last = plain(output[-1]) if output else {"outcome": {"type": "exit", "exit_code": 0}}
        return {**item, "output": [{**last, "stdout": left_text((part,)), "stderr": ""}]}
    if isinstance(output, dict):
        return item if isinstance(part, ToolResultPart) and part.files else {**item, "output": _blank(output)}
    return {**item, "output": replaced_content(output, part, _inside, text_type="input_text")}


def _blank(screenshot: Item) -> Item:
    """A computer's output has to be an image: the smallest stands for one that was pruned."""
    return {**{key: value for key, value in screenshot.items() if key != "file_id"}, "image_url": BLANK_IMAGE}


BLANK_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
