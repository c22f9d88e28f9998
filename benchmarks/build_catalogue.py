"""Builds the catalogue's data file from the data inside the litellm and genai-prices wheels.

    python benchmarks/build_catalogue.py [--write] [--wheels FOLDER] [--date YYYY-MM-DD]

Neither package is imported or installed: the wheels are downloaded with pip (or taken from FOLDER) and one
file is read out of each. Without --write the script only reports. The same wheels and date give the same
bytes; the date stays that of the present file while the wheels' versions do, and is today otherwise.

How two sources become one entry:

1. Which models. Chat models of the providers in `LITELLM` and `GENAI`. The bare name goes to the first
   provider in that order that has it, so to the owner before any host; a host's copy stays, as `host/model`,
   only where the lookup would answer differently without it.
2. Window, input, output. litellm's `max_input_tokens` is the whole window, except for OpenAI's models from
   GPT-5 on, whose input and output have limits of their own: there it is the input if it makes a known whole
   together with the output, else the whole; the input limit is always the whole less the longest answer, or
   less 128,000, which all of them share, where no source states that. An output limit as large as the window
   is none. What genai-prices alone knows takes its output limit from a cloud that serves the same window.
3. Where the windows disagree: the smaller, as too small costs an early compaction and too large a rejected
   request; but litellm's where genai-prices has the same number rounded to hundreds of thousands. For a closed
   model no host has more than its owner.
4. Prices: litellm's, being newer; genai-prices fills in what litellm leaves out where input and output agree.
   Peak prices, standard service. A cache write below the price of input is a mistake or means "no charge
   beyond input", so it is left out. A tier that leaves out a price keeps its ratio to input, a tier beyond the
   window is left out. Zero for input and output is taken as "unknown" unless the name says ":free".
5. Cache: the least tokens from litellm, else OpenAI's documented 1,024; the lifetime is 300 s for Claude
   (documented as 5 minutes, renewed on use), 1,800 s for OpenAI's models that charge for cache writes
   (documented as 30 minutes at least, from gpt-5.6 on) and 300 s for OpenAI's others (documented as 5 to 10
   minutes idle in memory; the 24 hours that most accounts have by default are an upper limit), else unknown.
"""

import argparse
import ast
import datetime as dt
import gzip
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any  # the shape of foreign data is known at run time only

import msgspec

from infold.catalogue import ModelEntry, Prices, Table, Tier, family_of
from infold.catalogue.lookup import DATA_FILE, canonical_name, find_entry, fold

Foreign = Mapping[str, Any]

OUTPUT = Path(__file__).parents[1] / "src" / "infold" / "catalogue" / DATA_FILE
LARGEST_BYTES = 200_000

LITELLM = {
    "openai": "openai", "anthropic": "anthropic", "gemini": "google", "xai": "xai", "deepseek": "deepseek",
    "moonshot": "moonshot", "zai": "zai", "minimax": "minimax", "mistral": "mistral", "meta": "meta",
    "dashscope": "dashscope", "cohere_chat": "cohere", "amazon_nova": "amazon", "meta_llama": "meta",
    "ai21": "ai21", "perplexity": "perplexity", "xiaomi_mimo": "xiaomi", "tencent": "tencent",
    "vertex_ai-language-models": "vertex", "vertex_ai": "vertex", "vertex_ai-anthropic_models": "vertex",
    "vertex_ai-mistral_models": "vertex", "vertex_ai-llama_models": "vertex", "vertex_ai-zai_models": "vertex",
    "vertex_ai-qwen_models": "vertex", "vertex_ai-deepseek_models": "vertex", "bedrock_converse": "bedrock",
    "vertex_ai-openai_models": "vertex", "vertex_ai-minimax_models": "vertex", "bedrock": "bedrock",
    "vertex_ai-moonshot_models": "vertex", "azure": "azure", "azure_ai": "azure-ai", "groq": "groq",
    "cerebras": "cerebras", "together_ai": "together", "fireworks_ai": "fireworks", "deepinfra": "deepinfra",
    "github_copilot": "github-copilot", "databricks": "databricks", "chatgpt": "chatgpt", "novita": "novita",
    "nebius": "nebius", "sambanova": "sambanova", "vercel_ai_gateway": "vercel-ai-gateway", "oci": "oci",
    "watsonx": "watsonx",
}  # fmt: skip
GENAI = {
    "openai": "openai", "anthropic": "anthropic", "google": "google", "x-ai": "xai", "mistral": "mistral",
    "deepseek": "deepseek", "moonshotai": "moonshot", "zai": "zai", "minimax": "minimax", "cohere": "cohere",
    "meta": "meta", "perplexity": "perplexity", "azure": "azure", "groq": "groq", "cerebras": "cerebras",
    "together": "together", "fireworks": "fireworks", "openrouter": "openrouter",
}  # fmt: skip
RANK = {host: rank for rank, host in enumerate(dict.fromkeys(chain(LITELLM.values(), GENAI.values())))}
CLOSED = ("openai", "anthropic", "google", "xai")
"""Owners that serve their models themselves; what others resell cannot hold more."""

