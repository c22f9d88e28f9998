"""Commit a fold: the checkpoint and all that belongs to it in one append, then the telling (B25)."""

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import Known, lookup
from infold.core.compact import checkpoint_for, compacted_event, entries_for
from infold.core.entries import Amendment, Checkpoint, Failing, next_failure
from infold.core.events import Event, SummariserPaused
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.messages import AssistantMessage, MessageId, ModelRef, TextPart
from infold.core.summary_request import COMPACTION_AGENT
from infold.engine.ahead import Preparation, mark_of
from infold.engine.call import Call, Flow, Outrun, append
from infold.engine.effects import Announce, Guidance, Publish
from infold.engine.notes import Notes
from infold.engine.summarising import SummaryPlan
from infold.errors import StoreConflict, SummaryFailed


class Done(Struct, frozen=True):
    """A step carried out; `anew`: on the session as others had made it meanwhile, which is not the one it began with."""

    log: Log
    events: tuple[Event, ...]
    anew: bool = False


class Left(Struct, frozen=True):
    """A step left undone: the request goes out as it stands, and the summary it wants is written meanwhile.

    `log` is the session where something was taken back of it.
    """

    wanted: SummaryPlan | None = None
    events: tuple[Event, ...] = ()
    log: Log | None = None


class Source(Struct, frozen=True):
    """Where the notes come from, and the step they are for."""

    plan: SummaryPlan
    notes: Notes | None = None
    ahead: bool = False


def commit(log: Log, source: Source, notes: Notes, call: Call, guidance: Guidance) -> Flow[Done | Left | Outrun]:
    """Append the checkpoint with all that belongs to it, then tell (B25).

    One that a person asked for and that would make the view larger is written without the model's words, or else left out (I7).
    """
    situation, step = source.plan.situation, source.plan.step
    if notes.is_failure and call.stops and situation.policy.summary.fallback == "stop":
        yield Publish(notes.events)
        raise SummaryFailed(notes.verdict.error if notes.verdict else "", notes.verdict.faults if notes.verdict else ())
    checkpoint, stubbed = checkpoint_for(log, step, situation, narrative=notes.text, now_ms=call.now_ms)
    if notes.text and situation.policy.summary.ledger and gains_nothing(checkpoint):
        notes = replace(notes, text="")
        checkpoint, stubbed = checkpoint_for(log, step, situation, now_ms=call.now_ms)
    if gains_nothing(checkpoint):
        return (yield from _left_out(log))
    checkpoint = replace(
        _told(checkpoint, notes, situation, ahead=source.ahead),
        failing=_failing(log, notes, call.now_ms or 0),
        safety=_safety(notes, situation),
    )
    entries = tuple(entries_for(checkpoint, log, situation)) if guidance.may_continue else (checkpoint,)
    try:
        after = yield from append(log, entries)
    except StoreConflict:
        return outrun(log, source, notes)
    events = (
        compacted_event(log, checkpoint, situation),
        *notes.events,
        *_paused(checkpoint, notes, log.session_id),
        *stubbed,
    )
    yield Publish(events)
    if call.has_hooks:
        yield Announce(checkpoint)
    return Done(after, events)


def _failing(log: Log, notes: Notes, now_ms: int) -> Failing | None:
    """Return for how long the summariser is left alone; a fold for which none was asked changes nothing in that."""
    before = None if log.checkpoint is None else log.checkpoint.failing
    if not notes.is_asked:
        return before
    return next_failure(before, now_ms, round(notes.wait_seconds * 1_000)) if notes.is_failure else None


def _paused(checkpoint: Checkpoint, notes: Notes, session_id: str) -> tuple[SummariserPaused, ...]:
    failing = checkpoint.failing
    if failing is None or not notes.is_failure:
        return ()
    return (SummariserPaused(session_id, failing.times, (failing.until_ms - (checkpoint.created_ms or 0)) // 1_000),)


def _safety(notes: Notes, situation: Situation) -> tuple[str, ...]:
    """Return what was done that the policy's document does not have."""
    folds = notes.is_failure and situation.policy.summary.fallback == "stop"
    return (*(("code-fold",) if folds else ()), *(("flattened",) if notes.flattened else ()))


def gains_nothing(checkpoint: Checkpoint) -> bool:
    """Whether what a person asked for makes the view no smaller (I7)."""
    return checkpoint.reason == "manual" and checkpoint.tokens_after >= checkpoint.tokens_before


def _left_out(log: Log) -> Flow[Left]:
    """Take the request for a compaction back that is not made, unless something was said since; nobody is to pay for it again."""
    newest = log.live[-1] if log.live else None
    if newest is None or log.pending is None or newest.message is not log.pending:
        return Left()
    try:
        return Left(log=(yield from append(log, (Amendment(newest.sequence),))))
    except StoreConflict:
        return Left()


def outrun(log: Log, source: Source, notes: Notes) -> Outrun:
    """Another was faster; notes that a model wrote are kept for the next try."""
    mark = mark_of(log, source.plan.step, source.plan.situation.policy)
    return Outrun(Preparation(mark, notes, is_left=not source.ahead) if notes.verdict is not None else None)


def _told(checkpoint: Checkpoint, notes: Notes, situation: Situation, *, ahead: bool) -> Checkpoint:
    """The checkpoint with what is known of its summary; a document's shape has the summary as a message (S3.6)."""
    documents = situation.policy.summary.shape != "marked" and bool(notes.text)
    return replace(
        checkpoint,
        summary=_summary_message(checkpoint, notes) if documents else None,
        verdict=notes.verdict,
        summariser=notes.model if notes.text else "",
        cost=notes.cost,
        duration_ms=notes.duration_ms,
        ahead=ahead,
    )


def _summary_message(checkpoint: Checkpoint, notes: Notes) -> AssistantMessage:
    request = checkpoint.request
    return AssistantMessage(
        MessageId(f"summary-of-{'' if request is None else request.id}"),
        (TextPart(checkpoint.text),),
        created_ms=checkpoint.created_ms,
        parent_id=None if request is None else request.id,
        agent=COMPACTION_AGENT.name,
        mode=COMPACTION_AGENT.name,
        model=_written_by(notes, None if request is None else request.model),
        path=notes.path,
        summary=True,
        usage=notes.usage,
        cost=notes.cost,
        finish="stop",
    )


def _written_by(notes: Notes, asked: ModelRef | None) -> ModelRef | None:
    """Who wrote the notes: the model that was asked in the session, or the other one that is configured for it (S3.2)."""
    known = None if asked is not None and asked.id == notes.model else lookup(notes.model)
    return ModelRef(known.entry.provider, notes.model) if isinstance(known, Known) else asked
