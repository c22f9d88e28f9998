"""Facts about a model that a user states in place of the catalogue's, and their checks."""

import math
from collections.abc import Mapping

import msgspec

from infold.catalogue.models import FamilyName, ModelEntry, Prices, Tier
from infold.errors import UsageError

_LIMITS = ("input_tokens", "output_tokens")
_POSITIVE = ("context_tokens", *_LIMITS, "cache_minimum_tokens", "cache_lifetime_seconds")


class CatalogueError(UsageError):
    """A value that the caller passed to the catalogue is wrong."""


class OverrideError(CatalogueError):
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


def read_overrides(raw: Mapping[str, object]) -> dict[str, Override]:
    """Return overrides by model name, from the plain mappings of a settings file.

    Raise `OverrideError` for an unknown field, a wrong type or an impossible number.
    """
    return {name: _read(name, value) for name, value in raw.items()}


def apply_override(entry: ModelEntry, override: Override, *, name: str) -> ModelEntry:
    """Return the entry with the user's facts in place of its own.

    A smaller window drops the catalogue's limits that no longer fit in it. Raise `OverrideError` if a number is
    impossible or two stated facts contradict each other.
    """
    _check(override, name)
    stated = {field: getattr(override, field) for field in Override.__struct_fields__}
    known = {field: value for field, value in stated.items() if value is not None}
    merged = msgspec.structs.replace(_drop_limits(entry, override), **known, source="user", as_of="")
    _check_limits(merged, name)
    return merged


def _read(name: str, value: object) -> Override:
    try:
        override = msgspec.convert(value, Override)
    except msgspec.ValidationError as error:
        fields = ", ".join(Override.__struct_fields__)
        raise OverrideError(name, "value", str(error), remedy=f"the fields are {fields}") from error
    _check(override, name)
    return override


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
    return msgspec.structs.replace(
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
