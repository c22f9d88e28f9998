"""A session as a value: what stands after the newest checkpoint, and appending to it.

The log is the truth and only grows. `Log` holds no more of it than a view needs: the newest checkpoint and the messages it
did not fold. Each part is measured once, when its message is appended; sums are kept, so that a step never walks what it
does not change (B17). Appending checks the entry first and raises a `LogError` with the log unchanged. `Log` values may be
kept and branched; the newest of a line shares its storage with those before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.core.adopting import adopted_checkpoint, request_answered_by
from infold.core.alterations import Altered, hidden_parts, hide, show_again
from infold.core.entries import (
    Checkpoint,
    Clip,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Pruning,
    Restoration,
    split_handle,
)
from infold.core.messages import (
    AssistantMessage,
    Message,
    SessionId,
    Usage,
    UserMessage,
)
from infold.core.placing import Placed, Run, measures_of_reasoning, place, size_of_reasoning
from infold.core.spine import Spine
from infold.core.stubs import Rendering
from infold.core.tokens import (
    MESSAGE_OVERHEAD_TOKENS,
    NO_SIZE,
    UNCALIBRATED,
    Calibration,
    Size,
    measure,
    token_ruler,
)
from infold.errors import DuplicateId, IllegalCut, UnknownReference

__all__ = ["Anchor", "Log", "size_of_text"]


class Anchor(Struct, frozen=True):
    """The newest reported usage, the reply it came with, and the size of the live messages at that moment."""

    usage: Usage
    sequence: int
    size: Size
    reply_size: Size


class Log(Struct, frozen=True, eq=False):
    """One session from its newest checkpoint on.

    `measured` and `size` are of the live messages as the view shows them. `freed` has the gross tokens of each pruning in
    force, by its number; `altered_at` is the number of the newest entry that hid or showed anything. `pending` is a
    compaction that was requested and not yet carried out (S3.1). `attempts` counts checkpoints since a person last spoke,
    `calls` the replies of the session; `calls_since` and `sent_since` are the replies since the newest checkpoint and the
    tokens sent for them. `cut_off` says that the newest reply ended for length and nothing was compacted since (S5.3);
    `has_news`, that something was said or done since the newest checkpoint. `carried` are calls of the folded head that may
    still be answered. `spine`, `length` and `version` are how logs of one line share their storage; read `live` instead.
    """

    session_id: SessionId
    rendering: Rendering = Rendering()
    next_sequence: int = 0
    checkpoint: Checkpoint | None = None
    checkpoint_sequence: int = -1
    checkpoint_measured: int = 0
    checkpoint_size: Size = NO_SIZE
    measured: int = 0
    size: Size = NO_SIZE
    altered: Mapping[int, Altered] = {}
    freed: Mapping[int, int] = {}
    altered_at: int = -1
    pins: frozenset[Handle] = frozenset()
    report: Anchor | None = None
    calibration: Calibration = UNCALIBRATED
    attempts: int = 0
    calls: int = 0
    calls_since: int = 0
    sent_since: int = 0
    cut_off: bool = False
    has_news: bool = False
    pending: UserMessage | None = None
    run: Run = Run()
    carried: frozenset[str] = frozenset()
    length: int = 0
    spine: Spine = Spine()
    version: int = -1

    @property
    def anchor(self) -> Anchor | None:
        """The newest report, if it is of what stands now; nothing reported before a checkpoint is (B9)."""
        report = self.report
        return report if report is not None and report.sequence > self.checkpoint_sequence else None

    @property
    def live(self) -> Sequence[Placed]:
        """The messages that the newest checkpoint did not fold, oldest first; to be read now, not kept."""
        items = self.spine.items
        return items if len(items) == self.length else items[: self.length]

    def append(self, entry: Entry) -> "Log":
        """The session with one more entry; raises a `LogError` when the entry cannot follow, and changes nothing then."""
        match entry:
            case MessageEntry():
                return _append_message(self, entry.message)
            case Pruning() | Clipping():
                return _append_hiding(self, entry)
            case Checkpoint():
                return _append_checkpoint(self, entry)
            case Restoration():
                return _append_restoration(self, entry.sequence)
            case Pin():
                return _append_pin(self, entry)
            case _:
                assert_never(entry)

    def extend(self, entries: Iterable[Entry]) -> "Log":
        """The session with these entries, one after the other."""
        log = self
        for entry in entries:
            log = log.append(entry)
        return log

    def find(self, handle: str) -> Placed | None:
        """The live message that a handle's part stands in, if it is held and has such a part."""
        sequence, position = split_handle(handle)
        placed = self.at(sequence)
        return placed if placed and 0 <= position < len(placed.message.parts) else None

    def at(self, sequence: int) -> Placed | None:
        """The live message of that number."""
        index = self.index_of(sequence)
        return None if index is None else self.spine.items[index]

    def index_of(self, sequence: int) -> int | None:
        """Where in `live` the message of that number stands."""
        low, high, items = 0, self.length, self.spine.items
        while low < high:
            middle = (low + high) // 2
            if items[middle].sequence < sequence:
                low = middle + 1
            else:
                high = middle
        return low if low < self.length and items[low].sequence == sequence else None

    def freed_since(self, sequence: int) -> int:
        """The gross tokens freed by prunings after that entry."""
        return sum(tokens for number, tokens in self.freed.items() if number > sequence)

    def shown(self, placed: Placed) -> Message:
        """A live message as the view shows it."""
        altered = self.altered.get(placed.sequence)
        return placed.message if altered is None else altered.message

    def measured_of(self, placed: Placed) -> int:
        """What a live message measures as shown, in the unit of the session's estimate rule."""
        if self.is_cleaned(placed):
            return self.cleaned_measure_of(placed)
        altered = self.altered.get(placed.sequence)
        return placed.measured if altered is None else altered.measured

    def cleaned_measure_of(self, placed: Placed) -> int:
        """What a live message measures with its reasoning left out."""
        altered = self.altered.get(placed.sequence)
        measured = placed.measured if altered is None else altered.measured
        return measured - sum(measures_of_reasoning(placed))

    def size_of(self, placed: Placed) -> Size:
        """The size of a live message as shown."""
        altered = self.altered.get(placed.sequence)
        size = placed.size if altered is None else altered.size
        return size.minus(size_of_reasoning(placed, self.rendering.estimate)) if self.is_cleaned(placed) else size

    def is_cleaned(self, placed: Placed) -> bool:
        """Whether the newest checkpoint left out the reasoning of this message (S4.5)."""
        checkpoint = self.checkpoint
        return checkpoint is not None and checkpoint.cleaned and placed.sequence < self.checkpoint_sequence

    def writable_spine(self) -> Spine:
        """The storage if this log is the newest of its line, else a copy of its own part of it."""
        return self.spine if self.version == self.spine.version else Spine(self.live)


