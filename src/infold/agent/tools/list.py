"""The list tool: what is in a folder, or which files below it a glob means."""

import os
from itertools import islice
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.files import display_path, path_action, resolve_folder, resolve_path
from infold.agent.tools.project_files import LONGEST_GLOB, Glob, ignored_names, list_files
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

MOST_NAMES = 500


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which folder, and which files below it."""

    path: Annotated[str, Meta(description="Folder; the project's root if not given.")] = ""
    glob: Annotated[str, Meta(description="Files at any depth, such as *.py or src/**/test_*")] = ""


def _action(arguments: ListArguments, workspace: Workspace) -> ActionRequest:
    return path_action("list", arguments.path, workspace)


def _summary(arguments: ListArguments, workspace: Workspace) -> str:
    place = display_path(resolve_path(arguments.path, workspace), workspace)
    return f"{arguments.glob} in {place}" if arguments.glob else place


def _run(arguments: ListArguments, workspace: Workspace) -> ToolOutput:
    folder = resolve_folder(arguments.path, workspace)
    if arguments.glob:
        return ToolOutput(_told(_matching(folder, arguments.glob, workspace), "[no file matches]"))
    return ToolOutput(_told(_names_in(folder), "[the folder is empty]"))


def _names_in(folder: Path) -> list[str]:
    """What is directly in a folder, folders with a slash behind them; what git ignores is left out."""
    with os.scandir(folder) as entries:
        names = {entry.name: "/" if _is_folder(entry) else "" for entry in entries if entry.name != ".git"}
    ignored = ignored_names(sorted(names), folder)
    return sorted(name + slash for name, slash in names.items() if name not in ignored)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a name leads to a folder; a link that leads to itself does not, though asking it is an error."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _matching(folder: Path, glob: str, workspace: Workspace) -> list[str]:
    """The files below a folder that a glob means and that are there, as far as they are told and one more."""
    if len(glob) > LONGEST_GLOB:
        raise ToolFailed(f"the glob has {len(glob):,} characters; give one such as *.py or src/**/test_*")
    pattern = Glob(glob)
    wanted = (folder / path for path in list_files(folder) if pattern.matches(path))
    there = (display_path(path, workspace) for path in wanted if os.path.lexists(path))
    return list(islice(there, MOST_NAMES + 1))


def _told(names: list[str], otherwise: str) -> str:
    note = f"[only the first {MOST_NAMES} are shown; give a folder further down or a narrower glob]"
    return "\n".join([*names[:MOST_NAMES], note] if len(names) > MOST_NAMES else names) or otherwise


LIST = Tool(
    "list",
    "Lists a folder, or with a glob the files below it, ignored ones left out.",
    ListArguments,
    _action,
    _run,
    _summary,
)
