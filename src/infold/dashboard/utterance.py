"""One message, opened: each of its parts as it was said, and as the view shows it where that is something else."""

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
from infold.dashboard.reading import entry_at, log_before
from infold.dashboard.rows import PINNABLE, Ending, State, ending_of, message_tokens, role_of, state_of
from infold.dashboard.texts import Capped, capped
from infold.dashboard.timeline import RENDERING
from infold.errors import UnknownReference
from infold.ports import SessionKey, Store
from infold.session.media import files_of

Kind: TypeAlias = Literal["text", "synthetic", "ignored", "reasoning", "call", "result", "file", "note"]
"""What a part is to a reader."""


class Piece(Struct, frozen=True):
    """A part of a message: its text as it was said, and the text in its place in the view where it is hidden there."""

    handle: Handle
    position: int
    kind: Kind
    title: str
    said: Capped
    shown: str | None
    tokens: int
    can_pin: bool
    is_pinned: bool
    media: tuple[str, ...] = ()


class Utterance(Struct, frozen=True):
    """A message with all its parts, where it stands, and its neighbours in the log."""

    sequence: int
    message: Message
    role: str
    tokens: int
    state: State
    ending: Ending | None
    pieces: tuple[Piece, ...]
    previous: int | None
    following: int | None

    @property
    def reply(self) -> AssistantMessage | None:
        """The message as a model's reply, if it is one."""
        return self.message if isinstance(self.message, AssistantMessage) else None


def utterance_at(store: Store, key: SessionKey, handle: str, *, whole: bool = False) -> Utterance:
    """The message that a handle, or an entry's number, names; raises `UnknownReference` where there is none."""
    sequence = int(handle) if handle.isdecimal() and len(handle) < 19 else split_handle(handle)[0]
    if sequence < 0:
        raise UnknownReference("message", handle[:40], remedy="open one from the log")
    _, entry = entry_at(store, key, sequence)
    if not isinstance(entry, MessageEntry):
        raise UnknownReference("message", handle, remedy="open a message by the number of its entry")
    log, message = log_before(store, key), entry.message
    amendments, following = _after(store, key, sequence)
    earlier = store.newest_first(key, before=sequence)
    return Utterance(
        sequence,
        message,
        role_of(message),
        message_tokens(message),
        state_of(sequence, log, amendments),
        ending_of(message),
        tuple(_piece(sequence, position, message, log, whole=whole) for position in range(len(message.parts))),
        previous=next((number for number, one in earlier if isinstance(one, MessageEntry)), None),
        following=following,
    )


def _after(store: Store, key: SessionKey, sequence: int) -> tuple[list[tuple[int, Amendment]], int | None]:
    """The amendments after an entry, and the message after it."""
    amendments: list[tuple[int, Amendment]] = []
    following = None
    for number, entry in store.newest_first(key):
        if number <= sequence:
            break
        if isinstance(entry, Amendment):
            amendments.append((number, entry))
        elif isinstance(entry, MessageEntry):
            following = number
    return amendments, following


def _piece(sequence: int, position: int, message: Message, log: Log, *, whole: bool) -> Piece:
    part, handle = message.parts[position], handle_of(sequence, position)
    altered, is_live = log.altered.get(sequence), log.at(sequence) is not None
    shown = None if altered is None or position not in altered.hidings else altered.message.parts[position]
    return Piece(
        handle,
        position,
        _kind(part),
        _title(part),
        capped(_text(part), whole=whole),
        None if shown is None else capped(_text(shown)).text,
        measure_part(part, RENDERING.estimate),
        can_pin=is_live and isinstance(part, PINNABLE),
        is_pinned=handle in log.pins,
        media=tuple(file.name or file.media_type for file in files_of(part) if file.digest),
    )


def _kind(part: Part) -> Kind:
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
            return _pretty(part.arguments)
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
            return "A compaction was asked for."


def _pretty(arguments: str) -> str:
    """Arguments with a line for each, where they are JSON; else as the model wrote them."""
    try:
        return msgspec.json.format(arguments, indent=2)
    except (msgspec.MsgspecError, RecursionError):
        return arguments
