"""The commands of a chat, all of which begin with a slash."""

import re

from msgspec import Struct

from infold.errors import UsageError, nearest_names

QUIT = "quit"

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z-]*)(?:\s+(.*))?", re.DOTALL)


class Command(Struct, frozen=True):
    """A command: its name, its argument, and what it does."""

    name: str
    takes: str
    does: str


class GivenCommand(Struct, frozen=True):
    """A command as it was typed, with its argument."""

    name: str
    argument: str = ""


COMMANDS = {
    command.name: command
    for command in (
        Command("compact", "[FOCUS]", "fold the conversation so far; the summary gives room to FOCUS"),
        Command("undo", "", "undo the newest compaction: everything is in view again"),
        Command("context", "", "show what fills the window"),
        Command("recall", "QUERY", "search everything, folded or not, by words or by handle"),
        Command("show", "[N]", "show a tool's result whole: the newest, number N, or a handle such as 12.0"),
        Command("pin", "[HANDLE]", "keep a part word for word through every compaction; alone, list the pinned"),
        Command("unpin", "HANDLE", "release a pinned part"),
        Command("continue", "", "continue after an abort, an error or a crash, without a new prompt"),
        Command("title", "[TEXT]", "name this session, or show its name"),
        Command("sessions", "", "list the stored sessions"),
        Command("new", "", "start a new session in this folder; /clear is the same"),
        Command("model", "[NAME]", "switch to another model, or show the current one"),
        Command("help", "", "show this"),
        Command(QUIT, "", "leave; the session is stored"),
    )
}
"""By name, in the order of the help."""

_ALIASES = {"exit": QUIT, "clear": "new"}


def parse_command(line: str) -> GivenCommand | None:
    """Return the command in a line, or `None` for a prompt, also one that begins with a path such as /etc/hosts.

    Raise `UsageError` for an unknown command, with the nearest known one.
    """
    found = _COMMAND.fullmatch(line.strip())
    if found is None:
        return None
    name = found[1].lower()
    name = _ALIASES.get(name, name)
    if name not in COMMANDS:
        near = nearest_names(name, COMMANDS, likeness=0.5)
        meant = f"did you mean /{near[0]}? " if near else ""
        raise UsageError(f"unknown command /{found[1]}; {meant}/help lists all")
    return GivenCommand(name, (found[2] or "").strip())
