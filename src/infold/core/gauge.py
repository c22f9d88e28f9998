"""How full the window is: what the policy counts, and what the request can be at most.

Two numbers: `count_tokens` is compared with the trigger and follows the preset's own rule; `upper_tokens` is compared
with what the provider accepts, counts system prompt and tools, and includes the margin of an estimate. If a refusal is
recovered within the request, it includes no margin: the expected count decides, and a refusal corrects it.
"""

from collections.abc import Callable
from itertools import takewhile
from math import ceil
from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.budget import Budget, usage_tokens
from infold.core.log import Log, UsageBaseline
from infold.core.logged_message import size_of_interrupted
from infold.core.policy import LARGEST_TOKENS, Policy
from infold.core.tokens import Size, tokens_in, total_size

MOST_CALLS_AHEAD = 100
"""A session is expected to continue for as many calls as it has had, up to this number."""


LEAST_CALLS = 20
"""Calls that must have been made in a session before its price is considered: a history that arrives complete does not
show how long the work will continue, and nothing was paid for it here."""


SOON_CALLS = 20
"""A fold is due soon if its price or the trigger will be a reason for it within as many calls."""


LEAST_RATIO = 2.0
"""A cut for its price alone must at least halve the view: folded content has a value that is not in the price list."""


NativeUse: TypeAlias = Literal["never", "auto", "always"]
"""When the provider itself is to write a summary; `auto`: when that keeps more, or costs less."""


class Rates(Struct, frozen=True):
    """Prices per million tokens, in US dollars: uncached input (including the cache write), cached input, output.

    `is_assumed`: only their ratios mean something, the usual ones of the model's family; no sum of money follows from them.
    """

    fresh: float
    cached: float
    output: float = 0.0
    is_assumed: bool = False


class CutForecast(Struct, frozen=True):
    """Forecast of a cut made now: a fold, or old results that become stubs.

    `after_tokens`: the request after it; `overhead_tokens` of that stay cached. `sent_tokens` were sent in `calls`
    calls since the last cut; `calls_before` is all calls of the session. Only calls whose replies were recorded count.
    `summary_tokens` is what a model would write, 0 if code folds. `is_cold`: the cache has expired, so that the next
    request is uncached anyway. `room_tokens` may still be added before the trigger.
    """

    view_tokens: int
    after_tokens: int
    overhead_tokens: int
    sent_tokens: int
    calls: int
    calls_before: int
    summary_tokens: int = 0
    is_cold: bool = False
    room_tokens: int = LARGEST_TOKENS


def expected_saving(forecast: CutForecast, rates: Rates) -> float:
    """Return the expected saving of a cut now, in the currency of the rates; 0.0 if it does not pay.

    It never pays in a session of few calls. For less than half of the view it pays only if the cache has expired and a
    fold is due soon in any case, and costs less now than it would then.
    """
    surplus = forecast.view_tokens - forecast.after_tokens
    if forecast.calls_before < LEAST_CALLS or surplus <= 0:
        return 0.0
    price = _price_of_cut(forecast, rates, is_cold=forecast.is_cold)
    if forecast.view_tokens < LEAST_RATIO * forecast.after_tokens:
        is_due = forecast.is_cold and _is_due_soon(forecast)
        return max(0.0, _price_of_cut(forecast, rates, is_cold=False) - price) if is_due else 0.0
    carried = max(0, forecast.sent_tokens - forecast.calls * forecast.after_tokens)
    return saving_ahead(forecast, rates) if price < 0 or carried * rates.cached >= price else 0.0


def saving_ahead(forecast: CutForecast, rates: Rates) -> float:
    """Return what a cut saves over the calls that are expected, less its price; 0.0 if that is more."""
    surplus = forecast.view_tokens - forecast.after_tokens
    ahead = min(forecast.calls_before, MOST_CALLS_AHEAD) * surplus * rates.cached
    return max(0.0, ahead - _price_of_cut(forecast, rates, is_cold=forecast.is_cold))


def cost_per_call(
    forecast: CutForecast, rates: Rates, *, growth_tokens: float, until_tokens: int, calls_ahead: int
) -> float:
    """Return what a request costs after a cut, on average until the view has grown to that size again.

    A view that does not grow so far in the calls ahead counts for these. Replies cost the same after every cut and are left out.
    """
    calls = (until_tokens - forecast.after_tokens) / max(1.0, growth_tokens)
    calls = min(max(1.0, calls), max(1, calls_ahead))
    carried = forecast.after_tokens + growth_tokens * calls / 2
    stays_cached = 0 if forecast.is_cold else forecast.overhead_tokens
    written = max(0, forecast.after_tokens - stays_cached) * (rates.fresh - rates.cached)
    return (written + _price_of_summary(forecast, rates, is_cold=forecast.is_cold)) / calls + carried * rates.cached


