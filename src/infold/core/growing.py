"""How a log grows: a message put at its end, a head folded into a checkpoint.

`Log.append` is the way in; these functions check an entry first and give a new log, or raise a `LogError` with nothing changed.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from infold.core.adopting import adopted_checkpoint, request_answered_by
from infold.core.anchor import Anchor
from infold.core.believing import can_be, is_believable
from infold.core.entries import Checkpoint
from infold.core.messages import AssistantMessage, Message, Usage, UserMessage
from infold.core.placing import Placed, Run, place
from infold.core.spine import Spine
from infold.core.stubs import Rendering
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, NO_SIZE, Calibration, Size, measure, token_ruler, total_size
from infold.errors import DuplicateId, IllegalCut, UnknownReference

if TYPE_CHECKING:
    from infold.core.log import Log


def append_message(log: "Log", message: Message) -> "Log":
    """The log with one more message, measured and fitted to what came before."""
    spine = log.writable_spine()
    if message.id in spine.ids:
        raise DuplicateId("message", message.id)
    placing = place(
        message,
        log.next_sequence,
        log.run,
        lambda call_id: call_id in spine.unanswered or call_id in log.carried,
        log.rendering.estimate,
    )
    placed = placing.placed
    request = request_answered_by(message, spine)
    if request is not None:
        return fold_head(log, adopted_checkpoint(request, message, spine))
    spine.add(placed)
    grown = replace(
        log,
        next_sequence=log.next_sequence + 1,
        measured=log.measured + placed.measured,
        size=log.size.plus(placed.size),
        attempts=0 if placed.is_persons else log.attempts,
        is_rejected=False,
        has_news=log.has_news or bool(placed.results) or not placed.is_users or placed.is_persons,
        pending=message if placed.is_business and isinstance(message, UserMessage) else log.pending,
        run=placing.run,
        carried=log.carried.difference(result.call_id for result in placed.results) if log.carried else log.carried,
        length=log.length + 1,
        spine=spine,
        version=spine.version,
    )
    if isinstance(message, AssistantMessage) and not message.summary:
        return _hear_reply(grown, message, placed, before=log)
    return grown


def _hear_reply(log: "Log", reply: AssistantMessage, placed: Placed, *, before: "Log") -> "Log":
    # A reply that arrived with a history was not answered here; only one that was recorded says how it ended.
    heard = int(reply.finish is not None)
    sent = before.calibration.apply(before.size.plus(before.checkpoint_size)) * heard
    taken = 0 if reply.usage is None else reply.usage.context
    log = replace(
        log,
        limits=log.limits if reply.error or reply.finish == "error" else log.limits.after_reply(taken),
        cut_off=reply.finish == "length" if reply.finish is not None else log.cut_off,
        calls=log.calls + heard,
        calls_since=log.calls_since + heard,
        sent_since=log.sent_since + sent,
        is_rejected=False,
    )
    if reply.usage is None or reply.usage.context == 0 or reply.finish is None:
        return log
    system = Size(prose=0 if reply.overhead is None else reply.overhead.system)
    shown = before.size.plus(before.checkpoint_size).plus(system)
    believed = is_believable(reply.usage, shown, placed.size, log.rendering.least)
    report = Anchor(reply.usage, placed.sequence, log.size, placed.size, believed)
    return replace(log, report=report, calibration=_learn(before, reply.usage) if believed else log.calibration)


def _learn(log: "Log", usage: Usage) -> Calibration:
    """What the growth from the report before to this one teaches; nothing if the view was altered between them.

    Nor does growth that is too little for what was added: something else has left the provider's count.
    """
    anchor = log.anchor
    if anchor is None or log.altered_at > anchor.sequence:
        return log.calibration
    added = log.size.minus(anchor.size).plus(anchor.reply_size)
    grown = usage.prompt - anchor.usage.prompt
    return log.calibration.learn(added, grown) if can_be(grown, added, log.rendering.least) else log.calibration


def fold_head(log: "Log", checkpoint: Checkpoint) -> "Log":
    """The log from a checkpoint on; what reports and rejections had taught by then stands in the checkpoint."""
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
        is_rejected=False,
        calibration=log.calibration if checkpoint.calibration is None else checkpoint.calibration,
        limits=log.limits if checkpoint.limits is None else checkpoint.limits,
        thinking_from=log.next_sequence,
        pending=None,
        run=Run(log.run.step & spine.unanswered, log.run.sealed and bool(kept)),
        carried=log.carried | (log.writable_spine().unanswered - spine.unanswered),
        length=len(kept),
        spine=spine,
        version=spine.version,
    )
    return resummed(folded)


def size_of_text(text: str, rendering: Rendering) -> Size:
    """What a checkpoint's text takes in the view, with the frame of the message it stands in."""
    if not text:
        return NO_SIZE
    said = measure(text, token_ruler(rendering.estimate))
    return Size(prose=said + MESSAGE_OVERHEAD_TOKENS, loose=MESSAGE_OVERHEAD_TOKENS)


def _kept_by(log: "Log", checkpoint: Checkpoint) -> list[Placed]:
    """The live messages a checkpoint leaves; older requests and summaries go, so that only the newest speaks (B3)."""
    if checkpoint.first_kept is None:
        return []
    index = log.index_of(checkpoint.first_kept)
    if index is None:
        remedy = "name the first kept message by its entry's number"
        raise UnknownReference("message numbered", str(checkpoint.first_kept), remedy=remedy)
    if not log.live[index].cuttable:
        raise IllegalCut(checkpoint.first_kept, log.live[index].message.id)
    return [
        _first_kept(placed) if n == 0 else placed for n, placed in enumerate(log.live[index:]) if not placed.is_business
    ]


def _first_kept(placed: Placed) -> Placed:
    """The first message that stays: the calls that it left unanswered are gone."""
    if placed.beside == NO_SIZE:
        return placed
    return replace(placed, size=placed.size.minus(placed.beside), beside=NO_SIZE)


def resummed(log: "Log") -> "Log":
    """The log with the sums over its live messages made anew."""
    measured = sum(map(log.measured_of, log.live))
    return replace(log, measured=measured, size=total_size(map(log.size_of, log.live)))
