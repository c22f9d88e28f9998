"""Which folders a user trusts, what a project brings, and where infold keeps its files."""

import os
from pathlib import Path

import pytest

from infold.agent.trust import (
    default_snapshot_folder,
    default_store,
    find_project_config,
    lookup_trust,
    remember_trust,
    trust_folder,
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user with a home and nothing in it."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "data")}


def test_what_a_folder_brings_is_named(tmp_path: Path) -> None:
    """B41: settings, instructions from the top of the repository down, and folders of skills; nothing else."""
    root = tmp_path / "top" / "sub"
    (tmp_path / "top" / ".git").mkdir(parents=True)
    (root / ".agents" / "skills").mkdir(parents=True)
    for name in ("../CLAUDE.md", "AGENTS.md", "README.md"):
        (root / name).write_text("x")
    (root / "pyproject.toml").write_text("[tool.other]\n")
    assert find_project_config(root) == ("../CLAUDE.md", "AGENTS.md", ".agents/skills")
    (root.parent / "pyproject.toml").write_text("[tool.infold]\nwindow = 9000\n")

    assert find_project_config(root) == ("../pyproject.toml", "../CLAUDE.md", "AGENTS.md", ".agents/skills")
    assert trust_folder(root) == root.parent


def test_an_answer_holds_below(tmp_path: Path, environ: dict[str, str]) -> None:
    """B41: an answer is for a folder and what is below it, the nearest counts, and the last one given."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    assert lookup_trust(inner, environ) is None
    remember_trust(inner.parent, environ, trusted=True)
    assert lookup_trust(inner, environ) is True
    remember_trust(inner, environ, trusted=False)

    assert (lookup_trust(inner.parent, environ), lookup_trust(inner, environ)) == (True, False)
    remember_trust(inner, environ, trusted=True)
    assert lookup_trust(inner / "deeper", environ) is True
    assert lookup_trust(tmp_path, environ) is None
    assert (tmp_path / "data" / "infold").stat().st_mode & 0o077 == 0


def test_a_home_is_trusted_for_itself(tmp_path: Path, environ: dict[str, str]) -> None:
    """B41: an answer for the home folder or one above it says nothing about the projects in it."""
    home = tmp_path / "home"
    for folder in (home, tmp_path):
        remember_trust(folder, environ, trusted=True)

    assert lookup_trust(home, environ) is True
    assert lookup_trust(home / "cloned", environ) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_a_folder_of_another_owner_is_another(tmp_path: Path, environ: dict[str, str]) -> None:
    """B41: a trusted folder that was replaced by another user's is asked about again."""
    folder = tmp_path / "shared"
    folder.mkdir()
    remember_trust(folder, environ, trusted=True)
    os.chown(folder, 12_345, 12_345)

    assert lookup_trust(folder, environ) is None


def test_a_damaged_file_trusts_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    """B41: answers that cannot be read do not count, and a new one can be stored."""
    remember_trust(tmp_path, environ, trusted=True)
    (tmp_path / "data" / "infold" / "trust.json").write_text('{"nonsense"')
    assert lookup_trust(tmp_path, environ) is None
    remember_trust(tmp_path, environ, trusted=True)

    assert lookup_trust(tmp_path, environ) is True


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/users/ada"}, "/users/ada/.local/share/infold"),
        ({"HOME": "/users/ada", "XDG_DATA_HOME": "/srv/data"}, "/srv/data/infold"),
        ({"HOME": "/users/ada", "XDG_DATA_HOME": "data"}, "/users/ada/.local/share/infold"),
        ({"HOME": "/users/ada", "XDG_DATA_HOME": ""}, "/users/ada/.local/share/infold"),
    ],
)
def test_files_are_in_the_users_data_folder(environ: dict[str, str], folder: str) -> None:
    """`XDG_DATA_HOME` counts if it is absolute; else the folder is below the home folder."""
    assert default_store(environ) == f"{folder}/sessions.sqlite3"
    assert default_snapshot_folder(environ) == Path(folder) / "snapshots"


def test_a_home_is_found_without_its_variable() -> None:
    """A process started without HOME still has one."""
    assert Path(default_store({})).is_absolute()