CLOUDS = ("azure", "bedrock", "vertex")
"""Hosts that serve closed models with the owner's limits; others cut answers short."""

NOT_CHAT = re.compile(
    r"embed|tts|whisper|transcri|ocr|moderation|rerank|realtime|-live|lyria|image|video|guard|safety|audio|voice"
    r"|sonic|sora|veo|dall-e|flux|pegasus|-ttm-|commitment|container|router"
)
SPLIT = re.compile(r"^(gpt-[5-9]|(gpt-)?chat-latest|(gpt-)?daybreak)")
SPLIT_WHOLES = (128_000, 400_000, 1_050_000)
SPLIT_OUTPUT = 128_000
PLACEHOLDERS = {("fireworks", 4_096), ("together", 4_096)}
"""Windows these hosts' rows have in litellm when the true one was not known."""

NAMELESS = re.compile(r"^([vr]\d[\d.]*(-v\d.*)?|community)$")
"""What is left of some hosts' names ("deepseek.v3.2") says nothing without the host."""

ROUNDING = 0.10
DEAREST = 1_000
"""Dollars per million tokens; the dearest model asks 600, and a few rows are a million times too high."""

RENAMED = {
    "claude-3-5-haiku-latest": "claude-3-5-haiku", "claude-3-7-sonnet-latest": "claude-3-7-sonnet",
    "claude-3-opus-latest": "claude-3-opus", "claude-opus-4-0": "claude-opus-4",
    "claude-sonnet-4-0": "claude-sonnet-4", "grok-4-0709": "grok-4",
}  # fmt: skip
"""Models that only genai-prices has from their owner, by the name the others use."""

COSTS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_hour",
}
ABOVE = re.compile(rf"^({'|'.join(COSTS)})_above_(\d+)k_tokens$")
EMBEDDED = ModelEntry(
    name="smollm2-135m-instruct", provider="infold", context_tokens=8_192, prices=Prices(0.0, 0.0),
    summarises=False, calls_tools=False, source="infold",
)  # fmt: skip


class Sources(msgspec.Struct, frozen=True):
    """What is read: litellm's rows by name, genai-prices' models by host, and both wheels' names and versions."""

    rows: Mapping[str, Foreign]
    priced: Mapping[str, list[Foreign]]
    names: tuple[str, str]
    as_of: str


def main() -> None:
    """Read the wheels, merge, report, and write if asked to."""
    parser = argparse.ArgumentParser(description="Build the model catalogue.")
    parser.add_argument("--write", action="store_true", help="replace the data file")
    parser.add_argument("--wheels", type=Path, help="a folder that holds the two wheels already")
    parser.add_argument("--date", help="the day the data was taken")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sources = read(arguments.wheels or download(Path(scratch)), arguments.date)
    report: list[str] = []
    catalogue = build(sources, report)
    packed = pack(catalogue)
    hosted = sum("/" in entry.name for entry in catalogue.models)
    print(*dict.fromkeys(report), sep="\n")
    print(f"{len(catalogue.models)} models ({hosted} of them a host's own), {len(catalogue.aliases)} aliases")
    print(f"{', '.join(sources.names)}, as of {catalogue.as_of}: {len(packed):,} bytes")
    if len(packed) >= LARGEST_BYTES:
        sys.exit(f"larger than {LARGEST_BYTES:,} bytes; drop a host from LITELLM")
    if arguments.write:
        OUTPUT.write_bytes(packed)


