"""Find what is known about a model by any of its usual names.

The catalogue never guesses silently: a name matches itself or the same model under a longer name, or the result is
`Assumed`, with a cautious default and its reason. Of a name only parts are removed that cannot name a different model: a
provider's path, a cloud's region and vendor, a revision counter, a full date, "-latest", a router's variant. A word such as
"mini" or "pro", a size, or a four-digit date (Mistral's "2407" is a version) always stays.

The bounds of a family of tokenisers serve to prove that a request fits: a view of n o200k tokens is taken to be at most n times
`upper_bound` of the model's own. They bound whole sessions, not every string: a single line of digits or rare script may exceed
them, which reported usage then corrects. A bound is the larger of two figures: the highest ratio over 25 recorded agent sessions
(English, Chinese, Japanese, Korean) times `FRAMING`, and the highest ratio on one kind of content (logs, Chinese prose).
Claude's is measured against reported usage, which already includes framing. Where a rejected request can be recovered, the
expected count decides instead: the estimate times the family's factor. Unknown models are expected to count as the estimate
does; the one recorded model of family "other" does (0.99).
"""

import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from infold.catalogue.models import Assumed, FamilyName, Known, Lookup, ModelEntry, Prices, SpellingStep, Tier
from infold.core.messages import Usage
from infold.errors import UsageError, kind_of

_FOLD = str.maketrans({".": "-", "_": "-", "@": "-", " ": "-"})


_LOCAL = frozenset(
    {
        "docker-model-runner",
        "hosted-vllm",
        "llama-cpp",
        "llamacpp",
        "llamafile",
        "lm-studio",
        "lmstudio",
        "localai",
        "ollama",
        "ollama-chat",
        "sglang",
        "vllm",
    }
)


_SUBSCRIPTIONS = frozenset(
    {"chatgpt", "claude-code", "codex", "copilot", "gemini-cli", "github-copilot", "openai-codex"}
)
"""How agents and libraries name what is paid by the month."""


# Only hosts that may have an entry of their own need one common spelling.
_HOSTS = {
    "amazon-bedrock": "bedrock",
    "amazon-nova": "amazon",
    "bedrock-converse": "bedrock",
    "bedrock-mantle": "bedrock",
    "cohere-chat": "cohere",
    "fireworks-ai": "fireworks",
    "gemini": "google",
    "google-vertex": "vertex",
    "meta-llama": "meta",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "qwen": "dashscope",
    "together-ai": "together",
    "vertex-ai": "vertex",
    "vertex-ai-beta": "vertex",
    "x-ai": "xai",
    "z-ai": "zai",
    "zai-org": "zai",
    "zhipuai": "zai",
}


_REGIONS = r"us|eu|apac|jp|au|ca|uk|us-gov|global|regional"


_VENDORS = (
    r"ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen"
    r"|writer|xai|zai"
)


_REGION = re.compile(rf"({_REGIONS}|[a-z]{{2}}(-gov|-iso[a-z]?)?-[a-z]+-\d)")


_CLOUD = re.compile(rf"(?:(?P<region>{_REGIONS}|[a-z]{{2}}(?=\.anthropic))\.)?(?:{_VENDORS})\.(?P<model>.+)")


_VARIANT = re.compile(r"(\[1m\]|:(batch|beta|exacto|floor|free|nitro|online|thinking))$")


_FINE_TUNE = re.compile(r"^(ft:[^:]+):.*$")


_REVISION = re.compile(r"(:\d+|-default|-maas)$")


_CLAUDE_REVISION = re.compile(r"^(claude-.+?)-v\d+(:\d+)?$")


_GEMINI_REVISION = re.compile(r"^(gemini-.+)-00\d$")


_DATE = re.compile(r"-20[2-9]\d-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])$")


_LATEST = re.compile(r"-latest$")


_VERSION_FIRST = re.compile(r"^claude-(\d(?:-\d)?)-([a-z]+)(.*)$")


_TIER_FIRST = re.compile(r"^claude-([a-z]+)-(\d(?:-\d)?)(?!\d)(.*)$")


