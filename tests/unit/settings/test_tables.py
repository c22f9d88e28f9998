"""What a file says, and what it may not say."""

import pytest

from infold.core.policy import share
from infold.errors import SettingsError
from infold.settings.load import SettingsFile, StatedValue, read_layers
from infold.settings.resolve import read_settings
from infold.settings.schema import KEYS, Key

from .conftest import Project


def test_values_carry_their_place(project: Project) -> None:
    """S8.1: each value knows the file, the table and the alias it was written under."""
    project.says(
        'window = "64k"\nauto_compact = false\n[models."claude-*"]\nCOMPACT_TRIGGER = 0.5\n[agents.me]\npreset = "infold"'
    )
    path = str(project.folder / "infold.toml")
    general, model, agent = project.read().layers[:3]

    assert general.values == {
        "window": StatedValue(64_000, path),
        "compaction.auto": StatedValue(value=False, origin=f"{path} (alias auto_compact)"),
    }
    assert model.name == "claude-*"
    assert model.values["compaction.trigger"] == StatedValue(
        share(0.5), f'{path} [models."claude-*"] (alias COMPACT_TRIGGER)'
    )
    assert agent.values["preset"].origin == f"{path} [agents.me]"


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("[compaction]\ntriger = 0.5", r"compaction\.triger \(.*infold\.toml\): .* did you mean compaction\.trigger"),
        ("trigger = 0.5", "did you mean compaction.trigger"),
        ("[recall]\nbudget_token = 3", r"did you mean recall\.budget_tokens"),
        ("zebra = 1", "unknown setting; correct the name"),
        ("[compaction]\nauto = 'yes'", r"compaction\.auto .*'yes' is neither true nor false; give true or false"),
        ("[permissions]\ndeny = 'shell:'", r"'shell:' is not a list of rules; give a list of tools"),
        ("window = -1", r"-1 is not a number of tokens; give a number"),
        ("preset = 'fast'", "unknown preset 'fast'; choose one of infold"),
        ("compaction = 5", r"it is a table of settings, not a value; write its keys under \[compaction\]"),
        ("upstreams = 5", "it is a table of settings"),
        ("[window]\nsize = 3", "window.size"),
        ("models = 3", r"it does not hold tables; write a heading such as \[models"),
        ("[agents]\nreviewer = 3", r"it does not hold tables; write a heading such as \[agents"),
        ("[agents.reviewer]\nstore = 'memory'", r"\[agents\.reviewer\]\): it cannot differ by model or agent"),
        ("[agents.reviewer]\ntriger = 3", "did you mean compaction.trigger"),
    ],
)
def test_what_is_wrong_is_told(project: Project, toml: str, told: str) -> None:
    """S8.1: an error names the file, the key, the nearest key there is, and what to do."""
    with pytest.raises(SettingsError, match=told):
        project.says(toml).read()


def test_a_project_only_forbids(project: Project) -> None:
    """B41: a project's file adds to what the user's own forbids, in its general values and its tables, and takes nothing away."""
    project.user_says("[permissions]\nask = ['read']\ndeny = ['shell:git push*']")
    project.says("[permissions]\nask = []\ndeny = ['shell:rm *']\n[agents.plan]\npermissions.deny = []")
    tightened = project.read().for_session(agent="plan")

    assert tightened.permissions.ask == ("read",)
    assert tightened.permissions.deny == ("shell:git push*", "shell:rm *")
    assert project.read(INFOLD_PERMISSIONS_DENY="shell:curl*").for_session().permissions.deny == (
        *("shell:curl*", "shell:rm *"),
    )
    assert tightened.values["permissions.deny"].origin.startswith(f"{project.own}, ")


EXAMPLES = {
    "text": "'x'",
    "true or false": "true",
    "whole number": "3",
    "tokens": "3000",
    "whole number or off": "3",
    "port": "80",
    "host": "'0.0.0.0'",
    "list of hosts": "['x.test']",
    "tenant": "'ada'",
    "address": "'https://example.com'",
    "place": "'x.db'",
    "list of names": "['x']",
    "list of rules": "['shell']",
    "amount": "0.5",
    "price": "0.5",
    "preset": "'infold'",
}


