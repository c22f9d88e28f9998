"""What holds for one session."""

import pytest
from msgspec.structs import replace

from infold.catalogue import Prices, lookup
from infold.core.budget import Window, budget_for, is_overflow
from infold.core.policy import preset, remaining, share, tokens
from infold.errors import SettingsError
from infold.settings import format_value

from .conftest import Project

TABLES = """
[compaction]
trigger = 0.9
model = "gpt-4o-mini"

[models."claude-*"]
compaction.trigger = "remaining 20000"
compaction.attempts = 4

[models."claude-opus-*"]
window = "150k"
compaction.trigger = 120_000

[agents.reviewer]
compaction.trigger = "50%"
compaction.background = true

[agents.sleeper]
compaction.auto = false
"""


def test_model_and_agent_choose(project: Project) -> None:
    """B19: triggers in each unit, by the general value, the model's pattern, the longer pattern and the agent."""
    settings = project.user_says(TABLES).read()

    assert settings.for_session().policy.trigger == share(0.9)
    assert settings.for_session(model="claude-sonnet-4-5").policy.trigger == remaining(20_000)
    assert settings.for_session(model="claude-opus-4-5").policy.trigger == tokens(120_000)
    assert settings.for_session(model="claude-opus-4-5", agent="reviewer").policy.trigger == share(0.5)


def test_each_key_is_decided_by_itself(project: Project) -> None:
    """B19: a stronger table that does not mention a key leaves it to weaker ones."""
    terms = project.user_says(TABLES).read().for_session(model="claude-opus-4-5", agent="reviewer")

    assert (terms.policy.attempts, terms.window_tokens, terms.background) == (4, 150_000, True)
    assert terms.summariser == "gpt-4o-mini"
    assert (terms.model, terms.agent, terms.policy.name) == ("claude-opus-4-5", "reviewer", "infold")


def test_prices_are_stated_for_all_models_or_for_some(project: Project) -> None:
    """B16, B19: prices in dollars per million tokens, by model; without any the catalogue's count."""
    stated = "[prices]\ninput = 2\noutput = 8.5\n[models.'house-*'.prices]\ninput = 0.5\ncache_read = 0.05\n"
    settings = project.user_says(stated).read()

    assert settings.for_session(model="quince-9000").prices == Prices(2.0, 8.5)
    assert settings.for_session(model="house-7b").prices == Prices(0.5, 8.5, cache_read=0.05)
    assert format_value(settings.for_session().values["prices.output"].value) == "8.5"
    assert project.user_says("").read().for_session().prices is None


def test_a_price_alone_changes_the_catalogue_s(project: Project) -> None:
    """B16, B19: prices that are not stated are the catalogue's; of a model it does not have, one alone says nothing."""
    settings = project.read(INFOLD_PRICES_CACHE_READ="0.01")
    known = lookup("claude-sonnet-4-5").entry.prices

    assert known is not None
    assert settings.for_session(model="claude-sonnet-4-5").prices == replace(known, cache_read=0.01)
    assert settings.for_session(model="quince-9000").prices is None
    assert settings.for_session().prices is None


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ("prices.input = -1", "prices.input"),
        ("prices.input = nan", "prices.input"),
        ("prices.input = true", "prices.input"),
        ("prices.input = 'dear'", "prices.input"),
        ("prices.input = 2_000_000", "prices.input"),
    ],
)
def test_what_is_not_a_price_is_refused(project: Project, stated: str, named: str) -> None:
    """B19: what no token costs is an error that names the key and the fix."""
    with pytest.raises(SettingsError, match=named):
        project.user_says(stated).read()


def test_off_means_off(project: Project) -> None:
    """B19: an agent whose compaction is off never overflows, others do."""
    settings = project.user_says(TABLES).read()
    asleep, awake = (settings.for_session(agent=name).policy for name in ("sleeper", "other"))
    budget = budget_for(Window(100_000), asleep)

    assert not is_overflow(10**6, budget, asleep)
    assert is_overflow(10**6, budget, awake)


def test_the_environment_holds_for_all(project: Project) -> None:
    """S8.1: a variable wins over every table of every file."""
    settings = project.user_says(TABLES).read(INFOLD_COMPACTION_TRIGGER="0.7")
    terms = settings.for_session(model="claude-opus-4-5", agent="reviewer")

    assert terms.policy.trigger == share(0.7)
    assert terms.values["compaction.trigger"].origin == "INFOLD_COMPACTION_TRIGGER"