def download(folder: Path) -> Path:
    """Fetch both wheels from whatever index pip is set up with."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--dest", str(folder), "litellm", "genai-prices"], check=True)
    return folder


def read(folder: Path, date: str | None) -> Sources:
    """The data inside the two wheels of a folder."""
    [litellm], [genai] = folder.glob("litellm-*.whl"), folder.glob("genai_prices-*.whl")
    rows = json.loads(_member(litellm, "litellm/model_prices_and_context_window_backup.json"))
    [providers] = _assigned(_member(genai, "genai_prices/data.py"))
    priced = {GENAI[each["id"]]: each["models"] for each in providers if each["id"] in GENAI}
    names = (_version(litellm), _version(genai))
    return Sources(rows, priced, names, as_of=date or _date_for(names))


def _member(path: Path, name: str) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name).decode()


def _version(path: Path) -> str:
    distribution, version, *_ = path.name.split("-")
    return f"{distribution.replace('_', '-')} {version}"


def _date_for(names: tuple[str, str]) -> str:
    """The day these versions were first taken: the present file's while it has those, else today."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    if not OUTPUT.exists():
        return today
    present = msgspec.json.decode(gzip.decompress(OUTPUT.read_bytes()), type=Table)
    return present.as_of if present.sources == names else today


def _assigned(text: str) -> list[Any]:
    """The values a Python data module assigns, read as syntax and never run; a call becomes a mapping."""
    return [_plain(node.value) for node in ast.parse(text).body if isinstance(node, ast.AnnAssign)]


def _plain(node: ast.AST | None) -> Any:
    """A literal, list, mapping or constructor call as plain data."""
    match node:
        case ast.Constant(value):
            return value
        case ast.List(elts) | ast.Tuple(elts):
            return [_plain(item) for item in elts]
        case ast.Dict(keys, values):
            return {_plain(key): _plain(value) for key, value in zip(keys, values, strict=True)}
        case ast.Call():
            return _plain_call(node)
    return None


def _plain_call(call: ast.Call) -> Any:
    """A decimal as a number, a date as text, any other constructor as a mapping of its fields."""
    match call:
        case ast.Call(func=ast.Name("Decimal"), args=[ast.Constant(value)]):
            return float(str(value))
        case ast.Call(func=ast.Attribute(attr="date"), args=[year, month, day]):
            return f"{_plain(year):04}-{_plain(month):02}-{_plain(day):02}"
    return {str(keyword.arg): _plain(keyword.value) for keyword in call.keywords}


def build(sources: Sources, report: list[str]) -> Table:
    """The whole catalogue out of both sources, telling `report` where they disagree."""
    both = [merge(entry, sources, report) for entry in from_litellm(sources)]
    present = {fold(entry.name) for entry in both}
    only = [entry for entry in from_genai(sources) if fold(entry.name) not in present]
    table = place(sorted([EMBEDDED, *both, *only], key=_order), report)
    dated = [msgspec.structs.replace(table[key], as_of=sources.as_of) for key in sorted(table)]
    return Table(as_of=sources.as_of, sources=sources.names, models=tuple(dated), aliases=_aliases(table))


def from_litellm(sources: Sources) -> Iterator[ModelEntry]:
    """An entry for each chat row of a provider we keep that states a window."""
    for name, row in sources.rows.items():
        host = LITELLM.get(row.get("litellm_provider", ""), "")
        window = _count(row.get("max_input_tokens"))
        chat = row.get("mode") in ("chat", "responses") and not NOT_CHAT.search(name.lower())
        if host and window and chat and (host, window) not in PLACEHOLDERS:
            path = canonical_name(name).removeprefix(f"{host}/").split("/")
            model = "/".join(path if host in ("azure", "bedrock") else path[-1:])
            named = ModelEntry(f"{host}/{model}", host, window, family_of(name), source=sources.names[0])
            yield _with_row(named, row)


