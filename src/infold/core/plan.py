"""Decide what to do next so that the next request fits: `Fits | Prune | Summarise | Fold | Shorten | Stuck`.

A pure decision over the log and its inputs, cheap enough to be made before every request. Every preset takes the same
path; its policy decides which steps of the ladder it has. `compact.py` and the session carry the steps out. Repeating
*decide, carry out* ends: each prune, fold and clip leaves less that can be pruned, folded or clipped.
"""

from itertools import takewhile
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from infold.core.budget import is_overflow
from infold.core.clip import choose_clips, choose_media
from infold.core.cut import Cut, Room, choose_cut, has_ended_task, head_size, kept_size, native_cut
from infold.core.entries import Checkpoint, Clip, Reason, split_handle
from infold.core.gauge import (
    LEAST_CALLS,
    MOST_CALLS_AHEAD,
    CutForecast,
    Gauge,
    PlanInputs,
    Rates,
    cost_per_call,
    estimated_tokens,
    expected_saving,
    gauge,
    saving_ahead,
    scaled_tokens,
    scaler,
)
from infold.core.log import Log, size_of_state
from infold.core.messages import AssistantMessage, ToolCallPart, is_compact
from infold.core.policy import Policy, TailPolicy
from infold.core.prune import PrunePlan, plan_prune
from infold.core.tokens import Size, total_size

LEAST_GAIN_SHARE = 0.05
"""A fold that frees less of the usable window than this does not justify breaking the cache, unless the request would
not fit."""


LEAST_NEWS_SHARE = 0.1
"""Share of the usable window that must be new after a compaction that missed its target, before the next one and before
a model is asked again: twice the least gain."""


def is_too_soon(log: Log, inputs: PlanInputs) -> bool:
    """Return whether the newest compaction missed its target and too little is new for another to do better.

    With tools that fill most of a window, every compaction ends near its trigger, and another would follow at once.
    """
    checkpoint = log.checkpoint
    if checkpoint is None or not _missed_target(checkpoint, inputs):
        return False
    return _is_little(estimated_tokens(log, inputs) - checkpoint.tokens_after, inputs)


def is_worth_folding(head_tokens: int, summary_tokens: int, inputs: PlanInputs, reason: Reason) -> bool:
    """Return whether to fold a head of that size into a summary of that size although the request fits as it is."""
    if reason == "manual" or _is_by_document(inputs.policy):
        return True
    return head_tokens - summary_tokens >= LEAST_GAIN_SHARE * inputs.budget.usable_tokens


def is_worth_asking(log: Log, news_tokens: int, inputs: PlanInputs, reason: Reason) -> bool:
    """Return whether to ask a model for a summary of that much text that has no summary yet.

    After a compaction that missed its target, code folds small amounts; otherwise a model would be asked at almost
    every step.
    """
    checkpoint = log.checkpoint
    if reason == "manual" or checkpoint is None or not _missed_target(checkpoint, inputs):
        return True
    return not _is_little(news_tokens, inputs)


def _missed_target(checkpoint: Checkpoint, inputs: PlanInputs) -> bool:
    return not _is_by_document(inputs.policy) and checkpoint.tokens_after > inputs.budget.target_tokens


def _is_little(tokens: int, inputs: PlanInputs) -> bool:
    return tokens < LEAST_NEWS_SHARE * inputs.budget.usable_tokens


def _is_by_document(policy: Policy) -> bool:
    """Return whether the preset decides when to fold by its document's rule."""
    return policy.target is None or policy.tail.rule == "turns"


LARGEST_LEAST_TAIL = 0.25
"""The policy's minimum tail applies if it is at most this share of the usable window: 4,000 tokens from windows of 19k
on."""


SUMMARY_GROWTH_TOKENS = 1_500
"""Forecast of the maximum growth of a checkpoint from one fold to the next; the tail takes what is left of its budget."""


STUB_TOKENS, EXCERPT_TOKENS = 24, 60
"""Approximate size of a stub; used only to foresee whether pruning alone is enough."""


class Fits(Struct, frozen=True):
    """Nothing to do; the gauge shows how full the window is."""

    gauge: Gauge


class Prune(Struct, frozen=True):
    """Hide these parts; `saving` as for a fold."""

    plan: PrunePlan
    reason: Reason
    saving: float = 0.0