class Spelling(msgspec.Struct, frozen=True):
    """A key to look up, and the steps from the name to it; no steps if nothing was removed."""

    key: str
    steps: tuple[SpellingStep, ...]


class _Place(msgspec.Struct, frozen=True):
    host: str
    region: str
    model: str


def spellings(name: str) -> Iterator[Spelling]:
    """Yield every key a name may be known by, closest first; none for a local server, which sets its own window."""
    if is_local(name):
        return
    place = _split_host(name)
    for form in _forms(fold(place.model)):
        yield from _hosted_keys(place, form)


def key_of(name: str) -> str:
    """Return the closest of a name's keys: the one of an entry or an override of exactly that name."""
    return next((spelling.key for spelling in spellings(name)), fold(name))


def canonical_name(name: str) -> str:
    """Return a name in the catalogue's own form, `host/region/model`, with the model's dots unchanged."""
    place = _split_host(name)
    return "/".join(part for part in (place.host, place.region, place.model) if part)


def fold(text: str) -> str:
    """Normalise what providers write differently: dots, hyphens, underscores and capitals."""
    return text.strip().lower().translate(_FOLD)


def is_local(name: str) -> bool:
    """Return whether the name points at a server that chooses its own window (Ollama, vLLM and the like)."""
    host, slash, _ = name.partition("/")
    return bool(slash) and fold(host) in _LOCAL


def is_subscription(name: str) -> bool:
    """Return whether the name points at a provider that is paid by the month, so that a token costs nothing."""
    host, slash, _ = name.partition("/")
    return bool(slash) and fold(host) in _SUBSCRIPTIONS


def _split_host(name: str) -> _Place:
    """Split a name into host, region and the model's own name."""
    *path, last = name.strip().lower().split("/")
    host = fold(path[0]) if path else ""
    host = "bedrock" if host.startswith("arn:aws:bedrock") else _HOSTS.get(host, host)
    region = next((fold(part) for part in path[1:] if _REGION.fullmatch(part)), "")
    if cloud := _CLOUD.fullmatch(last):
        return _Place(host or "bedrock", cloud["region"] or region, cloud["model"])
    return _Place(host, region, last)


def _forms(model: str) -> Iterator[Spelling]:
    """Yield the model's own name, then with one more suffix removed each time."""
    form = Spelling(model, ())
    yield from _orders(form)
    for step, endings in _ENDINGS:
        shorter = form.key
        for ending, rest in endings:
            shorter = ending.sub(rest, shorter)
        if shorter != form.key:
            form = Spelling(shorter, (*form.steps, step))
            yield from _orders(form)


def _orders(form: Spelling) -> Iterator[Spelling]:
    """Yield both orders of Claude's names: "claude-4-5-sonnet" and "claude-sonnet-4-5"."""
    yield form
    if found := _VERSION_FIRST.match(form.key) or _TIER_FIRST.match(form.key):
        yield Spelling(f"claude-{found[2]}-{found[1]}{found[3]}", (*form.steps, "spelling"))


_ENDINGS: tuple[tuple[SpellingStep, tuple[tuple[re.Pattern[str], str], ...]], ...] = (
    ("variant removed", ((_FINE_TUNE, r"\1"), (_VARIANT, ""))),
    ("revision removed", ((_REVISION, ""), (_CLAUDE_REVISION, r"\1"), (_GEMINI_REVISION, r"\1"))),
    ("date removed", ((_DATE, ""),)),
    ("latest removed", ((_LATEST, ""),)),
)
"""What may be removed from the end of a name, in this order: patterns and what takes their place."""


def _hosted_keys(place: _Place, form: Spelling) -> Iterator[Spelling]:
    """Yield the model at its host and region, at its host, and anywhere."""
    if place.region:
        yield Spelling(f"{place.host}/{place.region}/{form.key}", form.steps)
    if place.host:
        yield Spelling(f"{place.host}/{form.key}", form.steps)
        yield Spelling(form.key, ("prefix removed", *form.steps))
    else:
        yield form