def _with_row(entry: ModelEntry, row: Foreign) -> ModelEntry:
    prices = _litellm_prices(row)
    full = msgspec.structs.replace(
        entry,
        output_tokens=_count(row.get("max_output_tokens")),
        prices=prices,
        tiers=_litellm_tiers(row, prices),
        cache_minimum_tokens=_count(row.get("prompt_cache_min_tokens")),
    )
    return _with_cache_rules(_with_limits(full))


def _count(value: Any) -> int | None:
    return int(value) if value and isinstance(value, int | float) else None


def _with_limits(entry: ModelEntry) -> ModelEntry:
    """Rule 2: the three limits out of litellm's two numbers."""
    window, output = entry.context_tokens, entry.output_tokens
    if not SPLIT.match(entry.name.rsplit("/", 1)[-1]) or (output is None and window <= SPLIT_WHOLES[0]):
        return _within(entry, window)
    output = output or SPLIT_OUTPUT
    total = window + output if window + output in SPLIT_WHOLES else window
    split = msgspec.structs.replace(entry, input_tokens=total - output if output < total else None)
    return _within(split, total)


def _within(entry: ModelEntry, window: int) -> ModelEntry:
    """The entry with this window, and without limits and tiers that reach it."""
    limits = {field: getattr(entry, field) for field in ("input_tokens", "output_tokens")}
    kept = {field: value if value and value < window else None for field, value in limits.items()}
    tiers = tuple(tier for tier in entry.tiers if tier.above_tokens < window)
    return msgspec.structs.replace(entry, context_tokens=window, tiers=tiers, **kept)


def _with_cache_rules(entry: ModelEntry) -> ModelEntry:
    """Rule 5: what the providers document, where a cache price shows that there is a cache."""
    cached = entry.prices is not None and entry.prices.cache_read is not None
    openai = entry.family == "o200k" and entry.provider in ("openai", "azure", "azure-ai")
    if not cached or not (openai or entry.family == "claude"):
        return entry
    minimum = entry.cache_minimum_tokens or (1_024 if openai else None)
    keeps_longer = openai and entry.prices is not None and entry.prices.cache_write is not None
    lifetime = 1_800 if keeps_longer else 300
    return msgspec.structs.replace(entry, cache_minimum_tokens=minimum, cache_lifetime_seconds=lifetime)


def _litellm_prices(row: Foreign) -> Prices | None:
    """Standard prices; those of the first range where a row has only ranges."""
    ranges = row.get("tiered_pricing") or [{}]
    return _prices({field: row.get(cost, ranges[0].get(cost)) for cost, field in COSTS.items()}, per=1e6)


def _prices(found: Foreign, *, per: float) -> Prices | None:
    """Rule 4: nothing without both main prices or when they cannot be true, and no write cheaper than input."""
    dollars = {field: round(value * per, 6) for field, value in found.items() if value is not None}
    if "input" not in dollars or "output" not in dollars or not 0 < max(dollars.values()) < DEAREST:
        return None
    writes = ("cache_write", "cache_write_hour")
    return Prices(**{field: n for field, n in dollars.items() if field not in writes or n >= dollars["input"]})


def _litellm_tiers(row: Foreign, base: Prices | None) -> tuple[Tier, ...]:
    """Long-context prices, from both ways litellm writes them."""
    found: dict[int, dict[str, float]] = {}
    for key, value in row.items():
        if above := ABOVE.match(key):
            found.setdefault(int(above[2]) * 1_000, {})[COSTS[above[1]]] = value * 1e6
    for part in (row.get("tiered_pricing") or ())[1:]:
        found[int(part["range"][0])] = {field: part[cost] * 1e6 for cost, field in COSTS.items() if part.get(cost)}
    return _tiers(found, base)


def _tiers(found: Mapping[int, Foreign], base: Prices | None) -> tuple[Tier, ...]:
    """Tiers in rising order; a price a tier leaves out keeps the base's ratio to input."""
    return tuple(
        Tier(above_tokens=start, prices=prices)
        for start, costs in sorted(found.items())
        if base and start and (prices := _prices({**_scaled(base, costs), **costs}, per=1))
    )


def _scaled(base: Prices, costs: Foreign) -> Foreign:
    ratio = costs.get("input", base.input) / base.input if base.input else 1
    return {field: value * ratio for field, value in _stated(base).items()}


