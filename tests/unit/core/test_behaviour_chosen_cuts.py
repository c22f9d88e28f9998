"""A cut that somebody chose, and what a provider's refusal makes of the next step."""

import pytest

from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.cut import Cut, cut_before
from infold.core.entries import Checkpoint, Rejection
from infold.core.gauge import PlanInputs, bound_of, gauge
from infold.core.messages import AssistantMessage, MessageId, ReasoningPart, ToolCallPart, Usage
from infold.core.plan import Fits, Fold, Prune, Summarise, fold_at, next_step
from infold.core.policy import INFOLD, PRESETS, Policy, preset
from infold.testing.builders import calls, replies, result, session, user

SEAL = ReasoningPart("", '"sealed"')
STEP = AssistantMessage(MessageId(""), (SEAL, ToolCallPart("", "bash", "{}")))


def inputs(policy: Policy = INFOLD, *, window: int = 64_000, summariser: bool = False) -> PlanInputs:
    """A policy in a window."""
    return PlanInputs(policy, budget_for(Window(window), policy), 200, bound=1.2, summariser=summariser)


# Cuts.


@pytest.mark.parametrize(
    ("sequence", "cut"),
    [
        (0, None),
        (1, Cut(1, 1)),
        (2, Cut(1, 1)),
        (3, Cut(3, 3)),
        (4, Cut(4, 4)),
        (5, Cut(4, 4)),
        (99, Cut(4, 4)),
        (-1, None),
    ],
)
def test_a_chosen_cut_is_the_nearest_legal_one_before(sequence: int, cut: Cut | None) -> None:
    """B12, B20: a number at a result means the call before it; nothing is folded before the first message."""
    log = session(user(), calls("bash"), result(), user("c"), calls("bash"), result())

    assert cut_before(log, sequence) == cut


def test_a_chosen_cut_respects_sealed_loops() -> None:
    """B12: inside a loop that signed reasoning opened the cut falls to where the loop may be entered."""
    log = session(user(), replies(), user(), STEP, result(), calls("bash"), result(), replies("d"))

    assert [cut_before(log, number) for number in (5, 6, 7)] == [Cut(3, 3)] * 3


def test_numbers_of_folded_messages_choose_nothing() -> None:
    """B20: after a checkpoint only what is live can be the first kept; with nothing live there is no cut."""
    log = session(user(), replies(), user("c"), replies("d")).append(Checkpoint("t", first_kept=2))

    assert cut_before(log, 1) is None
    assert cut_before(log, 3) == Cut(1, 3)
    assert cut_before(session(), 3) is None


def test_a_fold_there_gets_no_more_than_half_its_head() -> None:
    """B9, B20: a small head gets a small summary, a large one what the policy allows; a model is asked if there is one."""
    log = session(user("word " * 2_000), replies(), user("c"), replies("word " * 40_000), user("d"))
    small, large = Cut.at(log, 2), Cut.at(log, 4)
    given = inputs()
    most = INFOLD.summary.budget_tokens(given.budget.usable_tokens)
    head = log.live[0].size.plus(log.live[1].size).measure

    assert fold_at(log, small, given, "manual") == Fold(small, head // 2, "manual")
    assert fold_at(log, large, given, "manual") == Fold(large, most, "manual")
    assert fold_at(log, large, inputs(summariser=True), "overflow") == Summarise(large, most, "overflow")
    tiny = session(user("hi"), replies(), user("c"))
    assert fold_at(tiny, Cut.at(tiny, 2), given, "manual").budget_tokens == INFOLD.summary.minimum_tokens


# Refusals.


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_what_was_refused_becomes_smaller(name: str) -> None:
    """B7, B8: in every preset a refusal is a reason of its own, though our own count says that everything fits."""
    policy = preset(name)
    drafts = [
        draft for n in range(20) for draft in (user(f"do {n}"), calls("bash"), result(900), replies("done " * 40))
    ]
    log = session(*drafts, policy=policy)
    given = inputs(policy, window=200_000)
    done = compact(log.append(Rejection(20_000)), given)

    assert isinstance(next_step(log, given), Fits)
    assert isinstance(done.final, Fits)
    assert done.events
    assert {event.reason for event in done.events if hasattr(event, "reason")} == {"overflow"}
    assert done.log.size.plus(done.log.checkpoint_size).measure < log.size.measure
    assert not done.log.is_rejected


def test_a_refusal_frees_a_twentieth_at_least() -> None:
    """B7: what little our count would take out is not enough for a provider that said no."""
    turns = [draft for n in range(20) for draft in (user(f"do {n}"), calls("bash"), result(400), replies("done"))]
    log = session(*turns).append(Rejection(9_000))
    step = next_step(log, inputs(window=16_000))

    assert isinstance(step, Fold | Prune)
    assert step.reason == "overflow"


def test_a_refusal_alone_does_not_fold_what_was_just_said() -> None:
    """B2, B7: where our own count is far below the limit, a refusal takes nothing out that a person has just said."""
    log = session(user("Port the parser. " * 30), replies("Done."), user("And then?")).append(Rejection(300))

    assert isinstance(next_step(log, inputs(window=16_000)), Fits)


def test_off_is_off_even_after_a_refusal() -> None:
    """S1.1: where automatic work is off the caller handles the refusal."""
    policy = Policy(name="off", auto=False)

    assert isinstance(next_step(session(user(), replies()).append(Rejection(20_000)), inputs(policy)), Fits)


def test_a_refusal_widens_the_margin() -> None:
    """B8: the factor it taught replaces a smaller bound until reports have worn it off."""
    log = session(user("a " * 500))
    refused = log.append(Rejection(1_000, reported_tokens=2_000))
    given = inputs()

    assert bound_of(log, given) == 1.2
    assert bound_of(refused, given) == pytest.approx(2.0 * 1.02)
    assert gauge(refused, given).upper_tokens > 1.6 * gauge(log, given).upper_tokens
    drafts = [draft for n in range(1, 16) for draft in (user("a " * 500), replies(usage=Usage(input=700 * n)))]
    told = session(*drafts)
    assert told.calibration.reports == 14
    worn = told.append(Rejection(1_000, reported_tokens=1_010))
    assert bound_of(worn, given) == pytest.approx(1.05, abs=0.01)
