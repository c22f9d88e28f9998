"""`infold init` writes a file of settings that changes nothing and has every setting in it."""

import tomllib
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infold.cli.config import settings_template
from infold.cli.main import main
from infold.settings import KEYS, read_settings
from infold.settings.load import user_file


def init(home: Path, *arguments: str, **environ: str) -> Result:
    """The verb's outcome in that folder."""
    runner = CliRunner(env={"HOME": str(home), "XDG_CONFIG_HOME": None, "INFOLD_CONFIG": None, **environ})
    with chdir(home):
        return runner.invoke(main, ["init", *arguments])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A repository that is a home too."""
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.mark.parametrize("place", ["--project", "--user"])
def test_a_written_file_changes_nothing(home: Path, place: str) -> None:
    """S8.1: it is read without a fault, and every value still comes from the default or the preset."""
    environ = {"HOME": str(home)}
    before = read_settings(environ, home).effective()

    assert init(home, place).exit_code == 0
    settings = read_settings(environ, home)
    assert len(settings.files) == 1
    assert settings.effective() == before


def test_every_setting_is_in_the_users_file() -> None:
    """All keys of the table, and in a project's file all that a project may set."""
    whole, project = settings_template(is_user=True), settings_template(is_user=False)

    for key in KEYS:
        line = f"# {key.name.rpartition('.')[2]} = "
        assert line in whole
        assert not key.per_project or line in project
    assert "[upstreams.openai]" in whole
    assert "upstreams" not in project


@pytest.mark.parametrize("name", [key.name for key in KEYS])
def test_each_line_can_be_used(tmp_path: Path, name: str) -> None:
    """S8.1: without its comment sign the example of a setting is one that is accepted."""
    table, _, last = name.replace("<provider>", "openai").rpartition(".")
    text = settings_template(is_user=True)
    section = text.partition(f"\n[{table}]\n")[2] if table else text
    line = next(one[2:] for one in section.splitlines() if one.startswith(f"# {last} = "))
    path = tmp_path / "config.toml"
    preset = {"compaction.keep_turns": 'preset = "turn-window"\n'}.get(name, "")
    path.write_text(f"{preset}{f'[{table}]' if table else ''}\n{line}\n", "utf-8")

    assert tomllib.loads(path.read_text("utf-8"))
    read_settings({"INFOLD_CONFIG": str(path), "HOME": str(tmp_path)}, None)


def test_a_file_is_not_overwritten_unasked(home: Path) -> None:
    """What exists stays as it is, unless --force is given."""
    (home / "infold.toml").write_text("window = 9000\n", "utf-8")
    told = init(home)

    assert told.exit_code == 1
    assert "add --force" in told.stderr
    assert (home / "infold.toml").read_text("utf-8") == "window = 9000\n"
    assert init(home, "--force").exit_code == 0
    assert (home / "infold.toml").read_text("utf-8") == settings_template(is_user=False)


@pytest.mark.parametrize(
    ("name", "content"), [("infold.json", "{}"), ("pyproject.toml", "[tool.infold]\nwindow = 9000")]
)
def test_settings_in_another_file_are_not_hidden(home: Path, name: str, content: str) -> None:
    """A new file would count in the place of the one that is there, also of one in a folder above."""
    (home / name).write_text(content, "utf-8")
    inner = home / "inner"
    inner.mkdir()

    for folder in (home, inner):
        told = init(folder)
        assert told.exit_code == 1
        assert f"there are settings in {home / name}" in told.stderr
        assert not (folder / "infold.toml").exists()


def test_the_users_own_file_is_made_with_its_folder(home: Path) -> None:
    """It is the file that `infold config` reads; a note says if another is read in its place."""
    told = init(home, "--user", INFOLD_CONFIG=str(home / "else.toml"))

    assert told.stdout == f"written: {user_file({'HOME': str(home)})}\n"
    assert "INFOLD_CONFIG" in told.stderr


def test_without_a_home_the_users_file_has_no_place(home: Path) -> None:
    """The error says what to set."""
    with chdir(home):
        told = CliRunner(env={"HOME": "", "XDG_CONFIG_HOME": None}).invoke(main, ["init", "--user"])

    assert told.exit_code == 1
    assert "set HOME or XDG_CONFIG_HOME" in told.stderr
