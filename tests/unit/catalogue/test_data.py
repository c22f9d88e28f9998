"""The data file: its size, its shape, and a few models checked by hand."""

import gzip
import re
import runpy
import subprocess
import sys
from importlib import resources
from pathlib import Path
from statistics import median
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.catalogue import (
    FAMILIES,
    USUAL_PRICES,
    FamilyName,
    Known,
    ModelEntry,
    Prices,
    Table,
    Tier,
    family_of,
    lookup,
    lower_bound,
    shipped_table,
    upper_bound,
)
from infold.catalogue.lookup import ASSUMED_CONTEXT_TOKENS, DATA_FILE, entries, fold, key_of

PACKED = resources.files("infold.catalogue").joinpath(DATA_FILE).read_bytes()
SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "build_catalogue.py"))


def entry(name: str) -> ModelEntry:
    """The entry a name finds."""
    answer = lookup(name)
    assert isinstance(answer, Known), answer
    return answer.entry


def test_the_file_is_small() -> None:
    """The data file is under 200 kB."""
    assert len(PACKED) < 200_000


def test_the_file_carries_no_time_of_its_own() -> None:
    """The gzip header holds no time and no file name, so that the same data gives the same bytes."""
    assert PACKED[3:8] == bytes(5)


def test_the_file_is_written_in_one_order() -> None:
    """Unpacking and encoding again gives the same text, and models stand in the order of their keys."""
    text = gzip.decompress(PACKED)
    keys = [fold(each.name) for each in shipped_table().models]

    assert msgspec.json.encode(msgspec.json.decode(text, type=Table)) == text
    assert keys == sorted(set(keys))


def test_the_file_names_its_sources_and_day() -> None:
    """The file says which versions of which packages it was made from, and when."""
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", shipped_table().as_of)
    assert [source.split()[0] for source in shipped_table().sources] == ["litellm", "genai-prices"]
    assert all(each.source and each.as_of == shipped_table().as_of for each in shipped_table().models)


def test_importing_the_catalogue_reads_no_file() -> None:
    """The data file is read by the first lookup, not by the import."""
    program = "from infold.catalogue import shipped_table; print(shipped_table.cache_info().currsize)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout == "0\n"


def test_every_entry_is_possible() -> None:
    """Limits are positive and inside the window, prices are not negative, tiers rise and stay in the window."""
    for each in shipped_table().models:
        limits = [limit for limit in (each.input_tokens, each.output_tokens) if limit is not None]
        starts = [tier.above_tokens for tier in each.tiers]
        prices = [price for price in (each.prices, *(tier.prices for tier in each.tiers)) if price]
        assert all(0 < limit < each.context_tokens for limit in limits), each
        assert starts == sorted(set(starts)), each
        assert all(0 < start < each.context_tokens for start in starts), each
        assert all(0 <= price.input < 1_000 and 0 <= price.output < 1_000 for price in prices), each
        assert all((price.cache_write or price.input) >= price.input for price in prices), each


def test_names_are_their_own_keys() -> None:
    """Every name and alias is written in the catalogue's own form, and every alias leads to a model."""
    assert all(key_of(each.name) == fold(each.name) for each in shipped_table().models)
    assert all(key_of(alias) == alias and fold(name) in entries() for alias, name in shipped_table().aliases.items())
    assert not set(shipped_table().aliases) & set(entries())


def test_every_large_provider_is_there() -> None:
    """No large provider or host is missing."""
    wanted = {
        *("openai", "anthropic", "google", "xai", "mistral", "deepseek", "dashscope", "meta", "moonshot", "zai"),
        *("minimax", "cohere", "amazon", "bedrock", "azure", "vertex", "groq", "together", "fireworks", "openrouter"),
    }
    assert wanted <= {each.provider for each in shipped_table().models}


