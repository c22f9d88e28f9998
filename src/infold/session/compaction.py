"""Compact a session until its next request fits: decide, carry out, append, repeat.

`core` decides and this carries out. Every change is appended before it counts, so that a crash between two steps leaves a session
whose next request can be answered. If another writer appends first, `StoreConflict` passes to the caller, who reloads the session
and starts over; a summary that was already paid for is kept and used then.
"""

from contextlib import suppress
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import Known, lookup
from infold.core.compact import (
    NO_NATIVE,
    apply_step,
    checkpoint_for,
    checkpoint_without_steps,
    compacted_event,
    entries_for,
)
from infold.core.cut import Cut, cut_before, needs_definition
from infold.core.entries import Amendment, Checkpoint, Entry, MessageEntry, Restoration, after_failure
from infold.core.events import CompactionVetoed, Event, Exceeded, PreparationDiscarded, SummariserPaused
from infold.core.gauge import Gauge, PlanInputs, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.messages import AssistantMessage, CompactionPart, Message, MessageId, ModelRef, TextPart, UserMessage
from infold.core.plan import (
    LEAST_ASKED_SHARE,
    Fits,
    Fold,
    NextStep,
    Prune,
    Shorten,
    Stuck,
    Summarise,
    asked_call,
    fold_at,
    is_too_soon,
    is_worth_asked,
    next_step,
)
from infold.core.summary_request import COMPACTION_AGENT, LONGEST_FOCUS, Additions
from infold.core.view import view
from infold.errors import StoreConflict, SummaryFailed, UsageError
from infold.formats.tools import compact_focus
from infold.ports import CompactionContext, Hooks, KeepFrom, Supply, Veto
from infold.session.background import BackgroundSummary
from infold.session.context import window_exceeded
from infold.session.settings import ResolvedSettings
from infold.session.summary import (
    NO_SUMMARY,
    Ask,
    JudgedSummary,
    PreparedSummary,
    SummaryPlan,
    basis_of,
    cut_with,
    is_valid,
    judge_supplied,
    request_summary,
    step_ahead,
)
from infold.session.writer import LogWriter

LOCK_PAUSE_SECONDS = 0.05
"""Between two tries for a lock that another process holds."""


class CompactionInput(Struct, frozen=True, kw_only=True):
    """What one request asks of a compaction.

    `system` is the ordinary request's system prompt, for a summary that shares its prefix. `focus` is what a summary should give
    room to, `up_to` the first message a person wants kept. `sends_all`: the caller brings its whole list each time, and wants
    all of it sent.
    """

    settings: ResolvedSettings
    plan_inputs: PlanInputs
    now_ms: int
    system: str = ""
    focus: str = ""
    up_to: int | None = None
    sends_all: bool = False


class Prepared(Struct, frozen=True):
    """A view that fits, how full the window is, and the summary that should be written in the background now."""

    view: tuple[Message, ...]
    gauge: Gauge
    limit_tokens: int
    wanted: SummaryPlan | None = None


class _Skipped(Struct, frozen=True):
    """A fold that was not made: the request goes out as it is, and the summary it wants is written meanwhile."""

    wanted: SummaryPlan | None = None


class _Source(Struct, frozen=True):
    """A summary plan with the summary that is there for it; `ahead`: written before it was needed."""

    plan: SummaryPlan
    summary: JudgedSummary | None = None
    ahead: bool = False


class _Guidance(Struct, frozen=True):
    """What plugins want: additions to the instruction, a decision, and whether a continue message may follow."""

    additions: Additions
    decision: Veto | Supply | KeepFrom | None = None
    may_continue: bool = True


