"""The write tool: write a whole file."""

from msgspec import Struct

from infold.agent.tools.files import change_action, display_path, encode_text, replace_file, resolve_path
from infold.agent.tools.read import split_lines
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace


class WriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    content: str


def _action(arguments: WriteArguments, workspace: Workspace) -> ActionRequest:
    return change_action("write", arguments.path, workspace)


def _run(arguments: WriteArguments, workspace: Workspace) -> ToolOutput:
    path = resolve_path(arguments.path, workspace)
    name = display_path(path, workspace)
    if path.is_dir():
        raise ToolFailed(f"{name} is a folder; give the path of a file in it")
    if path.exists() and not path.is_file():
        raise ToolFailed(f"{name} is no regular file but a device, a socket or a pipe; write somewhere else")
    was_there = path.exists()
    replace_file(path, encode_text(arguments.content))
    count = len(split_lines(arguments.content))
    return ToolOutput(f"{'replaced' if was_there else 'made'} {name}: {count:,} line{'' if count == 1 else 's'}")


_DESCRIPTION = (
    "Writes a file whole, making it and its folders or replacing what was there. To change part of a file use edit."
)
WRITE = Tool("write", _DESCRIPTION, WriteArguments, _action, _run)
