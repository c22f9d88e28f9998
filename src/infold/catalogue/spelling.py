"""The spellings of a model's name: from the name as it is written to the shortest that still means the same model.

Only parts that cannot name a different model are removed: a provider's path, a cloud's region and vendor, a revision
counter, a full date, "-latest", a router's variant. A word such as "mini" or "pro", a size, or a four-digit date
(Mistral's "2407" is a version) always stays, so that no name falls back to a different model.
"""

import re
from collections.abc import Iterator

import msgspec

from infold.catalogue.models import SpellingStep

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

_CLOUD = re.compile(rf"(?:(?P<region>{_REGIONS})\.)?(?:{_VENDORS})\.(?P<model>.+)")

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
