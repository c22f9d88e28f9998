"""The log as a list: one row for each entry, with what has become of it.

A message is in the view, shortened there, folded, or taken back by its caller; which of these follows from the log as it stands.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.entries import Amendment, Entry, Handle, MessageEntry, Pin, Title, handle_of
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
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure_part
from infold.dashboard.marks import Mark
from infold.dashboard.texts import excerpt
from infold.dashboard.timeline import RENDERING, Numbered

State: TypeAlias = Literal["in view", "pruned", "clipped", "folded", "taken back"]
"""What has become of a message."""

Ending: TypeAlias = Literal["cut off", "filtered", "failed", "interrupted"]

ENDINGS: dict[str, Ending] = {
    "length": "cut off",
    "content-filter": "filtered",
    "error": "failed",
    "abort": "interrupted",
    "interrupted": "interrupted",
}
"""How a reply or a result that did not come to its end is told of, by why it ended."""

LONGEST_TOOLS = 32
"""Characters of the tools named on one line."""

PINNABLE = (TextPart, ToolResultPart, ToolCallPart)


class Row(Struct, frozen=True):
    """One entry of the log as a line.

    `kind` is a message's role or what else the entry is; `tokens` is what a message takes as it was said, `shown_tokens` what
    it takes in the view where that is less. `tools` are those it calls or that answered; `pin` is the part that a pin on the line
    is for; `has_pins` says that any of its parts is pinned; `ending` is set where it did not come to its end, `mark` where infold
    acted.
    """

    sequence: int
    kind: str
    words: str
    created_ms: int | None = None
    tokens: int | None = None
    shown_tokens: int | None = None
    state: State | None = None
    ending: Ending | None = None
    tools: str = ""
    pin: Handle | None = None
    is_pinned: bool = False
    has_pins: bool = False
    mark: Mark | None = None
    can_undo: bool = False


def rows(entries: Sequence[Numbered], marks: Iterable[Mark], log: Log, most: int | None = None) -> list[Row]:
    """The rows of these entries, newest first and no more than asked for; `entries` go up to the newest that the log knows."""
    by_number = {mark.sequence: mark for mark in marks}
    amendments = [(sequence, entry) for sequence, entry in entries if isinstance(entry, Amendment)]
    newest = islice(reversed(entries), most)
    return [_row(sequence, entry, by_number.get(sequence), log, amendments) for sequence, entry in newest]


def state_of(sequence: int, log: Log, amendments: Iterable[tuple[int, Amendment]]) -> State:
    """What has become of the message of that number; `amendments` are those after it."""
    if log.at(sequence) is not None:
        altered = log.altered.get(sequence)
        if altered is None:
            return "in view"
        newest = [stack[-1] for stack in altered.hidings.values()]
        return "pruned" if any(hiding.clip is None for hiding in newest) else "clipped"
    taken_back = any(entry.first <= sequence < number for number, entry in amendments)
    return "taken back" if taken_back else "folded"


def can_be_undone(sequence: int, log: Log) -> bool:
    """Whether undoing the entry of that number would show anything again: it folded last, or still hides something."""
    is_newest_fold = log.checkpoint is not None and log.checkpoint_sequence == sequence
    return is_newest_fold or any(altered.is_hidden_by(sequence) for altered in log.altered.values())


def message_tokens(message: Message) -> int:
    """What a message takes as it was said."""
    return MESSAGE_OVERHEAD_TOKENS + sum(measure_part(part, RENDERING.estimate) for part in message.parts)


def preview_of(message: Message) -> str:
    """A message on one line: its words, or else what it calls, answers or thinks."""
    said = " ".join(part.text for part in message.parts if isinstance(part, TextPart) and part.text.strip())
    if said:
        return excerpt(said)
    told = excerpt(" · ".join(filter(None, map(_words, message.parts))))
    return told or excerpt(message.error if isinstance(message, AssistantMessage) else "")


def ending_of(message: Message) -> Ending | None:
    """How a reply, or what a tool answered, ended before its time; none where it came to its end."""
    if isinstance(message, AssistantMessage):
        return "failed" if message.error else ENDINGS.get(message.finish or "")
    statuses = (part.status for part in message.parts if isinstance(part, ToolResultPart))
    return next((ENDINGS[status] for status in statuses if status in ENDINGS), None)


def role_of(message: Message) -> str:
    """Who speaks: a role, or what a message is beside it."""
    if isinstance(message, AssistantMessage) and message.summary:
        return "summary"
    if is_compaction_request(message):
        return "request"
    return str(message.__struct_config__.tag)


def _row(sequence: int, entry: Entry, mark: Mark | None, log: Log, amendments: Iterable[tuple[int, Amendment]]) -> Row:
    if isinstance(entry, MessageEntry) and mark is None:
        return _message_row(sequence, entry.message, log, amendments)
    if mark is not None:
        return Row(sequence, mark.kind, mark.words, mark.created_ms, mark=mark, can_undo=can_be_undone(sequence, log))
    if isinstance(entry, Title):
        return Row(sequence, "title", f"{'message' if entry.message_id else 'session'} titled {excerpt(entry.text)}")
    assert isinstance(entry, Pin)
    return Row(sequence, "pin", f"part {entry.handle} {'pinned' if entry.pinned else 'released'}")


def _message_row(sequence: int, message: Message, log: Log, amendments: Iterable[tuple[int, Amendment]]) -> Row:
    state = state_of(sequence, log, amendments)
    altered = log.altered.get(sequence)
    pin = _pinnable(sequence, message) if log.at(sequence) is not None else None
    return Row(
        sequence,
        role_of(message),
        preview_of(message),
        message.created_ms,
        message_tokens(message),
        shown_tokens=None if altered is None else message_tokens(altered.message),
        state=state,
        ending=ending_of(message),
        tools=_tools(message),
        pin=pin,
        is_pinned=pin in log.pins,
        has_pins=any(handle_of(sequence, at) in log.pins for at in range(len(message.parts))),
    )


def _pinnable(sequence: int, message: Message) -> Handle | None:
    """The first part of a message that a pin makes sense for."""
    places = (at for at, part in enumerate(message.parts) if isinstance(part, PINNABLE))
    return next((handle_of(sequence, at) for at in places), None)


def _tools(message: Message) -> str:
    named = (part.tool for part in message.parts if isinstance(part, ToolCallPart | ToolResultPart))
    return excerpt(", ".join(dict.fromkeys(filter(None, named))), LONGEST_TOOLS)


def _words(part: Part) -> str:
    match part:
        case ToolCallPart():
            return f"{part.tool} {part.arguments[:600]}"
        case ToolResultPart():
            return part.output[:1_200]
        case ReasoningPart():
            return part.text[:1_200]
        case FilePart():
            return part.name or part.media_type
        case CompactionPart():
            return "a compaction was asked for"
        case _:
            return ""
