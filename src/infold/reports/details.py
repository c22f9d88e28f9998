"""Details of one entry: a message with all its parts, or what a compaction, pruning or clipping did to the view."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clipping,
    Handle,
    MessageEntry,
    Pruning,
    Restoration,
    handle_of,
    split_handle,
)
from infold.core.ledger import CommandFact, FileFact, Ledger, Quote
from infold.core.log import Log
from infold.core.logged_message import hidden_parts
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
    Usage,
)
from infold.errors import UnknownReference
from infold.ports import SessionKey, Store
from infold.reports.log_rows import (
    PINNABLE,
    EarlyEnd,
    MessageState,
    can_undo,
    early_end,
    message_state,
    message_tokens,
    part_tokens,
    preview_message,
    role_of,
)
from infold.reports.stored_log import NumberedEntry, find_entry, load_log, reply_in
from infold.reports.text import Excerpt, plural, shorten
from infold.reports.timeline import cached_share
from infold.session.media import files_of

# A message: each part as it was written, and as the view shows it if that differs.

PartKind: TypeAlias = Literal["text", "synthetic", "ignored", "reasoning", "call", "result", "file", "note"]

_KINDS: dict[type, PartKind] = {
    ReasoningPart: "reasoning",
    ToolCallPart: "call",
    ToolResultPart: "result",
    FilePart: "file",
}

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
    earlier, later = store.newest_first(key, before=sequence), _entries_after(store, key, sequence)
    amendments = [(number, one) for number, one in later if isinstance(one, Amendment)]
    return MessageDetail(
        sequence,
        message,
        role_of(message),
        message_tokens(message, log),
        message_state(sequence, log, amendments),
        early_end(message),
        tuple(_part(sequence, position, message, log, whole=whole) for position in range(len(message.parts))),
        previous=next((number for number, one in earlier if isinstance(one, MessageEntry)), None),
        following=next((number for number, one in later if isinstance(one, MessageEntry)), None),
    )


def _entries_after(store: Store, key: SessionKey, sequence: int) -> Sequence[NumberedEntry]:
    """Return the entries after one, oldest first."""
    return list(takewhile(lambda numbered: numbered[0] > sequence, store.newest_first(key)))[::-1]


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
        part_tokens(part, log),
        can_pin=is_live and isinstance(part, PINNABLE),
        is_pinned=handle in log.pins,
        media=tuple(file.name or file.media_type for file in files_of(part) if file.digest),
    )


def _kind(part: Part) -> PartKind:
    if isinstance(part, TextPart):
        return "ignored" if part.ignored else "synthetic" if part.synthetic else "text"
    return _KINDS.get(type(part), "note")


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


# A change of the view: a compaction as before and after, a pruning or clipping as the parts it hid.


class MessageLine(Struct, frozen=True):
    """A message of a view as one line."""

    sequence: int
    role: str
    words: str
    tokens: int


class LedgerFact(Struct, frozen=True):
    """One fact of a ledger, a note on it, and the handle of its source."""

    words: str
    note: str = ""
    handle: str = ""

    @property
    def sequence(self) -> int | None:
        """The number of the source message, or `None` if the ledger names none."""
        number = split_handle(self.handle)[0]
        return None if number < 0 else number


class LedgerFacts(Struct, frozen=True):
    """The facts of one kind, newest first."""

    title: str
    facts: tuple[LedgerFact, ...]


class CompactionDetail(Struct, frozen=True):
    """A compaction: `folded` messages left the view, `kept` ones stayed, `earlier` is the checkpoint it built on.

    `next_usage` is what the provider reported for the next request.
    """

    sequence: int
    checkpoint: Checkpoint
    earlier: Checkpoint | None
    folded: tuple[MessageLine, ...]
    kept: tuple[MessageLine, ...]
    facts: tuple[LedgerFacts, ...]
    next_usage: Usage | None
    is_undone: bool
    can_undo: bool

    @property
    def code_text(self) -> str:
        """The part of the checkpoint that code wrote, without the model's summary in it."""
        return self.checkpoint.note

    @property
    def remaining_share(self) -> float | None:
        """The size of the view after the compaction as a share of the size before it."""
        checkpoint = self.checkpoint
        return checkpoint.tokens_after / checkpoint.tokens_before if checkpoint.tokens_before else None

    @property
    def cached_share(self) -> float | None:
        """The share of the next request that came from the provider's cache."""
        return cached_share(self.next_usage)


class HiddenPart(Struct, frozen=True):
    """A part that was hidden, with its size before and after."""

    handle: Handle
    role: str
    words: str
    tokens: int
    shown_tokens: int


