"""Which folders a user trusts, and what a folder brings along for which that matters.

A project's instructions, skills and settings steer an agent, and anyone may have written them. They are used only in a folder
that the user trusts. The user is asked once for each folder; answers are kept in one file of the user's own, by resolved path
and by the owner the folder had, and hold for everything below it.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from infold.agent.instructions import find_instruction_files, repository_top
from infold.agent.tools.files import replace_file
from infold.settings.load import project_file


def default_store(environ: Mapping[str, str]) -> str:
    """Where sessions are kept where nobody says otherwise: one file for all projects."""
    return str(data_folder(environ) / "sessions.sqlite3")


def default_snapshot_folder(environ: Mapping[str, str]) -> Path:
    """The folder in which the snapshots of all projects are kept."""
    return data_folder(environ) / "snapshots"


def home_folder(environ: Mapping[str, str]) -> Path:
    """The user's home folder."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def project_skill_folders(root: Path) -> tuple[Path, ...]:
    """Where a project may have skills."""
    return (root / ".infold" / "skills", root / ".agents" / "skills")


def user_skill_folder(environ: Mapping[str, str]) -> Path:
    """Where the user's own skills are."""
    return home_folder(environ) / ".config" / "infold" / "skills"


def data_folder(environ: Mapping[str, str]) -> Path:
    """By the rule for data of a user's own; a relative `XDG_DATA_HOME` is void by that rule."""
    named = Path(environ.get("XDG_DATA_HOME", ""))
    return (named if named.is_absolute() else home_folder(environ) / ".local" / "share") / "infold"


FILE = "trust.json"


OWNER_ONLY = 0o700


class TrustAnswer(Struct, frozen=True):
    """What the user answered for a folder, and whose folder that was then."""

    folder: str
    owner: int
    trusted: bool


def trust_folder(root: Path) -> Path:
    """Return the folder that trust is asked for: the top of the repository that a root is in, or else the root."""
    return repository_top(Path(os.path.realpath(root)))


def find_project_config(root: Path) -> tuple[str, ...]:
    """Return what a folder brings for an agent to go by, as paths from it: settings, instructions, folders of skills."""
    place = Path(os.path.realpath(root))
    return tuple(os.path.relpath(path, place) for path in _brought(place))


def lookup_trust(folder: Path, environ: Mapping[str, str]) -> bool | None:
    """Return the user's answer for a folder or the nearest one above it; `None` if there is none.

    An answer for the home folder, or one above that, holds for that folder alone.
    """
    answers = {answer.folder: answer for answer in _answers(environ)}
    home = Path(os.path.realpath(home_folder(environ)))
    for place in (folder, *folder.parents):
        answer = answers.get(str(place))
        is_wide = place in (home, *home.parents) and place != folder
        if answer is not None and not is_wide and answer.owner == _owner(place):
            return answer.trusted
    return None


def remember_trust(folder: Path, environ: Mapping[str, str], *, trusted: bool) -> None:
    """Keep the user's answer for a folder; raise `OSError` if it cannot be written."""
    kept = [answer for answer in _answers(environ) if answer.folder != str(folder)]
    answers = [*kept, TrustAnswer(str(folder), _owner(folder), trusted)]
    place = data_folder(environ)
    place.mkdir(parents=True, exist_ok=True, mode=OWNER_ONLY)
    replace_file(place / FILE, msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n")


def _brought(root: Path) -> Iterator[Path]:
    settings = project_file(root)
    if settings is not None:
        yield settings
    yield from find_instruction_files(root)
    yield from (folder for folder in project_skill_folders(root) if folder.is_dir())


def _answers(environ: Mapping[str, str]) -> list[TrustAnswer]:
    """The answers so far; none where the file cannot be read, so that the user is asked again."""
    try:
        return msgspec.json.decode((data_folder(environ) / FILE).read_bytes(), type=list[TrustAnswer])
    except (OSError, msgspec.DecodeError):
        return []


def _owner(folder: Path) -> int:
    try:
        return folder.stat().st_uid
    except OSError:
        return -1
