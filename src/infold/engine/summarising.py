"""Ask for a summary and hear the judge: once more after a fault, then not at all.

Decides which shape of request is cheaper where both are possible, divides a head that is too large for the summariser, and
turns whatever goes wrong into a reason to fold without a model.
"""

from collections.abc import Generator

from msgspec import Struct
from msgspec.structs import replace

from infold.core.events import SummaryRejected
from infold.core.gauge import Situation, bound_of, estimated_tokens
from infold.core.judge import Answer, judge, plain_fault
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, Usage, WorkPath
from infold.core.plan import Summarise
from infold.core.summary import (
    Additions,
    SummaryRequest,
    flattened,
    instruction,
    later_text,
    own_request,
    records,
    shared_request,
)
from infold.core.tokens import measure, token_ruler
from infold.core.verdict import Fault, Verdict
from infold.core.view import view
from infold.engine.effects import Ask, Effect, Told
from infold.engine.notes import Notes
from infold.errors import ModelError, ModelOverflow

__all__ = ["SummaryPlan", "ask_for_notes", "supplied_notes"]

MOST_TRIES = 2
"""A summary that failed is asked for once more; a model that fails twice is not going to succeed on the third try."""

LARGEST_OUTPUT_SHARE = 0.25
"""How much of the summariser's own window its answer may take; the rest is for what it is to read."""

REFUSED_SHARE = 0.5
"""How much less is asked for at once of a summariser that refused a request without naming its limit."""


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
    bill = _Bill()
    faults: tuple[Fault, ...] = ()
    verdict = Verdict("")
    for _ in range(MOST_TRIES):
        try:
            told = yield from _ask(log, plan, bill)
        except ModelError as error:
            faults = (*faults, "failed")
            if isinstance(error, ModelOverflow):
                plan = _asking_for_less(plan, error)
            continue
        verdict = _judged(log, plan, told.answer)
        if verdict.is_accepted:
            heard = replace(verdict, faults=(*faults, *verdict.faults))
            return bill.settled(Notes(verdict.text, heard, told.model, path=_path(log)))
        faults = (*faults, *verdict.faults)
    rejected = SummaryRejected(log.session_id, faults)
    return bill.settled(Notes(verdict=replace(verdict, text="", faults=faults), events=(rejected,)))


class _Bill:
    """What all answers together took, those included that were of no use (I19)."""

    def __init__(self) -> None:
        self._cost = 0.0
        self._duration_ms = 0
        self._usage: Usage | None = None

    def add(self, told: Told) -> None:
        """One answer more."""
        self._cost += told.cost
        self._duration_ms += told.duration_ms
        self._usage = told.usage if self._usage is None else self._usage.plus(told.usage)

    def settled(self, notes: Notes) -> Notes:
        """Notes with what they took."""
        return replace(notes, cost=self._cost, duration_ms=self._duration_ms, usage=self._usage)


def supplied_notes(log: Log, plan: SummaryPlan, summary: str, by: str) -> Notes:
    """Notes from a summary that somebody brought; it is judged like any other."""
    verdict = _judged(log, plan, Answer(summary))
    if verdict.is_accepted:
        return Notes(verdict.text, verdict, by, path=_path(log))
    return Notes(verdict=verdict, events=(SummaryRejected(log.session_id, verdict.faults),))


def _ask(log: Log, plan: SummaryPlan, bill: _Bill) -> Generator[Effect, object, Told]:
    """One summary: by the ordinary request if that is cheaper and fits, else record by record (summary of summaries)."""
    if _shares_prefix(log, plan):
        shown = view(log, plan.situation.policy.summary)
        request = shared_request(plan.system, shown, plan.additions, output_tokens=plan.step.budget_tokens)
        return (yield from _told(request, bill))
    tail = (placed.message for placed in log.live[plan.step.cut.index :])
    additions = replace(plan.additions, earlier=_earlier(log), later=later_text(tail))
    window = _summariser_window(plan)
    output_tokens = min(plan.step.budget_tokens, int(window * LARGEST_OUTPUT_SHARE))
    pieces = records(
        _head(log, plan),
        additions,
        window_tokens=int(window / bound_of(log, plan.situation)),
        output_tokens=output_tokens,
        ruler=token_ruler(log.rendering.estimate),
    )
    told = Told(Answer(""))
    for piece in pieces:
        told = yield from _told(own_request(piece, additions, output_tokens=output_tokens), bill)
        if plain_fault(told.answer) is not None:  # the judge rejects it; what follows could only build on it
            break
        additions = replace(additions, earlier=told.answer.text)
    return told


def _told(request: SummaryRequest, bill: _Bill) -> Generator[Effect, object, Told]:
    told = yield Ask(request)
    assert isinstance(told, Told)
    bill.add(told)
    return told


def _asking_for_less(plan: SummaryPlan, refused: ModelOverflow) -> SummaryPlan:
    window = _summariser_window(plan)
    return replace(plan, summariser_tokens=min(window, refused.limit_tokens or int(window * REFUSED_SHARE)))


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
    head = log.live[: plan.step.cut.index]
    replaced = log.checkpoint_size.measure + sum(log.size_of(placed).measure for placed in head)
    known = "" if log.checkpoint is None else log.checkpoint.text
    return judge(
        answer,
        _head(log, plan),
        known=known,
        replaced_tokens=replaced,
        answer_tokens=measure(answer.text, ruler),
    )
