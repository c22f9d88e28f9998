"""When a cut is cheaper than going on."""

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.budget import Window, budget_for
from infold.core.compact import apply_step, compact
from infold.core.entries import Checkpoint, MessageEntry
from infold.core.events import Compacted, Pruned
from infold.core.gauge import LEAST_CALLS, CutForecast, PlanInputs, Rates, cost_per_call, expected_saving, saving_ahead
from infold.core.log import Log
from infold.core.messages import AssistantMessage, SessionId
from infold.core.plan import Fits, Fold, Prune, Summarise, next_step
from infold.core.policy import INFOLD
from infold.reports.text import event_line
from infold.session.report import describe_event, describe_saving
from infold.testing.builders import calls, log_of, numbered, result, session, user

RATES = Rates(fresh=1.25, cached=0.1, output=5.0)
OUTLOOK = CutForecast(
    view_tokens=60_000,
    after_tokens=20_000,
    overhead_tokens=4_000,
    sent_tokens=25 * 45_000,
    calls=25,
    calls_before=60,
)


def pays(forecast: CutForecast, rates: Rates) -> bool:
    """Whether a cut is expected to save anything."""
    return expected_saving(forecast, rates) > 0


def test_a_surplus_that_cost_as_much_as_a_cut_is_cut() -> None:
    """B16: 25 calls carried 25,000 tokens too many at 0.1; a cut rewrites 16,000 at 1.15 more."""
    assert pays(OUTLOOK, RATES)
    assert not pays(replace(OUTLOOK, sent_tokens=25 * 20_000 + 180_000), RATES)
    assert pays(replace(OUTLOOK, sent_tokens=25 * 20_000 + 184_001), RATES)


def test_calls_still_to_come_must_earn_it_back() -> None:
    """B16: at a dear rewrite, a session of 49 calls is not expected to go on for long enough."""
    dear, carried = Rates(fresh=12.5, cached=0.1), replace(OUTLOOK, sent_tokens=25 * 20_000 + 2_000_000)

    assert not pays(replace(carried, calls_before=49), dear)
    assert pays(replace(carried, calls_before=50), dear)


@pytest.mark.parametrize("is_cold", [False, True])
def test_few_calls_are_no_reason(is_cold: bool) -> None:
    """B16, B34: a session with fewer than 20 recorded calls is not cut for its price, however large it is."""
    few = replace(OUTLOOK, is_cold=is_cold, calls_before=LEAST_CALLS - 1)

    assert expected_saving(few, RATES) == 0
    assert expected_saving(replace(few, calls_before=LEAST_CALLS), RATES) > 0


def test_the_expected_saving_is_what_the_calls_to_come_save_less_the_cut() -> None:
    """B16, B22: 60 calls without 40,000 tokens at 0.1, less 16,000 rewritten at 1.15."""
    assert expected_saving(OUTLOOK, RATES) == pytest.approx(60 * 40_000 * 0.1 - 16_000 * 1.15)
    assert expected_saving(replace(OUTLOOK, is_cold=True), RATES) == pytest.approx(60 * 40_000 * 0.1 + 40_000 * 1.25)


def test_less_than_half_is_never_cut_for_its_price() -> None:
    """B16: what is folded has a value that no price list has."""
    assert not pays(replace(OUTLOOK, view_tokens=39_999), RATES)


def test_an_expired_cache_makes_a_cut_free() -> None:
    """B16: when the next request is read afresh in any case, cutting costs nothing."""
    assert pays(replace(OUTLOOK, is_cold=True, sent_tokens=0, calls=0), RATES)


def test_a_models_summary_has_its_price() -> None:
    """B16: asking a model reads the whole view once more and pays for what it writes."""
    barely = replace(OUTLOOK, sent_tokens=25 * 20_000 + 190_000)

    assert pays(barely, RATES)
    assert not pays(replace(barely, summary_tokens=3_000), RATES)


