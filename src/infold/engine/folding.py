"""Fold a head: hear the plugins, get notes, commit with one append.

Notes come from a plugin, from what was prepared ahead, or from the model; a summary that fails in any way gives way to the
deterministic fold (B10). The model is asked under the session's lock, so that no two processes pay for the same summary.
"""

from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.core.compact import checkpoint_for
from infold.core.cut import Cut, cut_before
from infold.core.entries import MessageEntry
from infold.core.events import CompactionVetoed, PreparationDiscarded
from infold.core.gauge import Situation, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.messages import CompactionPart, MessageId, UserMessage
from infold.core.plan import Fold, Summarise
from infold.core.summary_request import Additions
from infold.engine.ahead import Preparation, cut_with, is_valid
from infold.engine.call import Call, Flow, Outrun, append
from infold.engine.committing import Done, Left, Source, commit, gains_nothing, outrun
from infold.engine.effects import Consult, Fetch, Guidance, Hold, Load, Publish, Release, Wait
from infold.engine.notes import Notes
from infold.engine.summarising import SummaryPlan, ask_for_notes, supplied_notes
from infold.errors import StoreConflict
from infold.ports import KeepFrom, Occasion, Supply, Veto

PAUSE_SECONDS = 0.05
"""Between two tries for a lock that another process has."""

MOST_COMMITS = 100
"""How often notes are committed to a session that others are writing to, before the next try takes them up."""


def fold(log: Log, step: Summarise | Fold, situation: Situation, call: Call) -> Flow[Done | Left | Outrun]:
    """Fold a head, unless a plugin objects or the summary can still be waited for."""
    urgent = step.reason == "overflow" or situation.budget.excess_tokens(gauge(log, situation).upper_tokens) > 0
    guidance = yield from _consult(log, step, situation, call, urgent=urgent)
    if isinstance(guidance.decision, Veto):
        vetoed = CompactionVetoed(log.session_id, step.reason, guidance.decision.why, urgent)
        yield Publish((vetoed,))
        return Left(events=(vetoed,))
    plan = plan_for(_decided(log, step, guidance), situation, call, guidance.additions)
    waits = urgent or not call.defers or step.reason in ("manual", "forced")
    source = yield from _source(log, plan, guidance, wait=waits)
    if isinstance(step, Summarise) and source.notes is None:
        if not waits or _would_grow(log, plan, call):
            return Left(wanted=None if waits else plan)
        insists = urgent or step.reason == "manual"
        return (yield from _ask_alone(log, source.plan, call, guidance, insists=insists))
    if source.notes is None:
        return (yield from commit(log, source, Notes(), call, guidance))
    try:
        log = yield from _requested(log, source.plan, call)
    except StoreConflict:
        return outrun(log, source, source.notes)
    return (yield from commit(log, source, source.notes, call, guidance))


def _would_grow(log: Log, plan: SummaryPlan, call: Call) -> bool:
    """Whether what a person asks for makes the view no smaller, whatever a model writes: then none is asked (I7)."""
    if plan.step.reason != "manual" or not plan.situation.policy.summary.ledger:
        return False
    checkpoint, _ = checkpoint_for(log, plan.step, plan.situation, now_ms=call.now_ms)
    return gains_nothing(checkpoint)


def plan_for(
    step: Summarise | Fold, situation: Situation, call: Call, additions: Additions | None = None
) -> SummaryPlan:
    """What is to be summarised for a step."""
    return SummaryPlan(
        Summarise(step.cut, step.budget_tokens, step.reason, step.saving),
        situation,
        call.system,
        call.additions if additions is None else replace(additions, focus=call.additions.focus),
        call.summariser_tokens,
        call.shares_prefix,
    )


# Plugins.


def _consult(log: Log, step: Summarise | Fold, situation: Situation, call: Call, *, urgent: bool) -> Flow[Guidance]:
    if not call.has_hooks:
        return Guidance(call.additions)
    occasion = Occasion(
        session_id=log.session_id,
        reason=step.reason,
        head=tuple(placed.message for placed in log.live[: step.cut.index]),
        first_kept=step.cut.first_kept,
        tokens_before=estimated_tokens(log, situation),
        usable_tokens=situation.budget.usable_tokens,
        is_urgent=urgent,
        focus=call.additions.focus,
    )
    guidance = yield Consult(occasion)
    assert isinstance(guidance, Guidance)
    return guidance


def _decided(log: Log, step: Summarise | Fold, guidance: Guidance) -> Summarise | Fold:
    """The step with the cut a plugin chose, where that folds anything at all."""
    if not isinstance(guidance.decision, KeepFrom):
        return step
    cut = cut_before(log, guidance.decision.sequence)
    return step if cut is None else replace(step, cut=cut)


# Where the notes come from.


