"""Request a summary of a head and judge it: once more after a fault that may pass, then not at all.

Chooses the cheaper shape of request, divides a head that is too large for the summariser, and turns whatever goes wrong into a
reason to fold without a model. Also holds when a summary is written ahead of need and whether it may still be used.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import Prices, cost_of
from infold.core.checkpoint_text import TextRoom, render_checkpoint
from infold.core.compact import NO_NATIVE, NativeSummary, ledgers_at
from infold.core.cut import Cut, kept_size
from infold.core.entries import Fault, Handle, Verdict
from infold.core.events import Event, PreparationDiscarded, PreparedAhead, SummariserResumed, SummaryRejected
from infold.core.gauge import PlanInputs, Rates, bound_of, gauge, scaled_tokens
from infold.core.judge import Answer, ModelAnswer, clean_text, hard_fault, judge, plain_fault, without_marks
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Message,
    SessionId,
    Usage,
    UserMessage,
    WorkPath,
    calls_of,
    is_genuine_user,
    results_of,
    text_of,
)
from infold.core.plan import Summarise, next_step
from infold.core.policy import LARGEST_TOKENS, Policy
from infold.core.summary_request import (
    FAULTS,
    RESULT_LENGTHS,
    Additions,
    SummaryRequest,
    beginning_of,
    flatten_messages,
    instruction,
    later_text,
    messages_request,
    native_request,
    own_request,
    records,
    shared_request,
)
from infold.core.tokens import NO_SIZE, Size, measure, token_ruler, total_size
from infold.core.view import view
from infold.errors import FormatError, ModelBusy, ModelError, ModelOverflow, reason_of
from infold.formats.registry import WireFormat
from infold.formats.requests import read_native

MOST_TRIES = 2
"""A summary that failed is requested once more; a model that fails twice is unlikely to succeed on the third try."""

LARGEST_OUTPUT_SHARE = 0.25
"""How much of the summariser's own window its answer may take; the rest is for what it reads."""

LEAST_OUTPUT_SHARE = 0.5
"""How much of a summary's planned size a history shown as messages must leave free; otherwise it is flattened."""

CACHED_RATES = Rates(1.0, 0.1)
"""What the cache of a provider without known prices saves, if its reports show that it caches."""

LARGEST_KEPT_TOKENS, LARGEST_KEPT_SHARE, LEAST_KEPT_WINDOW = 2_000, 0.05, 24_000
"""How much of what code writes next to a summary the summariser is shown, in all and of its window; none in a small window."""

FILLED_SHARE = 0.95
"""How much of a summariser's window is filled at most, since it may count more than the session's own model."""

LATER_PART = 8
"""A summariser is shown no more characters of the kept tail than this part of its window in tokens."""

REQUEST_PART = 16
"""The request in progress is quoted with no more characters than this part of the summariser's window in tokens."""

LONGEST_FAULT = 300
"""Characters of the fault in a second request. Room for them is left at the first try too, so that a head that is asked for
in pieces is divided in the same way at the second."""

REFUSED_SHARE = 0.5
"""How much less is sent at once to a summariser that refused a request without naming its limit."""

LOW_COUNT_SHARE = 0.7
"""The same if its limit was known and our count too low; covers the margin of a count for every known family."""

EARLIEST_SHARE, LATEST_SHARE = 0.8, 0.95
"""The part of the trigger at which a background summary is begun at the earliest, and at which it is begun in any case."""

SUMMARY_MS = 5_000
"""How long the first summary of a session is expected to take; document 002 has 2 to 5 s."""

RECENT_CALLS = 8
"""The newest calls, which show how fast a session grows."""

ROOMY_SHARE = 0.9
"""A cut prepared earlier is used as it is if the view then is below this part of the trigger; otherwise the cut moves on."""

Ask = Callable[[SummaryRequest], ModelAnswer]
Publish = Callable[..., None]


class SummaryPlan(Struct, frozen=True):
    """What is to be summarised, and how.

    `summariser_tokens` is the summariser's window, 0 if it is the session's own model; `shares_prefix`: the summariser can be
    sent the ordinary request with one more message. `sends_all`: the caller brings its whole list each time.
    """

    step: Summarise
    inputs: PlanInputs
    system: str = ""
    additions: Additions = Additions()
    summariser_tokens: int = 0
    shares_prefix: bool = False
    sends_all: bool = False