def _stated(prices: Prices) -> dict[str, float]:
    return {field: value for field, value in msgspec.structs.asdict(prices).items() if value is not None}


def merge(entry: ModelEntry, sources: Sources, report: list[str]) -> ModelEntry:
    """Rules 3 and 4 for one model that both sources may know."""
    host, *region, model = entry.name.split("/")
    models = () if region else sources.priced.get(host, ())  # genai-prices knows nothing of regions
    other = next((each for each in models if _matches(each["match"], model)), None)
    if other is None:
        return entry
    entry = _with_window(entry, other.get("context_window") or entry.context_tokens, report)
    return _with_prices(entry, _genai_prices(other, sources.as_of), source=sources.names[1], report=report)


def _matches(clause: Foreign, name: str) -> bool:
    """Whether a genai-prices clause accepts a name."""
    [(kind, value)] = clause.items()
    match kind:
        case "or_":
            return any(_matches(part, name) for part in value)
        case "and_":
            return all(_matches(part, name) for part in value)
        case "regex":
            return re.search(value, name) is not None
        case "starts_with":
            return name.startswith(value)
        case "ends_with":
            return name.endswith(value)
    return value == name if kind == "equals" else value in name


def _with_window(entry: ModelEntry, window: int, report: list[str]) -> ModelEntry:
    close = _close(window, entry.context_tokens)
    if not close:
        report.append(f"window of {entry.name}: {entry.context_tokens:,} or {window:,}, took the smaller")
    rounded = close and window % 100_000 == 0
    return _within(entry, window) if window < entry.context_tokens and not rounded else entry


def _close(one: int, other: int) -> bool:
    return abs(one - other) <= ROUNDING * max(one, other)


def _with_prices(entry: ModelEntry, prices: Prices | None, *, source: str, report: list[str]) -> ModelEntry:
    if joined := _joined(entry.prices, prices):
        return msgspec.structs.replace(entry, prices=joined, source=f"{entry.source}, {source}")
    if entry.prices and prices:
        mine, theirs = ((each.input, each.output) for each in (entry.prices, prices))
        report.append(f"prices of {entry.name}: {mine} or {theirs}, took the first")
    return entry


def _joined(mine: Prices | None, theirs: Prices | None) -> Prices | None:
    """Both in one, the first going before; nothing where one is missing or the main prices differ."""
    if not mine or not theirs or (mine.input, mine.output) != (theirs.input, theirs.output):
        return None
    return Prices(**{**_stated(theirs), **_stated(mine)})


def from_genai(sources: Sources) -> Iterator[ModelEntry]:
    """An entry for each chat model of genai-prices that states a window and prices."""
    for host, models in sources.priced.items():
        for model in models:
            name = canonical_name(model["id"]).rsplit("/", 1)[-1]
            prices = _genai_prices(model, sources.as_of) or (Prices(0.0, 0.0) if name.endswith(":free") else None)
            unwanted = "~" in model["id"] or NOT_CHAT.search(name) or (host == "google" and "claude" in name)
            if prices and model.get("context_window") and not unwanted:
                window, tiers = model["context_window"], _genai_tiers(model, prices, sources.as_of)
                entry = ModelEntry(f"{host}/{RENAMED.get(name, name)}", host, window, family_of(name))
                priced = msgspec.structs.replace(entry, prices=prices, tiers=tiers, source=sources.names[1])
                yield _with_cache_rules(_with_limits(priced))


def _genai_prices(model: Foreign, as_of: str) -> Prices | None:
    found = _genai_numbers(model, as_of).items()
    return _prices({field: each["base"] if isinstance(each, dict) else each for field, each in found}, per=1)


def _genai_tiers(model: Foreign, base: Prices, as_of: str) -> tuple[Tier, ...]:
    found: dict[int, dict[str, float]] = {}
    for field, value in _genai_numbers(model, as_of).items():
        for tier in value["tiers"] if isinstance(value, dict) else ():
            found.setdefault(tier["start"], {})[field] = tier["price"]
    return _tiers(found, base)


