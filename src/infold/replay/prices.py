"""The cost of a call: the provider's prompt cache, and the catalogue's prices by the size of the request."""

from bisect import bisect_right
from itertools import accumulate

from msgspec import Struct

from infold.catalogue import ModelEntry, Prices
from infold.core.gauge import Rates
from infold.replay.outcome import Spend

MOST_ENTRIES = 8
"""Requests kept in the cache: an agent's next request extends a recent one, or none."""


class Block(Struct, frozen=True, gc=False):
    """A piece of a request that is cached as a whole; equal ids mean equal content."""

    id: int
    tokens: int


class CacheRules(Struct, frozen=True):
    """What a provider caches, and for how long after the last use; without a lifetime entries never expire."""

    minimum_tokens: int = 1_024
    lifetime_ms: int | None = 300_000
    enabled: bool = True


class Prompt(Struct, frozen=True):
    """A request as the cache sees it."""

    ids: tuple[int, ...]
    sums: tuple[int, ...]

    @classmethod
    def of(cls, blocks: list[Block]) -> "Prompt":
        """Return the request of these blocks, without empty ones."""
        filled = [block for block in blocks if block.tokens]
        return cls(tuple(block.id for block in filled), tuple(accumulate(block.tokens for block in filled)))

    @property
    def tokens(self) -> int:
        """The size of the whole request."""
        return self.sums[-1] if self.sums else 0

    def tokens_of_first(self, blocks: int) -> int:
        """Return the tokens of that many blocks from the start."""
        return self.sums[blocks - 1] if blocks else 0

    def extends(self, other: "Prompt") -> bool:
        """Return whether this request starts with all of the other one."""
        return self.ids[: len(other.ids)] == other.ids

    def beginning(self, tokens: int) -> "Prompt":
        """Return the whole blocks within that many tokens."""
        blocks = bisect_right(self.sums, tokens)
        return Prompt(self.ids[:blocks], self.sums[:blocks])


class _Entry(Struct, frozen=True):
    prompt: Prompt
    used_ms: int


class PromptCache:
    """The cached requests of one session, and when each was last used."""

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self._entries: list[_Entry] = []
        self._now_ms = 0

    def send(self, prompt: Prompt, *, sent_ms: int | None, answered_ms: int | None = None) -> int:
        """Return the tokens served from the cache, and add the request to it.

        A use counts from the reply, when the provider last touched the entry. Time never runs backwards, so that a
        record with lines out of order does not revive expired entries.
        """
        if not self.rules.enabled:
            return 0
        self._now_ms = max(self._now_ms, sent_ms or 0)
        self._expire()
        shared = max((shared_blocks(entry.prompt.ids, prompt.ids) for entry in self._entries), default=0)
        read = prompt.tokens_of_first(shared)
        self._now_ms = max(self._now_ms, answered_ms or 0)
        self._keep(prompt)
        return read if read >= self.rules.minimum_tokens else 0

    def forget(self, beyond_tokens: int) -> None:
        """Drop all but that many tokens of every entry, as after a change of settings."""
        self._entries = [_Entry(entry.prompt.beginning(beyond_tokens), entry.used_ms) for entry in self._entries]

    def _expire(self) -> None:
        lifetime = self.rules.lifetime_ms
        if lifetime is not None:
            self._entries = [entry for entry in self._entries if self._now_ms - entry.used_ms <= lifetime]

    def _keep(self, prompt: Prompt) -> None:
        if prompt.tokens < self.rules.minimum_tokens:
            return
        others = [entry for entry in self._entries if not prompt.extends(entry.prompt)]
        self._entries = [*others, _Entry(prompt, self._now_ms)][-MOST_ENTRIES:]


def shared_blocks(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many blocks two requests share from the start."""
    least, most = 0, min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    while most - least > 1:
        middle = (least + most) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle
    return least


MILLION = 1_000_000

HOUR_SECONDS = 3_600

DEFAULT_MINIMUM_TOKENS = 1_024
"""The smallest prompt most providers cache, if the catalogue has no figure."""

DEFAULT_LIFETIME_SECONDS = 300
"""The lifetime of the providers that publish one, if the catalogue has no figure."""


class Tariff(Struct, frozen=True):
    """A model's prices; `hourly` if cache writes live an hour, which some providers charge more for."""

    entry: ModelEntry
    hourly: bool = False

    @property
    def is_priced(self) -> bool:
        """Whether the model's prices are known."""
        return self.entry.prices is not None

    @property
    def bills_writes(self) -> bool:
        """Whether the provider charges separately for cache writes."""
        return self.entry.prices is not None and self.entry.prices.cache_write is not None

    def rates(self, *, cached: bool = True) -> Rates | None:
        """Return the prices as a policy weighs them; without a cache all input is fresh."""
        prices = self.entry.prices
        if prices is None:
            return None
        if not cached:
            return Rates(prices.input, prices.input, prices.output)
        return Rates(self._write_price(prices), _read_price(prices), prices.output)

    def bill(self, prompt_tokens: int, read_tokens: int, output_tokens: int, *, cached: bool = True) -> Spend:
        """Return the cost of one call at the tier of its size; zero if no price is known."""
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
    """Return the cache rules of a model by the catalogue; a lifetime learned from the record takes precedence."""
    lifetime = lifetime_seconds or entry.cache_lifetime_seconds or DEFAULT_LIFETIME_SECONDS
    return CacheRules(entry.cache_minimum_tokens or DEFAULT_MINIMUM_TOKENS, lifetime * 1_000)