class JudgedSummary(Struct, frozen=True):
    """A summary that passed the judge, or an empty one with the verdict that says why not; and what it took.

    `is_asked`: a model was asked for it, now or ahead of need. `wait_seconds`: how long a provider that refused asks to wait.
    `flattened`: the model was shown a flattened text, although the policy wants messages. `native`: the provider compacted the
    head itself; its text is empty if only the provider can read it.
    """

    text: str = ""
    verdict: Verdict | None = None
    model: str = ""
    usage: Usage | None = None
    path: WorkPath | None = None
    cost: float = 0.0
    duration_ms: int = 0
    events: tuple[Event, ...] = ()
    is_asked: bool = False
    wait_seconds: float = 0.0
    flattened: bool = False
    native: NativeSummary = NO_NATIVE

    @property
    def is_usable(self) -> bool:
        """Whether it can replace the head."""
        return bool(self.text or self.native.messages)

    @property
    def is_failure(self) -> bool:
        """Whether a model was asked and gave nothing usable."""
        return self.is_asked and not self.is_usable


NO_SUMMARY = JudgedSummary()


def request_summary(log: Log, plan: SummaryPlan, ask: Ask, publish: Publish) -> JudgedSummary:
    """Return a judged summary of the head, or an empty one with the faults for which there is none."""
    if not plan.step.cut.index and log.checkpoint is not None and log.checkpoint.narrative:
        return JudgedSummary(
            log.checkpoint.narrative, log.checkpoint.verdict, log.checkpoint.summariser, path=_newest_path(log)
        )
    failing = None if log.checkpoint is None else log.checkpoint.failing
    if failing is not None:
        publish(SummariserResumed(log.session_id, failing.times))
    bill = _Bill(ask)
    faults: tuple[Fault, ...] = ()
    verdict, wait_seconds = Verdict(""), 0.0
    for _ in range(MOST_TRIES):
        try:
            told = _ask(log, plan, bill)
        except ModelError as error:
            faults = (*faults, "failed")
            verdict = Verdict("", error=reason_of(error))
            if error.is_lasting and not plan.step.native:
                break
            if plan.step.native:
                plan = replace(plan, step=replace(plan.step, native=False))
            elif isinstance(error, ModelOverflow):
                plan, bill.piece = _for_smaller_window(plan, error), 0
            wait_seconds = error.wait_seconds if isinstance(error, ModelBusy) else 0.0
            continue
        if told.native and not told.answer.text:  # only the provider can read it
            return bill.on(_native(told, log, JudgedSummary(model=told.model, path=_newest_path(log))))
        verdict = replace(_judge(log, plan, told.answer), error=verdict.error)
        if verdict.is_accepted:
            accepted = replace(verdict, faults=(*faults, *verdict.faults))
            summary = JudgedSummary(verdict.text, accepted, told.model, path=_newest_path(log))
            return bill.on(_native(told, log, summary) if told.native else summary)
        faults = (*faults, *verdict.faults)
        plan = replace(
            plan,
            step=replace(plan.step, native=False),
            additions=replace(plan.additions, fault=_fault_text(verdict)),
            shares_prefix=plan.shares_prefix and "tool-calls" not in verdict.faults,  # it was offered the tools there
        )
    verdict = replace(verdict, text="", faults=faults)
    rejected = SummaryRejected(log.session_id, faults, verdict.error)
    return bill.on(JudgedSummary(verdict=verdict, events=(rejected,), wait_seconds=wait_seconds))


def _fault_text(verdict: Verdict) -> str:
    """Return what the second request says about a rejected answer."""
    named = ", ".join(dict.fromkeys(verdict.invented))
    said = (*(FAULTS[fault] for fault in verdict.faults if fault in FAULTS), *((named,) if named else ()))
    return "; ".join(said)[:LONGEST_FAULT]


def _native(told: ModelAnswer, log: Log, summary: JudgedSummary) -> JudgedSummary:
    """Return the summary with the messages that the provider wrote for it, sized by what it reported or by their text."""
    ruler = token_ruler(log.rendering.estimate)
    texts = [text_of(message) for message in told.native if isinstance(message, UserMessage)]
    written = measure(told.answer.text, ruler) or (0 if told.usage is None else told.usage.output)
    return replace(summary, native=NativeSummary(told.native, written + sum(measure(text, ruler) for text in texts)))


