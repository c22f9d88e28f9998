"""What a call costs: the catalogue's prices by the size of the request, and the cache rules that go with them."""

from bisect import bisect_right
from itertools import accumulate

from msgspec import Struct

from infold.catalogue import ModelEntry, Prices
from infold.core.gauge import Rates
from infold.replay.outcome import Spend

MOST_ENTRIES = 8
"""Older requests are forgotten: an agent's next request begins like its last one, or like none."""


class Block(Struct, frozen=True, gc=False):
    """A piece of a request that is cached as a whole: equal ids are equal content."""

    id: int
    tokens: int


class CacheRules(Struct, frozen=True):
    """What a provider caches, and for how long after the last use; a lifetime of none never ends."""

    minimum_tokens: int = 1_024
    lifetime_ms: int | None = 300_000
    enabled: bool = True


class Prompt(Struct, frozen=True):
    """A request as the cache sees it."""

    ids: tuple[int, ...]
    sums: tuple[int, ...]

    @classmethod
    def of(cls, blocks: list[Block]) -> "Prompt":
        """The request of these blocks; those without a token do not count."""
        filled = [block for block in blocks if block.tokens]
        return cls(tuple(block.id for block in filled), tuple(accumulate(block.tokens for block in filled)))

    @property
    def tokens(self) -> int:
        """The whole request."""
        return self.sums[-1] if self.sums else 0

    def tokens_of_first(self, blocks: int) -> int:
        """The tokens of that many blocks from the beginning."""
        return self.sums[blocks - 1] if blocks else 0

    def extends(self, other: "Prompt") -> bool:
        """Whether this request begins with all of the other one."""
        return self.ids[: len(other.ids)] == other.ids

    def beginning(self, tokens: int) -> "Prompt":
        """As many whole blocks as that many tokens hold."""
        blocks = bisect_right(self.sums, tokens)
        return Prompt(self.ids[:blocks], self.sums[:blocks])


class _Entry(Struct, frozen=True):
    prompt: Prompt
    used_ms: int


class PromptCache:
    """The entries of one session, and when each was used last."""

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self._entries: list[_Entry] = []
        self._now_ms = 0

    def send(self, prompt: Prompt, *, sent_ms: int | None, answered_ms: int | None = None) -> int:
        """The tokens served from the cache; the request is in it afterwards.

        A use counts from the reply on, when the provider last touched the entry. Times never run backwards here: a record
        whose lines are out of order must not revive what has expired.
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
        """Lose all but that many tokens of every entry, as a provider or a client's change of settings may bring about."""
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
    """How many blocks two requests have in common from the beginning."""
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