def _genai_numbers(model: Foreign, as_of: str) -> Foreign:
    """One model's prices by our field names; of dated ones the last that has begun."""
    prices = model["prices"]
    if isinstance(prices, list):
        starts = [(each.get("constraint") or {}).get("start_date", "") for each in prices]
        prices = [each["prices"] for each, start in zip(prices, starts, strict=True) if start <= as_of][-1]
    names = {field: field + "_mtok" for field in COSTS.values()} | {"cache_write_hour": "cache_write_1h_mtok"}
    return {field: prices[theirs] for field, theirs in names.items() if theirs in prices}


def _order(entry: ModelEntry) -> tuple[int, int, str]:
    """Owners before hosts, short names before long ones."""
    return (RANK.get(entry.provider, -1), len(entry.name), entry.name)


def place(entries: Iterable[ModelEntry], report: list[str]) -> dict[str, ModelEntry]:
    """Rule 1: give bare names to the first that has them, and keep a host's copy only where it differs."""
    table: dict[str, ModelEntry] = {}
    hosted: list[ModelEntry] = []
    for entry in entries:
        bare = entry.name.rsplit("/", 1)[-1]
        known = find_entry(bare, table, {})
        if NAMELESS.match(bare):
            table[fold(entry.name)] = entry
        elif fold(bare) in table or (known and known.entry.provider != entry.provider):
            hosted.append(entry)
        else:
            table[fold(bare)] = msgspec.structs.replace(entry, name=bare)
    for entry in hosted:
        known = find_entry(entry.name.rsplit("/", 1)[-1], table, {})
        if known and known.entry.provider in CLOSED and entry.provider in CLOUDS:
            table[fold(known.matched)] = _filled(known.entry, entry)
    for entry in hosted:
        known = find_entry(entry.name, table, {})
        assert known is not None, entry.name
        fitted = _as_hosted(entry, known.entry, report)
        if fold(entry.name) not in table and _facts(fitted) != _facts(known.entry):
            table[fold(fitted.name)] = fitted
    return table


def _filled(entry: ModelEntry, other: ModelEntry) -> ModelEntry:
    """A genai-prices entry with the limits it lacks taken from the same model elsewhere, if windows agree."""
    if not entry.source.startswith("genai") or not _close(entry.context_tokens, other.context_tokens):
        return entry
    limits = ("input_tokens", "output_tokens", "cache_minimum_tokens", "cache_lifetime_seconds")
    known = {field: getattr(entry, field) or getattr(other, field) for field in limits}
    return _within(msgspec.structs.replace(entry, **known), entry.context_tokens)


def _as_hosted(entry: ModelEntry, base: ModelEntry, report: list[str]) -> ModelEntry:
    """Rule 3 for a host: the owner's window, where they agree or the host claims more than the owner has."""
    theirs, owners = entry.context_tokens, base.context_tokens
    larger = base.provider in CLOSED and theirs > owners
    if larger and not _close(theirs, owners):
        report.append(f"window of {entry.name}: {theirs:,}, its owner has {owners:,}; took that")
    if larger or (_close(theirs, owners) and entry.source != base.source):
        entry = _within(entry, owners)
    prices = _joined(entry.prices, base.prices) or entry.prices
    return _filled(msgspec.structs.replace(entry, prices=prices), base)


def _facts(entry: ModelEntry) -> tuple[object, ...]:
    """What must be equal for a host's copy to be redundant."""
    skipped = {"name", "provider", "source", "as_of"}
    return tuple(getattr(entry, field) for field in ModelEntry.__struct_fields__ if field not in skipped)


def _aliases(table: Mapping[str, ModelEntry]) -> dict[str, str]:
    """The undated name of every model that has only dated ones, for the newest; Claude's "-4" also as "-4-0"."""
    found = {f"{key}-0": table[key].name for key in sorted(table) if re.fullmatch(r"claude-[a-z]+-\d", key)}
    for key in sorted(table):
        short = re.sub(r"-20\d\d-?[01]\d-?[0-3]\d(-v\d(:\d)?)?$", "", key)
        if short not in table:
            found[short] = table[key].name
    return found


def pack(catalogue: Table) -> bytes:
    """The file's bytes, the same for the same catalogue on every day."""
    return gzip.compress(msgspec.json.encode(catalogue), compresslevel=9, mtime=0)


if __name__ == "__main__":
    main()
