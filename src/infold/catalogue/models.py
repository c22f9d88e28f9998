"""Values of the catalogue: limits, prices and cache rules of a model, and how certain they are.

`lookup.py` finds the entry for a name, or changes one as the user says.
"""

from typing import Literal, TypeAlias

import msgspec

FamilyName: TypeAlias = Literal[
    "cl100k",
    "claude",
    "deepseek",
    "gemini",
    "glm",
    "grok",
    "kimi",
    "llama3",
    "mistral",
    "o200k",
    "other",
    "qwen",
]
"""Models whose tokenisers count alike; `families.py` has how far each may exceed an o200k count."""

SpellingStep: TypeAlias = Literal[
    "exact",
    "spelling",
    "prefix removed",
    "variant removed",
    "revision removed",
    "date removed",
    "latest removed",
    "alias",
    "override",
]
"""One change that a lookup made to a name to find the model."""


class Prices(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """US dollars per million tokens.

    `None` for a cache price means the provider publishes none: such tokens then cost what input costs.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of a whole request with more than `above_tokens` of input."""

    above_tokens: int
    prices: Prices


class ModelEntry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything the catalogue knows about one model.

    Providers mean different things by "context", so there are three limits: `context_tokens` is what input and output
    share, `input_tokens` a smaller limit on the input alone, `output_tokens` the longest answer. `None` means that no
    separate limit is known; for `prices`, that no price is known.
    """

    name: str
    provider: str
    context_tokens: int
    family: FamilyName = "other"
    input_tokens: int | None = None
    output_tokens: int | None = None
    prices: Prices | None = None
    tiers: tuple[Tier, ...] = ()
    cache_minimum_tokens: int | None = None
    cache_lifetime_seconds: int | None = None
    summarises: bool = True
    calls_tools: bool = True
    source: str = ""
    as_of: str = ""

    @property
    def input_limit_tokens(self) -> int:
        """The largest input the model takes, not counting the answer."""
        return self.context_tokens if self.input_tokens is None else self.input_tokens

    def prices_at(self, input_tokens: int) -> Prices | None:
        """Return the prices of a request of this size: those of the highest tier it exceeds."""
        reached = [tier for tier in self.tiers if input_tokens > tier.above_tokens]
        return max(reached, key=lambda tier: tier.above_tokens).prices if reached else self.prices


class Known(msgspec.Struct, frozen=True, tag=True):
    """A model that the catalogue or the user knows: the name that matched, and how it was changed to match."""

    entry: ModelEntry
    matched: str
    how: tuple[SpellingStep, ...]


class Assumed(msgspec.Struct, frozen=True, tag=True):
    """A model of unknown window: a cautious default, what was tried, and what the user can do."""

    entry: ModelEntry
    reason: str
    advice: str


Lookup: TypeAlias = Known | Assumed
