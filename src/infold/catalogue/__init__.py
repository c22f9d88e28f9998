"""Limits and prices of models: a data file, a lookup that tolerates spellings, and overrides."""

from infold.catalogue.families import FAMILIES, Family, binds_thinking, family_of, lower_bound, upper_bound
from infold.catalogue.lookup import (
    ASSUMED_CONTEXT_TOKENS,
    Override,
    OverrideError,
    Table,
    cost_of,
    lookup,
    shipped_table,
)
from infold.catalogue.models import Assumed, FamilyName, Known, Lookup, ModelEntry, Prices, SpellingStep, Tier

__all__ = [
    "ASSUMED_CONTEXT_TOKENS",
    "Assumed",
    "FAMILIES",
    "Family",
    "FamilyName",
    "Known",
    "Lookup",
    "ModelEntry",
    "Override",
    "OverrideError",
    "Prices",
    "SpellingStep",
    "Table",
    "Tier",
    "binds_thinking",
    "cost_of",
    "family_of",
    "lookup",
    "lower_bound",
    "shipped_table",
    "upper_bound",
]
