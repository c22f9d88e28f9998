"""What variables say."""

import pytest

from infold.core.policy import OPENCODE, remaining, share
from infold.errors import SettingsError
from infold.settings.load import StatedValue, environment_layer, relevant_variables, switch_layer
from infold.settings.schema import DOCUMENT_VARIABLES, KEYS_BY_NAME

EXAMPLES = {
    "preset": "proactive",
    "model": "gpt-4o",
    "window": "64k",
    "working_window": "32k",
    "defer_tools": "yes",
    "prices.input": "2.5",
    "prices.output": "10",
    "prices.cache_read": "0.25",
    "prices.cache_write": "2.5",
    "store": "postgresql://ada:kite@db/x",
    "compaction.auto": "off",
    "compaction.prune": "no",
    "compaction.reserved": "0",
    "compaction.trigger": "90%",
    "compaction.target": "remaining 90000",
    "compaction.keep_turns": "4",
    "compaction.tail_turns": "2",
    "compaction.preserve_recent_tokens": "8k",
    "compaction.attempts": "2",
    "compaction.model": "gpt-4o-mini",
    "compaction.priced": "never",
    "compaction.memory": "rich",
    "compaction.recovers": "no",
    "compaction.cache_seconds": "600",
    "compaction.background": "1",
    "compaction.native": "never",
    "recall.enabled": "0",
    "recall.budget_tokens": "500",
    "plugins.enabled": "a,b",
    "plugins.seven_sections": "yes",
    "agent.steps": "40",
    "agent.result_tokens": "2k",
    "agent.titles": "no",
    "agent.snapshots": "no",
    "agent.trust": "yes",
    "agent.compact_tool": "no",
    "agent.environment": "OPENAI_API_KEY",
    "permissions.allow": "write, shell:git status*",
    "permissions.ask": "edit",
    "permissions.deny": "shell:rm *",
    "gateway.host": "0.0.0.0",
    "gateway.port": "0",
    "gateway.allowed_hosts": "gateway.lan, 10.0.0.7",
    "gateway.tenant": "ada",
    "gateway.max_connections": "200",
    "gateway.header_seconds": "5",
    "gateway.body_seconds": "30",
    "gateway.idle_seconds": "10",
    "store_limits.max_age_days": "30",
    "store_limits.max_bytes": "1_000_000",
    "store_limits.media_bytes": "5_000",
}


@pytest.mark.parametrize("key", KEYS_BY_NAME)
def test_every_setting_has_a_variable(key: str) -> None:
    """S8.1: each key can be set by its variable alone, and the variable is its origin."""
    variable = KEYS_BY_NAME[key].variable
    layer = environment_layer(relevant_variables({variable: EXAMPLES[key]}))

    assert set(layer.values) == {key}
    assert layer.values[key].origin == variable


def test_words_become_values() -> None:
    """S8.1: a variable's text is read as the kind of its key."""
    stated = environment_layer({KEYS_BY_NAME[key].variable: text for key, text in EXAMPLES.items()}).values

    assert stated["compaction.auto"].value is False
    assert stated["compaction.reserved"].value == 0
    assert stated["compaction.trigger"].value == share(0.9)
    assert stated["compaction.target"].value == remaining(90_000)
    assert stated["plugins.enabled"].value == ("a", "b")
    assert stated["permissions.allow"].value == ("write", "shell:git status*")
    assert stated["store_limits.max_bytes"].value == 1_000_000


def test_aliases_take_the_prefix() -> None:
    """S8.1: every alias works with our prefix, and says so."""
    layer = environment_layer({"INFOLD_AUTO_COMPACT": "false", "INFOLD_KEEP_LAST_TURNS": "3"})

    assert layer.values == {
        "compaction.auto": StatedValue(value=False, origin="INFOLD_AUTO_COMPACT (alias)"),
        "compaction.keep_turns": StatedValue(3, "INFOLD_KEEP_LAST_TURNS (alias)"),
    }


def test_a_providers_address() -> None:
    """The provider's name stands in the variable, hyphens as underscores."""
    layer = environment_layer(relevant_variables({"INFOLD_UPSTREAMS_AZURE_OPENAI_BASE_URL": "https://example.com/"}))

    assert layer.values == {
        "upstreams.azure-openai.base_url": StatedValue("https://example.com", "INFOLD_UPSTREAMS_AZURE_OPENAI_BASE_URL")
    }