class CompactionRun:
    """The compaction before one request; `events` are what was done, in order."""

    def __init__(
        self,
        writer: LogWriter,
        request: CompactionInput,
        *,
        ask: Ask,
        background: BackgroundSummary,
        hooks: Hooks | None,
        events: list[Event],
    ) -> None:
        self._writer = writer
        self._settings = request.settings
        self._request = request
        self._inputs = request.plan_inputs
        self._ask = ask
        self._background = background
        self._hooks = hooks
        self._events = events

    def run(self) -> Prepared:
        """Compact until the next request fits; raise `WindowExceeded` if none can."""
        if not self._inputs.offers_tools:
            self._drop_steps()
        is_resumed = self._resumes_request()
        if is_resumed:
            self._inputs = replace(self._inputs, manual=True)
        elif self._background.holds_native:
            self._use_native()
        while True:
            step = self._next_step()
            is_manual = not isinstance(step, Fits | Stuck) and step.reason == "manual"
            if is_resumed:
                step = self._as_requested(step)
            skipped: _Skipped | None = None
            done = len(self._events)
            match step:
                case Fits(measured):
                    return self._prepared(measured, self._summary_ahead())
                case Stuck():
                    self._publish(Exceeded(self._log.session_id, step.floor_tokens, step.usable_tokens))
                    raise window_exceeded(step)
                case Prune() | Shorten():
                    self._hide(step)
                case Fold() | Summarise():
                    skipped = self._fold(step)
                case _:
                    assert_never(step)
            if skipped is not None:
                if not is_manual or not self._is_over_budget():
                    return self._prepared(gauge(self._log, self._inputs), skipped.wanted)
                self._inputs = replace(self._inputs, manual=False)  # the fold does not help; the request must still fit
                continue
            # A person's request is met by one step, and a summariser that just failed is not asked again.
            fails = any(isinstance(event, SummariserPaused) for event in self._events[done:])
            self._inputs = replace(
                self._inputs,
                manual=self._inputs.manual and not is_manual,
                summariser=self._inputs.summariser and not fails,
            )

    @property
    def _log(self) -> Log:
        return self._writer.log

    def _publish(self, *events: Event) -> None:
        self._events += events
        self._writer.publish(*events)

    def _is_over_budget(self) -> bool:
        return self._inputs.budget.excess_tokens(gauge(self._log, self._inputs).upper_tokens) > 0

    def _prepared(self, measured: Gauge, wanted: SummaryPlan | None) -> Prepared:
        shown = view(self._log, self._inputs.policy.summary, brought=self._request.sends_all)
        return Prepared(shown, measured, self._inputs.budget.limit_tokens, wanted)

    def _hide(self, step: Prune | Shorten) -> None:
        carried = apply_step(self._log, step, self._inputs, now_ms=self._request.now_ms)
        self._writer.append(*carried.entries)
        self._publish(*carried.events)

    def _drop_steps(self) -> None:
        """Show no kept steps in this request, nor in later ones, so that what is reported for one holds for the next."""
        checkpoint = checkpoint_without_steps(self._log, self._inputs, now_ms=self._request.now_ms)
        if checkpoint is not None:
            event = compacted_event(self._log, checkpoint, self._inputs)
            self._writer.append(checkpoint)
            self._publish(event)

    # The next step.

    def _next_step(self) -> NextStep:
        """Return what to do now; a person who says up to where wants a fold there and nothing else."""
        log, inputs, request = self._log, self._inputs, self._request
        if not inputs.manual or (request.up_to is None and not request.focus):
            return next_step(log, inputs)
        if request.up_to is None:  # pruning gives no room to the focus of a summary
            prune = replace(inputs.policy.prune, enabled=False)
            return next_step(log, replace(inputs, policy=replace(inputs.policy, prune=prune)))
        cut = cut_before(log, request.up_to)
        if cut is None:
            raise UsageError(
                f"nothing can be folded before message {request.up_to}; give the number of a later message, such as "
                "the one in its handle, or leave it out"
            )
        return fold_at(log, cut, inputs, "manual")

    def _resumes_request(self) -> bool:
        """Return whether to take up a compaction that was requested and that no process is carrying out."""
        if self._log.pending is None or self._inputs.manual:
            return False
        if self._writer.is_locked:  # it is our own, from an attempt that met a conflict
            return True
        is_free = self._writer.try_lock()
        self._writer.unlock()
        return is_free

    def _as_requested(self, step: NextStep) -> NextStep:
        """Return the step for a request that was left over: with its own reason, and without folding later messages."""
        if isinstance(step, Fits | Stuck):
            return step
        asked = () if self._log.pending is None else self._log.pending.parts
        if step.reason == "manual" and any(isinstance(part, CompactionPart) and part.auto for part in asked):
            step = replace(step, reason="trigger")  # a policy asked for it, not a person
        if isinstance(step, Fold | Summarise):
            step = replace(step, cut=_before_later_messages(self._log, step.cut))
        return step

    def _summary_ahead(self) -> SummaryPlan | None:
        """Return the summary to begin now, although nothing needs doing yet."""
        if not self._settings.defers or not self._inputs.summariser:
            return None
        step = step_ahead(self._log, self._inputs)
        return None if step is None else self._plan(step, Additions())

    # Folding.

    def _fold(self, step: Summarise | Fold) -> _Skipped | None:
        """Fold a head, unless a plugin objects or the summary can still be waited for."""
        is_urgent = step.reason == "overflow" or self._is_over_budget()
        guidance = self._consult_plugins(step, is_urgent=is_urgent)
        if isinstance(guidance.decision, Veto):
            self._publish(CompactionVetoed(self._log.session_id, step.reason, guidance.decision.why, is_urgent))
            return _Skipped()
        if isinstance(guidance.decision, KeepFrom):
            chosen = cut_before(self._log, guidance.decision.sequence)
            step = step if chosen is None else replace(step, cut=chosen)
        plan = self._plan(step, guidance.additions)
        waits = is_urgent or not self._settings.defers or step.reason in ("manual", "forced", "asked")
        source = self._ready_summary(plan, guidance, wait=waits)
        if source.summary is not None:
            return self._commit_requested(source, source.summary, guidance)
        if isinstance(step, Fold):
            return self._commit(source, NO_SUMMARY, guidance)
        if not waits:
            return _Skipped(plan)
        if step.reason == "manual" and plan.inputs.policy.summary.ledger:  # no model is asked if no text can help
            checkpoint, _ = checkpoint_for(self._log, plan.step, plan.inputs, now_ms=self._request.now_ms)
            if _gains_nothing(checkpoint):
                return _Skipped()
        return self._ask_under_lock(source, guidance, insists=is_urgent or step.reason == "manual")

    def _use_native(self) -> None:
        """Use a summary that the provider wrote ahead of need, with the first request after it arrived.

        Thinking that is created before the summary is used may not be valid behind it.
        """
        prepared = self._background.fetch(self._writer.callbacks, wait=False)
        if prepared is None:
            return
        step = fold_at(self._log, Cut.at(self._log, self._log.length), self._inputs, "trigger")
        guidance = self._consult_plugins(step, is_urgent=False)
        if guidance.decision is not None or not is_valid(prepared, self._log, self._inputs.policy):
            self._discard(prepared)
            return
        plan = self._plan(step, Additions())
        cut = cut_with(prepared, plan.step, self._log, plan.inputs)
        if needs_definition(self._log, cut.index):
            self._discard(prepared)
            return
        step = replace(plan.step, cut=cut)
        source = _Source(replace(plan, step=step), prepared.summary, ahead=True)
        self._commit_requested(source, prepared.summary, guidance)

    def _discard(self, prepared: PreparedSummary) -> None:
        why = "the folded head, the pins or the policy changed"
        self._writer.publish(PreparationDiscarded(self._log.session_id, why, prepared.summary.cost))

    def _plan(self, step: Summarise | Fold, additions: Additions) -> SummaryPlan:
        call = asked_call(self._log, self._inputs) if step.reason == "asked" else None
        focus = self._request.focus if call is None else compact_focus(call.arguments)
        return SummaryPlan(
            Summarise(
                step.cut, step.budget_tokens, step.reason, step.saving, isinstance(step, Summarise) and step.native
            ),
            self._inputs,
            self._request.system,
            replace(additions, focus=focus),
            self._settings.summariser_tokens,
            self._settings.shares_prefix,
            self._request.sends_all,
        )

    def _consult_plugins(self, step: Summarise | Fold, *, is_urgent: bool) -> _Guidance:
        if self._hooks is None:
            return _Guidance(Additions())
        log = self._log
        occasion = CompactionContext(
            session_id=log.session_id,
            reason=step.reason,
            head=tuple(placed.message for placed in log.live[: step.cut.index]),
            first_kept=step.cut.first_kept,
            tokens_before=estimated_tokens(log, self._inputs),
            usable_tokens=self._inputs.budget.usable_tokens,
            is_urgent=is_urgent,
            focus=self._request.focus,
        )
        hooks = self._hooks
        return _Guidance(hooks.additions(occasion), hooks.decide(occasion), hooks.may_continue(log.session_id))

    def _ready_summary(self, plan: SummaryPlan, guidance: _Guidance, *, wait: bool) -> _Source:
        """Return the plan with a plugin's summary, or with one that was prepared and is still valid."""
        log = self._log
        if isinstance(guidance.decision, Supply):
            return _Source(plan, judge_supplied(log, plan, guidance.decision.summary))
        if not plan.inputs.summariser:
            return _Source(plan)
        prepared = self._background.fetch(self._writer.callbacks, wait=wait)
        if prepared is None:
            return _Source(plan)
        if prepared.summary.is_failure:  # the summariser failed for this compaction; only a person has it asked again
            same = prepared.basis.checkpoint_sequence == log.checkpoint_sequence and plan.step.reason != "manual"
            return _Source(plan, prepared.summary if same else None)
        if not is_valid(prepared, log, plan.inputs.policy):
            self._discard(prepared)
            return _Source(plan)
        step = replace(plan.step, cut=cut_with(prepared, plan.step, log, plan.inputs))
        return _Source(replace(plan, step=step), prepared.summary, ahead=not prepared.is_leftover)

    def _ask_under_lock(self, source: _Source, guidance: _Guidance, *, insists: bool) -> _Skipped | None:
        """Ask the model while no other process does, so that no two pay for the same summary.

        The lock is kept until the checkpoint is appended, also over further attempts after a conflict.
        """
        match self._take_lock(self._settings.patience_seconds if insists else 0.0):
            case "busy":
                return self._commit(source, NO_SUMMARY, guidance) if insists else _Skipped()
            case "waited":  # the other process has probably compacted
                self._writer.unlock()
                raise StoreConflict(
                    self._log.session_id, expected=self._log.next_sequence, actual=self._log.next_sequence
                )
            case "taken" if self._log.pending is not None:  # another process may have carried the request out by now
                self._writer.check_current()
        self._append_request(source.plan)
        summary = request_summary(self._log, source.plan, self._ask, self._writer.publish)
        skipped = self._commit(source, summary, guidance)
        self._writer.unlock()
        return skipped

    def _take_lock(self, patience_seconds: float) -> Literal["taken", "waited", "busy"]:
        waited = 0.0
        while not self._writer.try_lock():
            if waited >= patience_seconds:
                return "busy"
            self._writer.callbacks.pause(LOCK_PAUSE_SECONDS)
            waited += LOCK_PAUSE_SECONDS
        return "waited" if waited else "taken"

    def _append_request(self, plan: SummaryPlan) -> None:
        """Append a durable request for this compaction, unless one is pending."""
        if self._log.pending is None:
            step, log = plan.step, self._log
            kept = None if step.cut.first_kept is None else log.live[step.cut.index].message.id
            part = CompactionPart("", step.reason != "manual", overflow=step.reason == "overflow", first_kept_id=kept)
            self._writer.append(MessageEntry(request_message(log, part, self._request.now_ms)))

    # Committing.

    def _commit_requested(self, source: _Source, summary: JudgedSummary, guidance: _Guidance) -> _Skipped | None:
        try:
            self._append_request(source.plan)
        except StoreConflict:
            self._keep(source, summary)
            raise
        return self._commit(source, summary, guidance)

    def _commit(self, source: _Source, summary: JudgedSummary, guidance: _Guidance) -> _Skipped | None:
        """Append the checkpoint with all that belongs to it in one append, then publish.

        A manual fold that would make the view larger is written without the model's text, or else not at all.
        """
        log, inputs, step, now_ms = self._log, source.plan.inputs, source.plan.step, self._request.now_ms
        verdict = summary.verdict
        if summary.is_failure and self._settings.stops and inputs.policy.summary.fallback == "stop":
            self._writer.publish(*summary.events)
            raise SummaryFailed(verdict.error if verdict else "", verdict.faults if verdict else ())
        checkpoint, stubbed = checkpoint_for(
            log, step, inputs, narrative=summary.text, native=summary.native, now_ms=now_ms
        )
        if summary.text and inputs.policy.summary.ledger and _gains_nothing(checkpoint):
            summary = replace(summary, text="", native=NO_NATIVE)
            checkpoint, stubbed = checkpoint_for(log, step, inputs, now_ms=now_ms)
        if _gains_nothing(checkpoint):
            self._withdraw_request()
            return _Skipped()
        checkpoint = _with_summary(checkpoint, summary, inputs, log, ahead=source.ahead)
        entries: tuple[Entry, ...] = (checkpoint,)
        if guidance.may_continue:
            entries = tuple(entries_for(checkpoint, log, inputs))
        try:
            self._writer.append(*entries)
        except StoreConflict:
            self._keep(source, summary)
            raise
        self._publish(compacted_event(log, checkpoint, inputs), *summary.events)
        if summary.is_failure and checkpoint.failing is not None:
            seconds = (checkpoint.failing.until_ms - now_ms) // 1_000
            self._publish(SummariserPaused(log.session_id, checkpoint.failing.times, seconds))
        self._publish(*stubbed)
        if self._hooks is not None:
            self._hooks.compacted(log.session_id, checkpoint)
        return None

    def _keep(self, source: _Source, summary: JudgedSummary) -> None:
        """Keep a summary that a model wrote for the next attempt."""
        if summary.verdict is not None:
            basis = basis_of(self._log, source.plan)
            self._background.keep(PreparedSummary(basis, summary, is_leftover=not source.ahead))

    def _withdraw_request(self) -> None:
        """Take back the request for a compaction that is not made, unless a message followed it."""
        log = self._log
        newest = log.live[-1] if log.live else None
        if newest is None or log.pending is None or newest.message is not log.pending:
            return
        with suppress(StoreConflict):
            self._writer.append(Amendment(newest.sequence))