def _price_of_cut(forecast: CutForecast, rates: Rates, *, is_cold: bool) -> float:
    """Return the price of a cut, below zero if the next request saves more.

    With a cache, what follows the overhead is read uncached, and a model that summarises reads the view from the cache. If
    it has expired, everything is read uncached in any case: the next request is smaller by what was cut, and a model
    reads the view at the full price.
    """
    if is_cold:
        rewrite = (forecast.after_tokens - forecast.view_tokens) * rates.fresh
    else:
        rewrite = max(0, forecast.after_tokens - forecast.overhead_tokens) * (rates.fresh - rates.cached)
    return rewrite + _price_of_summary(forecast, rates, is_cold=is_cold)


def _price_of_summary(forecast: CutForecast, rates: Rates, *, is_cold: bool) -> float:
    read = rates.fresh if is_cold else rates.cached
    return forecast.view_tokens * read + forecast.summary_tokens * rates.output if forecast.summary_tokens else 0.0


def _is_due_soon(forecast: CutForecast) -> bool:
    """Return whether the view will reach its trigger, or twice what a cut leaves, within the next calls.

    If it grew evenly since the last cut, it is now half of its growth above the mean of the requests since. A history
    that arrived whole is in all of them and does not count.
    """
    room = min(forecast.room_tokens, LEAST_RATIO * forecast.after_tokens - forecast.view_tokens)
    mean = forecast.sent_tokens / forecast.calls if forecast.calls else forecast.view_tokens
    return room <= SOON_CALLS * 2 * (forecast.view_tokens - mean) / (forecast.calls + 1)


CALIBRATED_BOUND = 1.05
"""What is left of a family's margin once reports have corrected the estimate; `benchmarks/core.py` measures the error.
"""


REJECTED_BOUND = 1.02
"""Added to the factor learned from a rejection, because the next request differs from the refused one."""


FORGETTING = 0.7
"""Share of the family's extra margin that remains after each report."""


class PlanInputs(Struct, frozen=True):
    """Everything a decision depends on in addition to the log.

    `overhead_tokens`: system prompt and tool schemas. `bound`: how far the provider's count may exceed an uncorrected
    estimate, by the model's family; `wide_bound`: the same for text outside ASCII, 0 if equal. `recovers`: the provider
    refuses a request that is too large, and the request is then made smaller and sent again within the same call.
    `window_tokens`: the most the model accepts in one request, reply included; 0 if only the budget is known.
    `summariser`: whether a model can be asked. `manual`: a person asked for a compaction now. `rates`: the model's
    prices, if known. `is_cold`: its cache has expired since the last request. `reports_usage`: whether replies report
    usage; if they never do, a rule on reported usage uses our estimate instead. `native`: when to let the provider
    itself write the summary; `native_is_sealed`: only the provider can read it. `edited_from_tokens`: the provider is
    asked to shorten the history itself, from that many tokens on; `None` if it is not. `compact_tool`: a tool named
    `compact` is infold's own. `offers_tools`: the request offers tools, or it is not known; otherwise no steps are kept, since
    providers refuse calls without tools.
    """

    policy: Policy
    budget: Budget
    overhead_tokens: int = 0
    bound: float = 1.1
    wide_bound: float = 0.0
    recovers: bool = False
    window_tokens: int = 0
    summariser: bool = False
    manual: bool = False
    rates: Rates | None = None
    is_cold: bool = False
    reports_usage: bool = True
    native: NativeUse = "never"
    native_is_sealed: bool = False
    edited_from_tokens: int | None = None
    compact_tool: bool = False
    offers_tools: bool = True


class Gauge(Struct, frozen=True):
    """The view's count by the policy's rule, and the most the request can be."""

    count_tokens: int
    upper_tokens: int


def gauge(log: Log, inputs: PlanInputs) -> Gauge:
    """Measure the view that would be sent now; constant work, whatever the session's length."""
    return Gauge(count_tokens=_count(log, inputs), upper_tokens=_upper(log, inputs))


def bound_after(bound: float, reports: int) -> float:
    """Return the margin still needed after that many reports have corrected the estimate."""
    if bound <= CALIBRATED_BOUND:
        return bound
    return CALIBRATED_BOUND + (bound - CALIBRATED_BOUND) * FORGETTING**reports


def bound_of(log: Log, inputs: PlanInputs) -> float:
    """Return the margin this session's estimates need now: the family's, reduced by reports, or what a rejection
    taught.

    The family's margin is not needed if a refusal is recovered.
    """
    calibration = log.calibration
    learned = log.limits.factor_after(calibration.reports)
    own = 1.0
    if not inputs.recovers:
        unreported = log.size.plus(log.checkpoint_size) if log.baseline is None else log.size.minus(log.baseline.size)
        own = bound_after(inputs.bound, calibration.reports)
        taught = calibration.material_reports
        material = bound_after(inputs.bound, taught if isinstance(taught, int) else 0)
        wide = bound_after(inputs.wide_bound or inputs.bound, calibration.wide_reports)
        shares = (
            min(1.0, max(0, part) / max(1, unreported.measure)) for part in (unreported.material, unreported.wide)
        )
        own += sum((bound - own) * share for bound, share in zip((material, wide), shares, strict=True))
    return own if learned <= 1.0 else max(own, learned * REJECTED_BOUND)