def test_without_a_cache_only_the_summary_costs() -> None:
    """B16: where everything is read afresh each time, a fold by code is free."""
    assert pays(replace(OUTLOOK, sent_tokens=25 * 20_000 + 1), Rates(fresh=1.0, cached=1.0))


def long_session(steps: int) -> Log:
    """A session of tool steps of about a thousand tokens each."""
    return session(user("Port it all."), *(draft for _ in range(steps) for draft in (calls("bash"), result(5_000))))


@pytest.mark.parametrize(("steps", "expected"), [(20, Fits), (140, Fold)])
def test_a_large_window_is_not_filled_for_its_own_sake(steps: int, expected: type) -> None:
    """B16: in a window of 400k a head is folded at a fraction of it, once its weight has cost more than a cut."""
    priced = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)
    step = next_step(long_session(steps), priced)

    assert isinstance(step, expected)
    assert not isinstance(step, Fold) or step.reason == "price"
    assert isinstance(next_step(long_session(steps), replace(priced, rates=None)), Fits)


def test_a_priced_cut_waits_for_news() -> None:
    """B9, B16: right after a checkpoint there is nothing to weigh."""
    log = long_session(140)
    inputs = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)

    assert log.calls == log.calls_since == 140
    assert log.sent_since > 0
    assert isinstance(next_step(replace(log, has_news=False), inputs), Fits)
    assert isinstance(
        next_step(replace(log, has_news=False), replace(inputs, policy=replace(INFOLD, priced="never"))), Fits
    )


@pytest.mark.parametrize(
    ("steps", "summariser", "expected"),
    [(80, False, Prune), (80, True, Prune), (140, False, Fold), (140, True, Prune)],
)
def test_for_its_price_too_the_cheaper_way_is_taken(steps: int, summariser: bool, expected: type) -> None:
    """B16: where price is the reason, old results become stubs if that costs about as little as the fold, by code or a model."""
    priced = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)
    found = next_step(long_session(steps), replace(priced, summariser=summariser))
    alone = next_step(long_session(steps), replace(priced, summariser=summariser, policy=FOLDS))

    assert isinstance(found, expected)
    assert isinstance(found, Prune | Fold)
    assert isinstance(alone, Summarise if summariser else Fold)
    assert found.reason == alone.reason == "price"


def test_a_pruning_for_its_price_tells_the_expected_saving() -> None:
    """B16, B22: its event has dollars at known prices, tokens of input at assumed ones, and nothing for another reason."""
    log, always = long_session(80), replace(INFOLD, priced="always")
    known = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)
    assumed = replace(known, rates=replace(RATES, is_assumed=True), policy=always)
    told = [
        event
        for inputs in (known, assumed, replace(known, manual=True))
        for event in compact(log, inputs).events
        if isinstance(event, Pruned)
    ]

    assert [event.reason for event in told] == ["price", "price", "manual"]
    assert [event.is_price_assumed for event in told] == [False, True, False]
    assert [event.saving > 0 for event in told] == [True, False, False]
    assert told[0].saving_tokens == told[1].saving_tokens == int(told[0].saving * 1_000_000 / RATES.fresh) > 0
    assert told[2].saving_tokens == 0


def test_a_pruning_without_a_saving_ahead_states_none() -> None:
    """B16: a cut that costs more than the calls ahead would save has no saving, and no negative one either."""
    assert saving_ahead(OUTLOOK, RATES) == expected_saving(OUTLOOK, RATES) > 0
    assert saving_ahead(replace(OUTLOOK, calls_before=4), RATES) == 0


@pytest.mark.parametrize(("window", "steps", "reason"), [(400_000, 60, "price"), (200_000, 60, "trigger")])
def test_what_was_pruned_is_not_folded_for_its_price_at_once(window: int, steps: int, reason: str) -> None:
    """B16: a request whose old results became stubs because that is cheaper than a fold is not folded for its price as well."""
    drafts = (draft for _ in range(steps) for draft in (calls("bash"), result(5_000)))
    log = session(user("The tide is high today. " * 6_660), *drafts)
    inputs = PlanInputs(INFOLD, budget_for(Window(window), INFOLD), 3_000, bound=1.0, rates=RATES, summariser=True)
    step = next_step(log, inputs)

    assert isinstance(step, Prune)
    assert step.reason == reason
    assert isinstance(next_step(apply_step(log, step, inputs).log, inputs), Fits)