# Checked against both sources by hand. Where they disagree: gpt-4.1 and gemini are a rounded 1,000,000 in
# genai-prices; gpt-5.4 is 1,050,000 of input in litellm under "openai" and 922,000 under "azure"; gpt-5.5 is
# 1,000,000 in genai-prices; minimax-m2.1 is 1,000,000 in litellm.
@pytest.mark.parametrize(
    ("name", "context", "limit", "output"),
    [
        ("gpt-5", 400_000, 272_000, 128_000),
        ("gpt-5.2-codex", 400_000, 272_000, 128_000),
        ("gpt-5.1-codex", 400_000, 272_000, 128_000),
        ("gpt-5.4", 1_050_000, 922_000, 128_000),
        ("gpt-5.5", 1_050_000, 922_000, 128_000),
        ("gpt-6-sol", 1_050_000, 922_000, 128_000),
        ("gpt-5-chat-latest", 128_000, 111_616, 16_384),
        ("gpt-4o", 128_000, None, 16_384),
        ("gpt-4.1", 1_047_576, None, 32_768),
        ("o3", 200_000, None, 100_000),
        ("claude-sonnet-4-5", 200_000, None, 64_000),
        ("claude-opus-4-5", 200_000, None, 64_000),
        ("claude-opus-4-6", 1_000_000, None, 128_000),
        ("claude-haiku-4-5", 200_000, None, 64_000),
        ("gemini-2.5-pro", 1_048_576, None, 65_536),
        ("gpt-6.1-terra", 1_050_000, 922_000, None),
        ("grok-4", 256_000, None, None),
        ("deepseek-v4-pro", 1_000_000, None, 393_216),
        ("minimax-m2.1", 204_800, None, 8_192),
        ("kimi-k3", 1_048_576, None, None),
    ],
)
def test_well_known_limits(name: str, context: int, limit: int | None, output: int | None) -> None:
    """Window, separate input limit and longest answer of well-known models are right."""
    found = entry(name)

    assert (found.context_tokens, found.input_tokens, found.output_tokens) == (context, limit, output)


@pytest.mark.parametrize(
    ("name", "prices"),
    [
        ("claude-opus-4-6", Prices(5, 25, 0.5, 6.25, 10)),
        ("claude-sonnet-4-6", Prices(3, 15, 0.3, 3.75, 6)),
        ("claude-haiku-4-5", Prices(1, 5, 0.1, 1.25, 2)),
        ("gpt-5.2", Prices(1.75, 14, 0.175)),
        ("gpt-5.4", Prices(2.5, 15, 0.25)),
        ("gpt-6-sol", Prices(2, 10, 0.2, 2.5)),
        ("gemini-3.1-pro-preview", Prices(2, 12, 0.2)),
        ("azure/eu/gpt-4o", Prices(2.75, 11, 1.375)),
    ],
)
def test_well_known_prices(name: str, prices: Prices) -> None:
    """Prices of well-known models are right; a cache write that costs no more than input has none."""
    assert entry(name).prices == prices


def test_long_requests_cost_more() -> None:
    """A request above a tier's start is priced by that tier, one at the start is not."""
    found = entry("gpt-5.4")

    assert found.prices_at(272_000) == Prices(2.5, 15, 0.25)
    assert found.prices_at(272_001) == Prices(5, 22.5, 0.5)
    assert entry("gemini-2.5-pro").tiers == (Tier(200_000, Prices(2.5, 15, 0.25)),)


def test_cache_rules_are_known_where_documented() -> None:
    """Claude's and OpenAI's caches have a least length and a lifetime: five minutes, or thirty where writes are charged."""
    opus, mini, sol = entry("claude-opus-4-6"), entry("gpt-4o-mini"), entry("gpt-5.6-sol")

    assert (opus.cache_minimum_tokens, opus.cache_lifetime_seconds) == (4_096, 300)
    assert (mini.cache_minimum_tokens, mini.cache_lifetime_seconds) == (1_024, 300)
    assert (sol.cache_minimum_tokens, sol.cache_lifetime_seconds) == (1_024, 1_800)


def test_the_embedded_model_is_free_and_says_what_it_cannot_do() -> None:
    """The embedded model costs nothing, holds 8,192 tokens, and neither summarises nor calls tools."""
    found = entry("smollm2-135m-instruct")

    assert (found.context_tokens, found.prices) == (8_192, Prices(0, 0))
    assert (found.summarises, found.calls_tools) == (False, False)


