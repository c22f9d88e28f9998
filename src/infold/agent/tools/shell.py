"""The shell tool: run a command and return its output."""

import os
import re
from shlex import quote
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from infold.agent.tools.commands import command_reach
from infold.agent.tools.files import RUNS_LATER, is_inside, resolve_folder, resolve_path
from infold.agent.tools.processes import ProcessResult, command_environment, find_program, run_process
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

DEFAULT_SECONDS, MOST_SECONDS = 120, 600
TIMED_OUT = 124
"""The exit status of a command that the time limit ended, as that of `timeout`."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
"""Terminal escapes, which some programs print even to a pipe; a model has no use for them."""


class ShellArguments(Struct, frozen=True):
    command: str
    timeout_seconds: Annotated[int, Meta(ge=1, le=MOST_SECONDS)] = DEFAULT_SECONDS
    folder: Annotated[str, Meta(description="Where to run it, if not at the project's root.")] = ""


def _action(arguments: ShellArguments, workspace: Workspace) -> ActionRequest:
    """Return the command as a user would type it at the root; outside if its folder or a path in it is."""
    command = _command(arguments)
    what = f"cd {quote(arguments.folder)} && {command}" if arguments.folder else command
    start = resolve_path(arguments.folder, workspace)
    reach = command_reach(command, start, workspace)
    leads_out = reach.outside or not is_inside(start, workspace)
    why = RUNS_LATER if reach.later and not leads_out else ""
    return ActionRequest("shell", what, outside=leads_out or reach.later, why=why, reveals=reach.secret)


def _command(arguments: ShellArguments) -> str:
    """Return the command that is both checked and run."""
    return arguments.command.strip(" \t\n")


def _run(arguments: ShellArguments, workspace: Workspace) -> ToolOutput:
    command = _command(arguments)
    if not command.strip() or "\0" in command:
        raise ToolFailed("there is no command to run; give one, without NUL characters")
    folder = resolve_folder(arguments.folder, workspace)
    words, seconds = [find_program("bash", os.environ) or "/bin/sh", "-c", command], arguments.timeout_seconds
    environ = command_environment(os.environ, workspace.passed)
    result = run_process(
        words, folder, limit_seconds=seconds, environ=environ, on_interrupt=workspace.progress.keep_output
    )
    status = TIMED_OUT if result.exit_status is None else result.exit_status
    output = _ESCAPES.sub("", result.output).replace("\0", "\ufffd").rstrip("\n")
    notes = _notes(replace(result, output=output), arguments)
    return ToolOutput("\n".join(filter(None, (output, *notes))), exit_status=status)


def _notes(result: ProcessResult, arguments: ShellArguments) -> list[str]:
    """Return the notes that a model gets in addition to the output."""
    if result.exit_status is None:
        remedy = "give timeout_seconds if it needs longer, or run it in the background with its output in a file"
        return [f"[stopped after {arguments.timeout_seconds} seconds, with all it had started; {remedy}]"]
    notes = ["[no output]"] if not result.output.strip() else []
    if result.is_left_running:
        notes.append(
            "[something it started still runs; what that says from now on is lost, unless it writes to a file]"
        )
    if result.exit_status:
        notes.append(f"[exit status {result.exit_status}]")
    return notes


_DESCRIPTION = (
    "Runs a shell command at the project's root; gives stdout and stderr together, and the exit status if not 0. Nothing can be "
    "typed in: use flags such as --yes. Prefer read, edit, search and list to cat, sed, grep and find."
)
SHELL = Tool("shell", _DESCRIPTION, ShellArguments, _action, _run)
