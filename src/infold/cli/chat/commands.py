"""The commands of a chat, all of which begin with a slash: what there is, and what somebody meant."""

import re
from difflib import get_close_matches

from msgspec import Struct

from infold.errors import UsageError

QUIT = "quit"


_ORDER = re.compile(r"/([A-Za-z][A-Za-z-]*)(?:\s+(.*))?", re.DOTALL)


class Command(Struct, frozen=True):
    """A command: its name, what may stand after it, and what it does."""

    name: str
    takes: str
    does: str


class Order(Struct, frozen=True):
    """A command somebody gave, with what stood after it."""

    name: str
    rest: str = ""


COMMANDS = {
    command.name: command
    for command in (
        Command("compact", "[FOCUS]", "fold what was said so far; the summary gives room to FOCUS"),
        Command("undo", "", "take back the newest compaction: all of it is in view again"),
        Command("context", "", "show what fills the window"),
        Command("recall", "QUERY", "find what was said or done, folded or not, by words or by handle"),
        Command("show", "[N]", "show a tool's result whole: the newest, number N, or a handle such as 12.0"),
        Command("pin", "[HANDLE]", "keep a part word for word through every compaction; alone, list the pinned"),
        Command("unpin", "HANDLE", "let a pinned part go"),
        Command("continue", "", "work on after an abort, an error or a crash, without saying anything"),
        Command("title", "[TEXT]", "name this session, or show its name"),
        Command("sessions", "", "list the sessions there are"),
        Command("new", "", "begin a new session in this folder; /clear is the same"),
        Command("model", "[NAME]", "go on with another model, or show which one answers"),
        Command("help", "", "show this"),
        Command(QUIT, "", "leave; the session stays"),
    )
}
"""By name, in the order of the help."""


_ALSO = {"exit": QUIT, "clear": "new"}


def order_in(line: str) -> Order | None:
    """The command a line gives; none where it is something said, also where that begins with a path such as /etc/hosts.

    Raises `UsageError` for a command that does not exist, with the nearest that does.
    """
    found = _ORDER.fullmatch(line.strip())
    if found is None:
        return None
    name = found[1].lower()
    name = _ALSO.get(name, name)
    if name not in COMMANDS:
        nearest = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        meant = f"did you mean /{nearest[0]}? " if nearest else ""
        raise UsageError(f"there is no command /{found[1]}; {meant}/help lists all")
    return Order(name, (found[2] or "").strip())
