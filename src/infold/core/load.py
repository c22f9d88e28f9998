"""Read a session from its numbered entries, newest first, and no further than its view needs."""

from collections.abc import Iterable, Iterator, Set

from msgspec.structs import replace

from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clipping,
    Entry,
    MessageEntry,
    Pin,
    Pruning,
    Restoration,
    split_handle,
)
from infold.core.log import Log, UsageBaseline, is_finished_summary, recompute_sums, tail_start_id
from infold.core.logged_message import Rendering
from infold.core.messages import Message, MessageId, SessionId, UserMessage, calls_of, is_compaction_request, results_of


def load(session_id: SessionId, newest_first: Iterable[tuple[int, Entry]], rendering: Rendering) -> Log:
    """Return a session from its numbered entries.

    A checkpoint named by a later restoration is skipped, so that undoing one is appending that restoration and loading
    again; messages taken back by a later amendment are skipped too. The checkpoint carries what reports and rejections
    taught.
    """
    boundary = _Boundary()
    needed = _without_halves(list(_needed(newest_first, boundary)), boundary)
    held = frozenset(sequence for sequence, entry in needed if isinstance(entry, MessageEntry))
    reading = _LogReader(Log(session_id, rendering, carried=_carried(needed, boundary)), boundary, held)
    for sequence, entry in reversed(needed):
        reading.take(sequence, entry)
    return replace(reading.log, next_sequence=boundary.last + 1)


class _LogReader:
    """A log while it is read; `_before` are the reports from before each checkpoint that was undone."""

    def __init__(self, log: Log, boundary: "_Boundary", held: Set[int]) -> None:
        self.log = log
        self._boundary = boundary
        self._held = held
        self._before: dict[int, UsageBaseline | None] = {}

    def take(self, sequence: int, entry: Entry) -> None:
        """Take the next entry."""
        log = self.log
        if isinstance(entry, Checkpoint) and sequence != self._boundary.newest:
            # Reports from before it do not apply to what follows, nor the reverse once it is undone.
            self._before[sequence] = log.report
            self.log = replace(log, report=None)
        elif isinstance(entry, Restoration) and entry.sequence in self._before:
            shown = replace(log, report=self._before[entry.sequence], altered_at=sequence, thinking_from=sequence)
            self.log = recompute_sums(shown)
        else:
            self._append(sequence, entry)

    def _append(self, sequence: int, entry: Entry) -> None:
        log = self.log
        told = _of_held_parts(entry, self._held)
        if isinstance(told, Restoration) and not any(one.is_hidden_by(told.sequence) for one in log.altered.values()):
            told = None
        if told is not None:
            self.log = replace(log, next_sequence=sequence).append(told)
        elif isinstance(entry, Pruning | Clipping | Restoration):
            self.log = replace(log, altered_at=sequence)  # what it hid or showed is gone; that it did was noticed then


def _of_held_parts(entry: Entry, held: Set[int]) -> Entry | None:
    """Return the part of an entry that concerns held messages; `None` if it concerns only others."""
    match entry:
        case Pruning():
            targets = tuple(handle for handle in entry.targets if split_handle(handle)[0] in held)
            return replace(entry, targets=targets) if targets else None
        case Clipping():
            clips = tuple(clip for clip in entry.clips if split_handle(clip.handle)[0] in held)
            return Clipping(clips, entry.clipped_ms) if clips else None
        case Pin():
            return entry if split_handle(entry.handle)[0] in held else None
        case Checkpoint() if entry.first_kept is not None and entry.first_kept not in held:
            return replace(entry, first_kept=None)  # all that it kept was taken back
        case _:
            return entry


class _Boundary:
    """Where reading may end: once a compaction and the first message that it kept have been read.

    Every compaction that is carried out again on the way needs its own first kept message too: `missing` has the number
    or the id of each that has not been read yet. `last` is the number of the newest entry, whether or not the view needs it.
    """

    def __init__(self) -> None:
        self.last = -1
        self.undone: set[int] = set()
        self.answered: set[MessageId] = set()
        self.found = False
        self.newest: int | None = None
        self.unanswered: dict[str, str] = {}
        self.missing: set[int | MessageId] = set()
        self.amended: int | None = None
        self.withdrawn: set[str] = set()
        self.taken_back: list[Message] = []

    def skips(self, sequence: int, entry: Entry) -> bool:
        """Return whether an entry no longer affects the view: one that was taken back, or an amendment itself."""
        if isinstance(entry, Restoration):
            self.undone.add(entry.sequence)
            self.withdrawn.add(f"continue-{entry.sequence}")
            return False
        if isinstance(entry, Amendment):
            # What follows the amendment was read before it, so one number is enough: the oldest message taken back.
            self.amended = entry.first if self.amended is None else min(self.amended, entry.first)
            return True
        if not isinstance(entry, MessageEntry):
            return False
        is_amended = self.amended is not None and sequence >= self.amended
        if is_amended:
            self.taken_back.append(entry.message)
        return is_amended or entry.message.id in self.withdrawn

    def see(self, sequence: int, entry: Entry) -> None:
        """Take note of an entry that may be the newest checkpoint, or half of one.

        The request for an undone checkpoint goes with it, so that it is not carried out again.
        """
        if isinstance(entry, Checkpoint) and sequence in self.undone:
            self.withdrawn.update([] if entry.request is None else [entry.request.id])
            return
        if isinstance(entry, Checkpoint) and self.newest is None:
            self.found, self.newest, self.unanswered = True, sequence, entry.unanswered
            self._need(entry.first_kept)
        elif isinstance(entry, MessageEntry):
            message = entry.message
            if is_finished_summary(message) and message.parent_id is not None:
                self.answered.add(message.parent_id)
            elif message.id in self.answered and isinstance(message, UserMessage) and is_compaction_request(message):
                self.found = True
                self._need(tail_start_id(message))

    def _need(self, first_kept: int | MessageId | None) -> None:
        self.missing.update([] if first_kept is None else [first_kept])

    def reached(self, sequence: int, entry: Entry) -> bool:
        """Return whether everything the view needs has been read."""
        if isinstance(entry, MessageEntry):
            self.missing -= {sequence, entry.message.id}
        return self.found and not self.missing


def _needed(newest_first: Iterable[tuple[int, Entry]], boundary: _Boundary) -> Iterator[tuple[int, Entry]]:
    for sequence, entry in newest_first:
        boundary.last = max(boundary.last, sequence)
        if not boundary.skips(sequence, entry):
            boundary.see(sequence, entry)
            yield sequence, entry
        if boundary.reached(sequence, entry):
            return


def _without_halves(needed: list[tuple[int, Entry]], boundary: _Boundary) -> list[tuple[int, Entry]]:
    """Leave out a summary whose request lies before the boundary: that compaction is over."""
    ids = {entry.message.id for _, entry in needed if isinstance(entry, MessageEntry)}
    halves = boundary.answered - ids if boundary.found else frozenset[MessageId]()
    return [
        (sequence, entry)
        for sequence, entry in needed
        if not (
            isinstance(entry, MessageEntry) and is_finished_summary(entry.message) and entry.message.parent_id in halves
        )
    ]


def _carried(needed: Iterable[tuple[int, Entry]], boundary: _Boundary) -> frozenset[str]:
    """Return calls that only the folded head holds: those answered by a message read here, and those still unanswered."""
    messages = [*boundary.taken_back, *(entry.message for _, entry in needed if isinstance(entry, MessageEntry))]
    made = {call.call_id for message in messages for call in calls_of(message)}
    answered = {result.call_id for message in messages for result in results_of(message)}
    return frozenset((answered | set(boundary.unanswered)) - made)
