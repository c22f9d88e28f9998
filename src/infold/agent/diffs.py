"""What changed on disk, as values: a file's difference, and which two snapshots a turn or a session lies between (S6.1).

Decides from a log's messages alone; `snapshots.py` takes the snapshots and compares them.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from infold.core.entries import MessageEntry
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    StepFinishPart,
    StepStartPart,
    UserMessage,
    is_genuine_user,
)
from infold.ports import SessionKey, Store

NOBODY = MessageId("")
"""The message of a whole session: none in particular."""


class FileDiff(Struct, frozen=True):
    """One file's difference: its contents before and after (empty where it was not there, or is no text) and its lines."""

    file: str
    before: str = ""
    after: str = ""
    additions: int = 0
    deletions: int = 0


class Totals(Struct, frozen=True):
    """What several differences come to."""

    files: int = 0
    additions: int = 0
    deletions: int = 0


class Span(Struct, frozen=True):
    """The snapshots that something lies between, empty where none were taken, and the root of the project they are of.

    `sequence` and `message_id` name the user message that a turn began with; a whole session has none.
    """

    before: str = ""
    after: str = ""
    sequence: int = -1
    message_id: MessageId = NOBODY
    root: str = ""


def turn_spans(numbered: Iterable[tuple[int, Message]]) -> tuple[Span, ...]:
    """The span of each turn a person began, from numbered messages, oldest first.

    A turn lies between its first step's beginning and its last step's end. What programs say under the user's role goes on
    with the turn.
    """
    turns: list[tuple[int, UserMessage, list[Message]]] = []
    for sequence, message in numbered:
        if isinstance(message, UserMessage) and is_genuine_user(message):
            turns.append((sequence, message, []))
        elif turns:
            turns[-1][2].append(message)
    return tuple(_span(said, sequence, user.id) for sequence, user, said in turns)


def session_span(messages: Iterable[Message]) -> Span:
    """The span from a session's first step to its last; of one that went from project to project, in the last one alone.

    Snapshots of two projects have nothing to do with each other: a patch between them would delete the one for the other.
    """
    return _span(tuple(messages))


def totals_of(diffs: Sequence[FileDiff]) -> Totals:
    """How many files and lines these differences are."""
    return Totals(len(diffs), sum(one.additions for one in diffs), sum(one.deletions for one in diffs))


def root_of(messages: Sequence[Message]) -> str:
    """The project's root as the newest reply has it; empty where none was recorded."""
    return next(filter(None, map(_root, reversed(messages))), "")


def session_root(store: Store, key: SessionKey) -> str:
    """The same of a stored session, of which no more is read than that takes."""
    entries = (entry for _, entry in store.newest_first(key) if isinstance(entry, MessageEntry))
    return next(filter(None, (_root(entry.message) for entry in entries)), "")


def _root(message: Message) -> str:
    """Where a reply was worked on, if it tells."""
    return message.path.root if isinstance(message, AssistantMessage) and message.path is not None else ""


def _span(messages: Sequence[Message], sequence: int = -1, message_id: MessageId = NOBODY) -> Span:
    """From the first beginning to the last end; a step that was broken off has none, and its beginning stands for it."""
    root = root_of(messages)
    parts = [part for message in _at_last_in(root, messages) for part in message.parts]
    starts = [part.snapshot for part in parts if isinstance(part, StepStartPart) and part.snapshot]
    ends = [part.snapshot for part in parts if isinstance(part, StepFinishPart) and part.snapshot]
    if not starts:
        return Span("", "", sequence, message_id, root)
    return Span(starts[0], (ends or starts)[-1], sequence, message_id, root)


def _at_last_in(root: str, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages since the work came to that root and stayed there; results stand with the reply that called for them."""
    roots = [_root(message) for message in messages]
    elsewhere = [at for at, one in enumerate(roots) if one not in ("", root)]
    return messages[roots.index(root, elsewhere[-1]) :] if elsewhere else messages
