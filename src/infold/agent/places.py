"""Where an agent keeps what outlives it: sessions and snapshots, in the user's own data folder."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["default_snapshots", "default_store", "home_of", "skill_folders"]


def default_store(environ: Mapping[str, str]) -> str:
    """Where sessions are kept where nobody says otherwise: one file for all projects."""
    return str(_data_folder(environ) / "sessions.sqlite3")


def default_snapshots(environ: Mapping[str, str]) -> Path:
    """The folder in which the snapshots of all projects are kept."""
    return _data_folder(environ) / "snapshots"


def home_of(environ: Mapping[str, str]) -> Path:
    """The user's home folder."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def skill_folders(root: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where skills are looked for: in the project, then in the user's own folder."""
    return tuple(
        folder / "skills" for folder in (root / ".infold", root / ".agents", home_of(environ) / ".config" / "infold")
    )


def _data_folder(environ: Mapping[str, str]) -> Path:
    """By the rule for data of a user's own; a relative `XDG_DATA_HOME` is void by that rule."""
    named = Path(environ.get("XDG_DATA_HOME", ""))
    return (named if named.is_absolute() else home_of(environ) / ".local" / "share") / "infold"