@pytest.mark.parametrize(("switch", "key"), [("AUTOCOMPACT", "auto"), ("PRUNE", "prune")])
def test_a_switch_wins_over_everything(project: Project, switch: str, key: str) -> None:
    """S8.2: neither a file, a table nor another variable brings back what a switch turns off."""
    project.says(f"[compaction]\n{key} = true\n[agents.a]\ncompaction.{key} = true")
    settings = project.read(**{f"INFOLD_COMPACTION_{key.upper()}": "true", f"INFOLD_DISABLE_{switch}": "1"})
    terms = settings.for_session(agent="a")

    assert (terms.policy.auto if key == "auto" else terms.policy.prune.enabled) is False
    assert terms.values[f"compaction.{key}"].origin == f"INFOLD_DISABLE_{switch}"


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("opencode-1.1.23", True),
        ("opencode-1.1.57", True),
        ("opencode-1.18", True),
        ("proactive", True),
        ("infold", False),
    ],
)
def test_opencodes_switches_count_for_its_presets(project: Project, name: str, off: bool) -> None:
    """S8.2: the spellings of OpenCode win where one of its presets or `proactive` is chosen, by a table too."""
    project.says(f"[agents.a]\npreset = '{name}'\ncompaction.auto = true\ncompaction.prune = true")
    settings = project.read(OPENCODE_DISABLE_AUTOCOMPACT="1", OPENCODE_DISABLE_PRUNE="true")
    policy = settings.for_session(agent="a").policy

    assert (policy.auto, policy.prune.enabled) == (not off, not off)


@pytest.mark.parametrize("name", ["002.json", "002.toml"])
def test_document_002s_block_is_a_file_of_settings(project: Project, name: str) -> None:
    """S8.1: the document's own configuration switches off what it says, as JSON and as TOML."""
    json = name.endswith(".json")
    project.says(
        '{"auto_compact": false, "enable_prune": false}' if json else "auto_compact = false\nenable_prune = false", name
    )
    terms = project.read(INFOLD_CONFIG=str(project.folder / name), INFOLD_PRESET="proactive").for_session()

    assert (terms.policy.auto, terms.policy.prune.enabled) == (False, False)
    assert terms.values["compaction.auto"].origin == f"{project.folder / name} (alias auto_compact)"


def test_a_project_may_not_say_more_in_json(project: Project) -> None:
    """S8.1: what a project's file may not set, it may not set in JSON either."""
    with pytest.raises(SettingsError, match=r"gateway\.host .*infold\.json"):
        project.says('{"gateway": {"host": "0.0.0.0"}}', "infold.json").read()


# A preset and a window named on a command line.


def test_a_named_preset_keeps_every_other_setting(project: Project) -> None:
    """S8.1, B19: a preset named on the command line wins over those of files, tables and variables, and over nothing else."""
    project.says(
        "preset = 'infold'\n[compaction]\nauto = false\n[models.'claude-*']\npreset = 'turn-window'\n"
        "compaction.reserved = 5000\n[agents.a]\ncompaction.prune = false"
    )
    settings = project.read(INFOLD_COMPACTION_TRIGGER="80%", INFOLD_PRESET="proactive")
    terms = settings.for_session(model="claude-opus-4-5", agent="a", preset="opencode-1.1.57")
    policy = terms.policy

    assert (policy.name, policy.auto, policy.prune.enabled) == ("opencode-1.1.57", False, False)
    assert (policy.reserve_tokens, policy.trigger) == (5_000, share(0.8))
    assert terms.values["preset"].origin == "--policy"


def test_a_named_preset_is_not_asked_for_what_it_has_no_use_for(project: Project) -> None:
    """S8.1: a value that a file states for its own preset does not stop a command that names another."""
    settings = project.says("preset = 'turn-window'\ncompaction.keep_turns = 4").read()

    assert settings.for_session(preset="opencode-1.1.23").policy == preset("opencode-1.1.23")
    assert settings.for_session().policy.tail.turns == 4


def test_a_named_preset_brings_the_variables_it_knows(project: Project) -> None:
    """S8.1, S8.2: other programs' variables count for the preset that is named, not for the one that settings state."""
    settings = project.read(OPENCODE_DISABLE_PRUNE="1", KEEP_LAST_TURNS="4")

    assert not settings.for_session(preset="opencode-1.1.23").policy.prune.enabled
    assert settings.for_session(preset="turn-window").policy.tail.turns == 4


def test_a_switch_wins_over_the_command_line(project: Project) -> None:
    """S8.2: naming a preset does not bring back what a switch turns off."""
    settings = project.read(INFOLD_DISABLE_AUTOCOMPACT="1")

    assert not settings.for_session(preset="opencode-1.1.23").policy.auto


def test_a_named_window_wins_over_settings(project: Project) -> None:
    """S8.1: a window given on the command line is the one that counts, whatever files and variables say."""
    settings = project.says("window = 200000").read(INFOLD_WINDOW="100k")
    terms = settings.for_session(window=32_000)

    assert (terms.window_tokens, terms.policy.window_tokens) == (32_000, 32_000)
    assert terms.values["window"].origin == "--window"
    assert settings.for_session().window_tokens == 100_000


@pytest.mark.parametrize("stated", ["settings", "option"])
@pytest.mark.parametrize("window", [32_000, 200_000])
def test_a_window_is_the_models_under_each_preset(project: Project, stated: str, window: int) -> None:
    """S1.7, S8.1: a window in settings or options is the model's, as in Python; it does not move `turn-window`'s 64,000."""
    settings = project.read(INFOLD_WINDOW=str(window)) if stated == "settings" else project.read()
    terms = settings.for_session(preset="turn-window", window=window if stated == "option" else 0)
    made = budget_for(Window(window), terms.policy)

    assert terms.window_tokens == window
    assert made == budget_for(Window(window), preset("turn-window"))
    assert (made.trigger_tokens, made.limit_tokens) == (48_000, window)


