"""Find what is known about a model by any of its usual names.

The catalogue never guesses silently: a name matches itself or the same model under a longer name (`spelling.py`), or
the result is `Assumed`, with a cautious default and its reason.
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from infold.catalogue.families import family_of
from infold.catalogue.models import Assumed, FamilyName, Known, Lookup, ModelEntry, Prices, SpellingStep, Tier
from infold.catalogue.spelling import fold, is_local, key_of, spellings
from infold.core.messages import Usage
from infold.errors import UsageError, kind_of

DATA_FILE = "models.json.gz"

_GZIP = 16 + zlib.MAX_WBITS


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data file: its date, its sources, the models, and other names for some."""

    as_of: str
    sources: tuple[str, ...]
    models: tuple[ModelEntry, ...]
    aliases: Mapping[str, str]


@cache
def shipped_table() -> Table:
    """Return the shipped catalogue."""
    packed = resources.files(__package__).joinpath(DATA_FILE).read_bytes()
    return msgspec.json.decode(zlib.decompress(packed, _GZIP), type=Table)


@cache
def entries() -> Mapping[str, ModelEntry]:
    """Return every entry of the shipped catalogue by key."""
    return MappingProxyType({fold(entry.name): entry for entry in shipped_table().models})


_LIMITS = ("input_tokens", "output_tokens")
_POSITIVE = ("context_tokens", *_LIMITS, "cache_minimum_tokens", "cache_lifetime_seconds")


class OverrideError(UsageError):
    """An override has a value that no model can have."""

    def __init__(self, model: str, field: str, problem: str, *, remedy: str) -> None:
        self.model = model
        self.field = field
        super().__init__(f"override for {model!r}, {field}: {problem}; {remedy}")