# Appending a message.


def _append_message(log: Log, message: Message) -> Log:
    spine = log.writable_spine()
    if message.id in spine.ids:
        raise DuplicateId("message", message.id)
    waiting = spine.unanswered | log.carried
    placing = place(message, log.next_sequence, log.run, waiting, log.rendering.estimate)
    placed = placing.placed
    request = request_answered_by(message, spine)
    if request is not None:
        return _append_checkpoint(log, adopted_checkpoint(request, message, spine))
    spine.add(placed)
    grown = replace(
        log,
        next_sequence=log.next_sequence + 1,
        measured=log.measured + placed.measured,
        size=log.size.plus(placed.size),
        attempts=0 if placed.is_persons else log.attempts,
        has_news=log.has_news or bool(placed.results) or not placed.is_users or placed.is_persons,
        pending=message if placed.is_business and isinstance(message, UserMessage) else log.pending,
        run=placing.run,
        carried=log.carried.difference(result.call_id for result in placed.results),
        length=log.length + 1,
        spine=spine,
        version=spine.version,
    )
    if isinstance(message, AssistantMessage) and not message.summary:
        return _hear_reply(grown, message, placed, before=log)
    return grown


def _hear_reply(log: Log, reply: AssistantMessage, placed: Placed, *, before: Log) -> Log:
    sent = before.calibration.apply(before.size.plus(before.checkpoint_size))
    log = replace(
        log,
        cut_off=reply.finish == "length" if reply.finish is not None else log.cut_off,
        calls=log.calls + 1,
        calls_since=log.calls_since + 1,
        sent_since=log.sent_since + sent,
    )
    if reply.usage is None or reply.usage.context == 0 or reply.finish is None:
        return log
    report = Anchor(reply.usage, placed.sequence, log.size, placed.size)
    return replace(log, report=report, calibration=_learn(before, reply.usage))


def _learn(log: Log, usage: Usage) -> Calibration:
    """What the growth from the report before to this one teaches; nothing if the view was altered between them."""
    anchor = log.anchor
    if anchor is None or log.altered_at > anchor.sequence:
        return log.calibration
    added = log.size.minus(anchor.size).plus(anchor.reply_size)
    return log.calibration.learn(added, usage.prompt - anchor.usage.prompt)


# Appending a checkpoint.


