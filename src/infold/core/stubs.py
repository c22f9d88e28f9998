"""What stands in the view where something was hidden: stubs for pruned parts, shortened text for clipped ones.

The same part always gives the same bytes, so that the provider's cache holds (B29). A stub names a handle only where
the request offers recall (B6).
"""

import re

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.core.believing import LEAST_ESTIMATED
from infold.core.entries import Clip, Handle
from infold.core.messages import FilePart, Part, TextPart, ToolCallPart, ToolResultPart
from infold.core.policy import Ruler
from infold.core.tokens import Calibration

_STUB = re.compile(r"\[(?:pruned|clipped): [\d,]+ characters")

LONGEST_KEPT_VALUE = 400
"""Characters of a call argument's value that pruning leaves alone: names, paths and flags are shorter, contents longer."""


class Rendering(Struct, frozen=True):
    """How hidden parts look and how text is sized: fixed for a session, so that equal logs give equal bytes.

    `stub` is a document's own text; where it is empty the stub says what was there. `recall`: whether handles are named.
    `least`: the least part of a size that a provider's count of it can be. `binds_thinking`: the model accepts its thinking only
    behind the messages that it was created behind.
    """

    estimate: Ruler = "features"
    stub: str = ""
    recall: bool = False
    least: Calibration = LEAST_ESTIMATED
    binds_thinking: bool = False


def is_prunable(part: Part) -> bool:
    """Whether pruning may hide this part: a completed result, or a call with a large value and no seal on it (B24)."""
    match part:
        case ToolResultPart():
            return part.status == "completed"
        case ToolCallPart():
            return len(part.arguments) > LONGEST_KEPT_VALUE and not part.provider_data
        case _:
            return False


def prune_part(part: Part, handle: Handle, rendering: Rendering) -> Part:
    """The part as the view shows it once pruned; the call/result pair and the arguments' shape stay."""
    match part:
        case ToolResultPart():
            return replace(part, output=_result_stub(part, handle, rendering), files=())
        case ToolCallPart():
            return replace(part, arguments=_prune_arguments(part.arguments, handle, rendering))
        case _:
            return part


def is_clippable(part: Part) -> bool:
    """Whether a part can be shortened: text, tool output and media; never reasoning or calls, which must stay valid.

    An opaque part is left out whole, and only where no other part depends on it.
    """
    return isinstance(part, TextPart | ToolResultPart | FilePart) and not (isinstance(part, TextPart) and part.links)


def clip_part(part: Part, clip: Clip, rendering: Rendering) -> Part:
    """The part as the view shows it once clipped: its head and tail, or a note in place of a medium."""
    match part:
        case TextPart(opaque=True):
            note = f"[left out: a block of {len(part.text):,} characters{_hint(clip.handle, rendering)}]"
            return TextPart(note, synthetic=True)
        case TextPart():
            return replace(part, text=_clip_text(part.text, clip, rendering))
        case ToolResultPart():
            notes = (_file_note(file, clip.handle, rendering) for file in part.files)
            return replace(part, output="\n".join((_clip_text(part.output, clip, rendering), *notes)), files=())
        case FilePart():
            return TextPart(_file_note(part, clip.handle, rendering), synthetic=True)
        case _:
            return part


def repeats_stub(part: Part, rendering: Rendering) -> bool:
    """Whether a part of a reply contains the text of a stub (B24)."""
    text = part.arguments if isinstance(part, ToolCallPart) else part.text if isinstance(part, TextPart) else ""
    return bool(_STUB.search(text)) or (bool(rendering.stub) and rendering.stub in text)


def _result_stub(part: ToolResultPart, handle: Handle, rendering: Rendering) -> str:
    if rendering.stub:
        return rendering.stub
    return f"[pruned: {len(part.output):,} characters of {part.tool or 'tool'} output{_hint(handle, rendering)}]"


def _prune_arguments(arguments: str, handle: Handle, rendering: Rendering) -> str:
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return arguments
    if not isinstance(value, dict):
        return arguments
    return msgspec.json.encode(_prune_value(value, handle, rendering)).decode()


def _prune_value(value: object, handle: Handle, rendering: Rendering) -> object:
    match value:
        case str() if len(value) > LONGEST_KEPT_VALUE:
            return rendering.stub or f"[pruned: {len(value):,} characters{_hint(handle, rendering)}]"
        case dict():
            return {key: _prune_value(inner, handle, rendering) for key, inner in value.items()}
        case list():
            return [_prune_value(inner, handle, rendering) for inner in value]
        case _:
            return value


def _clip_text(text: str, clip: Clip, rendering: Rendering) -> str:
    left_out = len(text) - clip.head_chars - clip.tail_chars
    if left_out <= 0:
        return text
    tail = text[len(text) - clip.tail_chars :]
    return f"{text[: clip.head_chars]}\n[clipped: {left_out:,} characters{_hint(clip.handle, rendering)}]\n{tail}"


def _file_note(part: FilePart, handle: Handle, rendering: Rendering) -> str:
    return f"[left out: {part.name or part.media_type}, {part.tokens:,} tokens{_hint(handle, rendering)}]"


def _hint(handle: Handle, rendering: Rendering) -> str:
    return f"; recall {handle}" if rendering.recall else ""
