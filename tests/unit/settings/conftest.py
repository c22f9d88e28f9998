"""A project and a home to read settings from."""

from pathlib import Path

import pytest

from infold.settings import Settings, read_settings


class Project:
    """A repository with nothing in it but what a test writes, and a user's home beside it."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "project"
        self.home = place / "home"
        (self.folder / ".git").mkdir(parents=True)
        self.own = self.home / ".config" / "infold" / "config.toml"
        self.own.parent.mkdir(parents=True)

    def says(self, toml: str, name: str = "infold.toml") -> "Project":
        """Put a file of settings into the project."""
        (self.folder / name).write_text(toml, "utf-8")
        return self

    def user_says(self, toml: str) -> "Project":
        """Put a file of settings into the user's home."""
        self.own.write_text(toml, "utf-8")
        return self

    def read(self, **environ: str) -> Settings:
        """The settings of a process in the project with these variables."""
        return read_settings({"HOME": str(self.home), **environ}, self.folder)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    return Project(tmp_path)