def judge_supplied(log: Log, plan: SummaryPlan, summary: str) -> JudgedSummary:
    """Judge a summary that a plugin supplied, like any other."""
    verdict = _judge(log, plan, Answer(clean_text(summary)))
    if verdict.is_accepted:
        return JudgedSummary(verdict.text, verdict, "plugin", path=_newest_path(log))
    return JudgedSummary(verdict=verdict, events=(SummaryRejected(log.session_id, verdict.faults),))


class _Bill:
    """Asks, and adds up what all answers took, rejected ones included.

    `piece` is the record that was asked for last, `earlier` the summary of those before it: a second try begins there.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._cost = 0.0
        self._duration_ms = 0
        self._usage: Usage | None = None
        self.flattened = False
        self.piece, self.earlier = 0, ""

    def ask(self, request: SummaryRequest) -> ModelAnswer:
        """Ask, and count what the answer took."""
        told = self._ask(request)
        self._cost += told.cost
        self._duration_ms += told.duration_ms
        self._usage = told.usage if self._usage is None else self._usage.plus(told.usage)
        return told

    def on(self, summary: JudgedSummary) -> JudgedSummary:
        """Return the summary with what it took."""
        return replace(
            summary,
            cost=self._cost,
            duration_ms=self._duration_ms,
            usage=self._usage,
            is_asked=True,
            flattened=self.flattened,
        )


def _ask(log: Log, plan: SummaryPlan, bill: _Bill) -> ModelAnswer:
    """Ask once: with the ordinary request if that is cheaper and fits, else record by record (summary of summaries)."""
    policy, budget, additions = plan.inputs.policy.summary, plan.step.budget_tokens, plan.additions
    if policy.judged:  # documents have their own prompt
        asked = (text_of(placed.message) for placed in reversed(log.live) if is_genuine_user(placed.message))
        newest = next(asked, "").strip()[: _summariser_window(plan) // REQUEST_PART]
        additions = replace(additions, request=newest, beside=policy.ledger, output_tokens=budget)
    if plan.step.native:
        first_kept = log.live[plan.step.cut.index].message.id
        shown = view(log, policy, brought=plan.sends_all)
        head = takewhile(lambda message: message.id != first_kept, shown)
        return bill.ask(native_request(plan.system, tuple(head), additions, output_tokens=budget))
    if policy.shows == "messages":
        request = messages_request(view(log, policy), additions, output_tokens=budget)
        room = _room_for_answer(request, log, plan)
        if room >= LEAST_OUTPUT_SHARE * budget:
            return bill.ask(replace(request, output_tokens=min(room, budget)))
        bill.flattened = True
    elif room := _shared_room(log, plan, additions):
        kept = log.live[plan.step.cut.index :]
        additions = replace(additions, output_tokens=room, kept_from=beginning_of(kept[0].message) if kept else "")
        return bill.ask(shared_request(plan.system, _cached_view(log, plan), additions, output_tokens=room))
    window = _summariser_window(plan)
    output_tokens = min(budget, int(window * LARGEST_OUTPUT_SHARE))
    additions = replace(
        additions,
        earlier="" if log.checkpoint is None else log.checkpoint.narrative or log.checkpoint.text_alone,
        later=later_text(_tail(log, plan), window // LATER_PART) if policy.shows == "head-and-tail" else "",
        kept=_kept_text(log, plan) if policy.ledger and window >= LEAST_KEPT_WINDOW else "",
        output_tokens=output_tokens if policy.judged else 0,
    )
    pieces = records(
        _head(log, plan),
        replace(additions, fault="x" * LONGEST_FAULT),
        window_tokens=int(window * FILLED_SHARE / bound_of(log, plan.inputs)),
        output_tokens=output_tokens,
        # another model counts otherwise
        ruler="features" if plan.summariser_tokens else token_ruler(log.rendering.estimate),
    )
    fault = plain_fault if policy.judged else hard_fault
    told, earlier = ModelAnswer(Answer("")), bill.earlier if bill.piece else additions.earlier
    for number, piece in enumerate(pieces):
        if number < bill.piece:
            continue
        bill.piece, bill.earlier = number, earlier
        told = bill.ask(own_request(piece, replace(additions, earlier=earlier), output_tokens=output_tokens))
        if fault(told.answer) is not None:  # it is rejected; what follows could only build on it
            break
        earlier = told.answer.text
    return told


def _room_for_answer(request: SummaryRequest, log: Log, plan: SummaryPlan) -> int:
    """Return what a request with the history as messages is sure to leave of the summariser's window for its answer."""
    ruler = token_ruler(log.rendering.estimate)
    overhead = plan.inputs.overhead_tokens if plan.shares_prefix else 0  # it is then sent with the ordinary tools
    asked = Size(prose=overhead + measure(request.system, ruler) + measure(text_of(request.messages[-1]), ruler))
    window = _summariser_window(plan) or LARGEST_TOKENS
    return window - scaled_tokens(log.size.plus(log.checkpoint_size).plus(asked), log, plan.inputs)