FRAMING = 1.17
"""Reported input growth over the o200k count of what was added, highest of the Codex sessions (1.06 to 1.17): their
vocabulary is o200k itself, so this is role markers, call framing and hidden reminders.
"""


class Family(msgspec.Struct, frozen=True):
    """A tokeniser family: its bounds over o200k and the source of the upper one.

    `lower_bound` holds for ASCII text; no vocabulary measured has less than 0.85 of o200k's tokens there, over whole
    sessions. `factor` and `wide_factor` are the expected tokens per token of the estimate, for ASCII and other text
    (fitted by `benchmarks/family_factors.py`, rounded to one decimal, at least 1). `cache_read`, `cache_write` and `output` are
    its usual prices as multiples of the price of input: medians over the catalogue's models with a price for cache reads. Where
    fewer than ten have one, and for "other", they are those of the family whose cuts cost most, so that fewer are made.
    """

    upper_bound: float
    origin: str
    lower_bound: float = 0.85
    factor: float = 1.0
    wide_factor: float = 1.0
    cache_read: float = 0.1
    cache_write: float = 1.25
    output: float = 5.0


FAMILIES: Mapping[FamilyName, Family] = MappingProxyType(
    {
        "o200k": Family(1.17, "reported usage of Codex sessions, 1.06 to 1.17", cache_write=1.0),
        "cl100k": Family(1.47, "Chinese prose 1.47; sessions up to 1.16 × framing = 1.36", wide_factor=1.4),
        "claude": Family(
            1.65,
            "reported usage of Claude Code sessions: 1.21 to 1.35 en, zh, ja; 1.65 ko",
            1.2,
            factor=1.2,
            wide_factor=1.6,
        ),
        "gemini": Family(
            1.45,
            "Gemma vocabulary, one agent transcript 1.24 × framing = 1.45",
            factor=1.1,
            wide_factor=1.2,
            cache_write=1.0,
        ),
        "llama3": Family(1.22, "sessions up to 1.04 × framing = 1.22; Chinese prose 1.04"),
        "qwen": Family(
            1.45,
            "service logs 1.45; sessions up to 1.19 × framing = 1.40",
            cache_read=0.2,
            cache_write=1.0,
            output=3.0,
        ),
        "deepseek": Family(
            1.38,
            "sessions up to 1.18 × framing = 1.38; indented JSON 1.10",
            factor=1.1,
            cache_write=1.0,
            output=3.0,
        ),
        "mistral": Family(
            1.48,
            "service logs 1.48; sessions up to 1.25 × framing = 1.46 (vocabulary v3)",
            factor=1.1,
            wide_factor=1.3,
            cache_write=1.0,
            output=3.0,
        ),
        "glm": Family(1.31, "sessions up to 1.12 × framing = 1.31", cache_read=0.19, cache_write=1.0, output=3.2),
        "kimi": Family(
            1.26,
            "sessions up to 1.07 × framing = 1.26; Chinese prose 0.75",
            cache_read=0.17,
            cache_write=1.0,
            output=4.2,
        ),
        "grok": Family(1.96, "no public vocabulary: as for other", cache_read=0.16, cache_write=1.0, output=2.0),
        "other": Family(1.96, "widest vocabulary measured, Llama 2: sessions up to 1.67 × framing = 1.96"),
    }
)


USUAL_PRICES: Mapping[FamilyName, Prices] = MappingProxyType(
    {
        name: Prices(1.0, family.output, cache_read=family.cache_read, cache_write=family.cache_write)
        for name, family in FAMILIES.items()
    }
)
"""The usual prices of each family with input at 1: ratios to compare, in no currency."""


