"""What a call costs: the catalogue's prices by the size of the request, and the cache rules that go with them."""

from msgspec import Struct

from infold.catalogue import ModelEntry, Prices
from infold.core.gauge import Rates
from infold.replay.cache import CacheRules
from infold.replay.outcome import Spend

MILLION = 1_000_000
HOUR_SECONDS = 3_600
DEFAULT_MINIMUM_TOKENS = 1_024
"""What most providers cache from on, where the catalogue has no figure."""

DEFAULT_LIFETIME_SECONDS = 300
"""The lifetime of the providers that state one, where the catalogue has no figure."""


class Tariff(Struct, frozen=True):
    """A model's prices; `hourly` where what is written lives an hour, which some providers charge more for."""

    entry: ModelEntry
    hourly: bool = False

    @property
    def is_priced(self) -> bool:
        """Whether anybody knows what the model costs."""
        return self.entry.prices is not None

    @property
    def bills_writes(self) -> bool:
        """Whether the provider has a price of its own for what is written to the cache."""
        return self.entry.prices is not None and self.entry.prices.cache_write is not None

    def rates(self, *, cached: bool = True) -> Rates | None:
        """The prices as a policy weighs them; without a cache everything is read afresh each time."""
        prices = self.entry.prices
        if prices is None:
            return None
        if not cached:
            return Rates(prices.input, prices.input, prices.output)
        return Rates(self._write_price(prices), _read_price(prices), prices.output)

    def bill(self, prompt_tokens: int, read_tokens: int, output_tokens: int, *, cached: bool = True) -> Spend:
        """The dollars of one call, at the tier its size falls in; zero where no price is known."""
        prices = self.entry.prices_at(prompt_tokens)
        if prices is None:
            return Spend()
        fresh_price = self._write_price(prices) if cached else prices.input
        return Spend(
            read=read_tokens * _read_price(prices) / MILLION,
            fresh=(prompt_tokens - read_tokens) * fresh_price / MILLION,
            output=output_tokens * prices.output / MILLION,
        )

    def _write_price(self, prices: Prices) -> float:
        if self.hourly and prices.cache_write_hour is not None:
            return prices.cache_write_hour
        return prices.input if prices.cache_write is None else prices.cache_write


def _read_price(prices: Prices) -> float:
    return prices.input if prices.cache_read is None else prices.cache_read


def cache_rules(entry: ModelEntry, *, lifetime_seconds: int | None = None) -> CacheRules:
    """How the provider of a model caches, by the catalogue; a lifetime that a record gives away counts first."""
    lifetime = lifetime_seconds or entry.cache_lifetime_seconds or DEFAULT_LIFETIME_SECONDS
    return CacheRules(entry.cache_minimum_tokens or DEFAULT_MINIMUM_TOKENS, lifetime * 1_000)