def _for_smaller_window(plan: SummaryPlan, refused: ModelOverflow) -> SummaryPlan:
    """Return the plan for a smaller window: the limit the summariser named, or a part of the window that was tried.

    A named limit that is not smaller than that window means that our count was too low.
    """
    window, named = _summariser_window(plan), refused.limit_tokens
    share = LOW_COUNT_SHARE if named else REFUSED_SHARE
    return replace(plan, summariser_tokens=named if named and named < window else int(window * share))


def _summariser_window(plan: SummaryPlan) -> int:
    """Return the window of the model that summarises, without a reserve, since the summary is the reply."""
    return plan.summariser_tokens or plan.inputs.window_tokens or plan.inputs.budget.limit_tokens


def _shared_room(log: Log, plan: SummaryPlan, additions: Additions) -> int:
    """Return how long the answer to the ordinary request plus the instruction may be; 0 if that request does not pay.

    The answer takes the room that the window reserves for replies. The request is read from the cache unless that has expired;
    it pays if it costs less than the head alone, uncached.
    """
    inputs, reported = plan.inputs, log.reported
    if not plan.shares_prefix or plan.summariser_tokens or reported is None:
        return 0
    if log.altered_at > reported.sequence and not _is_prefix_intact(log, reported.sequence):
        return 0
    rates = inputs.rates
    if rates is None or rates.is_assumed:  # whether there is a cache at all is not known until a reply shows it
        rates = CACHED_RATES if reported.usage.cache_read else None
    ruler, window = token_ruler(log.rendering.estimate), _summariser_window(plan)
    asked = int(measure(instruction(additions), ruler) * bound_of(log, inputs))
    newer = log.live[log.index_of(reported.sequence) or 0 :] if _shows_sent(log, plan) else ()
    sent = gauge(log, inputs).upper_tokens - log.calibration.apply(total_size(map(log.size_of, newer)))
    room = window - sent - asked
    if rates is None or room < LEAST_OUTPUT_SHARE * plan.step.budget_tokens:
        return 0
    record = sum(measure(block, ruler) for block in flatten_messages(_head(log, plan), RESULT_LENGTHS[0]))
    cost = sent * (rates.fresh if inputs.is_cold else rates.cached) + asked * rates.fresh
    return min(room, plan.step.budget_tokens) if cost < min(record, window) * rates.fresh else 0


def _is_prefix_intact(log: Log, reported: int) -> bool:
    """Return whether the entries since a report did nothing but add messages and hide parts of these, as when results are clipped
    on arrival: what was sent is shown as it was, and still cached."""
    for number in range(reported + 1, log.next_sequence):
        hidden = [sequence for sequence, shown in log.altered.items() if shown.is_hidden_by(number)]
        if log.at(number) is None and (not hidden or min(hidden) < reported):
            return False
    return True


def _cached_view(log: Log, plan: SummaryPlan) -> tuple[Message, ...]:
    """Return the view as it was last sent: what is newer is not cached, and stays visible; all of it if that is folded too."""
    shown = view(log, plan.inputs.policy.summary, brought=plan.sends_all)
    if log.reported is None or not _shows_sent(log, plan):
        return shown
    reply = log.live[log.index_of(log.reported.sequence) or 0].message.id
    return tuple(takewhile(lambda message: message.id != reply, shown))


