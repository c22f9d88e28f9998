"""The shell tool: run a command and give back all it said."""

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
"""The exit status of a command that the time limit ended, as `timeout` has it."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
"""What colours a terminal or moves its cursor; some programs do so to whomever they speak. To a model it is of no use."""


class ShellArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """What to run, for how long, and where."""

    command: str
    timeout_seconds: Annotated[int, Meta(ge=1, le=MOST_SECONDS)] = DEFAULT_SECONDS
    folder: Annotated[str, Meta(description="Where to run it, if not at the project's root.")] = ""


def _action(arguments: ShellArguments, workspace: Workspace) -> ActionRequest:
    """The command as a person would type it at the root; outside where its folder, or a path it names, lies outside."""
    command = _command(arguments)
    what = f"cd {quote(arguments.folder)} && {command}" if arguments.folder else command
    start = resolve_path(arguments.folder, workspace)
    reach = command_reach(command, start, workspace)
    leads_out = reach.outside or not is_inside(start, workspace)
    why = RUNS_LATER if reach.later and not leads_out else ""
    return ActionRequest("shell", what, outside=leads_out or reach.later, why=why, reveals=reach.secret)


def _command(arguments: ShellArguments) -> str:
    """The command that is judged and run: one text for both."""
    return arguments.command.strip(" \t\n")


def _run(arguments: ShellArguments, workspace: Workspace) -> ToolOutput:
    command = _command(arguments)
    if not command.strip() or "\0" in command:
        raise ToolFailed("there is no command to run; give one, without NUL characters")
    folder = resolve_folder(arguments.folder, workspace)
    words, seconds = [find_program("bash", os.environ) or "/bin/sh", "-c", command], arguments.timeout_seconds
    environ = command_environment(os.environ, workspace.passed)
    ran = run_process(words, folder, limit_seconds=seconds, environ=environ, leave=workspace.trace.leave)
    status = TIMED_OUT if ran.exit_status is None else ran.exit_status
    said = _ESCAPES.sub("", ran.output).replace("\0", "\ufffd").rstrip("\n")
    notes = _notes(replace(ran, output=said), arguments)
    return ToolOutput("\n".join(filter(None, (said, *notes))), exit_status=status)


def _notes(ran: ProcessResult, arguments: ShellArguments) -> list[str]:
    """What a model is told beside the output."""
    if ran.exit_status is None:
        remedy = "give timeout_seconds if it needs longer, or run it in the background with its output in a file"
        return [f"[stopped after {arguments.timeout_seconds} seconds, with all it had started; {remedy}]"]
    notes = ["[no output]"] if not ran.output.strip() else []
    if ran.is_left_running:
        notes.append(
            "[something it started still runs; what that says from now on is lost, unless it writes to a file]"
        )
    if ran.exit_status:
        notes.append(f"[exit status {ran.exit_status}]")
    return notes


SHELL = Tool(
    "shell",
    "Runs a shell command at the project's root; gives stdout and stderr together, and the exit status if not 0. Nothing can be "
    "typed in: use flags such as --yes. Prefer read, edit, search and list to cat, sed, grep and find.",
    ShellArguments,
    _action,
    _run,
)
