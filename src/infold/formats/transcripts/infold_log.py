"""infold's own log as a file: one entry a line, as `core.entries` stores it.

The first line of each session carries beside its message what the session is (id, model, system prompt, tools, recorded
compactions), in a field that readers of plain entries pass over. Written and read again, a session is the same.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from infold.core.entries import Checkpoint, MessageEntry
from infold.core.messages import Message, ModelRef, calls_of, results_of
from infold.formats.transcripts.draft import Draft
from infold.formats.transcripts.record import Notes, RecordedCompaction, RecordedSession
from infold.formats.transcripts.source import Head, Source
from infold.formats.transcripts.values import string

__all__ = ["read", "recognises", "to_log"]

ENTRIES = frozenset({"message", "pruning", "clipping", "checkpoint", "restoration", "pin"})


class _About(Struct, frozen=True, omit_defaults=True):
    """What a session is, beside its messages."""

    id: str
    model: ModelRef | None = None
    system: str = ""
    tools: str = ""
    compactions: tuple[RecordedCompaction, ...] = ()
    parent: str | None = None


class _FirstLine(Struct, frozen=True, tag_field="entry", tag="message"):
    """A message entry that begins a session."""

    message: Message
    session: _About


def to_log(sessions: Iterable[RecordedSession]) -> bytes:
    """Sessions as lines of the log, one after the other."""
    encode = msgspec.json.Encoder().encode
    lines: list[bytes] = []
    for session in sessions:
        about = _About(session.id, session.model, session.system, session.tools, session.compactions, session.parent)
        lines += (encode(_FirstLine(message, about)) for message in session.messages[:1])
        lines += (encode(MessageEntry(message)) for message in session.messages[1:])
    return b"".join(line + b"\n" for line in lines)


def recognises(head: Head) -> bool:
    """Lines that say which kind of entry they are, a message with its role inside."""
    return any(
        value.get("entry") == "message" and isinstance(value.get("message"), dict) and "role" in value["message"]
        for value in head.records
    )


def read(source: Source, notes: Notes) -> list[RecordedSession]:
    """The sessions of a file; a log without a first line of ours is one session named after the file."""
    reader = _Reader(source.name, notes)
    for line, value in source.records():
        reader.take(value, line)
    return [session.lawful(notes) for session in reader.sessions if session.messages]


class _Opened:
    """A session while its lines are read; `numbers` are those of the entries that are messages."""

    def __init__(self, about: _About) -> None:
        self.about = about
        self.messages: list[Message] = []
        self.compactions = list(about.compactions)
        self.numbers: list[int] = []
        self.entries = 0

    def lawful(self, notes: Notes) -> RecordedSession:
        """The session; one that breaks the laws of a record is repaired, and that is noted."""
        about = self.about
        messages = tuple(self.messages)
        if not _is_lawful(messages):
            draft = Draft(about.id, notes)
            draft.messages = self.messages
            messages = draft.session().messages
        kept = tuple(one for one in self.compactions if one.position <= len(messages))
        return RecordedSession(about.id, messages, about.model, about.system, about.tools, kept, about.parent)


class _Reader:
    def __init__(self, name: str, notes: Notes) -> None:
        self.sessions = [_Opened(_About(name))]
        self._notes = notes

    def take(self, value: dict[str, Any], line: int) -> None:
        kind = string(value.get("entry"))
        try:
            if kind == "message":
                self._take_message(value)
            elif kind == "checkpoint":
                self._take_checkpoint(msgspec.convert(value, Checkpoint))
            elif kind in ENTRIES:
                self._notes.skip(f"bookkeeping: {kind} entry", line)
            else:
                self._notes.skip("a line is no entry of an infold log", line)
        except msgspec.ValidationError as error:
            self._notes.skip(f"a {kind} entry cannot be read ({error})", line)
        self.sessions[-1].entries += 1

    def _take_message(self, value: dict[str, Any]) -> None:
        message = msgspec.convert(value, MessageEntry).message
        if "session" in value:
            self.sessions.append(_Opened(msgspec.convert(value["session"], _About)))
        opened = self.sessions[-1]
        opened.messages.append(message)
        opened.numbers.append(opened.entries)

    def _take_checkpoint(self, checkpoint: Checkpoint) -> None:
        """A fold of our own is a compaction that happened; its first kept entry becomes the message that was."""
        opened = self.sessions[-1]
        first = checkpoint.first_kept
        kept = None if first is None else bisect_left(opened.numbers, first)
        opened.compactions.append(
            RecordedCompaction(len(opened.messages), checkpoint.text, checkpoint.tokens_before or None, kept)
        )


def _is_lawful(messages: Sequence[Message]) -> bool:
    """Whether ids are unique and each result follows its call, once."""
    if len({message.id for message in messages}) < len(messages):
        return False
    called: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        for result in results_of(message):
            if result.call_id not in waiting:
                return False
            waiting.remove(result.call_id)
        for call in calls_of(message):
            if call.call_id in called:
                return False
            called.add(call.call_id)
            waiting.add(call.call_id)
    return True
