"""Which files count."""

from pathlib import Path

import pytest

from infold.errors import SettingsError
from infold.settings.load import find_files, user_file

from .conftest import Project


def read(project: Project, folder: Path | None = None, **environ: str) -> list[Path]:
    """The files that were read, weakest first."""
    found = find_files({"HOME": str(project.home), **environ}, folder or project.folder)
    return [source.path for source in found]


def test_without_files_there_are_none(project: Project) -> None:
    """Nobody has to write a file."""
    assert read(project) == []


def test_the_project_is_stronger_than_the_user(project: Project) -> None:
    """S8.1: the user's file comes first, the project's after it and so over it."""
    project.user_says("").says("")

    assert read(project) == [project.own, project.folder / "infold.toml"]


def test_the_named_file_stands_for_both(project: Project) -> None:
    """S8.1: `INFOLD_CONFIG` names one file in place of the others."""
    project.user_says("").says("").says("", "other.toml")
    other = project.folder / "other.toml"

    assert read(project, INFOLD_CONFIG=str(other)) == [other]


def test_the_file_is_looked_for_upwards(project: Project) -> None:
    """S8.1: a process in a folder below the project finds the project's file, the nearest one."""
    below = project.folder / "src" / "kite"
    below.mkdir(parents=True)
    project.says("")
    assert read(project, below) == [project.folder / "infold.toml"]

    (below.parent / "infold.toml").touch()
    assert read(project, below) == [below.parent / "infold.toml"]


def test_the_repository_is_the_end(project: Project) -> None:
    """S8.1: what lies above the folder with `.git` is another's."""
    (project.folder.parent / "infold.toml").touch()

    assert read(project) == []


def test_pyproject_is_read_where_it_speaks_of_infold(project: Project) -> None:
    """S8.1: `[tool.infold]` serves as a file; a `pyproject.toml` without it, even a broken one, does not."""
    shared = project.folder / "pyproject.toml"
    project.says("[tool.infold]\nwindow = 9000", shared.name)
    assert [source.table for source in find_files({}, project.folder)] == [{"window": 9000}]

    project.says("[tool.other]\nname = 'infold'", shared.name)
    assert read(project) == []
    project.says("broken [", shared.name)
    assert read(project) == []


def test_of_two_in_one_folder_the_own_file_counts(project: Project) -> None:
    """`infold.toml` beside a `pyproject.toml` is the one that is read."""
    project.says("").says("[tool.infold]", "pyproject.toml")

    assert read(project) == [project.folder / "infold.toml"]


def test_where_the_users_file_is() -> None:
    """S8.1: where the desktop's convention says, else under the home's `.config`; without a home nowhere."""
    assert user_file({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == Path("/x/infold/config.toml")
    assert user_file({"XDG_CONFIG_HOME": "x", "HOME": "/h"}) == Path("/h/.config/infold/config.toml")
    assert user_file({"HOME": "/h"}) == Path("/h/.config/infold/config.toml")
    assert user_file({}) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"window = ", "not valid TOML"), (b"\xff", "not UTF-8"), (b"a = " + b"[" * 100_000, "not valid TOML")],
    ids=["broken", "foreign", "deep"],
)
def test_a_broken_file_is_named(project: Project, content: bytes, problem: str) -> None:
    """S8.1: what is not valid TOML is told with its path and what to do."""
    path = project.folder / "infold.toml"
    path.write_bytes(content)

    with pytest.raises(SettingsError, match=problem) as told:
        read(project)
    assert told.value.where == str(path)


JSON = """{
  "auto_compact": false,  // no automatic compaction
  // a comment of its own, with a "quote
  "enable_prune": true,
  "store": "kite // not a comment \\" nor this",
  "compaction": {"reserved": 5000}, "models": {"claude-*": {"window": 9000}}
}"""


@pytest.mark.parametrize("place", ["named", "project", "user"])
def test_json_is_read_wherever_toml_is(project: Project, place: str) -> None:
    """S8.1: document 002's settings are JSON with comments; a file that ends in `.json` holds the same tables as TOML would."""
    path = {"named": project.folder / "x.JSON", "user": project.own.with_suffix(".json")}.get(
        place, project.folder / "infold.json"
    )
    path.write_text(JSON)
    environ = {"HOME": str(project.home), **({"INFOLD_CONFIG": str(path)} if place == "named" else {})}
    (source,) = find_files(environ, project.folder)

    assert (source.path, source.found) == (path, place == "project")
    assert source.table == {
        "auto_compact": False,
        "enable_prune": True,
        "store": 'kite // not a comment " nor this',
        "compaction": {"reserved": 5000},
        "models": {"claude-*": {"window": 9000}},
    }


def test_toml_is_stronger_than_json_beside_it(project: Project) -> None:
    """S8.1: of two files for the same place the TOML one counts, and JSON comes before `pyproject.toml`."""
    project.user_says("").own.with_suffix(".json").touch()
    project.says("").says("{}", "infold.json").says("[tool.infold]", "pyproject.toml")
    assert read(project) == [project.own, project.folder / "infold.toml"]

    (project.folder / "infold.toml").unlink()
    assert read(project) == [project.own, project.folder / "infold.json"]


@pytest.mark.parametrize("content", ["[]", "{", "nothing", '{"a": 1,}', "[" * 100_000, '{"a": NaN}', '{"a": "\ud800"}'])
def test_broken_json_is_named(project: Project, content: str) -> None:
    """S8.1: what is no JSON object is told with its path and what to do."""
    with pytest.raises(SettingsError, match="the file is not a JSON object") as told:
        read(project.says(content.replace("\ud800", "\\ud800"), "infold.json"))
    assert told.value.where == str(project.folder / "infold.json")


@pytest.mark.parametrize("piece", ['\\"', '"', "/", "//", '"\\\n', "\\"])
def test_hostile_json_takes_no_longer_than_its_size(project: Project, piece: str) -> None:
    """S8.1: a long file that is no JSON is refused at once, whatever it repeats."""
    with pytest.raises(SettingsError, match="not a JSON object"):
        read(project.says("{" + piece * 100_000, "infold.json"))


def test_a_named_file_must_be_there(project: Project) -> None:
    """S8.1: a file that somebody names is not passed over."""
    with pytest.raises(SettingsError, match=r"gone\.toml: the file cannot be read"):
        read(project, INFOLD_CONFIG=str(project.folder / "gone.toml"))


def test_a_tool_table_is_a_table(project: Project) -> None:
    """S8.1: `infold = 3` under `[tool]` is no settings."""
    with pytest.raises(SettingsError, match=r"tool\.infold .*: it is not a table"):
        read(project.says("[tool]\ninfold = 3", "pyproject.toml"))


def test_a_folder_out_of_reach_has_no_files(project: Project) -> None:
    """A working folder that cannot be looked into is no error."""
    assert read(project, Path("/" + "x" * 300)) == []