class Summarise(Struct, frozen=True):
    """Ask a model for the text that replaces the head, in at most `budget_tokens`.

    `saving` is the expected saving of a fold made for its price, in the currency of the rates, over a million tokens.
    `native`: the provider writes it by its own means.
    """

    cut: Cut
    budget_tokens: int
    reason: Reason
    saving: float = 0.0
    native: bool = False


class Fold(Struct, frozen=True):
    """Fold the head by code alone, in at most `budget_tokens`; `saving` as in `Summarise`."""

    cut: Cut
    budget_tokens: int
    reason: Reason
    saving: float = 0.0


class Shorten(Struct, frozen=True):
    """Clip parts that are too large for the window, or media that are too large for the provider."""

    clips: tuple[Clip, ...]
    reason: Reason


class Stuck(Struct, frozen=True):
    """Nothing more can be hidden and the request is still over the limit; or system prompt and tools alone are."""

    floor_tokens: int
    usable_tokens: int
    overhead_tokens: int


NextStep: TypeAlias = Fits | Prune | Summarise | Fold | Shorten | Stuck


def next_step(log: Log, inputs: PlanInputs) -> NextStep:
    """Return the one thing to do now. Compaction is *repeat until it is `Fits` or `Stuck`*."""
    policy, budget = inputs.policy, inputs.budget
    if policy.prune.timing == "every-request":
        plan = plan_prune(log, policy.prune, usable_tokens=budget.usable_tokens)
        if plan.targets:
            return Prune(plan, "trigger")
    heavy = _too_heavy(log, inputs)
    if heavy is not None:
        return heavy
    measured = gauge(log, inputs)
    reason = _reason_to_act(log, inputs, measured)
    if reason is None:
        return Fits(measured)
    is_over = budget.excess_tokens(measured.upper_tokens) > 0
    has_room = budget.excess_tokens(inputs.overhead_tokens) == 0
    step = _first_rung(log, inputs, measured, reason) if has_room or not is_over else None  # otherwise no fold helps
    if step is not None:
        return step
    if not is_over:
        return Fits(measured)
    floor = measured.upper_tokens if has_room else inputs.overhead_tokens
    return Stuck(floor, budget.limit_tokens, inputs.overhead_tokens)


def _too_heavy(log: Log, inputs: PlanInputs) -> Shorten | None:
    """Leave out the oldest medium if the request has more bytes than the provider accepts."""
    policy, most = inputs.policy, inputs.budget.limit_bytes
    if most is None or not policy.auto or not log.message_index.media:
        return None
    shown = log.media_bytes
    if shown <= most:
        return None
    clips = choose_media(log, excess_bytes=shown - most)
    return Shorten(clips, "trigger" if policy.clip else "safety") if clips else None