def _before_later_messages(log: Log, cut: Cut) -> Cut:
    """Return a cut that does not fold messages after the request for a compaction: they are not answered yet."""
    requested = next((n for n, placed in enumerate(log.live) if placed.message is log.pending), log.length)
    later = next((n for n in range(requested + 1, log.length) if log.live[n].cuttable), log.length)
    return cut if cut.index <= later else Cut.at(log, later)


def request_message(log: Log, part: CompactionPart, now_ms: int) -> UserMessage:
    """Return a durable request for a compaction, with the last user message's agent and model."""
    asked = next((placed.message for placed in reversed(log.live) if isinstance(placed.message, UserMessage)), None)
    return UserMessage(
        MessageId(f"compact-{log.next_sequence}"),
        (replace(part, id=f"part-{log.next_sequence}"),),
        created_ms=now_ms,
        agent="" if asked is None else asked.agent,
        model=None if asked is None else asked.model,
    )


def _gains_nothing(checkpoint: Checkpoint) -> bool:
    """Return whether a manual fold makes the view no smaller."""
    return checkpoint.reason == "manual" and checkpoint.tokens_after >= checkpoint.tokens_before


def _with_summary(
    checkpoint: Checkpoint, summary: JudgedSummary, inputs: PlanInputs, log: Log, *, ahead: bool
) -> Checkpoint:
    """Return the checkpoint with what is known of its summary; a document's shape has the summary as a message."""
    policy = inputs.policy.summary
    is_code_fold = summary.is_failure and policy.fallback == "stop"
    failing = None if log.checkpoint is None else log.checkpoint.failing
    if summary.is_asked:  # a fold without a summary does not change how long the summariser rests
        wait_ms = round(summary.wait_seconds * 1_000)
        failing = after_failure(failing, checkpoint.created_ms or 0, wait_ms) if summary.is_failure else None
    return replace(
        checkpoint,
        summary=_summary_message(checkpoint, summary) if policy.shape != "marked" and summary.text else None,
        verdict=summary.verdict,
        summariser=summary.model if summary.is_usable else "",
        cost=summary.cost,
        duration_ms=summary.duration_ms,
        ahead=ahead,
        failing=failing,
        safety=(*(("code-fold",) if is_code_fold else ()), *(("flattened",) if summary.flattened else ())),
    )


