"""Names find their model, or the answer says that nobody knows it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.catalogue import (
    ASSUMED_CONTEXT_TOKENS,
    Assumed,
    Known,
    ModelEntry,
    Override,
    OverrideError,
    Prices,
    Tier,
    binds_thinking,
    lookup,
    shipped_table,
)
from infold.catalogue.lookup import fold, key_of
from infold.errors import UsageError

BARE_NAMES = sorted(entry.name for entry in shipped_table().models if "/" not in entry.name and ":" not in entry.name)


def known(name: str, **overrides: Override) -> Known:
    """The answer, which must be a known model."""
    answer = lookup(name, overrides={key.replace("_", "-"): value for key, value in overrides.items()})
    assert isinstance(answer, Known), answer
    return answer


def test_a_catalogue_name_matches_exactly() -> None:
    """A name written as the catalogue writes it is an exact match."""
    assert known("gpt-4o").matched == "gpt-4o"
    assert known("gpt-4o").how == ("exact",)


@pytest.mark.parametrize(
    ("name", "matched", "how"),
    [
        ("openai/gpt-4o", "gpt-4o", ("prefix removed",)),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5", ("prefix removed",)),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5", ("prefix removed",)),
        ("models/gemini-2.5-pro", "gemini-2.5-pro", ("prefix removed",)),
        ("publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro", ("prefix removed",)),
        ("azure/gpt-4o", "gpt-4o", ("prefix removed",)),
        ("vertex_ai/claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929", ("prefix removed",)),
        ("GPT-4o", "gpt-4o", ("spelling",)),
        ("claude-3.5-sonnet", "claude-3-5-sonnet", ("spelling",)),
        ("claude-4-5-sonnet", "claude-sonnet-4-5", ("spelling",)),
        ("gpt-4o-2031-05-06", "gpt-4o", ("date removed",)),
        ("claude-opus-4-6-20310506", "claude-opus-4-6", ("date removed",)),
        ("gpt-4o-latest", "gpt-4o", ("latest removed",)),
        ("claude-opus-4-0", "claude-opus-4", ("alias",)),
        ("claude-opus-4-6[1m]", "claude-opus-4-6", ("variant removed",)),
        ("claude-3-7-sonnet:thinking", "claude-3-7-sonnet", ("variant removed",)),
        ("gemini-2.5-flash-001", "gemini-2.5-flash", ("revision removed",)),
        ("ft:gpt-4o-2024-08-06:team::a1", "ft:gpt-4o-2024-08-06", ("variant removed",)),
    ],
)
def test_usual_spellings_find_the_model(name: str, matched: str, how: tuple[str, ...]) -> None:
    """Provider paths, dates, variants and dots lead to the same model, and the answer says what was changed."""
    assert (known(name).matched, known(name).how) == (matched, how)


@pytest.mark.parametrize("name", ["claude-sonnet-4-5[1m]", "anthropic/claude-sonnet-4.5[1M]", "claude-opus-4-6[1m]"])
def test_a_larger_window_is_asked_for_by_name(name: str) -> None:
    """As Claude Code writes it; an override for the name counts more."""
    assert known(name).entry.context_tokens == 1_000_000
    assert lookup(name, overrides={name: Override(context_tokens=300_000)}).entry.context_tokens == 300_000


@pytest.mark.parametrize(
    "name",
    [
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_a_cloud_has_prices_of_its_own(name: str) -> None:
    """Where a cloud asks more than the owner, its own entry is found however the model is written."""
    assert known(name).matched == "bedrock/us/claude-sonnet-4-5-20250929-v1:0"
    assert known(name).entry.prices == Prices(3.3, 16.5, 0.33, 4.125, 6.6)


def test_a_dated_name_in_the_table_is_not_shortened() -> None:
    """A dated name that the catalogue has is matched as it stands, with its own prices."""
    may, today = known("gpt-4o-2024-05-13").entry.prices, known("gpt-4o").entry.prices

    assert known("gpt-4o-2024-05-13").how == ("exact",)
    assert may is not None
    assert today is not None
    assert may.input > today.input


def test_an_unknown_model_is_assumed_small_with_a_reason() -> None:
    """A model nobody knows gets the cautious default, what was tried, and what to do."""
    answer = lookup("acme/dreamer-9-2031-01-01")

    assert isinstance(answer, Assumed)
    assert answer.entry.context_tokens == ASSUMED_CONTEXT_TOKENS
    assert answer.entry.prices is None
    assert "acme/dreamer-9-2031-01-01, dreamer-9-2031-01-01, acme/dreamer-9, dreamer-9" in answer.reason
    assert "window=" in answer.advice
    assert '[models."its-name"]' in answer.advice


def test_an_unknown_model_of_a_known_family_keeps_the_family() -> None:
    """The tokeniser family is known from the name even where the window is not."""
    assert lookup("claude-dream-9").entry.family == "claude"


@pytest.mark.parametrize("name", ["ollama/llama3.1", "lm_studio/qwen3-8b", "hosted_vllm/gpt-oss-120b"])
def test_a_local_server_sets_its_own_window(name: str) -> None:
    """A model behind a local server is never taken for the one its owner serves."""
    answer = lookup(name)

    assert isinstance(answer, Assumed)
    assert "local server" in answer.reason


@pytest.mark.parametrize("name", ["", "/", "gpt", "gpt-4o-", "-latest", "claude", "azure/chat", ":free"])
def test_a_fragment_matches_nothing(name: str) -> None:
    """A name that is only a part of a model's name is unknown."""
    assert isinstance(lookup(name), Assumed)


