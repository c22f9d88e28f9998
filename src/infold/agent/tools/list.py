"""The list tool: the content of a folder, or the files below it that match a glob."""

import os
from itertools import islice
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.files import display_path, path_action, quote_name, resolve_folder, resolve_path
from infold.agent.tools.project_files import LONGEST_GLOB, Glob, ignored_names, list_files
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

MOST_NAMES = 500


class ListArguments(Struct, frozen=True):
    path: Annotated[str, Meta(description="Folder; the project's root if not given.")] = ""
    glob: Annotated[str, Meta(description="Files at any depth, such as *.py or src/**/test_*")] = ""


def _action(arguments: ListArguments, workspace: Workspace) -> ActionRequest:
    return path_action("list", arguments.path, workspace)


def _summary(arguments: ListArguments, workspace: Workspace) -> str:
    place = display_path(resolve_path(arguments.path, workspace), workspace)
    return f"{arguments.glob} in {place}" if arguments.glob else place


def _run(arguments: ListArguments, workspace: Workspace) -> ToolOutput:
    folder = resolve_folder(arguments.path, workspace)
    found = _matching(folder, arguments.glob, workspace) if arguments.glob else _names_in(folder)
    names = list(map(quote_name, found))
    if not names:
        return ToolOutput("[no file matches]" if arguments.glob else "[the folder is empty]")
    if len(names) > MOST_NAMES:
        note = f"[only the first {MOST_NAMES} are shown; give a folder further down or a narrower glob]"
        names = [*names[:MOST_NAMES], note]
    return ToolOutput("\n".join(names))


def _names_in(folder: Path) -> list[str]:
    """Return the names in a folder, folders with a slash at the end, without what git ignores."""
    with os.scandir(folder) as entries:
        names = {entry.name: "/" if _is_folder(entry) else "" for entry in entries if entry.name != ".git"}
    ignored = ignored_names(sorted(names), folder)
    return sorted(name + slash for name, slash in names.items() if name not in ignored)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether a name leads to a folder; for a link to itself, asking raises an error."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _matching(folder: Path, glob: str, workspace: Workspace) -> list[str]:
    """Return the existing files below a folder that match a glob, at most one more than is shown."""
    if len(glob) > LONGEST_GLOB:
        raise ToolFailed(f"the glob has {len(glob):,} characters; give one such as *.py or src/**/test_*")
    pattern = Glob(glob)
    wanted = (folder / path for path in list_files(folder) if pattern.matches(path))
    there = (display_path(path, workspace) for path in wanted if os.path.lexists(path))
    return list(islice(there, MOST_NAMES + 1))


_DESCRIPTION = "Lists a folder, or with a glob the files below it, ignored ones left out."
LIST = Tool("list", _DESCRIPTION, ListArguments, _action, _run, _summary)