def estimated_tokens(log: Log, inputs: PlanInputs) -> int:
    """Return the corrected estimate of the whole request, system prompt and tools included."""
    return inputs.overhead_tokens + log.calibration.apply(_view_size(log))


def preset_tokens(log: Log, policy: Policy) -> int:
    """Return the view by the measure of a document's preset, characters by four; 0 if the policy measures in tokens."""
    return 0 if policy.estimate == "features" else _measured_tokens(log)


def scaled_tokens(size: Size, log: Log, inputs: PlanInputs) -> int:
    """Return the most tokens the provider can count for content of this size."""
    return scaler(log, inputs)(size)


def scaler(log: Log, inputs: PlanInputs) -> Callable[[Size], int]:
    """Return a function that scales many sizes with the session's margin, computed once."""
    apply, bound = log.calibration.apply, bound_of(log, inputs)
    return lambda size: ceil(apply(size) * bound)


def _count(log: Log, inputs: PlanInputs) -> int:
    policy, baseline, reported = inputs.policy, log.baseline, log.reported
    if policy.count == "estimate":
        return _measured_tokens(log)
    if policy.count == "anchored":
        grown = _grown_tokens(log)
        if baseline is None:
            return estimated_tokens(log, inputs)
        count = _reported_tokens(baseline, inputs) + grown  # less what was hidden since; the report still counts
        return count if grown >= 0 else max(count, estimated_tokens(log, inputs))
    if reported is None:
        return 0 if inputs.reports_usage else estimated_tokens(log, inputs)
    freed = log.freed_since(reported.sequence) if policy.less_freed else 0
    return max(0, usage_tokens(reported.usage, policy.count) - freed)


def _measured_tokens(log: Log) -> int:
    return tokens_in(log.measured + log.checkpoint_measured, log.rendering.estimate)


def _upper(log: Log, inputs: PlanInputs) -> int:
    baseline = log.baseline
    if baseline is None:
        return _most_estimated(log, inputs)
    if log.altered_at > baseline.sequence:
        return _upper_since(log, baseline, inputs)
    return _reported_tokens(baseline, inputs) + ceil(_grown_tokens(log) * bound_of(log, inputs))


def _reported_tokens(baseline: UsageBaseline, inputs: PlanInputs) -> int:
    """Return what the newest report says is in the window, without what the provider will clear again."""
    usage = baseline.usage
    return usage.context if inputs.edited_from_tokens is not None else usage.context + usage.cleared


def _upper_since(log: Log, baseline: UsageBaseline, inputs: PlanInputs) -> int:
    """Return the most a view can be if something was hidden since the newest report.

    Hidden content is subtracted conservatively: its estimate may have been too high, scaled by how far the report fell
    below its own estimate. If the report was within the margin of its estimate, or over the limit and accepted, the
    estimate of what is left is used too. What the provider cleared counts: it may be the very content that is hidden.
    """
    bound, reported = bound_of(log, inputs), baseline.usage.context + baseline.usage.cleared
    added = _size_after(log, baseline.sequence)
    hidden, shown = baseline.size.minus(log.size.minus(added)), baseline.size.plus(log.checkpoint_size)
    ratio = reported / max(1, inputs.overhead_tokens + shown.measure)
    freed = min(log.calibration.apply(hidden), hidden.measure * min(1.0, ratio))
    sure = freed / bound**2 if freed > 0 else freed * bound
    upper = ceil(reported - sure + log.calibration.apply(added.plus(open_calls_size(log))) * bound)
    then = inputs.overhead_tokens + min(shown.measure, log.calibration.apply(shown))
    # Otherwise our estimates are too low here, corrected or not, or more is sent than we know of.
    is_in_line = reported <= then * bound or inputs.budget.excess_tokens(reported) > 0
    return min(upper, _most_estimated(log, inputs)) if is_in_line else upper


def _most_estimated(log: Log, inputs: PlanInputs) -> int:
    """Return the most a view can be by its estimate alone; system prompt and tools have the same margin as messages."""
    calibration = log.calibration
    low = max(1.0, calibration.prose, calibration.material)
    said = calibration.apply(_view_size(log))
    return ceil((inputs.overhead_tokens * low + said) * bound_of(log, inputs))


def _size_after(log: Log, sequence: int) -> Size:
    """Return the size of what follows an entry, as shown; the work grows with that size only."""
    came = takewhile(lambda logged: logged.sequence > sequence, reversed(log.live))
    return total_size(map(log.size_of, came))


def _grown_tokens(log: Log) -> int:
    """Return by how much the view grew since the newest report; negative if it shrank."""
    baseline = log.baseline
    if baseline is None:
        return 0
    return log.calibration.apply(log.size.minus(baseline.size).plus(open_calls_size(log)))


def _view_size(log: Log) -> Size:
    """Return the size of a view, including synthetic answers to open calls."""
    return log.size.plus(log.checkpoint_size).plus(open_calls_size(log))


def open_calls_size(log: Log) -> Size:
    """Return the size of what a view shows in place of missing results."""
    return size_of_interrupted(len(log.open_calls), log.rendering.estimate)
