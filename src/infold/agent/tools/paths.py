"""Where the paths lead that a model writes, whether that is inside the project, and how they are named to model and person.

Every link is followed before anything is decided, so a link in the project that leads out of it counts as outside. So does, for
a tool that would change it, a file that runs later: settings and hooks name programs that the next harmless command runs.
"""

import os
from difflib import get_close_matches
from pathlib import Path

from msgspec.structs import replace

from infold.agent.tools.later_files import runs_later
from infold.agent.tools.tool import ToolFailed, Wish, Workplace

RUNS_LATER = "it runs later, without being asked for again"
"""Why a change inside the project is asked for."""

MOST_NAMES = 500
"""Names of a folder that are compared with one that is not there."""


def located(path: str, workplace: Workplace) -> Path:
    """Where a path leads: from the project's root, `~` as the home folder, every link followed.

    Raises `ToolFailed` for what no path can be.
    """
    if "\0" in path:
        raise ToolFailed("a path cannot hold a NUL character; give the path as list shows it")
    try:
        place = workplace.root / Path(path).expanduser()
    except RuntimeError:  # nobody is called so, or has no home
        place = workplace.root / path
    return Path(os.path.realpath(place))


def is_inside(path: Path, workplace: Workplace) -> bool:
    """Whether a located path is the project's root or below it."""
    return path.is_relative_to(os.path.realpath(workplace.root))


def named(path: Path, workplace: Workplace) -> str:
    """A located path as it is shown: from the project's root, or in full where it is outside."""
    root = Path(os.path.realpath(workplace.root))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def path_wish(tool: str, path: str, workplace: Workplace) -> Wish:
    """The wish of a tool that is about one path."""
    place = located(path, workplace)
    return Wish(tool, named(place, workplace), outside=not is_inside(place, workplace))


def change_wish(tool: str, path: str, workplace: Workplace) -> Wish:
    """The wish of a tool that would change what is at a path."""
    wish = path_wish(tool, path, workplace)
    later = is_run_later(located(path, workplace), workplace)
    return replace(wish, outside=True, why="" if wish.outside else RUNS_LATER) if later else wish


def is_run_later(place: Path, workplace: Workplace) -> bool:
    """Whether a located path is one of a repository's own files, or another file that runs without being started."""
    return runs_later(named(place, workplace)) or _is_gits_own(place, workplace)


def _is_gits_own(place: Path, workplace: Workplace) -> bool:
    """Whether a located path belongs to a repository that is not called `.git`, or would make a folder one, which always has a
    `HEAD`."""
    parts = [part.casefold() for part in Path(named(place, workplace)).parts]
    within = (folder for folder in place.parents if is_inside(folder, workplace))
    return parts[-1:] == ["head"] or any(map(_is_repository, within))


def _is_repository(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def folder_at(path: str, workplace: Workplace) -> Path:
    """The folder at a path; raises `ToolFailed` where there is none."""
    place = located(path, workplace)
    if place.is_dir():
        return place
    if place.exists():
        raise ToolFailed(f"{named(place, workplace)} is a file, not a folder; give its folder, or use read")
    raise missing(place, workplace)


def missing(path: Path, workplace: Workplace) -> ToolFailed:
    """What to say of a path with nothing at it: names beside it that look alike, or how far the path goes."""
    parent = next((folder for folder in path.parents if folder.is_dir()), path)
    wanted = path.relative_to(parent).parts[0] if path != parent else path.name
    close = get_close_matches(wanted, _names_in(parent), n=3, cutoff=0.5)
    if close:
        advice = "did you mean " + " or ".join(named(parent / name, workplace) for name in close) + "?"
    else:
        advice = f"use list on {named(parent, workplace)} to see what is there"
    return ToolFailed(f"there is no {named(path, workplace)}; {advice}")


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(place.name for place in folder.iterdir())[:MOST_NAMES]
    except OSError:
        return []