def test_an_endless_name_is_unknown_and_not_kept() -> None:
    """A name longer than any model's is unknown, and its answer holds no more than its beginning."""
    answer = lookup("x/" * 100_000 + "gpt-4o")

    assert isinstance(answer, Assumed)
    assert len(answer.reason) < 10_000


WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=6).filter(
    lambda word: word not in {"latest", "default", "maas"}
)


@given(st.sampled_from(BARE_NAMES), WORDS, st.data())
def test_a_word_more_is_a_different_model(name: str, word: str, data: st.DataObject) -> None:
    """A name with one word more than a known one never falls back to the known one."""
    parts = name.split("-")
    place = data.draw(st.integers(0, len(parts)))
    answer = lookup("-".join((*parts[:place], word, *parts[place:])))

    assert isinstance(answer, Assumed) or word in re.split("[-/]", fold(answer.matched))


@given(st.sampled_from(BARE_NAMES), st.data())
def test_a_word_less_is_a_different_model(name: str, data: st.DataObject) -> None:
    """A name with one word less than a known one never grows back into it, but for its date."""
    parts = name.split("-")
    place = data.draw(st.integers(0, len(parts) - 1))
    shorter = "-".join((*parts[:place], *parts[place + 1 :]))
    answer = lookup(shorter)

    assert isinstance(answer, Assumed) or len(fold(answer.matched)) <= len(fold(shorter)) or "alias" in answer.how


@given(st.text("ab49-._/:@[] é漢", max_size=60))
def test_any_text_has_an_answer(name: str) -> None:
    """No text makes the lookup fail."""
    assert lookup(name).entry.context_tokens > 0


@given(st.sampled_from([entry.name for entry in shipped_table().models]))
def test_every_entry_is_found_under_its_own_name(name: str) -> None:
    """Each entry of the catalogue is what its own name finds."""
    assert known(name).matched == name


def test_an_override_changes_what_it_states_and_keeps_the_rest() -> None:
    """An override replaces the stated facts; the others stay as the catalogue has them."""
    answer = known("gpt-4o", gpt_4o=Override(context_tokens=100_000))

    assert answer.how == ("override",)
    assert answer.matched == "gpt-4o"
    assert answer.entry.context_tokens == 100_000
    assert answer.entry.output_tokens == 16_384
    assert answer.entry.source == "user"


def test_an_override_counts_in_every_spelling() -> None:
    """An override written for the bare name holds for the prefixed and dated name as well."""
    assert known("openai/GPT-4o-2031-01-01", gpt_4o=Override(context_tokens=9_000)).entry.context_tokens == 9_000


def test_an_override_for_one_host_leaves_the_others() -> None:
    """An override written for a host's model does not hold elsewhere."""
    overrides = {"azure/gpt-4o": Override(context_tokens=9_000)}

    assert lookup("azure/gpt-4o", overrides=overrides).entry.context_tokens == 9_000
    assert lookup("openai/gpt-4o", overrides=overrides).entry.context_tokens == 128_000


def test_an_override_with_a_window_makes_a_model_known() -> None:
    """A model the catalogue does not have, or a local one, is known once the user states its window."""
    overrides = {"ollama/llama3.1": Override(context_tokens=16_000)}
    answer = lookup("ollama/llama3.1", overrides=overrides)

    assert isinstance(answer, Known)
    assert answer.entry == ModelEntry(
        name="ollama/llama3.1", provider="", context_tokens=16_000, family="llama3", source="user"
    )