def test_the_assumed_window_is_cautious() -> None:
    """Nine in ten models of the catalogue hold at least what is assumed of an unknown one."""
    large_enough = [each for each in shipped_table().models if each.context_tokens >= ASSUMED_CONTEXT_TOKENS]

    assert len(large_enough) >= 0.9 * len(shipped_table().models)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-4o", "o200k"),
        ("gpt-4.1-mini", "o200k"),
        ("o4-mini", "o200k"),
        ("openai/gpt-oss-120b", "o200k"),
        ("gpt-4-turbo", "cl100k"),
        ("gpt-4-1106-preview", "cl100k"),
        ("us.anthropic.claude-opus-4-6-v1", "claude"),
        ("gemma-4-31b-it", "gemini"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3"),
        ("llama-4-scout", "other"),
        ("deepseek-r1-distill-qwen-32b", "qwen"),
        ("deepseek-v4-pro", "deepseek"),
        ("mixtral-8x7b", "other"),
        ("devstral-medium", "mistral"),
        ("zai-org/GLM-4.6", "glm"),
        ("kimi-k3", "kimi"),
        ("grok-4.20", "grok"),
    ],
)
def test_families_follow_names(name: str, family: FamilyName) -> None:
    """A model's tokeniser family is known from its name."""
    assert family_of(name) == family


def test_every_family_has_a_bound_with_an_origin() -> None:
    """Each family bounds its counts over o200k by at least one, and says where the number comes from."""
    assert set(FAMILIES) == set(get_args(FamilyName))
    assert all(family.upper_bound >= 1 and family.origin for family in FAMILIES.values())
    assert upper_bound("other") == max(family.upper_bound for family in FAMILIES.values())
    assert all(0.5 < lower_bound(name) < upper_bound(name) for name in FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_usual_prices_are_the_catalogue_s_own(family: FamilyName) -> None:
    """B16: medians over the models with a price for cache reads; where they are fewer than ten, the dearest cut of all."""
    known = [entry.prices for entry in shipped_table().models if entry.family == family and entry.prices]
    cached = [prices for prices in known if prices.input and prices.cache_read is not None]
    usual = USUAL_PRICES[family]
    if len(cached) < 10 or family == "other":
        assert usual == USUAL_PRICES["claude"]
        return
    assert usual.cache_read == pytest.approx(median((one.cache_read or 0) / one.input for one in cached), abs=0.02)
    assert usual.cache_write == median((one.cache_write or one.input) / one.input for one in cached)
    assert usual.output == pytest.approx(median(one.output / one.input for one in known if one.input), rel=0.05)


ROWS = {
    "gpt-7": {"litellm_provider": "openai", "max_input_tokens": 922_000, "max_output_tokens": 128_000},
    "azure/gpt-7": {"litellm_provider": "azure", "max_input_tokens": 922_000, "max_output_tokens": 128_000},
    "azure/eu/gpt-7": {"litellm_provider": "azure", "max_input_tokens": 272_000, "max_output_tokens": 128_000},
    "gpt-7-2031-01-01": {"litellm_provider": "openai", "max_input_tokens": 1_050_000, "max_output_tokens": 1},
    "gpt-7-image": {"litellm_provider": "openai", "max_input_tokens": 9},
    "acme/gpt-7": {"litellm_provider": "acme", "max_input_tokens": 9},
}


@given(st.permutations(sorted(ROWS)))
def test_the_same_rows_give_the_same_bytes(order: list[str]) -> None:
    """The file does not depend on the order of its sources, and drops a host's copy that says nothing new."""
    rows = {name: {**ROWS[name], "mode": "chat"} for name in order}
    sources = SCRIPT["Sources"](rows, {}, ("litellm 1", "genai-prices 1"), "2031-01-01")
    built = SCRIPT["build"](sources, [])

    assert [each.name for each in built.models] == [
        "azure/eu/gpt-7",
        "gpt-7",
        "gpt-7-2031-01-01",
        "smollm2-135m-instruct",
    ]
    assert SCRIPT["pack"](built) == SCRIPT["pack"](SCRIPT["build"](sources, []))