@pytest.mark.parametrize("key", [key for key in KEYS if not key.per_project], ids=lambda key: key.name)
def test_a_project_sets_only_listed_keys(project: Project, key: Key) -> None:
    """B41: a project's file that chooses a model, a store, a server or a plugin, deletes sessions, steers the agent or allows
    anything is refused with the reason and the place where it belongs; the user's own file may do all that."""
    name = key.name.replace("<provider>", "openai")
    toml = f"{name} = {EXAMPLES[key.kind.name]}"
    with pytest.raises(
        SettingsError, match=r"cannot set it, because it .*; move it to your own file .*INFOLD_"
    ) as told:
        project.says(toml).read()

    assert name in str(told.value)
    (project.folder / "infold.toml").unlink()
    assert project.user_says(toml).read()
    assert project.read(INFOLD_CONFIG=str(project.own))


def test_the_keys_of_a_project(project: Project) -> None:
    """B41: what a stranger may set is how sessions stay in their window, and what agents are forbidden."""
    others = {key.name for key in KEYS if key.per_project and not key.name.startswith("compaction.")}

    assert others == {
        *("preset", "window", "working_window", "recall.enabled", "recall.budget_tokens", "plugins.seven_sections"),
        *("permissions.ask", "permissions.deny"),
    }
    assert read_settings({"HOME": str(project.home)}, None).files == ()


@pytest.mark.parametrize(
    "toml", ["api_key = 'sk-1'", "[upstreams.openai]\napi_key = 'sk-1'", "[gateway]\ntoken = 'sk-1'"]
)
def test_secrets_are_refused(project: Project, toml: str) -> None:
    """S8.1: what looks like a credential belongs into the environment, and the message does not repeat it."""
    with pytest.raises(SettingsError, match="put it in the environment") as told:
        project.user_says(toml).read()

    assert "sk-1" not in str(told.value)


def test_a_password_in_an_address_is_a_secret(project: Project) -> None:
    """S8.1: even the user's own file may not hold the password of a store."""
    with pytest.raises(SettingsError, match=r"put it in the environment \(INFOLD_STORE\)") as told:
        project.user_says("store = 'postgresql://ada:kite@db/infold'").read()

    assert "kite" not in str(told.value)


@pytest.mark.parametrize(
    ("alias", "key"),
    [
        ("auto_compact = false", "compaction.auto = true"),
        ("enable_prune = false", "compaction.prune = true"),
        ("CONTEXT_WINDOW_TOKENS = 64_000", "working_window = 32_000"),
        ("COMPACT_TRIGGER = 0.75", "compaction.trigger = 48_000"),
        ("COMPACT_TARGET = 0.5", "compaction.target = 0.4"),
        ("KEEP_LAST_TURNS = 6", "compaction.keep_turns = 5"),
        ("MAX_COMPACTION_ATTEMPTS = 2", "compaction.attempts = 3"),
    ],
)
def test_an_alias_may_not_contradict_its_key(project: Project, alias: str, key: str) -> None:
    """S8.1: different values under both names are an error that names both and the file."""
    written = project.says(f"{alias}\n{key}")
    with pytest.raises(SettingsError, match="keep one of the two") as told:
        written.read()

    assert all(line.partition(" ")[0] in str(told.value) for line in (alias, key))
    assert told.value.where == str(project.folder / "infold.toml")


def test_an_alias_may_repeat_its_key(project: Project) -> None:
    """S8.1: equal values under both names are fine, however they are written."""
    settings = project.says("COMPACT_TRIGGER = 0.9\ncompaction.trigger = '90%'").read()

    assert settings.for_session().policy.trigger == share(0.9)


def test_another_files_alias_is_no_contradiction(project: Project) -> None:
    """S8.1: between two files the stronger wins, whatever name it uses."""
    settings = project.user_says("COMPACT_TRIGGER = 0.9").says("compaction.trigger = 0.8").read()

    assert settings.for_session().policy.trigger == share(0.8)


@pytest.mark.parametrize(
    ("written", "store"),
    [
        ("sessions.db", "{folder}/sessions.db"),
        ("sqlite:sessions.db", "{folder}/sessions.db"),
        ("/tmp/x.db", "/tmp/x.db"),
        ("~/x.db", "{home}/x.db"),
        ("memory", "memory"),
    ],
)
def test_a_stores_path_is_seen_from_its_file(project: Project, written: str, store: str) -> None:
    """A relative path in a file means the same wherever the process was started."""
    settings = project.user_says(f"store = '{written}'").read()

    assert settings.store == store.format(folder=project.own.parent, home=project.home)


def test_without_a_home_a_tilde_is_a_name(project: Project) -> None:
    """Where nobody knows the home, nothing stands for it."""
    source = SettingsFile(project.folder / "infold.toml", {"store": "~/x.db"})

    assert read_layers(source)[0].values["store"].value == str(project.folder / "~" / "x.db")
