"""Layers: each agrees with itself, and the strongest wins."""

import pytest

from infold.errors import SettingsError
from infold.settings.load import Layer, Scope, StatedValue, WrittenSetting, build_chain, merge_names, read_value
from infold.settings.schema import KEYS_BY_NAME


def layer(scope: Scope, window: int, name: str = "") -> Layer:
    """A layer that sets the window."""
    return Layer(scope, {"window": StatedValue(window, f"{scope} {name}".strip())}, name)


LAYERS = (
    layer("general", 1),
    layer("model", 2, "claude-*"),
    layer("model", 3, "claude-opus-*"),
    layer("agent", 4, "reviewer"),
    layer("environment", 5),
    layer("switch", 6),
)


def test_the_order_of_strength() -> None:
    """B19, S8.2: switch over environment over agent over the longest pattern over shorter ones over the general values."""
    ranked = build_chain(LAYERS, model="claude-opus-4-5", agent="reviewer").layers

    assert [one.values["window"].value for one in ranked] == [6, 5, 4, 3, 2, 1]


def test_the_later_file_wins() -> None:
    """Within one strength the stronger source wins, and a general value never beats a table."""
    chain = build_chain(
        (layer("model", 7, "*"), layer("general", 1), layer("model", 8, "*"), layer("general", 2)), model="x"
    )

    assert [one.values["window"].value for one in chain.layers] == [8, 7, 2, 1]


@pytest.mark.parametrize(
    ("model", "origin"),
    [
        ("claude-sonnet-4-5", "model claude-*"),
        ("anthropic/claude-sonnet-4-5", "model claude-*"),
        ("openrouter/anthropic/claude-nobody-knows", "model claude-*"),
        ("Claude-Sonnet-4-5", "model claude-*"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "model claude-opus-*"),
        ("gpt-4.1", "model gpt-4.1"),
        ("openai/gpt-4.1-2025-04-14", "model gpt-4.1"),
        ("gpt-4.1-mini", "general"),
        ("ollama/claude-tiny", "model claude-*"),
        ("x" * 10_000, "general"),
        (None, "general"),
    ],
)
def test_patterns_match_any_usual_spelling(model: str | None, origin: str) -> None:
    """B19: as given, without a provider before it, and in each spelling that the catalogue takes for the same model."""
    layers = (*LAYERS[:3], layer("model", 9, "gpt-4.1"))

    assert build_chain(layers, model=model).get("window").origin == origin


def test_agents_go_by_their_name() -> None:
    """B19: an agent's table holds for that agent alone."""
    assert build_chain(LAYERS[:4], agent="reviewer").get("window").value == 4
    assert build_chain(LAYERS[:4], agent="review").get("window").value == 1


def test_what_nobody_states_is_the_default() -> None:
    """A key that no layer has is the schema's; its rank is beyond all layers."""
    chain = build_chain(LAYERS)

    assert chain.get("gateway.port") == StatedValue(8377, "default")
    assert chain.find("store") is None
    assert (chain.rank("window"), chain.rank("store")) == (0, len(chain.layers))


def written(name: str, value: int | None) -> WrittenSetting:
    """A window under one of its names."""
    return WrittenSetting("a.toml", "window", name, StatedValue(value, "a.toml"))


def test_equal_values_agree() -> None:
    """S8.1: the first of several equal values is kept."""
    assert merge_names([written("window", 9), written("CONTEXT_WINDOW_TOKENS", 9)]) == {
        "window": StatedValue(9, "a.toml")
    }


def test_different_values_are_told_with_both_names() -> None:
    """S8.1: the error has both names, both values and the source."""
    told = r"window \(a\.toml\): window is 9 and CONTEXT_WINDOW_TOKENS is unset, .*; keep one of the two"
    with pytest.raises(SettingsError, match=told):
        merge_names([written("window", 9), written("CONTEXT_WINDOW_TOKENS", None)])


def test_a_wrong_value_is_told_with_its_place() -> None:
    """S8.1: name, place, problem and remedy."""
    with pytest.raises(SettingsError, match=r"window \(a\.toml\): 'x' is not a number; give a number of tokens"):
        read_value(KEYS_BY_NAME["window"], "x", name="window", where="a.toml")
