"""What a provider's rejections teach."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infold.core.budget import (
    LARGEST_FACTOR,
    NOTHING_LEARNED,
    SMALLEST_TOKENS,
    UNTOLD_SHARE,
    LearnedLimits,
    Window,
    budget_for,
    narrow_window,
)
from infold.core.policy import INFOLD


def refused(
    limits: LearnedLimits = NOTHING_LEARNED,
    *,
    estimated: int = 10_000,
    reported: int | None = None,
    limit: int | None = None,
) -> LearnedLimits:
    """What is known after one more request was refused for its tokens, when three reports had been heard."""
    return limits.after_tokens(estimated_tokens=estimated, reported_tokens=reported, limit_tokens=limit, reports=3)


def test_a_limit_that_is_told_is_believed() -> None:
    """B11: the provider's own number is the limit, and a later one replaces it, larger or smaller."""
    told = refused(limit=8_192)

    assert (told.tokens, told.is_told) == (8_192, True)
    assert refused(told, limit=4_096).tokens == 4_096
    assert refused(told, limit=16_384).tokens == 16_384


def test_a_limit_that_is_not_told_is_below_what_was_refused() -> None:
    """B11: without a number the limit is taken to be a tenth below the request; further refusals only lower it."""
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
    assert budget_for(narrow_window(Window(64_000), limits), INFOLD).usable_tokens > 0


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
    assert NOTHING_LEARNED.after_bytes(1).bytes == 1
    assert refused(learned).bytes == 500


def test_what_was_accepted_is_not_refused_for_its_size() -> None:
    """B11: a refusal without a number narrows no limit below what was accepted before it, unless it is refused again."""
    known = NOTHING_LEARNED.after_reply(60_000)
    once = refused(known, estimated=20_000)

    assert (once.tokens, once.accepted) == (60_000, 0)
    assert refused(once, estimated=19_000).tokens == 17_100


def test_what_is_accepted_widens_a_limit() -> None:
    """B11: a report above the limit shows that there is more, whether the limit was told or not."""
    for limits in (refused(limit=8_192), refused(refused(estimated=10_000), estimated=9_100)):
        assert limits.after_reply(8_000).tokens == limits.tokens
        assert limits.after_reply(9_500).tokens == 9_500


def test_a_single_refusal_without_a_number_wears_off() -> None:
    """B11: each reply widens what one such refusal taught by a tenth until nothing is left of it; a second one stays."""
    once = refused(estimated=20_000)
    confirmed = refused(once, estimated=17_000)
    for _ in range(7):
        once, confirmed = once.after_reply(0), confirmed.after_reply(0)

    assert once.tokens is not None
    assert 2 * 18_000 > once.tokens > 1.9 * 18_000
    assert confirmed.tokens == 15_300
    for _ in range(150):
        once = once.after_reply(0)
    assert once.tokens is None


@pytest.mark.parametrize(("believed", "wears_off"), [(12_000, False), (100_000, True), (None, True)])
def test_a_refusal_near_the_limit_stays(believed: int | None, wears_off: bool) -> None:
    """B11, B34: one refusal without a number is enough where the request nearly filled the window: our count was low."""
    once = NOTHING_LEARNED.after_tokens(
        estimated_tokens=10_000, reported_tokens=None, limit_tokens=None, reports=0, believed_tokens=believed
    )
    later = once.after_reply(0)

    assert once.tokens == 9_000
    assert (later.tokens != once.tokens) is wears_off


def test_a_told_limit_does_not_wear_off() -> None:
    """B11: the provider's own number stands, also after a refusal without one."""
    told = refused(refused(estimated=20_000), limit=8_192)

    assert told.after_reply(0) is told


acts = st.lists(
    st.one_of(
        st.tuples(st.just("reply"), st.integers(0, 300_000)),
        st.tuples(st.just("refusal"), st.integers(0, 300_000)),
        st.tuples(st.just("told"), st.integers(1, 300_000)),
    ),
    max_size=30,
)


@given(acts)
def test_a_limit_is_never_below_what_was_accepted_since(history: list[tuple[str, int]]) -> None:
    """B11: whatever is accepted and refused, a limit leaves room to work in and is not below what was last shown to fit."""
    limits = NOTHING_LEARNED
    for kind, tokens in history:
        match kind:
            case "reply":
                limits = limits.after_reply(tokens)
            case "refusal":
                limits = refused(limits, estimated=tokens)
            case _:
                limits = refused(limits, limit=tokens)
        assert limits.tokens is None or limits.tokens >= max(SMALLEST_TOKENS, limits.accepted)


@given(acts, st.integers(600, 300_000))
def test_refusals_in_a_row_narrow(history: list[tuple[str, int]], estimated: int) -> None:
    """B8, B11: of two refusals without a reply in between the second narrows the limit below what it refused."""
    limits = NOTHING_LEARNED
    for kind, tokens in history:
        limits = limits.after_reply(tokens) if kind == "reply" else refused(limits, estimated=tokens)
    twice = refused(refused(replace(limits, is_told=False), estimated=300_000), estimated=estimated)

    assert twice.tokens is not None
    assert twice.tokens <= max(SMALLEST_TOKENS, estimated * UNTOLD_SHARE)