def test_calls_are_counted_once() -> None:
    """B16: each reply is one call; what it was sent is what stood before it."""
    log = Log(SessionId("s"))
    for message in numbered((user("hello there"), calls("bash"), result(10), calls("bash"))):
        log = log.append(MessageEntry(message))

    assert (log.calls, log.calls_since) == (2, 2)
    assert log.sent_since == log.live[0].size.measure + sum(logged.size.measure for logged in log.live[:3])


def test_a_pruning_begins_a_new_count() -> None:
    """B16: what was carried before a pruning is no reason for the next cut, while the calls of the session still count."""
    log = long_session(80)
    inputs = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)
    step = next_step(log, inputs)
    assert isinstance(step, Prune)
    pruned = apply_step(log, step, inputs).log

    assert log.calls_since == log.calls == pruned.calls == 80
    assert (pruned.calls_since, pruned.sent_since) == (0, 0)
    later = pruned.append(MessageEntry(numbered([calls("bash")], prefix="n")[0]))
    assert (later.calls, later.calls_since) == (81, 1)
    assert later.sent_since == pruned.size.measure


def test_a_history_that_arrived_is_no_reason() -> None:
    """B16, B34: replies that came with a history were not recorded here, so nothing was paid for them in this session."""
    priced = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)
    drafts = (user("Port it all."), *(draft for _ in range(140) for draft in (calls("bash"), result(5_000))))
    arrived = [replace(m, finish=None) if isinstance(m, AssistantMessage) else m for m in numbered(drafts)]
    log = log_of(arrived)

    assert (log.calls, log.calls_since, log.sent_since) == (0, 0, 0)
    assert isinstance(next_step(log, priced), Fits)
    assert isinstance(next_step(log, replace(priced, is_cold=True)), Fits)


def test_a_fold_for_its_price_tells_the_expected_saving() -> None:
    """B22: the event and the checkpoint have it in US dollars; a fold for another reason has none; one switch turns it off."""
    priced = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)
    log = long_session(140)
    folded = compact(log, priced)
    event = next(event for event in folded.events if isinstance(event, Compacted))
    asked = compact(log, replace(priced, manual=True))

    assert event.reason == "price"
    assert folded.log.checkpoint is not None
    assert 0.1 < event.saving == folded.log.checkpoint.saving < 10
    assert [told.saving for told in asked.events if isinstance(told, Compacted)] == [0.0]
    assert isinstance(next_step(log, replace(priced, policy=replace(INFOLD, priced="never"))), Fits)


def test_assumed_prices_decide_only_where_that_is_asked_for_and_are_no_money() -> None:
    """B16, B22: at assumed ratios the same fold is made under `always` alone; its event says so, and has no sum of money."""
    always = replace(INFOLD, priced="always")
    known = PlanInputs(INFOLD, budget_for(Window(400_000), INFOLD), 3_000, bound=1.0, rates=RATES)
    assumed = replace(known, rates=replace(RATES, is_assumed=True))
    log = long_session(140)
    folds = [compact(log, known), compact(log, replace(assumed, policy=always))]
    events = [event for done in folds for event in done.events if isinstance(event, Compacted)]

    assert isinstance(next_step(log, assumed), Fits)
    assert isinstance(next_step(log, replace(known, policy=always)), Fold)
    assert isinstance(next_step(log, replace(assumed, policy=always, rates=None)), Fits)
    assert [event.reason for event in events] == ["price", "price"]
    assert [event.is_price_assumed for event in events] == [False, True]
    assert [event.saving > 0 for event in events] == [True, False]
    assert events[0].saving_tokens == events[1].saving_tokens == int(events[0].saving * 1_000_000 / RATES.fresh) > 0
    checkpoint = folds[1].log.checkpoint
    assert checkpoint is not None
    assert (checkpoint.saving, checkpoint.saving_tokens) == (0.0, events[1].saving_tokens)
    asked = compact(log, replace(assumed, manual=True))
    assert not any(
        event.is_price_assumed or event.saving_tokens for event in asked.events if isinstance(event, Compacted)
    )


