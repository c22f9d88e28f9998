"""Where an agent keeps what outlives it: sessions and snapshots, in the user's own data folder."""

from collections.abc import Mapping
from pathlib import Path


def default_store(environ: Mapping[str, str]) -> str:
    """Where sessions are kept where nobody says otherwise: one file for all projects."""
    return str(data_folder(environ) / "sessions.sqlite3")


def default_snapshots(environ: Mapping[str, str]) -> Path:
    """The folder in which the snapshots of all projects are kept."""
    return data_folder(environ) / "snapshots"


def home_of(environ: Mapping[str, str]) -> Path:
    """The user's home folder."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def project_skills(root: Path) -> tuple[Path, ...]:
    """Where a project may have skills."""
    return (root / ".infold" / "skills", root / ".agents" / "skills")


def own_skills(environ: Mapping[str, str]) -> Path:
    """Where the user's own skills are."""
    return home_of(environ) / ".config" / "infold" / "skills"


def data_folder(environ: Mapping[str, str]) -> Path:
    """By the rule for data of a user's own; a relative `XDG_DATA_HOME` is void by that rule."""
    named = Path(environ.get("XDG_DATA_HOME", ""))
    return (named if named.is_absolute() else home_of(environ) / ".local" / "share") / "infold"
