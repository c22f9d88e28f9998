"""Which folders the user trusts, and where infold and projects keep their files.

A project's instructions, skills and settings steer an agent, and anyone may have written them. They are used only in a folder
that the user trusts. The user is asked once for each folder; answers are kept in one file in the user's data folder, by resolved
path and by the owner that the folder had, and hold for everything below it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from infold.agent.instructions import find_instruction_files, owner_of, repository_top
from infold.agent.tools.files import replace_file
from infold.agent.tools.tool import Workspace
from infold.settings.load import project_file
from infold.settings.schema import make_private_folder


def default_store(environ: Mapping[str, str]) -> str:
    """Return the default store: one file for the sessions of all projects."""
    return str(data_folder(environ) / "sessions.sqlite3")


def default_snapshot_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for the snapshots of all projects."""
    return data_folder(environ) / "snapshots"


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return infold's folder below `XDG_DATA_HOME`, which counts only if it is absolute, or its default."""
    named = Path(environ.get("XDG_DATA_HOME", ""))
    return (named if named.is_absolute() else _home(environ) / ".local" / "share") / "infold"


def make_workspace(
    root: Path, environ: Mapping[str, str], *, is_trusted: bool, passed: tuple[str, ...] | None
) -> Workspace:
    """Return the workspace of a project, with the user's own skills, and the project's if it is trusted."""
    home = _home(environ)
    skills = (*(_project_skills(root) if is_trusted else ()), home / ".config" / "infold" / "skills")
    ignored = () if is_trusted else find_project_config(root)
    return Workspace(root, skills, home, is_trusted=is_trusted, passed=passed, ignored=ignored)


FILE = "trust.json"
OWNER_ONLY = 0o600


class TrustAnswer(Struct, frozen=True):
    """The user's answer for a folder, and the owner that the folder had."""

    folder: str
    owner: int
    trusted: bool


def trust_folder(root: Path) -> Path:
    """Return the folder that the user is asked about: the top of the repository that a root is in, or else the root."""
    return repository_top(Path(os.path.realpath(root)))


def find_project_config(root: Path) -> tuple[str, ...]:
    """Return the settings, instructions and skill folders of a project, as paths from its root."""
    project = Path(os.path.realpath(root))
    settings = project_file(project)
    found = [
        *(() if settings is None else (settings,)),
        *find_instruction_files(project),
        *(folder for folder in _project_skills(project) if folder.is_dir()),
    ]
    return tuple(os.path.relpath(path, project) for path in found)


def lookup_trust(folder: Path, environ: Mapping[str, str]) -> bool | None:
    """Return the user's answer for a folder or the nearest one above it, or `None`.

    An answer for the home folder, or one above that, holds for that folder alone.
    """
    answers = {answer.folder: answer for answer in _answers(environ)}
    home = Path(os.path.realpath(_home(environ)))
    for place in (folder, *folder.parents):
        answer = answers.get(str(place))
        is_wide = place in (home, *home.parents) and place != folder
        if answer is not None and not is_wide and answer.owner == owner_of(place):
            return answer.trusted
    return None


def remember_trust(folder: Path, environ: Mapping[str, str], *, trusted: bool) -> None:
    """Store the user's answer for a folder; raise `OSError` if it cannot be written."""
    kept = [answer for answer in _answers(environ) if answer.folder != str(folder)]
    answers = [*kept, TrustAnswer(str(folder), owner_of(folder), trusted)]
    place = data_folder(environ)
    make_private_folder(place)
    written = msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n"
    replace_file(Path(os.path.realpath(place / FILE)), written, OWNER_ONLY)


def _answers(environ: Mapping[str, str]) -> list[TrustAnswer]:
    """Return the stored answers; none if the file cannot be read, so that the user is asked again."""
    try:
        return msgspec.json.decode((data_folder(environ) / FILE).read_bytes(), type=list[TrustAnswer])
    except (OSError, msgspec.DecodeError):
        return []


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _project_skills(root: Path) -> tuple[Path, ...]:
    return (root / ".infold" / "skills", root / ".agents" / "skills")