def _source(log: Log, plan: SummaryPlan, guidance: Guidance, *, wait: bool) -> Flow[Source]:
    """A plugin's summary, or what was prepared ahead if it still holds."""
    if isinstance(guidance.decision, Supply):
        return Source(plan, supplied_notes(log, plan, guidance.decision.summary, by="plugin"))
    if not plan.situation.summariser:
        return Source(plan)
    preparation = yield Fetch(wait)
    if not isinstance(preparation, Preparation):
        return Source(plan)
    if (
        preparation.notes.is_failure
    ):  # the summariser was asked for this compaction and failed; a person may want it asked again
        same = preparation.mark.checkpoint_sequence == log.checkpoint_sequence and plan.step.reason != "manual"
        return Source(plan, preparation.notes if same else None)
    if not is_valid(preparation, log, plan.situation.policy):
        why = "the folded head, the pins or the policy changed"
        yield Publish((PreparationDiscarded(log.session_id, why, preparation.notes.cost),))
        return Source(plan)
    cut = cut_with(preparation, plan.step, log, plan.situation)
    step = replace(plan.step, cut=cut)
    return Source(replace(plan, step=step), preparation.notes, ahead=not preparation.is_left)


def _ask_alone(
    log: Log, plan: SummaryPlan, call: Call, guidance: Guidance, *, insists: bool
) -> Flow[Done | Left | Outrun]:
    """Ask the model while no other process does; one that had to wait for another begins anew."""
    held = yield from _hold(call.patience_seconds if insists else 0.0)
    if held == "taken" and log.pending is not None:  # whose request it is, only the session as it is now can tell
        read = yield Load()
        assert isinstance(read, Log)
        held = "taken" if read.next_sequence == log.next_sequence else "waited"
    match held:
        case "taken":
            done = yield from _ask(log, plan, call, guidance)
            yield Release()
            return done
        case "waited":
            yield Release()
            return Outrun()
        case "busy":
            return (yield from commit(log, Source(plan), Notes(), call, guidance)) if insists else Left()
        case _:
            assert_never(held)


def _hold(patience_seconds: float) -> Flow[Literal["taken", "waited", "busy"]]:
    """Take the session's lock: `taken` at once, `waited` for it, or still `busy` after all patience."""
    waited = 0.0
    while not (yield Hold()):
        if waited >= patience_seconds:
            return "busy"
        yield Wait(PAUSE_SECONDS)
        waited += PAUSE_SECONDS
    return "waited" if waited else "taken"


def _ask(log: Log, plan: SummaryPlan, call: Call, guidance: Guidance) -> Flow[Done | Left | Outrun]:
    """Request durably, ask, judge, commit (S3.1, B5, B25).

    Others may append while the model writes; the notes are then committed to the session as it has become, before the lock is
    given back, so that nobody pays for them again.
    """
    try:
        log = yield from _requested(log, plan, call)
    except StoreConflict:
        return Outrun()
    notes = yield from ask_for_notes(log, plan)
    done = yield from commit(log, Source(plan), notes, call, guidance)
    for _ in range(MOST_COMMITS):
        again = (yield from _plan_anew(plan, done)) if isinstance(done, Outrun) else None
        if again is None:
            return done
        done = yield from commit(again.log, Source(again.plan), notes, call, guidance)
        if isinstance(done, Done):
            return replace(done, anew=True)
    return done


class _Anew(Struct, frozen=True):
    """A session as it has become, and what to fold of it with notes that are there already."""

    log: Log
    plan: SummaryPlan


def _plan_anew(plan: SummaryPlan, faster: Outrun) -> Flow[_Anew | None]:
    """The same fold in the session as it is now; none where the notes no longer hold for it."""
    log = yield Load()
    assert isinstance(log, Log)
    preparation = faster.preparation
    if preparation is None or not is_valid(preparation, log, plan.situation.policy):
        return None
    last = log.index_of(preparation.mark.last)
    index = 0 if last is None else last + 1
    while index < log.length and log.live[index].is_business:  # the request for this very compaction
        index += 1
    if index < log.length and not log.live[index].cuttable:
        return None
    return _Anew(log, replace(plan, step=replace(plan.step, cut=Cut.at(log, index))))


def _requested(log: Log, plan: SummaryPlan, call: Call) -> Flow[Log]:
    """The log with a request for this compaction in it: one that was left over from before, or a new one."""
    if log.pending is not None:
        return log
    return (yield from append(log, (MessageEntry(_request(log, plan, call)),)))


def _request(log: Log, plan: SummaryPlan, call: Call) -> UserMessage:
    """The durable request, with the last user message's agent and model (S3.1)."""
    step = plan.step
    asked = next((placed.message for placed in reversed(log.live) if isinstance(placed.message, UserMessage)), None)
    kept = None if step.cut.first_kept is None else log.live[step.cut.index].message.id
    part = CompactionPart(
        f"part-{log.next_sequence}",
        auto=step.reason != "manual",
        overflow=step.reason == "overflow",
        first_kept_id=kept,
    )
    return UserMessage(
        MessageId(f"compact-{log.next_sequence}"),
        (part,),
        created_ms=call.now_ms,
        agent="" if asked is None else asked.agent,
        model=None if asked is None else asked.model,
    )