def test_an_override_without_a_window_leaves_an_unknown_model_assumed() -> None:
    """Prices alone do not make a window known: the answer stays assumed, with the prices in it."""
    answer = lookup("dreamer-9", overrides={"dreamer-9": Override(prices=Prices(1, 2))})

    assert isinstance(answer, Assumed)
    assert answer.entry.prices == Prices(1, 2)


def test_a_smaller_window_drops_the_limits_that_no_longer_fit() -> None:
    """A window below the catalogue's input and output limits leaves none of them."""
    entry = known("gpt-5", gpt_5=Override(context_tokens=50_000)).entry

    assert (entry.input_tokens, entry.output_tokens, entry.input_limit_tokens) == (None, None, 50_000)


def test_stated_prices_replace_the_tiers_too() -> None:
    """Prices a user states hold for every size of request unless the user states tiers."""
    entry = known("gpt-5.4", gpt_5_4=Override(prices=Prices(1, 2))).entry

    assert entry.prices_at(900_000) == Prices(1, 2)


@pytest.mark.parametrize(
    ("override", "field"),
    [
        (Override(context_tokens=0), "context_tokens"),
        (Override(context_tokens=-1), "context_tokens"),
        (Override(input_tokens=0), "input_tokens"),
        (Override(output_tokens=-5), "output_tokens"),
        (Override(cache_lifetime_seconds=0), "cache_lifetime_seconds"),
        (Override(context_tokens=1_000, output_tokens=1_001), "output_tokens"),
        (Override(context_tokens=1_000, input_tokens=1_001), "input_tokens"),
        (Override(output_tokens=200_000), "output_tokens"),
        (Override(prices=Prices(-1, 2)), "prices.input"),
        (Override(prices=Prices(1, float("nan"))), "prices.output"),
        (Override(tiers=(Tier(9, Prices(1, 1)), Tier(8, Prices(1, 1)))), "tiers"),
        (Override(tiers=(Tier(9, Prices(1, float("inf"))),)), "prices.output"),
    ],
)
def test_impossible_overrides_are_refused(override: Override, field: str) -> None:
    """A number that cannot be true of a model is an error that names the model, the field and the way out."""
    with pytest.raises(OverrideError, match=f"'gpt-4o', {field}: .*; ") as caught:
        lookup("gpt-4o", overrides={"gpt-4o": override})

    assert (caught.value.model, caught.value.field) == ("gpt-4o", field)
    assert isinstance(caught.value, UsageError)


def test_keys_ignore_case_and_punctuation() -> None:
    """Dots, underscores and capitals do not count in a key."""
    assert key_of("Vertex_AI/Claude-3.5-Sonnet@20240620") == "vertex/claude-3-5-sonnet-20240620"


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-5-5",
        "claude-opus-5.5",
        "claude-5-5-opus",
        "claude-sonnet-5-5-20260901",
        "claude-haiku-5-5-latest",
        "claude-opus-5-5[1m]",
        "anthropic/claude-fable-5.1",
        "anthropic/claude-fable-5.2:thinking",
        "claude-mythos-5-1@20260801",
        "vertex_ai/claude-mythos-5-2@20260801",
        "us.anthropic.claude-opus-5-5-20260901-v1:0",
        "bedrock/eu.anthropic.claude-haiku-5-5-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-5-5-v1:0",
        "arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/us-gov.anthropic.claude-sonnet-5-5-v1:0",
        "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-5-5-20260901-v1:0",
        "global.anthropic.claude-haiku-5-5-v1",
        "in.anthropic.claude-fable-5-1-v1:0",
        "anthropic.claude-opus-5-5",
        "bedrock/converse/jp.anthropic.claude-opus-5-5-v1:0",
        "projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-5-5@20260901",
        "claude-sonnet-5-5@default",
        "openrouter/anthropic/claude-opus-5.5:beta",
        "litellm_proxy/anthropic/claude-opus-5-5",
        "azure_ai/claude-sonnet-5-5",
    ],
)
def test_models_that_bind_thinking_are_known(name: str) -> None:
    """B32: the models whose provider documents the check are known under every spelling, at every host."""
    assert binds_thinking(name)


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-5",
        "claude-opus-4-5",
        "claude-fable-5",
        "claude-haiku-4-5",
        "claude-sonnet-5-50",
        "gpt-5.5",
        "",
        "opus-5-5",
        "us.anthropic.claude-sonnet-5-20260301-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123",
    ],
)
def test_other_models_are_not_taken_for_them(name: str) -> None:
    """B32: a model that is not documented to bind thinking keeps all of it, until it refuses."""
    assert not binds_thinking(name)
