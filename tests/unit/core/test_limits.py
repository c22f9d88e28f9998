"""What a provider's rejections teach."""

import pytest

from infold.core.budget import Window, budget_for, narrowed
from infold.core.limits import LARGEST_FACTOR, NO_LIMITS, SMALLEST_TOKENS, UNTOLD_SHARE, Limits
from infold.core.presets import INFOLD


def refused(
    limits: Limits = NO_LIMITS, *, estimated: int = 10_000, reported: int | None = None, limit: int | None = None
) -> Limits:
    """What is known after one more request was refused for its tokens, when three reports had been heard."""
    return limits.after_tokens(estimated_tokens=estimated, reported_tokens=reported, limit_tokens=limit, reports=3)


def test_a_limit_that_is_told_is_believed() -> None:
    """B11: the provider's own number is the limit, and a later one replaces it, larger or smaller."""
    told = refused(limit=8_192)

    assert (told.tokens, told.is_told) == (8_192, True)
    assert refused(told, limit=4_096).tokens == 4_096
    assert refused(told, limit=16_384).tokens == 16_384


def test_a_limit_that_is_not_told_is_below_what_was_refused() -> None:
    """B11: without a number the limit is taken to be a tenth below the request, and only ever falls."""
    once = refused(estimated=10_000)

    assert (once.tokens, once.is_told) == (int(10_000 * UNTOLD_SHARE), False)
    assert refused(once, estimated=20_000).tokens == once.tokens
    assert refused(once, estimated=5_000).tokens == 4_500


@pytest.mark.parametrize("estimated", [0, 100, 500])
def test_what_is_small_was_refused_for_something_else(estimated: int) -> None:
    """B11, B13: a refusal without a number of what fits any model teaches no limit, and leaves one that is known."""
    assert refused(estimated=estimated).tokens is None
    assert refused(refused(estimated=10_000), estimated=estimated).tokens == 9_000


def test_a_limit_leaves_something_to_work_in() -> None:
    """B13: a number too small to be one is taken for the smallest there is, so that a budget can be made of it."""
    limits = refused(limit=5)

    assert limits.tokens == SMALLEST_TOKENS
    assert budget_for(narrowed(Window(64_000), limits), INFOLD).usable_tokens > 0


def test_a_told_limit_stays_where_a_later_refusal_tells_none() -> None:
    """B11: once the limit is known, a refusal without a number is about something else."""
    told = refused(refused(limit=8_192), estimated=2_000)

    assert (told.tokens, told.is_told) == (8_192, True)


@pytest.mark.parametrize(
    ("estimated", "reported", "factor"),
    [
        (10_000, 13_000, 1.3),
        (10_000, 8_000, 1.0),
        (10_000, None, 1.0),
        (10_000, 0, 1.0),
        (0, 13_000, 1.0),
        (10_000, 90_000, LARGEST_FACTOR),
    ],
)
def test_the_factor_is_how_far_our_count_was_low(estimated: int, reported: int | None, factor: float) -> None:
    """B8: what the provider counted over what we did, never below one and never absurd."""
    assert refused(estimated=estimated, reported=reported).factor == pytest.approx(factor)


def test_reports_wear_the_factor_off() -> None:
    """B8: each report after the rejection leaves seven tenths of the extra; what is still left is not lost at the next."""
    learned = refused(reported=14_000)

    assert [round(learned.factor_after(reports), 3) for reports in (0, 3, 4, 5)] == [1.4, 1.4, 1.28, 1.196]
    assert learned.factor_after(100) == pytest.approx(1.0)
    again = learned.after_tokens(estimated_tokens=10_000, reported_tokens=11_000, limit_tokens=None, reports=4)
    assert again.factor == pytest.approx(1.28)
    assert again.reports == 4


def test_bytes_are_halved() -> None:
    """B8: after a refusal for bytes half of them is the most; a later one only lowers it, and tokens are untouched."""
    learned = refused(reported=13_000, limit=8_192).after_bytes(1_000)

    assert learned.bytes == 500
    assert learned.after_bytes(4_000).bytes == 500
    assert learned.after_bytes(600).bytes == 300
    assert (learned.tokens, learned.is_told, learned.factor, learned.reports) == (8_192, True, 1.3, 3)
    assert NO_LIMITS.after_bytes(1).bytes == 1
    assert refused(learned).bytes == 500