# The first rule that matches wins; they are searched in the last part of a name, lower case, dots as hyphens.
_RULES: tuple[tuple[str, FamilyName], ...] = (
    (r"distill-llama|llama-?v?3", "llama3"),
    (r"distill-qwen|qwen|qwq|qvq", "qwen"),
    (r"claude", "claude"),
    (r"gemini|gemma", "gemini"),
    (r"gpt-?oss|gpt-4o|gpt-4-[15](?!\d)|gpt-[5-9]|chatgpt|chat-latest|codex|daybreak|gpt-audio", "o200k"),
    (r"^(ft:)?o[134](-|$)|computer-use", "o200k"),
    (r"gpt-4|gpt-3-?5", "cl100k"),
    (r"deepseek", "deepseek"),
    # Old models with the 32k vocabularies v1 and v2, which count like Llama 2.
    (r"mixtral|mistral-7b|mistral-tiny|codestral-mamba|mistral-medium-2312", "other"),
    (r"mistral|ministral|codestral|devstral|magistral|pixtral|voxtral|leanstral", "mistral"),
    (r"(^|-)glm", "glm"),
    (r"kimi|moonshot", "kimi"),
    (r"grok", "grok"),
)


_BINDING = frozenset(
    {
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-haiku-5-5",
        "claude-mythos-5-1",
        "claude-mythos-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
    }
)
"""Anthropic, "Prefix checks on thinking blocks", November 2026; the same on Bedrock and Vertex."""


_COMPACTING = re.compile(
    r"claude-(?:(?:fable|mythos)-5|mythos-preview|opus-(?:4-[678]|[5-9])|sonnet-(?:4-6|[5-9])|haiku-(?:5-5|[6-9]))"
)
"""Anthropic, "Compaction on demand", November 2026, and the models to come."""


def family_of(model: str) -> FamilyName:
    """Return the tokeniser family of a model name; "other", which has the widest bound, if no rule matches."""
    last = model.rsplit("/", 1)[-1].lower().replace(".", "-")
    return next((family for pattern, family in _RULES if re.search(pattern, last)), "other")


def binds_thinking(model: str) -> bool:
    """Return whether a model accepts its thinking blocks only behind the messages they were created behind, as
    documented.

    Other models may do so too; their rejections show it.
    """
    return any(spelling.key in _BINDING for spelling in spellings(model))


def compacts_natively(model: str) -> bool:
    """Return whether Anthropic compacts a conversation with this model itself when asked to, as documented."""
    return any(_COMPACTING.match(spelling.key) for spelling in spellings(model))


def lower_bound(family: FamilyName) -> float:
    """Return the fewest tokens of this family per o200k token of ASCII text, over a whole session."""
    return FAMILIES[family].lower_bound


def upper_bound(family: FamilyName) -> float:
    """Return the most tokens of this family per o200k token, over a whole session."""
    return FAMILIES[family].upper_bound


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


_ADVICE = 'pass the window yourself (window=…), or set it in your settings under [models."its-name"]'


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


MOST_NEAREST, NEAREST_LIKENESS = 3, 0.75


@lru_cache(maxsize=256)
def nearest_models(name: str) -> tuple[str, ...]:
    """Return the names of known models most like a name that is not known, the most similar first."""
    wanted = fold(_split_host(name[:_LONGEST_NAME]).model)
    known = {fold(entry.name): entry.name for entry in shipped_table().models if "/" not in entry.name}
    return tuple(known[one] for one in get_close_matches(wanted, known, n=MOST_NEAREST, cutoff=NEAREST_LIKENESS))


def cost_of(model: str, usage: Usage | None, stated: Prices | None = None) -> float:
    """Return the US dollars for one request of that usage, a compaction by its provider included; 0 if usage or prices are
    unknown. `stated` prices are used in place of the catalogue's."""
    if usage is None:
        return 0.0
    prices = stated or lookup(model).entry.prices_at(usage.prompt)
    if prices is None:
        return 0.0
    read = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    hour = written if prices.cache_write_hour is None else prices.cache_write_hour
    sent = usage.input * prices.input + usage.cache_read * read + usage.cache_write * written
    sent += min(usage.cache_write_hour, usage.cache_write) * (hour - written)
    own = (sent + (usage.output + usage.reasoning) * prices.output) / 1_000_000
    return own + cost_of(model, usage.compaction, stated)


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
