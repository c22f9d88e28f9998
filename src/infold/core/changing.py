"""How the view of what is there changes: parts hidden and shown again, pinned, messages taken back, a request refused.

`Log.append` is the way in; these functions check an entry first and give a new log, or raise a `LogError` with nothing changed.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from infold.core.alterations import hidden_parts, hide, show_again
from infold.core.entries import Clip, Clipping, Pin, Pruning, Rejection, split_handle
from infold.core.growing import resummed
from infold.core.placing import run_after
from infold.core.spine import Spine
from infold.errors import UnknownReference

if TYPE_CHECKING:
    from infold.core.log import Log


def hide_parts(log: "Log", entry: Pruning | Clipping) -> "Log":
    """The log with these parts hidden."""
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
    hidden = replace(advanced(log), altered=changed, freed=freed, altered_at=log.next_sequence, is_rejected=False)
    return resummed(replace(hidden, thinking_from=_thinking_from(log, wanted, untouched=not log.altered)))


def restore(log: "Log", sequence: int) -> "Log":
    """The log with everything visible again that the entry of that number hid."""
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
    shown = replace(advanced(log), altered=changed, freed=freed, altered_at=log.next_sequence)
    return resummed(replace(shown, thinking_from=_thinking_from(log, touched, untouched=not changed)))


def pin(log: "Log", entry: Pin) -> "Log":
    """The log with a part pinned or released."""
    if log.find(entry.handle) is None and entry.handle not in log.pins:
        raise UnknownReference("part", entry.handle, remedy="pin a part that is in the view, by its handle")
    pins = log.pins | {entry.handle} if entry.pinned else log.pins - {entry.handle}
    return replace(advanced(log), pins=pins)


def reject(log: "Log", entry: Rejection) -> "Log":
    """The log after a provider refused its view, with what that teaches (B11); all thinking it refused leaves the view."""
    if entry.bound_thinking:
        limits, now = replace(log.limits, binds_thinking=True), log.next_sequence
        return resummed(replace(advanced(log), limits=limits, thinking_from=now, altered_at=now))
    if entry.over_bytes is not None:
        limits = log.limits.after_bytes(entry.over_bytes)
    else:
        limits = log.limits.after_tokens(
            estimated_tokens=entry.estimated_tokens,
            reported_tokens=entry.reported_tokens,
            limit_tokens=entry.limit_tokens,
            reports=log.calibration.reports,
            believed_tokens=entry.believed_tokens,
        )
    return replace(advanced(log), limits=limits, is_rejected=True)


def amend(log: "Log", first: int) -> "Log":
    """The log without the message numbered `first` and all that followed it; a report on them no longer speaks."""
    index = log.index_of(first)
    if index is None:
        remedy = "name the first message taken back by its entry's number; what is folded cannot be taken back"
        raise UnknownReference("message numbered", str(first), remedy=remedy)
    kept, gone = log.live[:index], log.live[index:]
    spine = Spine(kept)
    answered = {result.call_id for placed in gone for result in placed.results}
    made = {call.call_id for placed in log.live for call in placed.calls}
    shorter = replace(
        log,
        next_sequence=log.next_sequence + 1,
        altered={sequence: hidden for sequence, hidden in log.altered.items() if sequence < first},
        pins=frozenset(handle for handle in log.pins if split_handle(handle)[0] < first),
        report=log.report if log.report is not None and log.report.sequence < first else None,
        cut_off=False,
        has_news=True,
        pending=log.pending if log.pending is not None and log.pending.id in spine.ids else None,
        run=run_after(kept),
        carried=log.carried | (answered - made),
        length=len(kept),
        spine=spine,
        version=spine.version,
    )
    return resummed(shorter)


def advanced(log: "Log") -> "Log":
    """The log after an entry that says nothing to the view."""
    spine = log.writable_spine()
    spine.version += 1
    return replace(log, next_sequence=log.next_sequence + 1, spine=spine, version=spine.version)


def _thinking_from(log: "Log", changed: Iterable[int], *, untouched: bool) -> int:
    """Return below which number thinking is outdated once these messages look different; as before if none stands behind them.

    `untouched`: nothing else changes the view before or after. Then blank messages and late results look different too.
    """
    oldest = max(log.thinking_from, min(changed, default=log.next_sequence))
    if untouched and log.checkpoint is None and any(placed.late or placed.is_blank for placed in log.live):
        oldest = log.thinking_from
    behind = takewhile(lambda placed: placed.sequence >= oldest, reversed(log.live))
    return log.next_sequence if any(placed.has_thinking for placed in behind) else log.thinking_from


def _known_index(log: "Log", sequence: int) -> int:
    index = log.index_of(sequence)
    assert index is not None
    return index