def fold_at(log: Log, cut: Cut, inputs: PlanInputs, reason: Reason) -> Summarise | Fold:
    """Fold the head before this cut; the summary gets at most half the room of what it replaces.

    A checkpoint that is only rewritten keeps its narrative, so that no model is asked.
    """
    summary, head = inputs.policy.summary, head_size(log, cut).measure
    most = max(summary.minimum_tokens, head // 2)
    asks = not cut.index or is_worth_asking(log, head - log.checkpoint_size.measure, inputs, reason)
    gain = _saving(log, inputs) if reason == "price" else 0.0
    room = min(summary.budget_tokens(inputs.budget.usable_tokens), most)
    if not (inputs.summariser and asks):
        return Fold(cut, room, reason, gain)
    is_ordinary = 0 < cut.index < log.length
    native = native_cut(log, cut) if is_ordinary and prefers_native(log, inputs, cut) else None
    return Summarise(cut if native is None else native, room, reason, gain, native is not None)


def prefers_native(log: Log, inputs: PlanInputs, cut: Cut) -> bool:
    """Return whether the provider itself should summarise the head before this cut.

    By `auto` it should where thinking in the tail stays valid only behind its own summary, where the head has reasoning
    that only it can read, and where its summary can be read and costs less, because it reads the head from its cache.
    """
    if inputs.native != "auto" or log.limits.refuses_native:
        return inputs.native == "always" and not log.limits.refuses_native
    if log.binds_thinking and any(
        logged.has_thinking and not log.is_outdated(logged) for logged in log.live[cut.index :]
    ):
        return True
    if inputs.native_is_sealed:
        return any(logged.has_thinking for logged in log.live[: cut.index])
    if inputs.rates is None or inputs.rates.is_assumed or inputs.is_cold or log.reported is None:
        return False
    return estimated_tokens(log, inputs) * inputs.rates.cached < head_size(log, cut).measure * inputs.rates.fresh


def _reason_to_act(log: Log, inputs: PlanInputs, measured: Gauge) -> Reason | None:
    """Return why to compact now, or `None`; an automatic reason needs `auto`."""
    policy, budget = inputs.policy, inputs.budget
    if inputs.manual:
        return "manual"
    if not policy.auto or not budget.bounded:
        return None
    own = _own_reason(log, inputs, measured)
    if own is not None or budget.excess_tokens(measured.upper_tokens) == 0:
        return own
    # `infold` has no other limit than this one; a document preset's own trigger did not act.
    return "trigger" if policy.usable == "scaled-reserve" else "safety"


def _own_reason(log: Log, inputs: PlanInputs, measured: Gauge) -> Reason | None:
    """Return the reason by the policy's own rules, as long as it has an attempt left for this prompt."""
    policy = inputs.policy
    if log.is_rejected:
        return "overflow"
    if policy.attempts is not None and log.attempts >= policy.attempts:
        return None
    if policy.force_on_length and log.cut_off and not _was_forced(log, policy):
        return "forced"
    if is_too_soon(log, inputs):
        return None
    # A report from before a checkpoint must not trigger another.
    has_count = log.reported is not None if policy.compares_usage and inputs.reports_usage else log.has_news
    if has_count and is_overflow(measured.count_tokens, inputs.budget, policy):
        return "trigger"
    return _early_reason(log, inputs, measured) if log.has_news else None


def _early_reason(log: Log, inputs: PlanInputs, measured: Gauge) -> Reason | None:
    """Return why to act before the trigger: the model asked for it, a task has just ended near the trigger, or it is cheaper."""
    policy, budget = inputs.policy, inputs.budget
    near = policy.task_band and measured.count_tokens >= (1 - policy.task_band) * budget.trigger_tokens
    if asked_call(log, inputs) is not None and is_worth_asked(log, inputs):
        return "asked"
    if near and not budget.excess_tokens(measured.upper_tokens) and has_ended_task(log):
        return "task"
    return "price" if _folds_for_price(inputs) and _saving(log, inputs) > 0 else None


def _folds_for_price(inputs: PlanInputs) -> bool:
    """Return whether price is a reason to fold: by `auto` only at prices that are known."""
    if inputs.policy.priced != "auto":
        return inputs.policy.priced == "always"
    return inputs.rates is not None and not inputs.rates.is_assumed


USUAL_RATES = Rates(fresh=1.25, cached=0.1)
"""Ratios by which pruning and folding are compared where nothing is known of the prices."""

WORTH_OF_PRUNING = 1.1
"""How much dearer requests after a pruning may be than after a fold: nothing that was said or called leaves the view."""

LEAST_ASKED_SHARE = 0.5
"""Share of the trigger that must be reached before a compaction that the model asks for is carried out."""


def asked_call(log: Log, inputs: PlanInputs) -> ToolCallPart | None:
    """Return the call by which the model asked for a compaction in its newest step; `None` if it did not, or it was made."""
    for logged in reversed(log.live):
        if logged.is_persons or logged.sequence < log.checkpoint_sequence:
            return None
        if isinstance(logged.message, AssistantMessage):
            plain = inputs.compact_tool
            return next((call for call in logged.calls if is_compact(call.tool, plain=plain)), None)
    return None


def is_worth_asked(log: Log, inputs: PlanInputs) -> bool:
    """Return whether enough of the window is filled for a compaction that the model asks for."""
    return gauge(log, inputs).count_tokens >= LEAST_ASKED_SHARE * inputs.budget.trigger_tokens


def _was_forced(log: Log, policy: Policy) -> bool:
    """Return whether a policy without a limit of attempts has just forced a compaction for this prompt."""
    forced = log.checkpoint is not None and log.checkpoint.reason == "forced"
    return forced and policy.attempts is None and log.attempts > 0


def _saving(log: Log, inputs: PlanInputs) -> float:
    """Return the expected saving of a fold as deep as the policy makes it, at the rates; 0.0 if it does not pay."""
    if inputs.rates is None or log.calls < LEAST_CALLS:
        return 0.0
    return expected_saving(_forecast_of_fold(log, inputs), inputs.rates)


def _forecast_of_fold(log: Log, inputs: PlanInputs) -> CutForecast:
    policy, usable = inputs.policy, inputs.budget.usable_tokens
    summary_tokens = policy.summary.budget_tokens(usable)
    view_tokens = estimated_tokens(log, inputs)
    return CutForecast(
        view_tokens=view_tokens,
        after_tokens=inputs.overhead_tokens + summary_tokens + policy.tail.budget_tokens(usable),
        overhead_tokens=inputs.overhead_tokens,
        sent_tokens=log.sent_since + log.calls_since * inputs.overhead_tokens,
        calls=log.calls_since,
        calls_before=log.calls,
        summary_tokens=summary_tokens if inputs.summariser else 0,
        is_cold=inputs.is_cold,
        room_tokens=inputs.budget.trigger_tokens - view_tokens,
    )


def _first_rung(log: Log, inputs: PlanInputs, measured: Gauge, reason: Reason) -> NextStep | None:
    """Return the gentlest step of the ladder that helps."""
    excess = inputs.budget.excess_tokens(measured.upper_tokens)
    if reason == "overflow":  # a refused request must become smaller whatever our own count is
        excess = max(excess, int(LEAST_GAIN_SHARE * inputs.budget.usable_tokens))
    insists = reason == "forced" and inputs.policy.attempts is None and ends_with_reply(log)
    folding = reason == "asked" or insists or _keeps_thinking(log, inputs)
    pruning = None if folding else _prune_enough(log, inputs, measured, reason)
    if reason == "task" and pruning is not None:  # stubs will do at the trigger; until then the cache holds
        return None
    gentle = pruning or _fold(log, inputs, reason, urgent=excess > 0, insists=insists)
    return gentle or (_last_resort(log, inputs, excess, reason) if excess else None)


def _keeps_thinking(log: Log, inputs: PlanInputs) -> bool:
    """Return whether the provider's own summary keeps thinking that pruning would outdate."""
    if inputs.native == "never" or not (inputs.summariser and log.shown_thinking):
        return False
    return not log.limits.refuses_native and native_cut(log, Cut.at(log, log.length)) is not None


def ends_with_reply(log: Log) -> bool:
    """Return whether a reply is the last message: if it was cut off, the work ends with it unless something is folded."""
    newest = next((logged.message for logged in reversed(log.live) if not logged.is_business), None)
    return isinstance(newest, AssistantMessage)


def _last_resort(log: Log, inputs: PlanInputs, excess: int, reason: Reason) -> NextStep | None:
    """Return the step that helps if the tail itself is too large, or the window became smaller than the checkpoint."""
    clips = inputs.policy.clip
    return (
        _prune_anything(log, inputs, reason)
        or (_shorten(log, inputs, excess, reason) if clips else None)
        or _rewrite(log, inputs, reason)
        or (_fold_everything(log, inputs, reason) if clips else None)
    )


def _prune_enough(log: Log, inputs: PlanInputs, measured: Gauge, reason: Reason) -> Prune | None:
    """Prune if that alone frees enough to last, and costs about as little as a fold."""
    policy, budget = inputs.policy, inputs.budget
    if policy.prune.timing != "at-trigger":
        return None
    plan = plan_prune(log, policy.prune, usable_tokens=budget.usable_tokens, least_kept_tokens=_least_tail(inputs))
    net = plan.freed_tokens - STUB_TOKENS * len(plan.targets)
    spare = policy.prune.enough.of(budget.usable_tokens) - (measured.upper_tokens - net)
    if net <= 0 or spare < 0:
        return None
    plan = replace(plan, kept_tokens=min(plan.kept_tokens, spare))
    pruned = _forecast_of_pruning(log, inputs, plan)
    if not _is_cheaper_than_fold(pruned, log, inputs, reason):
        return None
    saving = saving_ahead(pruned, inputs.rates) if reason == "price" and inputs.rates is not None else 0.0
    return Prune(plan, reason, saving)


def _least_tail(inputs: PlanInputs) -> int:
    """Return how many of the newest tokens stay as they are, whatever makes room."""
    return min(inputs.policy.tail.minimum_tokens, int(inputs.budget.usable_tokens * LARGEST_LEAST_TAIL))


def _forecast_of_pruning(log: Log, inputs: PlanInputs, plan: PrunePlan) -> CutForecast:
    """Return the forecast of a pruning: what is before the oldest stub stays in the cache."""
    scaled, fold = scaler(log, inputs), _forecast_of_fold(log, inputs)
    oldest = min(split_handle(handle)[0] for handle in plan.targets)
    behind = takewhile(lambda logged: logged.sequence >= oldest, reversed(log.live))
    kept = min(plan.kept_tokens, EXCERPT_TOKENS * len(plan.targets))
    net = plan.freed_tokens - STUB_TOKENS * len(plan.targets) - kept
    after = fold.view_tokens - scaled(Size(prose=net))
    cached = fold.view_tokens - scaled(total_size(map(log.size_of, behind)))
    return replace(fold, after_tokens=after, overhead_tokens=max(0, min(after, cached)), summary_tokens=0)


def _is_cheaper_than_fold(pruned: CutForecast, log: Log, inputs: PlanInputs, reason: Reason) -> bool:
    """Return whether requests after a pruning cost about as little as after a fold, until the view is as large again.

    A fold writes a new beginning and leaves a smaller view.
    """
    replies = max(1, sum(isinstance(logged.message, AssistantMessage) for logged in log.live))
    growth = scaled_tokens(log.size.plus(Size(prose=sum(log.freed.values()))), log, inputs) / replies
    until = pruned.view_tokens if reason == "price" else max(pruned.view_tokens, inputs.budget.trigger_tokens)
    ahead = min(MOST_CALLS_AHEAD, max(log.calls, replies))
    rates = inputs.rates or USUAL_RATES
    of_pruning, of_fold = (
        cost_per_call(one, rates, growth_tokens=growth, until_tokens=until, calls_ahead=ahead)
        for one in (pruned, _forecast_of_fold(log, inputs))
    )
    return of_pruning <= WORTH_OF_PRUNING * of_fold


def _prune_anything(log: Log, inputs: PlanInputs, reason: Reason) -> Prune | None:
    prune = inputs.policy.prune
    plan = plan_prune(log, prune, usable_tokens=inputs.budget.usable_tokens, minimum_tokens=0)
    return Prune(replace(plan, kept_tokens=0), reason) if plan.targets else None


def _shorten(log: Log, inputs: PlanInputs, excess: int, reason: Reason) -> Shorten | None:
    """Shorten a part by the excess in our own measure, without the margin that the limit includes."""
    whole = log.size.plus(log.checkpoint_size)
    own = -(-excess * whole.measure // max(1, scaled_tokens(whole, log, inputs)))
    clips = choose_clips(log, excess_tokens=excess, own_tokens=own)
    return Shorten(clips, reason) if clips else None


def _fold(log: Log, inputs: PlanInputs, reason: Reason, *, urgent: bool, insists: bool) -> Summarise | Fold | None:
    """Fold at the cut given by the policy's tail; `insists`: fold something even if there is room."""
    cut = _cut(log, inputs, halves=inputs.manual or insists)
    if urgent and inputs.policy.tail.rule == "turns" and (cut is None or cut.index in (0, log.length)):
        safe = _safety_cut(log, inputs)
        if safe is not None:
            cut, reason = safe, reason if reason in ("overflow", "manual") else "safety"
    if cut is None or (insists and all(logged.is_users for logged in log.live[: cut.index])):
        return None  # a reply that was cut off cannot continue without its own prompt
    if reason == "safety" and cut.index == 0:
        return None  # only the checkpoint would be folded; the last resort rewrites it smaller, or leaves it
    return _worth_folding(log, cut, inputs, reason, urgent=urgent or insists)


def _worth_folding(log: Log, cut: Cut, inputs: PlanInputs, reason: Reason, *, urgent: bool) -> Summarise | Fold | None:
    """Fold at this cut if it pays off; if the request is over the limit, or a document preset would send too much, if
    it saves anything."""
    summary, head = inputs.policy.summary, head_size(log, cut).measure
    helps = (urgent or reason == "safety") and head > 2 * summary.minimum_tokens
    summary_tokens = summary.budget_tokens(inputs.budget.usable_tokens)
    pays_off = reason != "safety" and is_worth_folding(head, summary_tokens, inputs, reason)
    return fold_at(log, cut, inputs, reason) if helps or pays_off else None


def _fold_everything(log: Log, inputs: PlanInputs, reason: Reason) -> Summarise | Fold | None:
    """Keep no tail at all: the last resort if the newest step alone is too large, for example by its call arguments.

    Only if our own count is over the limit too: a refusal alone must not fold what a person has just said.
    """
    if not log.live or not inputs.budget.excess_tokens(gauge(log, inputs).upper_tokens):
        return None
    return _worth_folding(log, Cut(len(log.live), None), inputs, reason, urgent=True)


def _cut(log: Log, inputs: PlanInputs, *, halves: bool) -> Cut | None:
    policy, budget = inputs.policy, inputs.budget
    tail_tokens = policy.tail.budget_tokens(budget.usable_tokens)
    if policy.target is None or policy.tail.rule != "tokens":
        return choose_cut(log, policy.tail, Room(tail_tokens))
    scaled = scaler(log, inputs)
    room = _room(log, inputs, tail_tokens, halves=halves)
    size_of = log.size_of if _keeps_thinking(log, inputs) else log.size_after_fold
    return choose_cut(log, policy.tail, room, sizer=lambda logged: scaled(size_of(logged)))


def _safety_cut(log: Log, inputs: PlanInputs) -> Cut | None:
    """Return where to cut if the turns that a document keeps are beyond the provider's window.

    The newest whole turns within the target stay, the last one at least. If that one alone is beyond the window, its end stays,
    unless the document folds everything then.
    """
    policy, budget, scaled = inputs.policy, inputs.budget, scaler(log, inputs)
    summary = Size(prose=policy.summary.budget_tokens(budget.usable_tokens) + inputs.overhead_tokens)
    taken = scaled(summary.plus(size_of_state(log.state, log.rendering)))
    target = min(budget.target_tokens, budget.limit_tokens * budget.target_tokens // max(1, budget.usable_tokens))
    room, tail = Room(max(0, target - taken)), TailPolicy(rule="tokens", whole_head=False)

    def cut(tail: TailPolicy) -> Cut | None:
        return choose_cut(log, tail, room, sizer=lambda logged: scaled(log.size_after_fold(logged)))

    whole = cut(tail)
    fits = whole is not None and scaled(kept_size(log, whole)) + taken <= budget.limit_tokens
    if fits or policy.tail.whole_head:
        return whole if fits else None
    return cut(replace(tail, split_turns=True))


def _room(log: Log, inputs: PlanInputs, tail_tokens: int, *, halves: bool) -> Room:
    """Return the room that the target leaves for a tail next to the summary and the overhead, in the provider's tokens.

    The tail takes what a summary without kept steps is not expected to need of its room: what both take together is chosen by
    its cost.
    """
    policy, budget = inputs.policy, inputs.budget
    summary_tokens = policy.summary.budget_tokens(budget.usable_tokens)
    unused = 0
    if not policy.summary.steps_share:
        unused = max(0, summary_tokens - log.checkpoint_size.measure - SUMMARY_GROWTH_TOKENS)
    written = Size(prose=summary_tokens + inputs.overhead_tokens).plus(size_of_state(log.state, log.rendering))
    most = max(0, budget.target_tokens - scaled_tokens(written, log, inputs))
    if halves:  # a manual request is carried out, however little there is
        most = min(most, scaled_tokens(log.size, log, inputs) // 2)
    least = _least_tail(inputs)
    return Room(min(tail_tokens + unused, most), scaled_tokens(Size(prose=least), log, inputs), most)


def _rewrite(log: Log, inputs: PlanInputs, reason: Reason) -> Summarise | Fold | None:
    """Fold nothing more, but rewrite the checkpoint smaller: the way out after a change to a smaller window."""
    if log.checkpoint is None or (log.live and not log.live[0].cuttable):
        return None
    step = _worth_folding(log, Cut.at(log, 0), inputs, reason, urgent=True)
    written = log.checkpoint.budget_tokens
    # With the same room its text would be the same: pins and verbatim rules keep their size.
    return None if step is None or (written and step.budget_tokens >= written) else step