def _summary_message(checkpoint: Checkpoint, summary: JudgedSummary) -> AssistantMessage:
    request = checkpoint.request
    return AssistantMessage(
        MessageId(f"summary-of-{'' if request is None else request.id}"),
        (TextPart(checkpoint.text),),
        created_ms=checkpoint.created_ms,
        parent_id=None if request is None else request.id,
        agent=COMPACTION_AGENT.name,
        mode=COMPACTION_AGENT.name,
        model=_author(summary, None if request is None else request.model),
        path=summary.path,
        summary=True,
        usage=summary.usage,
        cost=summary.cost,
        finish="stop",
    )


def _author(summary: JudgedSummary, asked: ModelRef | None) -> ModelRef | None:
    """Return the model that wrote a summary: the session's own, or the one configured for summaries."""
    known = None if asked is not None and asked.id == summary.model else lookup(summary.model)
    return ModelRef(known.entry.provider, summary.model) if isinstance(known, Known) else asked


# Answering the model.


def answer_request(log: Log, inputs: PlanInputs, focus: str = "") -> str:
    """Return the answer to a model that asks for a compaction: that it follows, or why it does not."""
    count, trigger = gauge(log, inputs).count_tokens, inputs.budget.trigger_tokens
    if not inputs.policy.auto or not inputs.budget.bounded:
        return "Not compacted: automatic compaction is off. Continue; nothing was lost."
    if is_too_soon(log, inputs):
        return "Not compacted: the last compaction is recent and too little is new. Continue; nothing was lost."
    if not is_worth_asked(log, inputs):
        least = int(LEAST_ASKED_SHARE * trigger)
        return (
            f"Not compacted: your view has {count:,} tokens, and compacting is worth it from {least:,} on. Continue; nothing "
            "was lost."
        )
    kept = f" It gives room to: {focus.strip()[:LONGEST_FOCUS]}." if focus.strip() else ""
    return (
        "Before your next step the earlier part of this session is replaced by a summary, with the user's instructions and "
        f"what you did.{kept} Continue with the next sub-task, and do not ask again for this one."
    )


