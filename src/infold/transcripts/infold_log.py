"""infold's own log as a file: one entry a line, as `core.entries` stores it.

The first line of each session also says what the session is (id, model, system prompt, tools, recorded compactions), in a
field that readers of plain entries ignore. Written and read again, a session is the same.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Amendment, Checkpoint, Entry, MessageEntry, Restoration, Title, encode_entry
from infold.core.messages import AssistantMessage, Message, MessageId, calls_of, results_of
from infold.transcripts.record import Issues, RecordedCompaction, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import string

ENTRIES = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Entry))
"""The tags of all kinds of entries."""


class _FirstLine(Struct, frozen=True, tag_field="entry", tag="message"):
    """A message entry that begins a session; the session stands there without its messages."""

    message: Message
    session: RecordedSession


def to_log(sessions: Iterable[RecordedSession]) -> bytes:
    """Return sessions as lines of the log, one after the other."""
    encode = msgspec.json.Encoder().encode
    lines: list[bytes] = []
    for session in sessions:
        about = replace(session, messages=())
        lines += (encode(_FirstLine(message, about)) for message in session.messages[:1])
        lines += (encode(MessageEntry(message)) for message in session.messages[1:])
    return b"".join(line + b"\n" for line in lines)


def entries_to_log(session_id: str, entries: Iterable[Entry]) -> bytes:
    """Return all entries of a session as lines of the log; the first message carries the session's id."""
    lines: list[bytes] = []
    is_named = False
    for entry in entries:
        if isinstance(entry, MessageEntry) and not is_named:
            lines.append(msgspec.json.encode(_FirstLine(entry.message, RecordedSession(session_id))))
            is_named = True
        else:
            lines.append(encode_entry(entry))
    return b"".join(line + b"\n" for line in lines)


def session_from_entries(session_id: str, entries: Iterable[Entry]) -> RecordedSession:
    """Return a log as a record: all messages that were not withdrawn, and each compaction that was not undone."""
    opened = _SessionReader(RecordedSession(session_id))
    for entry in entries:
        opened.take(entry)
    return opened.lawful(Issues())


def recognises(head: Head) -> bool:
    """Return whether lines say which kind of entry they are, a message with its role inside."""
    return any(
        value.get("entry") == "message" and isinstance(value.get("message"), dict) and "role" in value["message"]
        for value in head.records
    )


def read(source: Source) -> list[RecordedSession]:
    """Return the sessions of a file; a log without a first line of ours is one session named after the file."""
    reader = _Reader(source.name, source.issues)
    for line, value in source.records():
        reader.take(value, line)
    return [session.lawful(source.issues) for session in reader.sessions if session.messages]


class _SessionReader:
    """A session while its entries are read; `numbers` are those of the entries that are messages."""

    def __init__(self, about: RecordedSession, entries: int = 0) -> None:
        self.about = about
        self.entries = entries
        self.messages: list[Message] = []
        self.numbers: list[int] = []
        self.title = about.title
        self.titles = dict(about.titles)
        self._folds: dict[int, RecordedCompaction] = {}
        self._requests: dict[int, MessageId | None] = {}

    def take(self, entry: Entry) -> bool:
        """Add the next entry; return false for one that is bookkeeping to a record."""
        is_told = True
        match entry:
            case MessageEntry():
                self.messages.append(entry.message)
                self.numbers.append(self.entries)
            case Checkpoint():
                self._folds[self.entries] = self._compaction(entry)
                self._requests[self.entries] = None if entry.request is None else entry.request.id
            case Restoration():
                is_told = self._folds.pop(entry.sequence, None) is not None
                self._withdraw(entry.sequence)
            case Amendment():
                self._take_back(entry.first)
            case Title(message_id=""):
                self.title = entry.text
            case Title():
                self.titles[entry.message_id] = entry.text
            case _:
                is_told = False
        self.entries += 1
        return is_told

    def lawful(self, issues: Issues) -> RecordedSession:
        """Return the session, repaired and noted if it breaks the laws of a record.

        Its model is the one it was recorded with, else that of its first reply which names one.
        """
        about = self.about
        messages = tuple(self.messages)
        if not _is_lawful(messages):
            draft = SessionDraft(about.id, issues)
            draft.messages = self.messages
            messages = draft.session().messages
        found = (*about.compactions, *self._folds.values())
        kept = tuple(one for one in found if one.position <= len(messages))
        models = (message.model for message in messages if isinstance(message, AssistantMessage))
        model = about.model or next(filter(None, models), None)
        return replace(about, messages=messages, model=model, compactions=kept, title=self.title, titles=self.titles)

    def _compaction(self, checkpoint: Checkpoint) -> RecordedCompaction:
        """Return a fold as a recorded compaction; its first kept entry becomes an index of messages.

        The steps that it kept are among the messages of the record already, and no other program could show them behind it.
        """
        first = checkpoint.first_kept
        kept = None if first is None else bisect_left(self.numbers, first)
        return RecordedCompaction(len(self.messages), checkpoint.text_alone, checkpoint.tokens_before or None, kept)

    def _withdraw(self, checkpoint: int) -> None:
        """Remove what belongs to a compaction that was undone: the request for it, and the message that asked to go on."""
        gone = {self._requests.get(checkpoint), f"continue-{checkpoint}"}
        for at in reversed([at for at, message in enumerate(self.messages) if message.id in gone]):
            del self.messages[at], self.numbers[at]
            for number, fold in self._folds.items():
                kept = fold.first_kept
                kept = kept if kept is None else kept - (at < kept)
                self._folds[number] = replace(fold, position=fold.position - (at < fold.position), first_kept=kept)

    def _take_back(self, first: int) -> None:
        """Remove that message and all after it, as the caller did; earlier folds stay."""
        left = bisect_left(self.numbers, first)
        del self.messages[left:], self.numbers[left:]
        for number, fold in self._folds.items():
            kept = None if fold.first_kept is None else min(fold.first_kept, left)
            self._folds[number] = replace(fold, position=min(fold.position, left), first_kept=kept)


class _Reader:
    def __init__(self, name: str, issues: Issues) -> None:
        self.sessions = [_SessionReader(RecordedSession(name))]
        self._issues = issues

    def take(self, value: dict[str, Any], line: int) -> None:
        kind = string(value, "entry")
        if kind not in ENTRIES:
            self._issues.skip("a line is not an entry of an infold log", line)
            self.sessions[-1].entries += 1
            return
        try:
            entry: Entry = msgspec.convert(value, Entry)
            if kind == "message" and "session" in value:
                self._begin(msgspec.convert(value["session"], RecordedSession))
        except msgspec.ValidationError as error:
            self._issues.skip(f"a {kind} entry cannot be read ({error})", line)
            self.sessions[-1].entries += 1
            return
        if not self.sessions[-1].take(entry):
            self._issues.skip(f"bookkeeping: {kind} entry", line)

    def _begin(self, about: RecordedSession) -> None:
        """Begin a session with its first message; entries before it that are not messages belong to it too."""
        before = self.sessions[-1]
        if not before.messages:
            self.sessions.append(_SessionReader(replace(about, title=about.title or before.title), before.entries))
        else:
            self.sessions.append(_SessionReader(about))


def _is_lawful(messages: Sequence[Message]) -> bool:
    """Return whether ids are unique and each result follows its call, once."""
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
