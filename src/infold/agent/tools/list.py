"""The list tool: what is in a folder, or which files below it a glob means."""

import os
from itertools import islice
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.paths import folder_at, located, named, path_wish
from infold.agent.tools.project_files import LONGEST_GLOB, Glob, files_below, ignored_among
from infold.agent.tools.tool import Done, Tool, ToolFailed, Wish, Workplace

MOST_NAMES = 500


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which folder, and which files below it."""

    path: Annotated[str, Meta(description="Folder; the project's root if not given.")] = ""
    glob: Annotated[str, Meta(description="Files at any depth, such as *.py or src/**/test_*")] = ""


def _wish(arguments: ListArguments, workplace: Workplace) -> Wish:
    return path_wish("list", arguments.path, workplace)


def _gist(arguments: ListArguments, workplace: Workplace) -> str:
    place = named(located(arguments.path, workplace), workplace)
    return f"{arguments.glob} in {place}" if arguments.glob else place


def _run(arguments: ListArguments, workplace: Workplace) -> Done:
    folder = folder_at(arguments.path, workplace)
    if arguments.glob:
        return Done(_told(_matching(folder, arguments.glob, workplace), "[no file matches]"))
    return Done(_told(_names_in(folder), "[the folder is empty]"))


def _names_in(folder: Path) -> list[str]:
    """What is directly in a folder, folders with a slash behind them; what git ignores is left out."""
    with os.scandir(folder) as entries:
        names = {entry.name: "/" if _is_folder(entry) else "" for entry in entries if entry.name != ".git"}
    ignored = ignored_among(sorted(names), folder)
    return sorted(name + slash for name, slash in names.items() if name not in ignored)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a name leads to a folder; a link that leads to itself does not, though asking it is an error."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _matching(folder: Path, glob: str, workplace: Workplace) -> list[str]:
    """The files below a folder that a glob means and that are there, as far as they are told and one more."""
    if len(glob) > LONGEST_GLOB:
        raise ToolFailed(f"the glob has {len(glob):,} characters; give one such as *.py or src/**/test_*")
    pattern = Glob(glob)
    wanted = (folder / path for path in files_below(folder) if pattern.matches(path))
    there = (named(path, workplace) for path in wanted if os.path.lexists(path))
    return list(islice(there, MOST_NAMES + 1))


def _told(names: list[str], otherwise: str) -> str:
    note = f"[only the first {MOST_NAMES} are shown; give a folder further down or a narrower glob]"
    return "\n".join([*names[:MOST_NAMES], note] if len(names) > MOST_NAMES else names) or otherwise


LIST = Tool(
    "list",
    "Lists a folder, or with a glob the files below it, ignored ones left out.",
    ListArguments,
    _wish,
    _run,
    _gist,
)
