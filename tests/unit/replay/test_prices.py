"""What a call costs."""

import pytest
from msgspec.structs import replace

from infold.catalogue import Prices, Tier
from infold.core.gauge import Rates
from infold.replay.outcome import Spend
from infold.replay.prices import CacheRules, Tariff, cache_rules

from .recorded import ENTRY


def test_call_costs_what_was_read_what_was_fresh_and_the_reply() -> None:
    """Read, fresh and output tokens have prices of their own."""
    spend = Tariff(ENTRY).bill(1_000_000, 400_000, 100_000)

    assert [spend.read, spend.fresh, spend.output] == pytest.approx([0.04, 0.75, 1.0])


def test_what_is_written_for_an_hour_costs_more() -> None:
    """The longer lifetime has a price of its own; without a cache fresh input costs what input costs."""
    assert Tariff(ENTRY, hourly=True).bill(1_000_000, 0, 0).fresh == pytest.approx(2.0)
    assert Tariff(ENTRY).bill(1_000_000, 0, 0, cached=False).fresh == pytest.approx(1.0)


def test_whole_request_is_priced_by_its_tier() -> None:
    """A request above a tier's size pays that tier for all of it."""
    tiered = replace(ENTRY, prices=Prices(1.0, 1.0), tiers=(Tier(200, Prices(3.0, 3.0)),))

    assert Tariff(tiered).bill(200, 0, 0).dollars == pytest.approx(200e-6)
    assert Tariff(tiered).bill(201, 100, 0).dollars == pytest.approx(603e-6)


def test_model_without_a_price_costs_nothing_and_says_so() -> None:
    """Nobody's price is not zero dollars in disguise."""
    unknown = Tariff(replace(ENTRY, prices=None))

    assert unknown.bill(1_000, 0, 1_000) == Spend()
    assert (unknown.is_priced, unknown.bills_writes) == (False, False)


def test_cache_rules_come_from_the_catalogue_or_the_record() -> None:
    """A lifetime that a record gives away counts before the catalogue's, and the catalogue's before the usual one."""
    stated = replace(ENTRY, cache_minimum_tokens=4_096, cache_lifetime_seconds=60)

    assert cache_rules(ENTRY) == CacheRules(1_024, 300_000)
    assert cache_rules(stated) == CacheRules(4_096, 60_000)
    assert cache_rules(stated, lifetime_seconds=3_600).lifetime_ms == 3_600_000


def test_policy_is_told_the_prices_it_is_billed_at() -> None:
    """Fresh, cached and output prices are those of the bill; without a cache nothing is cheaper the second time."""
    assert Tariff(ENTRY).rates() == Rates(1.25, 0.1, 10.0)
    assert Tariff(ENTRY, hourly=True).rates() == Rates(2.0, 0.1, 10.0)
    assert Tariff(ENTRY).rates(cached=False) == Rates(1.0, 1.0, 10.0)
    assert Tariff(replace(ENTRY, prices=None)).rates() is None
