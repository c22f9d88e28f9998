"""What an act must bring to be worth it, and how soon one may follow another."""

import pytest

from infold.core.budget import Window, budget_for
from infold.core.cut import Cut
from infold.core.entries import Checkpoint, MessageEntry, Reason
from infold.core.gauge import PlanInputs, estimated_tokens
from infold.core.log import Log
from infold.core.messages import Finish
from infold.core.plan import (
    LEAST_GAIN_SHARE,
    LEAST_NEWS_SHARE,
    Fits,
    Fold,
    Summarise,
    fold_at,
    is_too_soon,
    is_worth_asking,
    is_worth_folding,
    next_step,
)
from infold.core.policy import INFOLD, PRESETS, Policy, preset
from infold.testing.builders import numbered, replies, session, user

BUDGET = budget_for(Window(32_768), INFOLD)
NEWS = int(LEAST_NEWS_SHARE * BUDGET.usable_tokens) + 1
HIGH, LOW = BUDGET.target_tokens + 1, BUDGET.target_tokens


def folded(tokens_after: int, *said: str, finish: Finish = "stop") -> Log:
    """A session whose head was folded down to so many tokens, and what was said since."""
    log = session(user("Port the parser."), replies("It is ported."))
    log = log.append(Checkpoint("The parser was ported. " * 600, tokens_after=tokens_after))
    for message in numbered([replies(text, finish=finish) for text in said], prefix="n"):
        log = log.append(MessageEntry(message))
    return log


def added_size(overhead: int, *, policy: Policy = INFOLD, summariser: bool = False) -> PlanInputs:
    """The situation in a window of 32k with tools and system prompt of that size."""
    return PlanInputs(policy, budget_for(Window(32_768), policy), overhead, bound=1.0, summariser=summariser)


@pytest.mark.parametrize(("after", "since", "expected"), [(HIGH, NEWS - 1, True), (HIGH, NEWS, False), (LOW, 0, False)])
def test_too_soon_is_after_a_missed_target_and_little_news(after: int, since: int, expected: bool) -> None:
    """B9: a tenth of the usable window must come after a compaction that missed its target; one that met it holds up nothing."""
    log = folded(after)
    overhead = after + since - estimated_tokens(log, added_size(0))

    assert is_too_soon(log, added_size(overhead)) is expected


def test_without_a_checkpoint_nothing_is_too_soon() -> None:
    """B9: the first compaction has nothing to wait for."""
    assert not is_too_soon(session(user("hi")), added_size(0))


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"infold"}))
def test_a_document_decides_for_itself(name: str) -> None:
    """S1.0: in a document's preset no compaction waits, none is too small, and a model is asked for each."""
    inputs = added_size(0, policy=preset(name))
    log = folded(10**6)

    assert not is_too_soon(log, inputs)
    assert is_worth_folding(1, 1_000, inputs, "trigger")
    assert is_worth_asking(log, 1, inputs, "trigger")


@pytest.mark.parametrize(
    ("gain", "reason", "expected"), [(-1, "trigger", False), (0, "trigger", True), (-1, "manual", True)]
)
def test_a_fold_must_free_enough(gain: int, reason: Reason, expected: bool) -> None:
    """B9, B16: a fold that frees less than a twentieth of the usable window is left undone, unless a person wants it."""
    least = -int(-LEAST_GAIN_SHARE * BUDGET.usable_tokens // 1)

    assert is_worth_folding(500 + least + gain, 500, added_size(0), reason) is expected


@pytest.mark.parametrize(
    ("log", "news", "reason", "expected"),
    [
        (folded(HIGH), NEWS - 1, "trigger", False),
        (folded(HIGH), NEWS + 1, "trigger", True),
        (folded(HIGH), 1, "manual", True),
        (folded(LOW), 1, "trigger", True),
        (session(user("hi")), 1, "overflow", True),
    ],
)
def test_a_model_is_not_asked_for_little(log: Log, news: int, reason: Reason, expected: bool) -> None:
    """B9: after a compaction that missed its target, code folds what is less than a tenth of the usable window."""
    assert is_worth_asking(log, news, added_size(0), reason) is expected


def test_a_compaction_that_missed_its_target_puts_the_next_one_off() -> None:
    """B9: over the trigger a session that was just compacted in vain goes on as it is, until the request would not fit."""
    said = ["It was built and tested. " * 150] * 5
    overhead = BUDGET.usable_tokens - estimated_tokens(folded(0, *said), added_size(0))
    in_vain = folded(BUDGET.usable_tokens - NEWS + 1, *said)
    put_off = next_step(in_vain, added_size(overhead))

    assert isinstance(put_off, Fits)
    assert put_off.gauge.count_tokens > BUDGET.trigger_tokens
    assert isinstance(next_step(folded(BUDGET.usable_tokens - NEWS, *said), added_size(overhead)), Fold)
    assert isinstance(next_step(in_vain, added_size(overhead + 1)), Fold)


def test_a_reply_that_was_cut_off_is_not_put_off() -> None:
    """S5.3: a reply that ended for want of room is an occasion of its own."""
    said = ["It was built and tested. " * 400] * 3
    log = folded(estimated_tokens(folded(0, *said), added_size(9_000)), *said, finish="length")
    step = next_step(log, added_size(9_000))

    assert is_too_soon(log, added_size(9_000))
    assert isinstance(step, Fold)
    assert step.reason == "forced"


@pytest.mark.parametrize(("index", "expected"), [(1, Fold), (0, Summarise)])
def test_code_folds_little_and_a_rewritten_checkpoint_keeps_its_words(index: int, expected: type) -> None:
    """B9: a model is not asked again for one short reply; where nothing more is folded, nobody is asked anyway."""
    log = folded(HIGH, "It was built.", "It was tested.")

    assert isinstance(fold_at(log, Cut.at(log, index), added_size(0, summariser=True), "trigger"), expected)
