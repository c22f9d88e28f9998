"""The log as a list: one row for each entry, with the state of its message in the view."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.entries import Amendment, Entry, Handle, MessageEntry, Pin, handle_of
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    is_compaction_request,
)
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure_part, size_of_parts
from infold.reports.stored_log import NumberedEntry
from infold.reports.text import describe_entry, excerpt, part_text
from infold.reports.timeline import Annotation

MessageState: TypeAlias = Literal["in view", "pruned", "clipped", "folded", "taken back"]
"""Whether the view shows a message, shows it shortened, or why it does not."""

EarlyEnd: TypeAlias = Literal["cut off", "filtered", "failed", "interrupted"]

EARLY_ENDS: dict[str, EarlyEnd] = {
    "length": "cut off",
    "content-filter": "filtered",
    "error": "failed",
    "abort": "interrupted",
    "interrupted": "interrupted",
}
"""How a reply or a tool result ended early, by its finish reason or status."""

LONGEST_TOOLS = 32
"""Characters of the tool names in one row."""

PINNABLE = (TextPart, ToolResultPart, ToolCallPart)


class LogRow(Struct, frozen=True):
    """One entry of the log.

    `kind` is a message's role or the kind of another entry; `tokens` is the size of a message, `shown_tokens` its size in the
    view if that is smaller. `tools` names the tools it calls or that answered; `pin` is the part that a pin on this row
    applies to; `has_pins`: any of its parts is pinned; `annotation` is set if infold changed the view with this entry.
    """

    sequence: int
    kind: str
    words: str
    created_ms: int | None = None
    tokens: int | None = None
    shown_tokens: int | None = None
    state: MessageState | None = None
    early_end: EarlyEnd | None = None
    tools: str = ""
    pin: Handle | None = None
    is_pinned: bool = False
    has_pins: bool = False
    annotation: Annotation | None = None
    can_undo: bool = False


def log_rows(
    entries: Sequence[NumberedEntry], annotations: Iterable[Annotation], log: Log, most: int | None = None
) -> list[LogRow]:
    """Return the rows of at most so many entries, newest first; the last of `entries` is the newest in the log."""
    by_number = {annotation.sequence: annotation for annotation in annotations}
    amendments = [(sequence, entry) for sequence, entry in entries if isinstance(entry, Amendment)]
    newest = islice(reversed(entries), most)
    return [_row(sequence, entry, by_number.get(sequence), log, amendments) for sequence, entry in newest]


def message_state(sequence: int, log: Log, amendments: Iterable[tuple[int, Amendment]]) -> MessageState:
    """Return the state of the message of that number; `amendments` are those after it."""
    if log.at(sequence) is not None:
        altered = log.altered.get(sequence)
        if altered is None:
            return "in view"
        newest = [stack[-1] for stack in altered.hidden_by.values()]
        return "pruned" if any(isinstance(hiding.kept, str) for hiding in newest) else "clipped"
    is_taken_back = any(entry.first <= sequence < number for number, entry in amendments)
    return "taken back" if is_taken_back else "folded"


def can_undo(sequence: int, log: Log) -> bool:
    """Whether undoing an entry would show anything again: it is the newest fold, or still hides something."""
    is_newest_fold = log.checkpoint is not None and log.checkpoint_sequence == sequence
    return is_newest_fold or any(altered.is_hidden_by(sequence) for altered in log.altered.values())


def message_tokens(message: Message, log: Log) -> int:
    """Return the estimated size of a message, corrected by the usage that was reported to its session."""
    return MESSAGE_OVERHEAD_TOKENS + sum(part_tokens(part, log) for part in message.parts)


def part_tokens(part: Part, log: Log) -> int:
    """Return the estimated size of a part, corrected by the usage that was reported to its session."""
    return log.calibration.apply(size_of_parts((part,), (measure_part(part, log.rendering.estimate),)))


def preview_message(message: Message) -> str:
    """Return a message as one line: its text, or else its calls, results or reasoning."""
    text = " ".join(part.text for part in message.parts if isinstance(part, TextPart) and part.text.strip())
    if text:
        return excerpt(text)
    other = excerpt(" · ".join(filter(None, map(_preview_part, message.parts))))
    return other or excerpt(message.error if isinstance(message, AssistantMessage) else "")


def early_end(message: Message) -> EarlyEnd | None:
    """Return how a reply or a tool result ended early, or `None` if it is complete."""
    if isinstance(message, AssistantMessage):
        return "failed" if message.error else EARLY_ENDS.get(message.finish or "")
    statuses = (part.status for part in message.parts if isinstance(part, ToolResultPart))
    return next((EARLY_ENDS[status] for status in statuses if status in EARLY_ENDS), None)


def role_of(message: Message) -> str:
    """Return a message's role, or `summary` and `request` for those of a compaction."""
    if isinstance(message, AssistantMessage) and message.summary:
        return "summary"
    if is_compaction_request(message):
        return "request"
    return str(message.__struct_config__.tag)


def _row(
    sequence: int, entry: Entry, annotation: Annotation | None, log: Log, amendments: Iterable[tuple[int, Amendment]]
) -> LogRow:
    if annotation is not None:
        return LogRow(
            sequence,
            annotation.kind,
            annotation.words,
            annotation.created_ms,
            annotation=annotation,
            can_undo=can_undo(sequence, log),
        )
    if isinstance(entry, MessageEntry):
        return _message_row(sequence, entry.message, log, amendments)
    return LogRow(sequence, "pin" if isinstance(entry, Pin) else "title", excerpt(describe_entry(entry)))


def _message_row(sequence: int, message: Message, log: Log, amendments: Iterable[tuple[int, Amendment]]) -> LogRow:
    altered = log.altered.get(sequence)
    handles = [handle_of(sequence, at) for at in range(len(message.parts))]
    pinnable = (handle for handle, part in zip(handles, message.parts, strict=True) if isinstance(part, PINNABLE))
    pin = next(pinnable, None) if log.at(sequence) is not None else None
    named = (part.tool for part in message.parts if isinstance(part, ToolCallPart | ToolResultPart))
    return LogRow(
        sequence,
        role_of(message),
        preview_message(message),
        message.created_ms,
        message_tokens(message, log),
        shown_tokens=None if altered is None else message_tokens(altered.message, log),
        state=message_state(sequence, log, amendments),
        early_end=early_end(message),
        tools=excerpt(", ".join(dict.fromkeys(filter(None, named))), LONGEST_TOOLS),
        pin=pin,
        is_pinned=pin in log.pins,
        has_pins=any(handle in log.pins for handle in handles),
    )


def _preview_part(part: Part) -> str:
    match part:
        case ToolCallPart():
            return f"{part.tool} {part.arguments[:600]}"
        case ToolResultPart() | ReasoningPart():
            return part_text(part)[:1_200]
        case FilePart():
            return part.name or part.media_type
        case CompactionPart():
            return "a compaction was requested"
        case _:
            return ""