class HidingDetail(Struct, frozen=True):
    """A pruning or a clipping with the parts it hid."""

    sequence: int
    entry: Pruning | Clipping
    parts: tuple[HiddenPart, ...]
    is_undone: bool
    can_undo: bool

    @property
    def freed_tokens(self) -> int:
        """By how much the view became smaller."""
        return sum(part.tokens - part.shown_tokens for part in self.parts)


def entry_detail(store: Store, key: SessionKey, sequence: int) -> CompactionDetail | HidingDetail:
    """Return what the entry of that number did; raise `UnknownReference` if it hid and folded nothing."""
    entry = find_entry(store, key, sequence)
    before, after = load_log(store, key, sequence), load_log(store, key, sequence + 1)
    later = _entries_after(store, key, sequence)
    is_undone = any(isinstance(one, Restoration) and one.sequence == sequence for _, one in later)
    is_open = can_undo(sequence, load_log(store, key))
    if after.checkpoint is not None and after.checkpoint_sequence == sequence:
        lines = tuple(_lines(before))
        next_reply = next(filter(None, (reply_in(one) for _, one in later)), None)
        return CompactionDetail(
            sequence,
            after.checkpoint,
            before.checkpoint,
            folded=tuple(line for line in lines if after.at(line.sequence) is None),
            kept=tuple(line for line in lines if after.at(line.sequence) is not None),
            facts=list_facts(after.checkpoint.ledger),
            next_usage=None if next_reply is None else next_reply.usage,
            is_undone=is_undone,
            can_undo=is_open,
        )
    if isinstance(entry, Pruning | Clipping):
        parts = tuple(_hidden(entry, before, after))
        return HidingDetail(sequence, entry, parts, is_undone=is_undone, can_undo=is_open)
    raise UnknownReference("change numbered", str(sequence), remedy="open a compaction, a pruning or a clipping")


def _lines(log: Log) -> Iterator[MessageLine]:
    """Yield the messages of a view as it showed them, without those about compaction itself."""
    for placed in log.live:
        if not placed.is_business:
            shown = log.shown(placed)
            yield MessageLine(placed.sequence, role_of(shown), preview_message(shown), message_tokens(shown, log))


def _hidden(entry: Pruning | Clipping, before: Log, after: Log) -> Iterator[HiddenPart]:
    for handle, _ in hidden_parts(entry):
        placed = before.find(handle)
        if placed is not None:
            position = split_handle(handle)[1]
            sizes = (part_tokens(log.shown(placed).parts[position], log) for log in (before, after))
            yield HiddenPart(handle, role_of(placed.message), preview_message(placed.message), *sizes)


# The ledger.


def list_facts(ledger: Ledger) -> tuple[LedgerFacts, ...]:
    """Return a ledger's facts by kind: requests and rules first, then what was done, then what is open."""
    found = (LedgerFacts(title, tuple(facts)) for title, facts in _kinds(ledger))
    return tuple(facts for facts in found if facts.facts)


def _kinds(ledger: Ledger) -> Iterator[tuple[str, Iterable[LedgerFact]]]:
    yield "Pinned", _quotes(ledger.pinned)
    yield "Requests", _quotes(ledger.requests)
    yield "Rules", _quotes(ledger.constraints)
    yield "Answers", _quotes(ledger.answers)
    yield "Files", map(_file, reversed(ledger.files))
    yield "Commands", map(_command, reversed(ledger.commands))
    yield "Unsettled errors", (LedgerFact(fact.line, fact.origin, fact.handle) for fact in reversed(ledger.errors))
    yield "Todos", (LedgerFact(fact.item, fact.status) for fact in ledger.todos or ())
    yield "Decisions", _quotes(ledger.decisions)
    yield "Findings", _quotes(ledger.findings)
    yield "Open questions", _quotes(ledger.questions)
    yield "Running jobs", (LedgerFact(fact.description, "", fact.handle) for fact in ledger.jobs)


def _quotes(quotes: tuple[Quote, ...]) -> Iterator[LedgerFact]:
    return (LedgerFact(quote.text, "", quote.handle) for quote in reversed(quotes))


def _file(fact: FileFact) -> LedgerFact:
    edits = f", {plural(fact.edits, 'edit')}" if fact.edits else ""
    return LedgerFact(fact.path, f"{fact.operation}{edits}", fact.handle)


def _command(fact: CommandFact) -> LedgerFact:
    ended = "" if fact.exit_status is None else f"exit {fact.exit_status}"
    runs = f"{fact.runs} runs" if fact.runs > 1 else ""
    return LedgerFact(fact.command, ", ".join(filter(None, (ended, fact.outcome, runs))), fact.handle)