class Override(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Facts a user states about a model; `None` leaves the catalogue's value.

    `prices` replaces the catalogue's prices as a whole, and its tiers too unless `tiers` is stated.
    """

    context_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prices: Prices | None = None
    tiers: tuple[Tier, ...] | None = None
    family: FamilyName | None = None
    cache_minimum_tokens: int | None = None
    cache_lifetime_seconds: int | None = None
    summarises: bool | None = None
    calls_tools: bool | None = None


ASSUMED_CONTEXT_TOKENS = 32_768
"""The window of an unknown model. Too small costs an early compaction, too large a rejected request; nine in ten of
the catalogue's models hold at least this much.
"""

_LONGEST_NAME = 512
"""Characters; a gateway's callers choose the names that are cached here, so their length is bounded."""


_LARGER_MARK, _LARGER_TOKENS = "[1m]", 1_000_000
"""The suffix that Claude Code appends to a model's name to ask for its larger window, and that window."""

_ADVICE = "pass the window yourself (window=…), or add an override for this name with context_tokens"


def lookup(name: str, *, overrides: Mapping[str, Override] | None = None) -> Lookup:
    """Return what is known about a model, by any of its usual names.

    An override applies to the name it is written for, in any of its spellings, before the catalogue does. One without
    a window leaves an unknown model `Assumed`. Raise `OverrideError`.
    """
    if not isinstance(name, str):
        raise UsageError(f"the model is {kind_of(name)}; give its name as text, such as 'gpt-5'")
    found = _in_catalogue(name) if len(name) <= _LONGEST_NAME else _assume(name[:_LONGEST_NAME])
    if not overrides or (stated := _override_for(name, overrides)) is None:
        return found
    override = overrides[stated]
    entry = apply_override(found.entry, override, name=stated)
    if isinstance(found, Assumed) and override.context_tokens is None:
        return Assumed(entry, found.reason, found.advice)
    return Known(entry, matched=stated, how=("override",))


@lru_cache(maxsize=4096)
def _in_catalogue(name: str) -> Lookup:
    """Return the catalogue's own answer; cached, since an agent looks up the same few names all day."""
    known = find_entry(name, entries(), shipped_table().aliases)
    if known is None:
        return _assume(name)
    if not name.strip().lower().endswith(_LARGER_MARK):
        return known
    larger = max(known.entry.context_tokens, _LARGER_TOKENS)
    return replace(known, entry=replace(known.entry, context_tokens=larger))


def find_entry(name: str, models: Mapping[str, ModelEntry], aliases: Mapping[str, str]) -> Known | None:
    """Return the closest of these models, or `None`."""
    for spelling in spellings(name):
        if (entry := models.get(spelling.key)) is not None:
            unchanged: SpellingStep = "exact" if name == entry.name else "spelling"
            return Known(entry, matched=entry.name, how=spelling.steps or (unchanged,))
        if (alias := aliases.get(spelling.key)) is not None:
            entry = models[key_of(alias)]
            return Known(entry, matched=entry.name, how=(*spelling.steps, "alias"))
    return None


def _override_for(name: str, overrides: Iterable[str]) -> str | None:
    """Return the name under which the caller wrote an override for this model."""
    stated = {key_of(written): written for written in overrides}
    wanted = [spelling.key for spelling in spellings(name)] or [key_of(name)]
    return next((stated[key] for key in wanted if key in stated), None)


def _assume(name: str) -> Assumed:
    if is_local(name):
        reason = f"{name!r} is served by a local server, which sets its own window"
    else:
        tried = ", ".join(dict.fromkeys(spelling.key for spelling in spellings(name)))
        reason = f"no model of this name in the catalogue of {shipped_table().as_of} (tried {tried})"
    entry = ModelEntry(name, "", ASSUMED_CONTEXT_TOKENS, family_of(name), source="default")
    return Assumed(entry, f"{reason}; a window of {ASSUMED_CONTEXT_TOKENS:,} tokens is assumed", _ADVICE)


def cost_of(model: str, usage: Usage | None) -> float:
    """Return the US dollars for one request of that usage; 0 if usage or prices are unknown."""
    if usage is None:
        return 0.0
    prices = lookup(model).entry.prices_at(usage.prompt)
    if prices is None:
        return 0.0
    read = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    sent = usage.input * prices.input + usage.cache_read * read + usage.cache_write * written
    return (sent + (usage.output + usage.reasoning) * prices.output) / 1_000_000


# Overrides: facts about a model that a user states in place of the catalogue's.


def apply_override(entry: ModelEntry, override: Override, *, name: str) -> ModelEntry:
    """Return the entry with the user's facts in place of its own.

    A smaller window drops the catalogue's limits that no longer fit in it. Raise `OverrideError` if a number is
    impossible or two stated facts contradict each other.
    """
    _check(override, name)
    stated = {field: getattr(override, field) for field in Override.__struct_fields__}
    known = {field: value for field, value in stated.items() if value is not None}
    merged = replace(_drop_limits(entry, override), **known, source="user", as_of="")
    _check_limits(merged, name)
    return merged


def _check(override: Override, name: str) -> None:
    for field in _POSITIVE:
        value = getattr(override, field)
        if value is not None and value <= 0:
            problem = f"{value} is not a positive number"
            raise OverrideError(name, field, problem, remedy="leave it out if unknown")
    _check_tiers(override.tiers or (), name)
    for prices in (override.prices, *(tier.prices for tier in override.tiers or ())):
        _check_prices(prices, name)


def _check_tiers(tiers: tuple[Tier, ...], name: str) -> None:
    starts = [tier.above_tokens for tier in tiers]
    if any(start <= 0 for start in starts) or starts != sorted(set(starts)):
        problem = f"they start at {starts}"
        raise OverrideError(name, "tiers", problem, remedy="list them in rising order, above zero")


def _check_prices(prices: Prices | None, name: str) -> None:
    for field in Prices.__struct_fields__ if prices else ():
        value = getattr(prices, field)
        if value is not None and not 0 <= value < math.inf:
            remedy = "give dollars per million tokens, zero or more"
            raise OverrideError(name, f"prices.{field}", f"{value} is not a price", remedy=remedy)


def _drop_limits(entry: ModelEntry, override: Override) -> ModelEntry:
    """Return the entry without the limits and tiers that the override makes meaningless."""
    window = override.context_tokens or entry.context_tokens
    return replace(
        entry,
        input_tokens=_within(entry.input_tokens, window),
        output_tokens=_within(entry.output_tokens, window),
        tiers=() if override.prices is not None else entry.tiers,
    )


def _within(limit: int | None, window: int) -> int | None:
    return limit if limit is not None and limit < window else None


def _check_limits(entry: ModelEntry, name: str) -> None:
    for field in _LIMITS:
        value = getattr(entry, field)
        if value is not None and value > entry.context_tokens:
            problem = f"{value:,} is more than the window of {entry.context_tokens:,}"
            raise OverrideError(name, field, problem, remedy="raise context_tokens or lower this")
