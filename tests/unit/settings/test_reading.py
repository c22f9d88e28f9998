"""Settings are read once, checked whole, and given as one value."""

import pytest

from infold.core.policy import preset
from infold.errors import SettingsError, UsageError
from infold.settings.resolve import GatewaySettings, PluginSettings, RecallSettings, StoreLimits
from infold.settings.schema import KEYS, KEYS_BY_NAME

from .conftest import Project


def test_without_anything_the_defaults_hold(project: Project) -> None:
    """S8.1, B27: an empty environment and no file give the defaults, expiry and size caps off."""
    settings = project.read()

    assert (settings.model, settings.store, settings.upstreams, settings.files) == (None, "memory", {}, ())
    assert settings.recall == RecallSettings(enabled=True, budget_tokens=2_000)
    assert settings.plugins == PluginSettings(enabled=None, seven_sections=False)
    assert settings.gateway == GatewaySettings("127.0.0.1", 8377, (), None, 1_000, 20, 60, 75)
    assert settings.store_limits == StoreLimits(None, None)
    assert settings.for_session().policy == preset("infold")


def test_every_section_is_read(project: Project) -> None:
    """S8.1: each value of the process reaches its field, the stronger file's first."""
    project.user_says(
        'model = "b"\nstore = "memory"\nrecall.enabled = true\n[plugins]\nenabled = ["x"]\n[upstreams.openai]\n'
        'base_url = "https://example.com/v1"\n'
        "[gateway]\nport = 9000\nidle_seconds = 5\nmax_connections = 20\n[store_limits]\nmax_age_days = 30\nmax_bytes = 1_000_000"
    )
    project.says('[recall]\nenabled = false\nbudget_tokens = "1k"\n[plugins]\nseven_sections = true\n')
    settings = project.read(
        INFOLD_GATEWAY_HOST="0.0.0.0",
        INFOLD_GATEWAY_ALLOWED_HOSTS="gateway.lan, 10.0.0.7",
        INFOLD_GATEWAY_TENANT="ada",
        INFOLD_STORE_LIMITS_MAX_BYTES="off",
    )

    assert settings.model == "b"
    assert settings.recall == RecallSettings(enabled=False, budget_tokens=1_000)
    assert settings.plugins == PluginSettings(enabled=("x",), seven_sections=True)
    assert settings.gateway == GatewaySettings("0.0.0.0", 9_000, ("gateway.lan", "10.0.0.7"), "ada", 20, 20, 60, 5)
    assert settings.store_limits == StoreLimits(30, None)
    assert settings.upstreams == {"openai": "https://example.com/v1"}
    assert settings.files == (str(project.own), str(project.folder / "infold.toml"))


def test_the_model_that_is_set_is_the_sessions(project: Project) -> None:
    """B19: the tables of the set model hold unless a session names another."""
    settings = project.user_says('model = "claude-opus-4-5"\n[models."claude-*"]\nwindow = 9000').read()

    assert settings.for_session().window_tokens == 9_000
    assert settings.for_session(model="gpt-4o").window_tokens is None


@pytest.mark.parametrize("table", ["compaction", 'models."claude-*".compaction', "agents.reviewer.compaction"])
def test_contradictions_are_told_at_once(project: Project, table: str) -> None:
    """S8.1: a table that cannot hold is an error when settings are read, not when its model or agent comes."""
    with pytest.raises(SettingsError, match="lower the target"):
        project.says(f"[{table}]\ntrigger = 0.5\ntarget = 0.6").read()


def test_the_error_is_the_callers(project: Project) -> None:
    """S8.1: whoever catches what a user did wrong catches this too."""
    with pytest.raises(UsageError):
        project.read(INFOLD_PRESET="fast")


def test_every_key_is_effective(project: Project) -> None:
    """S8.1: the list of effective values has each key of the schema in its order, and each stated upstream."""
    plain, stated = project.read().effective(), project.read(INFOLD_UPSTREAMS_X_BASE_URL="http://x").effective()

    assert list(plain) == [key.name for key in KEYS]
    assert set(stated) - set(KEYS_BY_NAME) == {"upstreams.x.base_url"}
    assert stated["upstreams.x.base_url"].origin == "INFOLD_UPSTREAMS_X_BASE_URL"


def test_effective_values_are_the_sessions(project: Project) -> None:
    """B19: what is shown for a model and an agent is what such a session gets."""
    settings = project.says('[models."claude-*"]\nwindow = 9000\n[agents.a]\ncompaction.auto = false').read()
    shown = settings.effective(model="claude-opus-4-5", agent="a")

    assert (shown["window"].value, shown["compaction.auto"].value) == (9_000, False)


def test_settings_do_not_show_a_password(project: Project) -> None:
    """S8.1: what a traceback or a log would print of the settings holds no secret."""
    assert "kite" not in repr(project.read(INFOLD_STORE="postgresql://ada:kite@db/x"))


def test_all_faults_are_reported_at_once(project: Project) -> None:
    """S8.1: the first is raised; the others, of both files and the environment, are with it and in its notes."""
    project.user_says("[compaction\n").says("windw = 3\n[compaction]\nattempts = 'many'\n[agents.a]\nstore = 'x'\n")
    with pytest.raises(SettingsError) as raised:
        project.read(INFOLD_RECALL_ENABLED="perhaps", INFOLD_DISABLE_PRUNE="maybe")
    faults = [raised.value, *raised.value.others]

    named = ["", "windw", "compaction.attempts", "store", "recall.enabled", ""]
    assert [fault.key for fault in faults] == named
    assert "valid TOML" in faults[0].problem
    assert faults[-1].where == "INFOLD_DISABLE_PRUNE"
    assert raised.value.__notes__ == [f"also: {fault}" for fault in raised.value.others]
    assert all(fault.remedy and str(fault).endswith(fault.remedy) for fault in faults)