def _shows_sent(log: Log, plan: SummaryPlan) -> bool:
    """Return whether everything to fold was in the newest request that has a report."""
    answered = None if log.reported is None else log.index_of(log.reported.sequence)
    return answered is not None and plan.step.cut.index <= answered


def _kept_text(log: Log, plan: SummaryPlan) -> str:
    """Return what code will write next to the summary, in short, so that the summary need not repeat it."""
    _, ledger = ledgers_at(log, plan.step.cut)
    room = min(LARGEST_KEPT_TOKENS, int(_summariser_window(plan) * LARGEST_KEPT_SHARE))
    allowed = TextRoom(budget_tokens=room, must_keep_tokens=room // 2)
    return render_checkpoint(replace(ledger, narratives=()), allowed, rule=log.rendering.estimate, recall=False).text


def _tail(log: Log, plan: SummaryPlan) -> tuple[Message, ...]:
    return tuple(placed.message for placed in log.live[plan.step.cut.index :])


def _head(log: Log, plan: SummaryPlan) -> tuple[Message, ...]:
    return tuple(placed.message for placed in log.live[: plan.step.cut.index])


def _newest_path(log: Log) -> WorkPath | None:
    """Return the agent's working directory as last recorded."""
    replies = (placed.message for placed in reversed(log.live) if isinstance(placed.message, AssistantMessage))
    return next((reply.path for reply in replies if reply.path is not None), None)


def _judge(log: Log, plan: SummaryPlan, answer: Answer) -> Verdict:
    ruler = token_ruler(log.rendering.estimate)
    answer_tokens = measure(answer.text, ruler) if hard_fault(answer) is None else 0
    if not plan.inputs.policy.summary.judged:
        fault = hard_fault(answer) or _room_fault(log, plan, answer_tokens)
        return Verdict(answer.text, judged=False) if fault is None else Verdict("", (fault,), judged=False)
    replaced = log.checkpoint_size.measure + sum(log.size_of(one).measure for one in log.live[: plan.step.cut.index])
    known, additions = "", plan.additions
    if log.checkpoint is not None:
        known = "\n".join((without_marks(log.checkpoint.text), *_kept_words(log)))
        doubtful = () if log.checkpoint.verdict is None else log.checkpoint.verdict.marked
        for sentence in doubtful:  # repeating it does not make it true
            known = known.replace(sentence, "")
    return judge(
        answer,
        _head(log, plan),
        tail=_tail(log, plan),
        known="\n".join((known, plan.system, additions.focus, additions.replacement, *additions.contexts)),
        replaced_tokens=replaced,
        answer_tokens=answer_tokens,
    )


def _kept_words(log: Log) -> Iterator[str]:
    """Yield what the steps that the last fold kept say, call and answer."""
    for message in log.kept:
        yield text_of(message)
        yield from (call.arguments for call in calls_of(message))
        yield from (result.output for result in results_of(message))


def _room_fault(log: Log, plan: SummaryPlan, answer_tokens: int) -> Fault | None:
    """Return a fault if not even the summary alone would fit the window, whatever a document accepts."""
    inputs = plan.inputs
    alone = scaled_tokens(Size(prose=inputs.overhead_tokens + answer_tokens), log, inputs)
    return "too-large" if inputs.budget.excess_tokens(alone) else None


# Summaries written ahead of need.


class SummaryBasis(Struct, frozen=True):
    """What a summary was made from: the checkpoint before it, the pins, the policy, and the sequence of its last message."""

    checkpoint_sequence: int
    pins: frozenset[Handle]
    policy: Policy
    last: int


class PreparedSummary(Struct, frozen=True):
    """A summary, or the failure to write one, that waits to be used.

    `is_leftover`: it was written when needed, and another writer appended first.
    """

    basis: SummaryBasis
    summary: JudgedSummary
    is_leftover: bool = False


def basis_of(log: Log, plan: SummaryPlan) -> SummaryBasis:
    """Return what a summary of this plan's head is made from."""
    index = plan.step.cut.index
    last = log.live[index - 1].sequence if index else log.checkpoint_sequence
    return SummaryBasis(log.checkpoint_sequence, log.pins, plan.inputs.policy, last)


def prepare_ahead(log: Log, plan: SummaryPlan, summary: JudgedSummary) -> PreparedSummary:
    """Return a summary to keep until it is needed: a failure too, so that the summariser is not asked for this head again.

    The cost of a failure was published by then.
    """
    if not summary.is_usable:
        summary = replace(summary, cost=0.0, duration_ms=0, usage=None, events=())
    return PreparedSummary(basis_of(log, plan), summary)


def events_for(summary: JudgedSummary, session_id: SessionId) -> tuple[Event, ...]:
    """Return the events of a background summary; a rejected one still counts its cost."""
    if summary.is_usable:
        return (PreparedAhead(session_id, summary.cost, summary.duration_ms),)
    return (*summary.events, PreparationDiscarded(session_id, "there was no summary to accept", summary.cost))


def step_ahead(log: Log, inputs: PlanInputs) -> Summarise | None:
    """Return the summary that will soon be needed, if the view is near enough to its trigger to begin it now."""
    budget = inputs.budget
    earliest, latest = (int(budget.trigger_tokens * share) for share in (EARLIEST_SHARE, LATEST_SHARE))
    begin = min(max(budget.trigger_tokens - _growth_meanwhile(log), earliest), latest)
    begin = max(begin, min(inputs.edited_from_tokens or 0, budget.trigger_tokens))
    step = next_step(log, replace(inputs, budget=replace(budget, trigger_tokens=begin)))
    return step if isinstance(step, Summarise) and step.cut.index else None


def _growth_meanwhile(log: Log) -> int:
    """Return how many tokens the view is expected to grow while a summary is written, at the pace of the newest calls.

    One call more than fits in that time, since the summary is fetched with the call after. Replies that arrived with a history
    show no pace.
    """
    times: list[int] = []
    size = NO_SIZE
    for placed in reversed(log.live):
        size = size.plus(log.size_of(placed))
        message = placed.message
        if isinstance(message, AssistantMessage) and message.finish is not None:
            times.append(message.created_ms or 0)
        if len(times) > RECENT_CALLS:
            break
    if len(times) < 2:
        return 0
    took = (0 if log.checkpoint is None else log.checkpoint.duration_ms) or SUMMARY_MS
    pause = max(0, times[0] - times[-1]) // (len(times) - 1) or took
    return log.calibration.apply(size) * (took // pause + 2) // len(times)


def is_valid(prepared: PreparedSummary, log: Log, policy: Policy) -> bool:
    """Return whether nothing changed that the summary depends on: the folded head, the pins and the policy."""
    basis = prepared.basis
    same = basis.checkpoint_sequence == log.checkpoint_sequence and basis.pins == log.pins and basis.policy == policy
    return same and log.index_of(basis.last) is not None


def cut_with(prepared: PreparedSummary, step: Summarise, log: Log, inputs: PlanInputs) -> Cut:
    """Return where to cut with this summary: where it ends if that leaves room enough, else where the step cuts.

    The ledger alone covers what lies between the two.
    """
    last = log.index_of(prepared.basis.last)
    index = 0 if last is None else last + 1
    if prepared.summary.native.messages:  # it stands for exactly the messages that were sent
        return Cut.at(log, index)
    if not 0 < index < step.cut.index or not log.live[index].cuttable:
        return step.cut
    tail = kept_size(log, Cut(index, None))
    ruler = token_ruler(log.rendering.estimate)
    fixed = Size(prose=inputs.overhead_tokens + step.budget_tokens + measure(prepared.summary.text, ruler))
    after = scaled_tokens(tail.plus(fixed), log, inputs)
    return Cut.at(log, index) if after <= ROOMY_SHARE * inputs.budget.trigger_tokens else step.cut


def read_native_answer(answer: ModelAnswer, wire: WireFormat, model: str, prices: Prices | None) -> ModelAnswer:
    """Return the provider's own compaction that a summariser brought; raise `ModelError` if it brought none."""
    model = model or answer.model
    try:
        native = read_native(wire, answer.reply)
    except FormatError as broken:
        raise ModelError(model, f"answered with something other than a reply ({broken})") from broken
    if native is None:
        raise ModelError(model, "returned no compaction of its own")
    cost = cost_of(model, native.usage, prices)
    return replace(native, model=model, cost=cost, duration_ms=answer.duration_ms)