# Previewing.


class Preview(Struct, frozen=True):
    """What a compaction would do: how many messages it folds, the tokens before and after, and the text by code alone.

    `kept_steps` counts the old steps that stay in their own form behind the text.

    If pruning is enough, nothing is folded and there is no text. If a fold would be no smaller than what it replaces,
    nothing at all is done, and the tokens stay the same.
    """

    folded_messages: int
    first_kept: int | None
    tokens_before: int
    tokens_after: int
    text: str
    kept_steps: int = 0


def preview(log: Log, inputs: PlanInputs, up_to: int | None) -> Preview:
    """Return what the first step of a manual compaction would do, by code alone; the log stays as it is.

    Raise `UsageError` if there is nothing to fold.
    """
    check_up_to(log, up_to)
    inputs = replace(inputs, summariser=False)
    step: NextStep | None = None
    if up_to is None:
        step = next_step(log, inputs)
    elif (cut := cut_before(log, up_to)) is not None:
        step = fold_at(log, cut, inputs, "manual")
    if not isinstance(step, Prune | Shorten | Fold):
        raise UsageError("there is nothing to fold; record some messages first, or name a later one")
    after, before_tokens = apply_step(log, step, inputs).log, estimated_tokens(log, inputs)
    checkpoint = after.checkpoint if after.checkpoint_sequence != log.checkpoint_sequence else None
    if checkpoint is None:
        return Preview(0, None, before_tokens, estimated_tokens(after, inputs), "")
    if checkpoint.tokens_after >= checkpoint.tokens_before:
        return Preview(0, None, before_tokens, before_tokens, "")
    folded, after_tokens = log.length - after.length, estimated_tokens(after, inputs)
    return Preview(folded, checkpoint.first_kept, before_tokens, after_tokens, checkpoint.text, len(checkpoint.steps))


def check_up_to(log: Log, up_to: int | None) -> None:
    """Raise `UsageError` for the number of a message that the session does not have."""
    if up_to is not None and up_to >= log.next_sequence > 0:
        raise UsageError(
            f"the session ends before message {up_to}; give the number of the first message to keep, as in its handle, at "
            f"most {log.next_sequence - 1}"
        )


def restoration_of(log: Log, number: int) -> Restoration:
    """Return what undoes the pruning or clipping of that number; raise `UsageError` if it hides nothing now."""
    if not any(altered.is_hidden_by(number) for altered in log.altered.values()):
        raise UsageError(
            f"entry {number} hides nothing now: it was undone or folded since, or never hid anything; choose a pruning, "
            "a clipping or the newest compaction"
        )
    return Restoration(number)
