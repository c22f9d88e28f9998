"""Ask for a summary and judge it: once more after a fault that may pass, then not at all.

Decides which shape of request is cheaper where both are possible, divides a head that is too large for the summariser, and
turns whatever goes wrong into a reason to fold without a model.
"""

from collections.abc import Generator

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Fault, Verdict
from infold.core.events import SummariserResumed, SummaryRejected
from infold.core.gauge import Situation, bound_of, estimated_tokens, scaled_tokens
from infold.core.judge import Answer, Told, hard_fault, judge, plain_fault, readable
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, Usage, WorkPath, text_of
from infold.core.plan import Summarise
from infold.core.policy import LARGEST_TOKENS
from infold.core.summary_request import (
    Additions,
    SummaryRequest,
    flattened,
    instruction,
    later_text,
    messages_request,
    own_request,
    records,
    shared_request,
)
from infold.core.tokens import Size, measure, token_ruler
from infold.core.view import view
from infold.engine.effects import Ask, Effect, Publish
from infold.engine.notes import Notes
from infold.errors import ModelBusy, ModelError, ModelOverflow, reason_of

MOST_TRIES = 2
"""A summary that failed is asked for once more; a model that fails twice is not going to succeed on the third try."""

LARGEST_OUTPUT_SHARE = 0.25
"""How much of the summariser's own window its answer may take; the rest is for what it is to read."""

LEAST_OUTPUT_SHARE = 0.5
"""What of a summary's planned size must be left beside a history that is shown as messages; else it is flattened."""

REFUSED_SHARE = 0.5
"""How much less is asked for at once of a summariser that refused a request without naming its limit."""

LOW_COUNT_SHARE = 0.7
"""The same where its limit was known, and our count too low: for any family but the unknown this covers the margin of a count."""


class SummaryPlan(Struct, frozen=True):
    """What is to be summarised, and for whom.

    `summariser_tokens` is the summariser's window, 0 where it is the session's own model; `shares_prefix`: whoever asks can send
    the ordinary request with one more message.
    """

    step: Summarise
    situation: Situation
    system: str = ""
    additions: Additions = Additions()
    summariser_tokens: int = 0
    shares_prefix: bool = False


def ask_for_notes(log: Log, plan: SummaryPlan) -> Generator[Effect, object, Notes]:
    """A judged summary of the head, or the faults for which there is none."""
    if not plan.step.cut.index and log.checkpoint is not None and log.checkpoint.narrative:
        return Notes(log.checkpoint.narrative, log.checkpoint.verdict, log.checkpoint.summariser, path=_path(log))
    failing = None if log.checkpoint is None else log.checkpoint.failing
    if failing is not None:
        yield Publish((SummariserResumed(log.session_id, failing.times),))
    bill = _Bill()
    faults: tuple[Fault, ...] = ()
    verdict, wait_seconds = Verdict(""), 0.0
    for _ in range(MOST_TRIES):
        try:
            told = yield from _ask(log, plan, bill)
        except ModelError as error:
            faults = (*faults, "failed")
            verdict = Verdict("", error=reason_of(error))
            if error.is_lasting:
                break
            if isinstance(error, ModelOverflow):
                plan, bill.piece = _asking_for_less(plan, error), 0
            wait_seconds = error.wait_seconds if isinstance(error, ModelBusy) else 0.0
            continue
        verdict = replace(_judged(log, plan, told.answer), error=verdict.error)
        if verdict.is_accepted:
            heard = replace(verdict, faults=(*faults, *verdict.faults))
            return bill.settled(Notes(verdict.text, heard, told.model, path=_path(log)))
        faults = (*faults, *verdict.faults)
    verdict = replace(verdict, text="", faults=faults)
    rejected = SummaryRejected(log.session_id, faults, verdict.error)
    return bill.settled(Notes(verdict=verdict, events=(rejected,), wait_seconds=wait_seconds))


class _Bill:
    """What all answers together took, those included that were of no use (I19), and how far they came.

    `piece` is the record that was asked for last, `earlier` are the notes on those before it: a second try begins there.
    """

    def __init__(self) -> None:
        self._cost = 0.0
        self._duration_ms = 0
        self._usage: Usage | None = None
        self.flattened = False
        self.piece, self.earlier = 0, ""

    def add(self, told: Told) -> None:
        """One answer more."""
        self._cost += told.cost
        self._duration_ms += told.duration_ms
        self._usage = told.usage if self._usage is None else self._usage.plus(told.usage)

    def settled(self, notes: Notes) -> Notes:
        """Notes with what they took."""
        return replace(
            notes,
            cost=self._cost,
            duration_ms=self._duration_ms,
            usage=self._usage,
            is_asked=True,
            flattened=self.flattened,
        )


def supplied_notes(log: Log, plan: SummaryPlan, summary: str, by: str) -> Notes:
    """Notes from a summary that a plugin brought; it is judged like any other."""
    verdict = _judged(log, plan, Answer(readable(summary)))
    if verdict.is_accepted:
        return Notes(verdict.text, verdict, by, path=_path(log))
    return Notes(verdict=verdict, events=(SummaryRejected(log.session_id, verdict.faults),))


