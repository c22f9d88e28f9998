"""One message with all its parts: each as it was written, and as the view shows it if that differs."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.entries import Amendment, Handle, MessageEntry, handle_of, split_handle
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.core.tokens import measure_part
from infold.errors import UnknownReference
from infold.ports import SessionKey, Store
from infold.reports.log_rows import (
    PINNABLE,
    EarlyEnd,
    MessageState,
    early_end,
    message_state,
    message_tokens,
    role_of,
)
from infold.reports.stored_log import RENDERING, find_entry, load_log
from infold.reports.text import Excerpt, shorten
from infold.session.media import files_of

PartKind: TypeAlias = Literal["text", "synthetic", "ignored", "reasoning", "call", "result", "file", "note"]

LONGEST_SEQUENCE = 18
"""Digits of an entry's number."""


class PartDetail(Struct, frozen=True):
    """A part of a message: its `original` text, and the text `shown` in the view if it is hidden there."""

    handle: Handle
    position: int
    kind: PartKind
    title: str
    original: Excerpt
    shown: str | None
    tokens: int
    can_pin: bool
    is_pinned: bool
    media: tuple[str, ...] = ()


class MessageDetail(Struct, frozen=True):
    """A message with its parts, its state in the view, and the messages before and after it in the log."""

    sequence: int
    message: Message
    role: str
    tokens: int
    state: MessageState
    early_end: EarlyEnd | None
    parts: tuple[PartDetail, ...]
    previous: int | None
    following: int | None

    @property
    def reply(self) -> AssistantMessage | None:
        """The message as a model's reply, or `None` if it is another's."""
        return self.message if isinstance(self.message, AssistantMessage) else None


def message_detail(store: Store, key: SessionKey, handle: str, *, whole: bool = False) -> MessageDetail:
    """Return the message named by a handle or an entry's number; raise `UnknownReference` if it does not exist."""
    is_number = handle.isdecimal() and len(handle) <= LONGEST_SEQUENCE
    sequence = int(handle) if is_number else split_handle(handle)[0]
    if sequence < 0:
        raise UnknownReference("message", handle[:40], remedy="open one from the log")
    entry = find_entry(store, key, sequence)
    if not isinstance(entry, MessageEntry):
        raise UnknownReference("message", handle, remedy="open a message by the number of its entry")
    log, message = load_log(store, key), entry.message
    amendments: list[tuple[int, Amendment]] = []
    following = None
    for number, later in store.newest_first(key):
        if number <= sequence:
            break
        if isinstance(later, Amendment):
            amendments.append((number, later))
        elif isinstance(later, MessageEntry):
            following = number
    earlier = store.newest_first(key, before=sequence)
    return MessageDetail(
        sequence,
        message,
        role_of(message),
        message_tokens(message),
        message_state(sequence, log, amendments),
        early_end(message),
        tuple(_part(sequence, position, message, log, whole=whole) for position in range(len(message.parts))),
        previous=next((number for number, one in earlier if isinstance(one, MessageEntry)), None),
        following=following,
    )


def _part(sequence: int, position: int, message: Message, log: Log, *, whole: bool) -> PartDetail:
    part, handle = message.parts[position], handle_of(sequence, position)
    altered, is_live = log.altered.get(sequence), log.at(sequence) is not None
    shown = None if altered is None or position not in altered.hidden_by else altered.message.parts[position]
    return PartDetail(
        handle,
        position,
        _kind(part),
        _title(part),
        shorten(_text(part), whole=whole),
        None if shown is None else shorten(_text(shown)).text,
        measure_part(part, RENDERING.estimate),
        can_pin=is_live and isinstance(part, PINNABLE),
        is_pinned=handle in log.pins,
        media=tuple(file.name or file.media_type for file in files_of(part) if file.digest),
    )


def _kind(part: Part) -> PartKind:
    match part:
        case TextPart():
            return "ignored" if part.ignored else "synthetic" if part.synthetic else "text"
        case ReasoningPart():
            return "reasoning"
        case ToolCallPart():
            return "call"
        case ToolResultPart():
            return "result"
        case FilePart():
            return "file"
        case _:
            return "note"


def _title(part: Part) -> str:
    match part:
        case ToolCallPart():
            return part.tool
        case ToolResultPart():
            ended = "" if part.exit_status is None else f", exit {part.exit_status}"
            return f"{part.tool or 'tool'}, {part.status}{ended}"
        case FilePart():
            return part.media_type
        case _:
            return ""


def _text(part: Part) -> str:  # noqa: PLR0911 - one return for each kind of part
    match part:
        case TextPart():
            return part.text
        case ReasoningPart():
            return part.text or ("[sealed by its provider]" if part.provider_data else "")
        case ToolCallPart():
            return _format_arguments(part.arguments)
        case ToolResultPart():
            files = (f"[{file.name or file.media_type}, {file.tokens:,} tokens]" for file in part.files)
            return "\n".join((part.output, *files))
        case FilePart():
            return "\n".join(filter(None, (part.name, part.reference)))
        case StepStartPart():
            return "A step began."
        case StepFinishPart():
            return f"A step ended: {part.reason}."
        case CompactionPart():
            return "A compaction was requested."


def _format_arguments(arguments: str) -> str:
    """Return arguments with a line for each if they are JSON, else unchanged."""
    try:
        return msgspec.json.format(arguments, indent=2)
    except (msgspec.MsgspecError, RecursionError):
        return arguments