def test_an_empty_variable_says_nothing() -> None:
    """An exported but empty variable is as good as none."""
    assert relevant_variables({"INFOLD_WINDOW": " ", "INFOLD_DISABLE_PRUNE": ""}) == {}


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"INFOLD_WINDOW": "many"}, r"window \(INFOLD_WINDOW\): 'many' is not a number; give"),
        ({"INFOLD_COMPACTION_AUTO": "maybe"}, r"\(INFOLD_COMPACTION_AUTO\): 'maybe' is neither true nor false"),
        ({"INFOLD_GATEWAY_PORT": "http"}, "'http' is not a whole number"),
        ({"INFOLD_KEEP_LAST_TURNS": "x"}, r"compaction\.keep_turns \(INFOLD_KEEP_LAST_TURNS\)"),
    ],
)
def test_a_wrong_variable_is_told(variables: dict[str, str], told: str) -> None:
    """S8.1: the message names key and variable, and says what to give."""
    with pytest.raises(SettingsError, match=told):
        environment_layer(variables)


def test_two_names_may_not_contradict() -> None:
    """S8.1: the environment is one source: a variable and its alias with different values are an error with both names."""
    with pytest.raises(SettingsError, match="INFOLD_COMPACTION_TRIGGER is 90% and INFOLD_COMPACT_TRIGGER is 48_000"):
        environment_layer({"INFOLD_COMPACTION_TRIGGER": "90%", "INFOLD_COMPACT_TRIGGER": "48000"})


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("INFOLD_COMPACTION_TRIGER", "INFOLD_COMPACTION_TRIGGER"),
        ("INFOLD_DISABLE_AUTO_COMPACT", "INFOLD_DISABLE_AUTOCOMPACT"),
    ],
)
def test_a_slip_of_the_pen_is_told(slip: str, meant: str) -> None:
    """S8.1: a variable that is nearly one of ours is not passed over in silence."""
    with pytest.raises(SettingsError, match=f"{slip}: unknown setting; did you mean {meant}"):
        relevant_variables({slip: "1"})


def test_other_variables_are_let_be() -> None:
    """What is not about settings, and secrets above all, is not kept."""
    others = {"INFOLD_CORPUS": "x", "INFOLD_API_KEY": "sk-1", "INFOLD_CONFIG": "x", "WINDOW": "3", "HOME": "/h"}

    assert relevant_variables(others) == {}


def test_borrowed_names_count_only_when_asked_for() -> None:
    """S8.1: document 003's own variables are common names; alone they say nothing."""
    variables = relevant_variables({"COMPACT_TRIGGER": "0.75", "KEEP_LAST_TURNS": "a few"})
    assert environment_layer(variables).values == {}

    with pytest.raises(SettingsError, match=r"compaction\.keep_turns \(KEEP_LAST_TURNS\)"):
        environment_layer(variables, DOCUMENT_VARIABLES)
    assert environment_layer({"COMPACT_TRIGGER": "0.75"}, DOCUMENT_VARIABLES).values == {
        "compaction.trigger": StatedValue(share(0.75), "COMPACT_TRIGGER (alias)")
    }


def test_switches_turn_off() -> None:
    """S8.2: a switch that says yes turns its key off, one that says no says nothing."""
    variables = {"INFOLD_DISABLE_AUTOCOMPACT": "yes", "INFOLD_DISABLE_PRUNE": "0", "OPENCODE_DISABLE_PRUNE": "1"}

    assert switch_layer(variables).values == {
        "compaction.auto": StatedValue(value=False, origin="INFOLD_DISABLE_AUTOCOMPACT")
    }
    assert switch_layer(variables, OPENCODE).values == {
        "compaction.prune": StatedValue(value=False, origin="OPENCODE_DISABLE_PRUNE")
    }


def test_a_switch_is_yes_or_no() -> None:
    """S8.2: any other word is an error that names the variable."""
    with pytest.raises(SettingsError, match="INFOLD_DISABLE_PRUNE: 'perhaps' is neither yes nor no; give 1, true"):
        switch_layer({"INFOLD_DISABLE_PRUNE": "perhaps"})