def test_another_programs_words_are_not_judged(project: Project) -> None:
    """S8.1, S8.2: a variable that does not count may hold anything."""
    stray = {"OPENCODE_DISABLE_PRUNE": "perhaps", "COMPACT_TRIGGER": "later", "KEEP_LAST_TURNS": "few"}

    assert project.read(**stray).for_session().policy == preset("infold")


def test_the_documents_variables_count_for_its_preset(project: Project) -> None:
    """S8.1, S1.7: document 003's own names set the numbers of `turn-window`, under our prefix those of any preset."""
    project.says('[agents.turner]\npreset = "turn-window"')
    settings = project.read(
        CONTEXT_WINDOW_TOKENS="32000",
        COMPACT_TRIGGER="0.8",
        COMPACT_TARGET="12000",
        KEEP_LAST_TURNS="4",
        MAX_COMPACTION_ATTEMPTS="5",
    )
    policy = settings.for_session(agent="turner").policy
    budget = budget_for(Window(200_000), policy)

    assert (policy.working_window_tokens, policy.tail.turns, policy.attempts) == (32_000, 4, 5)
    assert (budget.trigger_tokens, budget.target_tokens) == (25_600, 12_000)
    assert settings.for_session().policy == preset("infold")
    assert project.read(INFOLD_COMPACT_TRIGGER="0.8").for_session().policy.trigger == share(0.8)


def test_a_borrowed_variable_may_not_contradict_ours(project: Project) -> None:
    """S8.1: where both count they are one source, and an error names both."""
    with pytest.raises(SettingsError, match="INFOLD_COMPACTION_TRIGGER is 90% and COMPACT_TRIGGER is 80%"):
        project.read(INFOLD_PRESET="turn-window", INFOLD_COMPACTION_TRIGGER="90%", COMPACT_TRIGGER="0.8")


def test_every_value_of_a_session_has_an_origin(project: Project) -> None:
    """S8.1: defaults, presets, files, tables, variables and aliases are told apart."""
    project.says("enable_prune = false\n[agents.a]\nwindow = 9000")
    path = project.folder / "infold.toml"
    values = project.read(INFOLD_COMPACTION_MODEL="m").for_session(agent="a").values

    assert {key: stated.origin for key, stated in values.items()} == {
        "preset": "default",
        "window": f"{path} [agents.a]",
        "working_window": "default",
        "defer_tools": "default",
        "prices.input": "default",
        "prices.output": "default",
        "prices.cache_read": "default",
        "prices.cache_write": "default",
        "compaction.auto": "preset infold",
        "compaction.prune": f"{path} (alias enable_prune)",
        "compaction.reserved": "preset infold",
        "compaction.trigger": "preset infold",
        "compaction.target": "preset infold",
        "compaction.keep_turns": "preset infold",
        "compaction.tail_turns": "preset infold",
        "compaction.preserve_recent_tokens": "preset infold",
        "compaction.attempts": "preset infold",
        "compaction.model": "INFOLD_COMPACTION_MODEL",
        "compaction.priced": "preset infold",
        "compaction.memory": "preset infold",
        "compaction.recovers": "default",
        "compaction.cache_seconds": "default",
        "compaction.background": "default",
        "compaction.native": "default",
        "permissions.allow": "default",
        "permissions.ask": "default",
        "permissions.deny": "default",
    }


@pytest.mark.parametrize(("written", "expected"), [('"lean"', 0.05), ('"15%"', 0.15), ("0.3", 0.3)])
def test_memory_is_a_name_or_a_share(project: Project, written: str, expected: float) -> None:
    """B54: how much a fold may leave, by name, in per cent or as a number."""
    settings = project.user_says(f"compaction.memory = {written}\n").read()

    assert settings.for_session().policy.summary.budget_tokens(1_000_000) == int(expected * 1_000_000)


@pytest.mark.parametrize("written", ['"huge"', "0.9", '"20k"', "true", "[]"])
def test_an_impossible_memory_is_refused(project: Project, written: str) -> None:
    """B54: the error says what to give."""
    with pytest.raises(SettingsError, match="give lean, balanced, rich"):
        project.user_says(f"compaction.memory = {written}\n").read()


def test_a_working_window_is_set_like_a_window(project: Project) -> None:
    """B11: in a file, for a model, in the environment; a window of 0 tokens to work in is refused with the fix."""
    settings = project.user_says('working_window = "200k"\n[models."gpt-*"]\nworking_window = 100_000\n').read()

    assert settings.for_session().policy.working_window_tokens == 200_000
    assert settings.for_session(model="gpt-5").values["working_window"].value == 100_000
    assert settings.effective()["working_window"].value == 200_000
    with pytest.raises(SettingsError, match=r"working_window.*leave it out"):
        project.user_says("working_window = 0").read()