def test_words_say_what_a_fold_for_its_price_saves() -> None:
    """B16, B20: dollars at known prices, tokens of input at assumed ones, nothing for a fold with another reason."""
    fold = Compacted("s", 9, 60_000, 15_000, "price", saving=0.3946, saving_tokens=310_000)

    assert describe_event(fold).endswith("would have cost more; it is expected to save $0.39")
    assert describe_event(replace(fold, saving=0.0123)).endswith("it is expected to save $0.0123")
    assert "the price of 310,000 tokens of input, at the usual ratios of prices" in describe_event(
        replace(fold, saving=0.0)
    )
    assert event_line(fold).endswith("it is expected to save $0.39")
    assert describe_saving(Checkpoint("x", reason="price", saving=0.3946)) == "; it is expected to save $0.39"
    assert "save" not in describe_event(replace(fold, reason="trigger"))


def test_the_room_that_a_checkpoint_leaves_is_tail() -> None:
    """B16: a small checkpoint leaves a longer tail than the policy's own; a large one, and kept steps, leave that alone."""
    lists = replace(FOLDS, summary=replace(FOLDS.summary, steps_share=0.0))
    inputs = PlanInputs(lists, budget_for(Window(128_000), lists), 3_000, bound=1.0, rates=RATES)
    folded = compact(long_session(140), inputs).log
    usable = inputs.budget.usable_tokens
    own = FOLDS.tail.budget_tokens(usable)

    assert folded.checkpoint is not None
    assert own + 2_000 < folded.size.measure <= own + FOLDS.summary.budget_tokens(usable)
    for policy in (FOLDS, replace(lists, summary=replace(lists.summary, maximum_tokens=200, growth=0.0))):
        assert compact(long_session(140), replace(inputs, policy=policy)).log.size.measure <= own


# What a request costs after a cut.


def cost(
    forecast: CutForecast = OUTLOOK,
    rates: Rates = RATES,
    *,
    growth: float = 1_000,
    until: int = 60_000,
    ahead: int = 100,
) -> float:
    """What a request costs, by default over 40 calls of 1,000 tokens each."""
    return cost_per_call(forecast, rates, growth_tokens=growth, until_tokens=until, calls_ahead=ahead)


def test_a_request_costs_its_share_of_the_cut_and_what_it_carries() -> None:
    """B16: 16,000 rewritten at 1.15 more over 40 calls, and 40,000 carried on average at 0.1; a model's summary is added."""
    assert cost() == pytest.approx(16_000 * 1.15 / 40 + 40_000 * 0.1)
    summed = cost(replace(OUTLOOK, summary_tokens=1_000))
    assert summed - cost() == pytest.approx((60_000 * 0.1 + 1_000 * 5.0) / 40)


def test_a_request_costs_more_if_more_is_rewritten_or_carried() -> None:
    """B16: less that stays cached costs more, and so does a larger view, even if no more of it is rewritten."""
    assert cost() < cost(replace(OUTLOOK, overhead_tokens=3_000)) < cost(replace(OUTLOOK, overhead_tokens=0))
    assert cost() < cost(replace(OUTLOOK, after_tokens=30_000, overhead_tokens=14_000))
    assert cost() == cost(replace(OUTLOOK, view_tokens=90_000))


def test_a_cut_is_for_one_request_at_least() -> None:
    """B16: a view that is as large again at once, and one that is no smaller, count for one call; nothing is divided by zero."""
    of_one = 16_000 * 1.15

    assert cost(growth=1e6) == pytest.approx(of_one + (20_000 + 1e6 / 2) * 0.1)
    assert cost(until=20_000) == cost(until=0) == pytest.approx(of_one + 20_500 * 0.1)
    assert cost(ahead=0) == cost(ahead=1) == pytest.approx(of_one + 20_500 * 0.1)