def _ask(log: Log, plan: SummaryPlan, bill: _Bill) -> Generator[Effect, object, Told]:
    """One summary: by the ordinary request if that is cheaper and fits, else record by record (summary of summaries)."""
    policy = plan.situation.policy.summary
    if policy.shows == "messages":
        request = messages_request(view(log, policy), plan.additions, output_tokens=plan.step.budget_tokens)
        room = _room_beside(request, log, plan)
        if room >= LEAST_OUTPUT_SHARE * plan.step.budget_tokens:
            output_tokens = min(room, plan.step.budget_tokens)
            return (yield from _told(replace(request, output_tokens=output_tokens), bill))
        bill.flattened = True
    elif _shares_prefix(log, plan):
        shown = view(log, policy)
        request = shared_request(plan.system, shown, plan.additions, output_tokens=plan.step.budget_tokens)
        return (yield from _told(request, bill))
    tail = (placed.message for placed in log.live[plan.step.cut.index :])
    later = later_text(tail) if policy.shows == "head-and-tail" else ""
    additions = replace(plan.additions, earlier=_earlier(log), later=later)
    window = _summariser_window(plan)
    output_tokens = min(plan.step.budget_tokens, int(window * LARGEST_OUTPUT_SHARE))
    pieces = records(
        _head(log, plan),
        additions,
        window_tokens=int(window / bound_of(log, plan.situation)),
        output_tokens=output_tokens,
        ruler=token_ruler(log.rendering.estimate),
    )
    fault = plain_fault if policy.judged else hard_fault
    told, notes = Told(Answer("")), bill.earlier if bill.piece else additions.earlier
    for number, piece in enumerate(pieces):
        if number < bill.piece:
            continue
        bill.piece, bill.earlier = number, notes
        asked = own_request(piece, replace(additions, earlier=notes), output_tokens=output_tokens)
        told = yield from _told(asked, bill)
        if fault(told.answer) is not None:  # it is rejected; what follows could only build on it
            break
        notes = told.answer.text
    return told


def _room_beside(request: SummaryRequest, log: Log, plan: SummaryPlan) -> int:
    """Return what a request with the history as messages is sure to leave of the summariser's window for its answer."""
    ruler = token_ruler(log.rendering.estimate)
    beside = (
        plan.situation.overhead_tokens if plan.shares_prefix else 0
    )  # then it is sent with the ordinary request's tools
    asked = Size(prose=beside + measure(request.system, ruler) + measure(text_of(request.messages[-1]), ruler))
    window = _summariser_window(plan) or LARGEST_TOKENS
    return window - scaled_tokens(log.size.plus(log.checkpoint_size).plus(asked), log, plan.situation)


def _told(request: SummaryRequest, bill: _Bill) -> Generator[Effect, object, Told]:
    told = yield Ask(request)
    assert isinstance(told, Told)
    bill.add(told)
    return told


def _asking_for_less(plan: SummaryPlan, refused: ModelOverflow) -> SummaryPlan:
    """Return the plan for a smaller window: the limit the summariser named, or a part of the window that was tried.

    Where the named limit is no smaller than that window, our count was too low.
    """
    window, named = _summariser_window(plan), refused.limit_tokens
    share = LOW_COUNT_SHARE if named else REFUSED_SHARE
    return replace(plan, summariser_tokens=named if named and named < window else int(window * share))


def _summariser_window(plan: SummaryPlan) -> int:
    """The window of the model that summarises; the reserve for a reply is not kept free, since the summary is the reply."""
    situation = plan.situation
    return plan.summariser_tokens or situation.window_tokens or situation.budget.limit_tokens


def _shares_prefix(log: Log, plan: SummaryPlan) -> bool:
    """Whether the ordinary request plus the instruction fits, and its cached price is below reading the head afresh."""
    situation = plan.situation
    if not plan.shares_prefix or plan.summariser_tokens or situation.rates is None or log.reported is None:
        return False
    ruler = token_ruler(log.rendering.estimate)
    whole = estimated_tokens(log, situation) + measure(instruction(plan.additions), ruler)
    if (whole + plan.step.budget_tokens) * bound_of(log, situation) > _summariser_window(plan):
        return False
    afresh = sum(measure(block, ruler) for block in flattened(_head(log, plan)))
    return whole * situation.rates.cached < afresh * situation.rates.fresh


def _head(log: Log, plan: SummaryPlan) -> tuple[Message, ...]:
    return tuple(placed.message for placed in log.live[: plan.step.cut.index])


def _path(log: Log) -> WorkPath | None:
    """Where the agent stood when it last said so."""
    replies = (placed.message for placed in reversed(log.live) if isinstance(placed.message, AssistantMessage))
    return next((reply.path for reply in replies if reply.path is not None), None)


def _earlier(log: Log) -> str:
    """What older summaries said, which the new one is to merge."""
    return "" if log.checkpoint is None else log.checkpoint.narrative or log.checkpoint.text


def _judged(log: Log, plan: SummaryPlan, answer: Answer) -> Verdict:
    ruler = token_ruler(log.rendering.estimate)
    answer_tokens = measure(answer.text, ruler) if hard_fault(answer) is None else 0
    if not plan.situation.policy.summary.judged:
        fault = hard_fault(answer) or _room_fault(log, plan, answer_tokens)
        return Verdict(answer.text, judged=False) if fault is None else Verdict("", (fault,), judged=False)
    head = log.live[: plan.step.cut.index]
    replaced = log.checkpoint_size.measure + sum(log.size_of(placed).measure for placed in head)
    known = "" if log.checkpoint is None else log.checkpoint.text
    return judge(
        answer,
        _head(log, plan),
        known=known,
        replaced_tokens=replaced,
        answer_tokens=answer_tokens,
    )


def _room_fault(log: Log, plan: SummaryPlan, answer_tokens: int) -> Fault | None:
    """Return a fault where not even the summary alone would fit the window, whatever a document accepts."""
    situation = plan.situation
    alone = scaled_tokens(Size(prose=situation.overhead_tokens + answer_tokens), log, situation)
    return "too-large" if situation.budget.excess_tokens(alone) else None