def _append_checkpoint(log: Log, checkpoint: Checkpoint) -> Log:
    kept = _kept_by(log, checkpoint)
    spine = Spine(kept)
    sequences = {placed.sequence for placed in kept}
    folded = replace(
        log,
        next_sequence=log.next_sequence + 1,
        checkpoint=checkpoint,
        checkpoint_sequence=log.next_sequence,
        checkpoint_measured=measure(checkpoint.text, log.rendering.estimate),
        checkpoint_size=size_of_text(checkpoint.text, log.rendering),
        altered={sequence: hidden for sequence, hidden in log.altered.items() if sequence in sequences},
        freed={},
        attempts=max(log.attempts + 1, checkpoint.attempt),
        calls=max(log.calls, checkpoint.calls),
        calls_since=0,
        sent_since=0,
        cut_off=False,
        has_news=False,
        pending=None,
        run=Run(log.run.open_calls & spine.unanswered, log.run.sealed and bool(kept)),
        carried=log.carried | (log.writable_spine().unanswered - spine.unanswered),
        length=len(kept),
        spine=spine,
        version=spine.version,
    )
    return _resummed(folded)


def size_of_text(text: str, rendering: Rendering) -> Size:
    """What a checkpoint's text takes in the view, with the frame of the message it stands in."""
    return Size(prose=measure(text, token_ruler(rendering.estimate)) + MESSAGE_OVERHEAD_TOKENS) if text else NO_SIZE


def _kept_by(log: Log, checkpoint: Checkpoint) -> list[Placed]:
    """The live messages a checkpoint leaves; older requests and summaries go, so that only the newest speaks (B3)."""
    if checkpoint.first_kept is None:
        return []
    index = log.index_of(checkpoint.first_kept)
    if index is None:
        remedy = "name the first kept message by its entry's number"
        raise UnknownReference("message numbered", str(checkpoint.first_kept), remedy=remedy)
    if not log.live[index].cuttable:
        raise IllegalCut(checkpoint.first_kept, log.live[index].message.id)
    return [placed for placed in log.live[index:] if not placed.is_business]


# Hiding parts, showing them again, pinning them.


def _append_hiding(log: Log, entry: Pruning | Clipping) -> Log:
    wanted: dict[int, dict[int, Clip | None]] = {}
    for handle, clip in hidden_parts(entry):
        if log.find(handle) is None:
            raise UnknownReference("part", handle, remedy="name parts by the handle of a message not yet folded")
        sequence, position = split_handle(handle)
        wanted.setdefault(sequence, {})[position] = clip
    changed = dict(log.altered)
    for sequence, clips in wanted.items():
        message = log.live[_known_index(log, sequence)].message
        before = changed.get(sequence)
        changed[sequence] = hide(message, sequence, clips, by=log.next_sequence, before=before, rendering=log.rendering)
    freed = {**log.freed, log.next_sequence: entry.freed_tokens} if isinstance(entry, Pruning) else log.freed
    return _resummed(replace(_advanced(log), altered=changed, freed=freed, altered_at=log.next_sequence))


def _append_restoration(log: Log, sequence: int) -> Log:
    touched = [number for number, altered in log.altered.items() if altered.is_hidden_by(sequence)]
    if not touched:
        raise UnknownReference(
            "pruning or clipping numbered",
            str(sequence),
            remedy="name one that still hides something; a checkpoint is undone by appending the restoration "
            "to the store and loading the session again",
        )
    changed = dict(log.altered)
    for number in touched:
        message = log.live[_known_index(log, number)].message
        left = show_again(message, number, changed.pop(number), by=sequence, rendering=log.rendering)
        if left is not None:
            changed[number] = left
    freed = {number: tokens for number, tokens in log.freed.items() if number != sequence}
    return _resummed(replace(_advanced(log), altered=changed, freed=freed, altered_at=log.next_sequence))


def _append_pin(log: Log, pin: Pin) -> Log:
    if log.find(pin.handle) is None and pin.handle not in log.pins:
        raise UnknownReference("part", pin.handle, remedy="pin a part that is in the view, by its handle")
    pins = log.pins | {pin.handle} if pin.pinned else log.pins - {pin.handle}
    return replace(_advanced(log), pins=pins)


def _advanced(log: Log) -> Log:
    spine = log.writable_spine()
    spine.version += 1
    return replace(log, next_sequence=log.next_sequence + 1, spine=spine, version=spine.version)


def _resummed(log: Log) -> Log:
    measured, size = 0, NO_SIZE
    for placed in log.live:
        measured += log.measured_of(placed)
        size = size.plus(log.size_of(placed))
    return replace(log, measured=measured, size=size)


def _known_index(log: Log, sequence: int) -> int:
    index = log.index_of(sequence)
    assert index is not None
    return index
