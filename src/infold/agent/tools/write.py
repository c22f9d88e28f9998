"""The write tool: put a whole file in place."""

from msgspec import Struct

from infold.agent.tools.files import encoded, replace_file
from infold.agent.tools.paths import change_wish, located, named
from infold.agent.tools.read import lines_of
from infold.agent.tools.tool import Done, Tool, ToolFailed, Wish, Workplace


class WriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which file, and all that shall be in it."""

    path: str
    content: str


def _wish(arguments: WriteArguments, workplace: Workplace) -> Wish:
    return change_wish("write", arguments.path, workplace)


def _run(arguments: WriteArguments, workplace: Workplace) -> Done:
    path = located(arguments.path, workplace)
    name = named(path, workplace)
    if path.is_dir():
        raise ToolFailed(f"{name} is a folder; give the path of a file in it")
    if path.exists() and not path.is_file():
        raise ToolFailed(f"{name} is no regular file but a device, a socket or a pipe; write somewhere else")
    was_there = path.exists()
    replace_file(path, encoded(arguments.content))
    count = len(lines_of(arguments.content))
    return Done(f"{'replaced' if was_there else 'made'} {name}: {count:,} line{'' if count == 1 else 's'}")


WRITE = Tool(
    "write",
    "Writes a file whole, making it and its folders or replacing what was there. To change part of a file use edit.",
    WriteArguments,
    _wish,
    _run,
)
