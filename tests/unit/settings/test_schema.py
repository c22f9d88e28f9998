"""The table of settings agrees with itself."""

import pytest

from infold.settings.schema import (
    ALIASES,
    DOCUMENT_VARIABLES,
    KEYS,
    KEYS_BY_NAME,
    POLICY_FIELDS,
    UPSTREAM,
    Key,
    find_key,
    nearest_name,
    variable_name,
)


def test_names_and_variables_are_their_own() -> None:
    """S8.1: no two keys or aliases share a name or a variable."""
    names = [name for key in KEYS for name in (key.name, *key.aliases)]
    variables = [variable_name(name) for name in names]

    assert len(set(names)) == len(names)
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_key_is_explained(key: Key) -> None:
    """Each key says what it is for, and either has a default or says what its absence means."""
    assert key.help.endswith(".")
    assert key.default is not None or key.unset or key.name in POLICY_FIELDS


def test_the_documents_names_are_aliases() -> None:
    """S8.1: the names of documents 002 and 003 stand for ours; those of 003 are variables already."""
    assert {alias: key.name for alias, key in ALIASES.items()} == {
        "auto_compact": "compaction.auto",
        "enable_prune": "compaction.prune",
        "CONTEXT_WINDOW_TOKENS": "working_window",
        "COMPACT_TRIGGER": "compaction.trigger",
        "COMPACT_TARGET": "compaction.target",
        "KEEP_LAST_TURNS": "compaction.keep_turns",
        "MAX_COMPACTION_ATTEMPTS": "compaction.attempts",
    }
    assert set(ALIASES) - set(DOCUMENT_VARIABLES) == {"auto_compact", "enable_prune"}


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("window", "INFOLD_WINDOW"),
        ("compaction.keep_turns", "INFOLD_COMPACTION_KEEP_TURNS"),
        ("upstreams.azure-openai.base_url", "INFOLD_UPSTREAMS_AZURE_OPENAI_BASE_URL"),
    ],
)
def test_a_variable_is_named_for_its_key(name: str, variable: str) -> None:
    """The prefix, then the key in capitals."""
    assert variable_name(name) == variable


def test_a_name_leads_to_its_key() -> None:
    """Names, aliases and any provider's address are found; others are not."""
    assert find_key("window") is KEYS_BY_NAME["window"]
    assert find_key("KEEP_LAST_TURNS") is KEYS_BY_NAME["compaction.keep_turns"]
    assert find_key("upstreams.openai.base_url") is UPSTREAM
    assert find_key("upstreams.Open AI.base_url") is None
    assert find_key("windw") is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("compaction.triger", "compaction.trigger"),
        ("trigger", "compaction.trigger"),
        ("windw", "window"),
        ("zebra", ""),
    ],
)
def test_the_nearest_name_is_found(name: str, meant: str) -> None:
    """A slip of the pen, and a key without its table, lead to the key; what is like nothing leads nowhere."""
    assert nearest_name(name, KEYS_BY_NAME) == meant
