"""The read tool: numbered lines of a text file."""

from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.files import display_path, path_action, read_text_file, target_path
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

DEFAULT_LINES = 2_000
LONGEST_LINE = 2_000
"""Characters of a line that are shown."""

MOST_CHARACTERS = 200_000
"""Characters that are shown at once."""


class ReadArguments(Struct, frozen=True):
    path: str
    first_line: Annotated[int, Meta(ge=1)] = 1
    lines: Annotated[int, Meta(ge=1)] = DEFAULT_LINES


def _action(arguments: ReadArguments, workspace: Workspace) -> ActionRequest:
    return path_action("read", arguments.path, workspace)


def _run(arguments: ReadArguments, workspace: Workspace) -> ToolOutput:
    path = target_path(arguments.path, workspace)
    name = display_path(path, workspace)
    every = split_lines(read_text_file(path, workspace).decode("utf-8-sig", "replace"))
    if not every:
        return ToolOutput(f"[{name} is empty]")
    first = arguments.first_line
    if first > len(every):
        raise ToolFailed(f"{name} has {len(every):,} lines, so there is no line {first:,}; ask for an earlier one")
    shown = _number_lines(every[first - 1 :][: arguments.lines], first)
    last = first + len(shown) - 1
    if last < len(every):
        shown.append(f"[lines {first:,} to {last:,} of {len(every):,}; read on with first_line {last + 1}]")
    return ToolOutput("\n".join(shown))


def split_lines(text: str) -> list[str]:
    """Return the lines of a text as editors count them: a line break at the end does not begin another."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _number_lines(lines: list[str], first: int) -> list[str]:
    """Return numbered lines, as many as there is room for."""
    shown: list[str] = []
    room = MOST_CHARACTERS
    for number, line in enumerate(lines, first):
        numbered = f"{number}\t{cut_line(line, LONGEST_LINE)}"
        room -= len(numbered)
        if room < 0:
            break
        shown.append(numbered)
    return shown


def cut_line(line: str, longest: int) -> str:
    """Return the beginning of a line, with the number of characters that are left out."""
    over = len(line) - longest
    return line if over <= 0 else f"{line[:longest]} [{over:,} more characters in this line]"


_DESCRIPTION = "Shows lines of a text file, each behind its number and a tab. Paths are taken from the project's root."
READ = Tool("read", _DESCRIPTION, ReadArguments, _action, _run)
