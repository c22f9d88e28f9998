"""Find what is known about a model by any of its usual names.

The catalogue never guesses silently: a name matches itself or the same model under a longer name (`spelling.py`), or
the result is `Assumed`, with a cautious default and its reason.
"""

import zlib
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from infold.catalogue.families import family_of
from infold.catalogue.models import Assumed, Known, Lookup, ModelEntry, SpellingStep
from infold.catalogue.overrides import Override, apply_override
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
            return Known(entry, matched=entry.name, how=_how(name, entry.name, spelling.steps))
        if (alias := aliases.get(spelling.key)) is not None:
            entry = models[key_of(alias)]
            return Known(entry, matched=entry.name, how=(*spelling.steps, "alias"))
    return None


def _how(name: str, matched: str, steps: tuple[SpellingStep, ...]) -> tuple[SpellingStep, ...]:
    if steps:
        return steps
    return ("exact",) if name == matched else ("spelling",)


def _override_for(name: str, overrides: Iterable[str]) -> str | None:
    """Return the name under which the caller wrote an override for this model."""
    stated = {key_of(written): written for written in overrides}
    wanted = [spelling.key for spelling in spellings(name)] or [key_of(name)]
    return next((stated[key] for key in wanted if key in stated), None)


def _assume(name: str) -> Assumed:
    return Assumed(_default(name), reason=_reason(name), advice=_ADVICE)


def _default(name: str) -> ModelEntry:
    return ModelEntry(
        name=name,
        provider="",
        context_tokens=ASSUMED_CONTEXT_TOKENS,
        family=family_of(name),
        source="default",
    )


def _reason(name: str) -> str:
    window = f"a window of {ASSUMED_CONTEXT_TOKENS:,} tokens is assumed"
    if is_local(name):
        return f"{name!r} is served by a local server, which sets its own window; {window}"
    tried = ", ".join(dict.fromkeys(spelling.key for spelling in spellings(name)))
    return f"no model of this name in the catalogue of {shipped_table().as_of} (tried {tried}); {window}"


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