def test_a_cut_is_for_no_more_requests_than_are_expected() -> None:
    """B16: a view that hardly grows counts for the calls ahead, and the fewer they are, the more of the cut each one bears."""
    assert cost(ahead=10) == pytest.approx(16_000 * 1.15 / 10 + 25_000 * 0.1)
    assert cost(growth=0, ahead=10) == pytest.approx(16_000 * 1.15 / 10 + 20_000 * 0.1)
    assert cost(growth=0, ahead=5) > cost(growth=0, ahead=10)


def test_with_an_expired_cache_nothing_is_cached_but_later_requests() -> None:
    """B16: once the cache has expired, all of the view is rewritten whatever it begins with, and a model reads it uncached."""
    cold = replace(OUTLOOK, is_cold=True)

    assert cost(cold) == pytest.approx(20_000 * 1.15 / 40 + 40_000 * 0.1)
    summed = cost(replace(cold, summary_tokens=1_000))
    assert summed - cost(cold) == pytest.approx((60_000 * 1.25 + 1_000 * 5.0) / 40)
    assert cost(cold) == cost(replace(cold, overhead_tokens=0))
    assert cost(cold) < cost(replace(cold, after_tokens=30_000))


COLD = replace(OUTLOOK, is_cold=True)


def test_a_models_summary_is_dear_once_the_cache_expired() -> None:
    """B16: the model reads the whole view at the full price, so that a cold cut costs what the new view and the summary do."""
    asked = replace(COLD, summary_tokens=1_000)
    price = 20_000 * 1.25 + 1_000 * 5.0

    assert expected_saving(asked, RATES) == pytest.approx(60 * 40_000 * 0.1 - price)
    assert pays(replace(asked, sent_tokens=25 * 20_000 + 10 * 30_000), RATES)
    assert not pays(replace(asked, sent_tokens=25 * 20_000 + 10 * 29_999), RATES)


DUE = replace(COLD, view_tokens=38_000, sent_tokens=25 * 30_000, room_tokens=10_000)
"""A view that grew by 615 tokens a call and lacks 10,000 to its trigger, 2,000 to twice what a cut leaves."""


def test_a_fold_that_is_due_soon_comes_while_the_cache_is_cold() -> None:
    """B16: what would be folded within 20 calls is folded now, since the next request is read afresh in any case."""
    price_then = 16_000 * 1.15

    assert expected_saving(DUE, RATES) == pytest.approx(price_then + 18_000 * 1.25)
    assert not pays(replace(DUE, is_cold=False), RATES)
    assert not pays(replace(DUE, calls_before=LEAST_CALLS - 1), RATES)
    assert not pays(replace(DUE, view_tokens=20_000, sent_tokens=25 * 15_000), RATES)


def test_a_fold_that_is_not_due_soon_waits() -> None:
    """B16: neither the trigger nor twice what is left is within 20 calls, at the pace since the last cut."""
    far = replace(DUE, view_tokens=24_000, sent_tokens=25 * 20_000, room_tokens=24_000)

    assert not pays(far, RATES)
    assert pays(replace(far, room_tokens=6_000), RATES)
    assert not pays(replace(far, room_tokens=6_000, sent_tokens=25 * 23_999), RATES)
    assert not pays(replace(far, room_tokens=6_000, sent_tokens=0, calls=0), RATES)


def test_a_summary_waits_for_the_cache_if_that_is_cheaper() -> None:
    """B16: a fold that a model summarises is made cold only if that costs less than with the cache that the request fills."""
    asked = replace(DUE, summary_tokens=1_000)
    cold, warm = 20_000 * 1.25, 16_000 * 1.15 + 38_000 * 0.1

    assert cold > warm
    assert not pays(asked, RATES)
    assert pays(replace(asked, overhead_tokens=0), RATES) == (cold < 20_000 * 1.15 + 38_000 * 0.1)
