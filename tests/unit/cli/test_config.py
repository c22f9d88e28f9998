"""`infold config` shows every setting and where its value came from."""

import json
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main
from infold.settings import KEYS

TOML = """
model = "claude-sonnet-4-5"

[compaction]
trigger = "80%"

[models."claude-opus-*"]
compaction.trigger = "remaining 20k"

[agents.reviewer]
preset = "turn-window"
KEEP_LAST_TURNS = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of settings with tables for a model and an agent."""
    path = tmp_path / "infold.toml"
    path.write_text(TOML, "utf-8")
    return path


def config(*arguments: str, file: Path | None = None, **environ: str) -> Result:
    """The verb's outcome, the machine's own files and home out of sight."""
    named = {"INFOLD_CONFIG": str(file)} if file else {}
    runner = CliRunner(env={"HOME": None, "XDG_CONFIG_HOME": None, **named, **environ})
    return runner.invoke(main, ["config", *arguments])


def row(page: str, key: str) -> str:
    """The line of a key, with single spaces."""
    return next(" ".join(line.split()) for line in page.splitlines() if line.split()[:1] == [key])


def test_every_setting_is_listed() -> None:
    """S8.1: each key stands in the table with its value and origin, and what was looked for is told."""
    page = config().stdout

    assert all(row(page, key.name) for key in KEYS)
    assert row(page, "compaction.trigger") == "compaction.trigger 95% preset infold"
    assert row(page, "window") == "window the model's own default"
    assert "no settings file found" in page


def test_each_origin_is_told(file: Path) -> None:
    """S8.1: a file, a variable and an alias are named."""
    page = config(file=file, INFOLD_WINDOW="64k", INFOLD_ENABLE_PRUNE="no").stdout

    assert row(page, "compaction.trigger") == f"compaction.trigger 80% {file}"
    assert row(page, "window") == "window 64_000 INFOLD_WINDOW"
    assert row(page, "compaction.prune") == "compaction.prune false INFOLD_ENABLE_PRUNE (alias)"
    assert f"read: {file}" in page


def test_a_model_and_an_agent_are_shown(file: Path) -> None:
    """B19: what holds for a model and an agent, and what it comes to in tokens."""
    page = config("--model", "claude-opus-4-5", "--agent", "reviewer", file=file).stdout

    assert row(page, "preset") == f"preset turn-window {file} [agents.reviewer]"
    assert row(page, "model") == "model claude-opus-4-5 --model"
    assert row(page, "compaction.trigger").endswith('[models."claude-opus-*"]')
    assert row(page, "compaction.keep_turns").endswith("[agents.reviewer] (alias KEEP_LAST_TURNS)")
    assert "claude-opus-4-5: usable 64,000 tokens, compacts at 44,000, aims at 32,000" in page


def test_switches_are_seen(file: Path) -> None:
    """S8.2: a switch shows as the origin, and nothing is done unasked."""
    page = config(file=file, INFOLD_DISABLE_AUTOCOMPACT="1").stdout

    assert row(page, "compaction.auto") == "compaction.auto false INFOLD_DISABLE_AUTOCOMPACT"
    assert "never compacts by itself" in page


def test_what_is_not_shown_is_told(file: Path) -> None:
    """Tables that nobody asked for, and an agent without one, are mentioned."""
    file.write_text("[agents.reviewer]\nwindow = 9000", "utf-8")

    assert "1 table for models and agents not shown" in config(file=file).stdout
    assert "no table [agents.revewer]" in config("--agent", "revewer", file=file).stdout


def test_a_contradiction_in_a_window_is_told() -> None:
    """B19: numbers that do not must be used together in this model's window do not keep the page from being shown."""
    told = config(INFOLD_WINDOW="8k", INFOLD_COMPACTION_TRIGGER="50%", INFOLD_COMPACTION_TARGET="6k")

    assert told.exit_code == 0
    assert "in this window these settings contradict each other" in told.stdout


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("compaction.trigger", "80%"),
        ("COMPACT_TRIGGER", "80%"),
        ("window", "the model's own"),
        ("upstreams.openai.base_url", "none; if no provider has one, the embedded model answers"),
        ("gateway.port", "8377"),
    ],
)
def test_one_value(file: Path, key: str, shown: str) -> None:
    """S8.1: a key or an alias gives its value alone."""
    assert config(key, file=file).stdout == f"{shown}\n"


def test_a_group_is_a_smaller_table(file: Path) -> None:
    """The first word of several keys shows them all and no others."""
    page = config("recall", file=file).stdout

    assert row(page, "recall.budget_tokens") == "recall.budget_tokens 2000 default"
    assert "gateway" not in page


def test_json(file: Path) -> None:
    """S8.1: every value with its origin, amounts in their own unit, and nothing but JSON."""
    page = json.loads(config("--json", file=file, INFOLD_COMPACTION_TARGET="9000", INFOLD_PLUGINS_ENABLED="a").stdout)
    values = {one["key"]: one["value"] for one in page["settings"]}

    assert (page["model"], page["agent"], page["files"]) == ("claude-sonnet-4-5", None, [str(file)])
    assert (values["compaction.trigger"], values["compaction.target"], values["window"]) == (0.8, 9000, None)
    assert (values["compaction.auto"], values["plugins.enabled"]) == (True, ["a"])
    only = json.loads(config("compaction.trigger", "--model", "claude-opus-4-5", "--json", file=file).stdout)
    assert only["settings"] == [
        {
            "key": "compaction.trigger",
            "value": "remaining 20_000",
            "origin": f'{file} [models."claude-opus-*"]',
        }
    ]


@pytest.mark.parametrize("arguments", [(), ("store",), ("--json",)])
def test_a_password_is_not_shown(arguments: tuple[str, ...]) -> None:
    """S8.1: no form of the page holds the password of a store."""
    told = config(*arguments, INFOLD_STORE="postgresql://ada:kite@db/infold")

    assert "postgresql://ada:***@db/infold" in told.stdout
    assert "kite" not in told.output


def test_an_unknown_key_is_bad_usage() -> None:
    """A name that no setting has ends with status 2 and the nearest one."""
    told = config("compaction.triger")

    assert told.exit_code == 2
    assert "did you mean compaction.trigger?" in told.stderr
    assert config("zebra").stderr.startswith("Error: unknown setting 'zebra' (see")


def test_wrong_settings_are_one_line(file: Path) -> None:
    """S8.1: what is wrong in a file ends with status 1 and says where and what to do."""
    file.write_text("windw = 3", "utf-8")
    told = config(file=file)

    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith(f"Error: windw ({file}): unknown setting; did you mean window? Otherwise remove")
    assert len(told.stderr.splitlines()) == 1


def test_the_project_of_the_folder_is_read(tmp_path: Path) -> None:
    """S8.1: the file of the working folder counts without being named, and the user's is told where there is none."""
    runner = CliRunner(env={"HOME": str(tmp_path), "XDG_CONFIG_HOME": None, "INFOLD_CONFIG": None})
    (tmp_path / ".git").mkdir()
    with chdir(tmp_path):
        assert f"nor {tmp_path}/.config/infold/config.toml" in runner.invoke(main, ["config"]).stdout
        Path("infold.toml").write_text("window = 9000", "utf-8")
        assert runner.invoke(main, ["config", "window"]).stdout == "9000\n"


def test_no_upstream_is_told_as_serve_takes_it() -> None:
    """Where no provider has an address the embedded model answers, not the provider."""
    assert "if no provider has one, the embedded model answers" in config("upstreams").stdout
