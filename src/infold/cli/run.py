"""`infold run`: carry out one task with the agent; for people, pipes and scripts."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from rich.console import Console

from infold.agent.events import RunEnding, ToolRefused
from infold.agent.run import RunEvent, UserInterface
from infold.cli.agent_options import AgentOptions, agent_options, decide_trust, exit_on_signals, open_agent
from infold.cli.event_output import EventPrinter, json_lines, open_output
from infold.cli.permission_prompt import can_ask, denied_hint, permission_prompt, trust_prompt
from infold.errors import UsageError
from infold.formats.codec import replace_surrogates

EXIT_CODES: dict[RunEnding, int] = {
    "done": 0,
    "failed": 1,
    "stop": 1,
    "length": 3,
    "steps": 3,
    "circling": 3,
    "filtered": 3,
    "aborted": 130,
}
"""Exit statuses: 3 if the agent stopped before it was done, 130 after an interrupt, as in shells."""

LONGEST_PIPED = 4_000_000
"""Bytes that are read from a pipe."""


@click.command("run", short_help="Carry out one task with the agent, in this folder.")
@click.argument("task", nargs=-1)
@agent_options
@click.option("--json", "as_json", is_flag=True, help="Write each event as a line of JSON.")
def run(task: tuple[str, ...], *, as_json: bool, **given: Any) -> None:
    """Carry out TASK in this folder with the agent: it reads, searches, edits and runs commands until it is done.

    Without TASK a --session continues where it stopped. Text from a pipe is appended to TASK. The answer goes to standard
    output, everything about the work to standard error; a pipe or a file gets the last reply alone, once it is complete. --json
    writes every event as a line of JSON instead. Without a terminal to ask on, only commands allowed by --allow or your settings
    are run.

    Exit status: 0 done, 1 an error, 2 a wrong command line, 3 stopped before it was done, 129 the terminal was closed, 130
    interrupted, 143 terminated.

    \b
    Examples:
      infold run "Why does tests/test_io.py fail? Fix it." --allow shell
      git diff | infold run "Review this diff." --agent plan
      infold run "Now write the changelog line." --session last
    """
    options = AgentOptions(**given)
    console = Console(stderr=True, highlight=False)
    write = json_lines(sys.stdout.buffer) if as_json else _event_printer(options, console).print
    prompt = _prompt(task, continues=options.session is not None)
    try:
        with exit_on_signals(), _hint_if_denied(write) as observe:
            options = decide_trust(options, trust_prompt(sys.stdin, console))
            with open_agent(options, UserInterface(observe, permission_prompt(sys.stdin, console))) as work:
                ending = (work.run(prompt) if prompt else work.go_on()).ending
    except KeyboardInterrupt:  # before the run began, or while it was being closed
        ending = "aborted"
    sys.exit(EXIT_CODES[ending])


def _event_printer(options: AgentOptions, console: Console) -> EventPrinter:
    """Return the printer for a person; what the encoding cannot show becomes a question mark."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return EventPrinter(open_output(sys.stdout, console), console, partial(options.resume_command, "run"))


@contextmanager
def _hint_if_denied(write: Callable[[RunEvent], None]) -> Iterator[Callable[[RunEvent], None]]:
    """Forward events; on exit, list calls refused for lack of a terminal to ask on."""
    refused: list[ToolRefused] = []

    def observe(event: RunEvent) -> None:
        if isinstance(event, ToolRefused) and event.allow and not can_ask(sys.stdin):
            refused.append(event)
        write(event)

    try:
        yield observe
    finally:
        if refused:
            click.echo(denied_hint(refused), err=True)


def _prompt(task: tuple[str, ...], *, continues: bool) -> str:
    """Return the task, then the piped text; empty if both are and a session continues."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _read_pipe()
    prompt = "\n\n".join(text for text in (" ".join(task).strip(), piped.strip()) if text)
    if not prompt and (task or not continues):
        raise click.UsageError("no task given; give it in quotes, or pipe it in")
    return replace_surrogates(prompt)  # undecodable arguments contain surrogates, which stores refuse


def _read_pipe() -> str:
    """Read the piped text; invalid bytes become replacement characters."""
    content = sys.stdin.buffer.read(LONGEST_PIPED + 1)
    if len(content) > LONGEST_PIPED:
        raise UsageError(f"more than {LONGEST_PIPED:,} bytes in the pipe; write them to a file and name it")
    return content.decode("utf-8", "replace")
