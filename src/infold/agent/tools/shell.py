"""The shell tool: run a command and give back all it said."""

import os
import re
from pathlib import Path
from shlex import quote
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from infold.agent.tools.commands import words_in
from infold.agent.tools.paths import folder_at, is_inside, located
from infold.agent.tools.processes import Ran, program_at, run_process
from infold.agent.tools.tool import Done, Tool, ToolFailed, Wish, Workplace

__all__ = ["SHELL", "ShellArguments"]

DEFAULT_SECONDS, MOST_SECONDS = 120, 600
TIMED_OUT = 124
"""The exit status of a command that the time limit ended, as `timeout` has it."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
"""What colours a terminal or moves its cursor; some programs do so to whomever they speak. To a model it is of no use."""

HARMLESS = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")


class ShellArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """What to run, for how long, and where."""

    command: str
    timeout_seconds: Annotated[int, Meta(ge=1, le=MOST_SECONDS)] = DEFAULT_SECONDS
    folder: Annotated[str, Meta(description="Where to run it, if not at the project's root.")] = ""


def _wish(arguments: ShellArguments, workplace: Workplace) -> Wish:
    """The command as a person would type it at the root; outside where its folder, or a path it names, lies outside."""
    command = arguments.command.strip()
    what = f"cd {quote(arguments.folder)} && {command}" if arguments.folder else command
    leads_out = not is_inside(located(arguments.folder, workplace), workplace)
    return Wish("shell", what, outside=leads_out or any(_leads_out(word, workplace) for word in words_in(command)))


def _leads_out(word: str, workplace: Workplace) -> bool:
    """Whether a word of a command is the path of something outside the project; words that only look like one are let be."""
    if not (word.startswith(("/", "~")) or ".." in word) or word in HARMLESS or "\0" in word:
        return False
    place = located(word, workplace)
    if is_inside(place, workplace):
        return False
    beside = place.parent
    return os.path.lexists(place) or (beside != Path(beside.anchor) and os.path.lexists(beside))


def _run(arguments: ShellArguments, workplace: Workplace) -> Done:
    command = arguments.command
    if not command.strip() or "\0" in command:
        raise ToolFailed("there is no command to run; give one, without NUL characters")
    folder = folder_at(arguments.folder, workplace)
    words, seconds = [program_at("bash", os.environ) or "/bin/sh", "-c", command], arguments.timeout_seconds
    ran = run_process(words, folder, limit_seconds=seconds, leave=workplace.trace.leave)
    status = TIMED_OUT if ran.exit_status is None else ran.exit_status
    said = _ESCAPES.sub("", ran.output).replace("\0", "\ufffd").rstrip("\n")
    notes = _notes(replace(ran, output=said), arguments)
    return Done("\n".join(filter(None, (said, *notes))), exit_status=status)


def _notes(ran: Ran, arguments: ShellArguments) -> list[str]:
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
    _wish,
    _run,
)
