"""What a request cost."""

import pytest

from infold.catalogue import cost_of, lookup
from infold.core.messages import Usage


def test_each_token_has_its_price() -> None:
    """B22: fresh input, what the cache served and took in, and output with its reasoning, each by its own price."""
    prices = lookup("claude-sonnet-4-5").entry.prices
    assert prices is not None
    assert prices.cache_read is not None
    assert prices.cache_write is not None
    usage = Usage(input=1_000, output=200, reasoning=300, cache_read=50_000, cache_write=4_000)
    sent = 1_000 * prices.input + 50_000 * prices.cache_read + 4_000 * prices.cache_write

    assert cost_of("claude-sonnet-4-5", usage) == pytest.approx((sent + 500 * prices.output) / 1e6)


def test_what_is_kept_for_an_hour_has_its_own_price() -> None:
    """B22: the part of a write that is kept for an hour costs more; a part larger than the whole counts as the whole."""
    prices = lookup("claude-sonnet-4-5").entry.prices
    assert prices is not None
    assert prices.cache_write is not None
    assert prices.cache_write_hour is not None
    partly = Usage(cache_write=4_000, cache_write_hour=1_000)
    written = 3_000 * prices.cache_write + 1_000 * prices.cache_write_hour

    assert cost_of("claude-sonnet-4-5", partly) == pytest.approx(written / 1e6)
    assert cost_of("claude-sonnet-4-5", Usage(cache_write=10, cache_write_hour=99)) == pytest.approx(
        10 * prices.cache_write_hour / 1e6
    )
    assert cost_of("gpt-5.6", partly) == cost_of("gpt-5.6", Usage(cache_write=4_000))


def test_a_cache_without_a_price_costs_what_input_costs() -> None:
    """A provider that names no price for its cache charges all the same."""
    prices = lookup("gpt-4").entry.prices
    assert prices is not None
    assert prices.cache_read is None

    assert cost_of("gpt-4", Usage(cache_read=70, cache_write=30)) == pytest.approx(100 * prices.input / 1e6)


def test_large_requests_have_other_prices() -> None:
    """Where a model has a tier for large requests, the whole request is charged by it."""
    entry = lookup("gemini-2.5-pro").entry
    above = entry.tiers[0].above_tokens
    small, large = Usage(input=above), Usage(input=above + 1)

    assert cost_of("gemini-2.5-pro", large) > 1.5 * cost_of("gemini-2.5-pro", small)


@pytest.mark.parametrize(("model", "usage"), [("gpt-4o", None), ("nobody-knows-it", Usage(5, 5)), ("gpt-4o", Usage())])
def test_what_is_not_known_costs_nothing(model: str, usage: Usage | None) -> None:
    """Without usage or prices the cost is told as zero, not guessed."""
    assert cost_of(model, usage) == 0.0
