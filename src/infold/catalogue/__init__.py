"""Limits and prices of models: a data file, a lookup that tolerates spellings, and overrides."""

from infold.catalogue.lookup import (
    ASSUMED_CONTEXT_TOKENS,
    FAMILIES,
    Family,
    Override,
    OverrideError,
    Table,
    binds_thinking,
    compacts_natively,
    cost_of,
    family_of,
    lookup,
    lower_bound,
    shipped_table,
    upper_bound,
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
    "compacts_natively",
    "cost_of",
    "family_of",
    "lookup",
    "lower_bound",
    "shipped_table",
    "upper_bound",
]
