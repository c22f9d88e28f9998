"""The read tool: lines of a text file, numbered."""

from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.files import display_path, path_action, read_text_file, resolve_path
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

DEFAULT_LINES = 2_000
LONGEST_LINE = 2_000
"""Characters of a line that are shown."""

MOST_CHARACTERS = 200_000
"""Characters that are shown at once, whatever the number of lines."""


class ReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which lines of which file."""

    path: str
    first_line: Annotated[int, Meta(ge=1)] = 1
    lines: Annotated[int, Meta(ge=1)] = DEFAULT_LINES


def _action(arguments: ReadArguments, workspace: Workspace) -> ActionRequest:
    return path_action("read", arguments.path, workspace)


def _run(arguments: ReadArguments, workspace: Workspace) -> ToolOutput:
    path = resolve_path(arguments.path, workspace)
    name = display_path(path, workspace)
    every = split_lines(read_text_file(path, workspace).decode("utf-8-sig", "replace"))
    if not every:
        return ToolOutput(f"[{name} is empty]")
    first = arguments.first_line
    if first > len(every):
        raise ToolFailed(f"{name} has {len(every):,} lines, so there is no line {first:,}; ask for an earlier one")
    shown = _shown(every[first - 1 :][: arguments.lines], first)
    last = first + len(shown) - 1
    if last < len(every):
        shown.append(f"[lines {first:,} to {last:,} of {len(every):,}; read on with first_line {last + 1}]")
    return ToolOutput("\n".join(shown))


def split_lines(text: str) -> list[str]:
    """The lines of a text as editors count them; the end of the last one begins no further line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _shown(lines: list[str], first: int) -> list[str]:
    """Numbered lines, as many as there is room for."""
    shown: list[str] = []
    room = MOST_CHARACTERS
    for number, line in enumerate(lines, first):
        numbered = f"{number}\t{_cut(line)}"
        room -= len(numbered)
        if room < 0:
            break
        shown.append(numbered)
    return shown


def _cut(line: str) -> str:
    over = len(line) - LONGEST_LINE
    return line if over <= 0 else f"{line[:LONGEST_LINE]} [{over:,} more characters in this line]"


READ = Tool(
    "read",
    "Shows lines of a text file, each behind its number and a tab. Paths are taken from the project's root.",
    ReadArguments,
    _action,
    _run,
)
