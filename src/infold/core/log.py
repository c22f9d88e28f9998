"""A session as a value: what stands after the newest checkpoint, and appending to it.

The log is the truth and only grows. `Log` holds no more of it than a view needs: the newest checkpoint and the messages it
did not fold. Each part is measured once, when its message is appended; sums are kept, so that a step never walks what it
does not change (B17). Appending checks the entry first and raises a `LogError` with the log unchanged. `Log` values may be
kept and branched; the newest of a line shares its storage with those before it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from msgspec import Struct

from infold.core.alterations import Altered
from infold.core.anchor import Anchor
from infold.core.changing import advanced, amend, hide_parts, pin, reject, restore
from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    Title,
    split_handle,
)
from infold.core.growing import append_message, fold_head
from infold.core.limits import NO_LIMITS, Limits
from infold.core.messages import Message, Part, ReasoningPart, SessionId, UserMessage
from infold.core.placing import (
    Placed,
    Run,
    is_loose_reasoning,
    is_sealed_reasoning,
    measures_of,
    media_bytes,
    size_of_chosen,
)
from infold.core.spine import Spine, within
from infold.core.stubs import Rendering
from infold.core.tokens import NO_SIZE, UNCALIBRATED, Calibration, Size


class Log(Struct, frozen=True, eq=False):
    """One session from its newest checkpoint on.

    `measured` and `size` are of the live messages as the view shows them. `freed` has the gross tokens of each pruning in
    force, by its number; `altered_at` is the number of the newest entry that hid or showed anything. `pending` is a
    compaction that was requested and not yet carried out (S3.1). `attempts` counts checkpoints since a person last spoke,
    `calls` the replies recorded in the session, without those that arrived with a history; `calls_since` and `sent_since` are
    the same since the newest checkpoint and the tokens sent for them. `cut_off` says that the newest reply
    ended for length and nothing was compacted since (S5.3);
    `has_news`, that something was said or done since the newest checkpoint; `is_rejected`, that a provider refused the
    request and nothing was hidden or folded since (B7). `limits` are what its rejections taught. `carried` are calls of the
    folded head that may still be answered. `thinking_from`: sealed reasoning of messages numbered below it was created behind
    other messages than the view has now. `spine`, `length` and `version` are how logs of one line share their storage; read
    `live` instead.
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
    is_rejected: bool = False
    limits: Limits = NO_LIMITS
    pending: UserMessage | None = None
    run: Run = Run()
    carried: frozenset[str] = frozenset()
    thinking_from: int = 0
    length: int = 0
    spine: Spine = Spine()
    version: int = -1

    @property
    def reported(self) -> Anchor | None:
        """The newest report, if it is of what stands now; nothing reported before a checkpoint is (B9)."""
        report = self.report
        return report if report is not None and report.sequence > self.checkpoint_sequence else None

    @property
    def anchor(self) -> Anchor | None:
        """The same, if it can be true."""
        reported = self.reported
        return reported if reported is not None and reported.is_believed else None

    @property
    def live(self) -> Sequence[Placed]:
        """The messages that the newest checkpoint did not fold, oldest first; to be read now, not kept."""
        items = self.spine.items
        return items if len(items) == self.length else items[: self.length]

    @property
    def open_calls(self) -> frozenset[str]:
        """The calls of the newest step that have no result yet."""
        waiting = set(self.run.step)
        for index in range(self.length - 1, -1, -1) if waiting else ():
            placed = self.spine.items[index]
            waiting.difference_update(result.call_id for result in placed.results)
            if placed.calls:
                break
        return frozenset(waiting)

    def append(self, entry: Entry) -> "Log":  # noqa: PLR0911 - one return for each kind of entry
        """The session with one more entry; raises a `LogError` when the entry cannot follow, and changes nothing then."""
        match entry:
            case MessageEntry():
                return append_message(self, entry.message)
            case Pruning() | Clipping():
                return hide_parts(self, entry)
            case Checkpoint():
                return fold_head(self, entry)
            case Restoration():
                return restore(self, entry.sequence)
            case Pin():
                return pin(self, entry)
            case Rejection():
                return reject(self, entry)
            case Amendment():
                return amend(self, entry.first)
            case Title():
                return advanced(self)
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

    @property
    def media_bytes(self) -> int:
        """The bytes of the media that the view shows."""
        indices = within(self.spine.media, self.length)
        return sum(media_bytes(self.shown(self.spine.items[index])) for index in indices)

    def freed_since(self, sequence: int) -> int:
        """The gross tokens freed by prunings after that entry."""
        return sum(tokens for number, tokens in self.freed.items() if number > sequence)

    def shown(self, placed: Placed) -> Message:
        """A live message as the view shows it."""
        altered = self.altered.get(placed.sequence)
        return placed.message if altered is None else altered.message

    def measured_of(self, placed: Placed) -> int:
        """What a live message measures as shown, in the unit of the session's estimate rule."""
        left_out = self.left_out_of(placed)
        return self._measured(placed) if left_out is None else self._measured(placed) - measures_of(placed, left_out)

    def cleaned_measure_of(self, placed: Placed) -> int:
        """What a live message measures with its reasoning left out."""
        return self._measured(placed) - measures_of(placed, is_loose_reasoning)

    def size_of(self, placed: Placed) -> Size:
        """The size of a live message as shown."""
        left_out, size = self.left_out_of(placed), self._size(placed)
        return size if left_out is None else size.minus(size_of_chosen(placed, left_out, self.rendering.estimate))

    def size_after_fold(self, placed: Placed) -> Size:
        """Return the size that a live message would have behind a new checkpoint, which outdates its thinking."""
        if not (self.binds_thinking and placed.has_thinking) or self.is_outdated(placed):
            return self.size_of(placed)
        return self.size_of(placed).minus(size_of_chosen(placed, is_sealed_reasoning, self.rendering.estimate))

    def left_out_of(self, placed: Placed) -> Callable[[Part], bool] | None:
        """Return which parts of a live message the view leaves out; `None` where it shows them all."""
        is_cleaned, is_outdated = self.is_cleaned(placed), self.is_outdated(placed)
        if is_cleaned and is_outdated:
            return _is_reasoning
        if is_outdated:
            return is_sealed_reasoning
        return is_loose_reasoning if is_cleaned else None

    def is_cleaned(self, placed: Placed) -> bool:
        """Whether the newest checkpoint left out the reasoning of this message (S4.5)."""
        checkpoint = self.checkpoint
        return checkpoint is not None and checkpoint.cleaned and placed.sequence < self.checkpoint_sequence

    @property
    def binds_thinking(self) -> bool:
        """Whether the model accepts its thinking only behind the messages that it was created behind."""
        return self.rendering.binds_thinking or self.limits.binds_thinking

    def is_outdated(self, placed: Placed) -> bool:
        """Whether a live message holds thinking that its model would refuse now.

        All thinking from before the newest change is: a block that is missing between two others invalidates the second.
        """
        return placed.has_thinking and placed.sequence < self.thinking_from and self.binds_thinking

    @property
    def shown_thinking(self) -> int:
        """Return how many messages of the view hold thinking that their provider sealed."""
        return sum(placed.has_thinking and not self.is_outdated(placed) for placed in self.live)

    def _measured(self, placed: Placed) -> int:
        altered = self.altered.get(placed.sequence)
        return placed.measured if altered is None else altered.measured

    def _size(self, placed: Placed) -> Size:
        altered = self.altered.get(placed.sequence)
        return placed.size if altered is None else altered.size.plus(placed.beside)

    def writable_spine(self) -> Spine:
        """The storage if this log is the newest of its line, else a copy of its own part of it."""
        return self.spine if self.version == self.spine.version else Spine(self.live)


def _is_reasoning(part: Part) -> bool:
    return isinstance(part, ReasoningPart)
