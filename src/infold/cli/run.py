"""`infold run`: one task, carried out by the agent in this folder; for people, pipes and scripts."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from rich.console import Console

from infold.agent.events import RunEnding, ToolRefused
from infold.agent.run import UserInterface
from infold.cli.agent_options import Job, ended_by_signals, opened, with_trust, working
from infold.cli.event_output import Narrator, Told, json_lines, voice_on
from infold.cli.permission_prompt import can_ask, consent_for, leave_wanted, trust_for
from infold.errors import UsageError
from infold.formats.codec import cleaned

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
"""How the command ends: 3 where the agent stopped before it was done, 130 after an interrupt, as shells have it."""


LONGEST_PIPED = 4_000_000
"""Bytes that are read from a pipe; more is no prompt."""


@click.command("run", short_help="Carry out one task with the agent, in this folder.")
@click.argument("task", nargs=-1)
@working
@click.option("--json", "as_json", is_flag=True, help="Write each event as a line of JSON.")
def run(task: tuple[str, ...], *, as_json: bool, **given: Any) -> None:
    """Carry out TASK in this folder with the agent: it reads, searches, edits and runs commands until it is done.

    Without TASK a --session goes on from where it stopped. Text that is piped in is put after TASK. The answer goes to standard
    output, everything about the work to standard error; into a pipe or a file goes the last reply alone, once it is whole. --json
    writes every event as a line of JSON instead. Without a terminal nobody can be asked, so commands run only as far as --allow
    or your settings say.

    Exit status: 0 done, 1 an error, 2 a wrong command line, 3 stopped before it was done, 129 the terminal was closed, 130
    interrupted, 143 terminated.

    \b
    Examples:
      infold run "Why does tests/test_io.py fail? Mend it." --allow shell
      git diff | infold run "Review this diff." --agent plan
      infold run "Now write the changelog line." --session last
    """
    job = Job(**given)
    console = Console(stderr=True, highlight=False)
    tell = json_lines(sys.stdout.buffer) if as_json else _narrator(job, console).tell
    prompt = _prompt(task, goes_on=job.session is not None)
    try:
        with ended_by_signals(), _leave_told(tell) as hear:
            job = with_trust(job, trust_for(sys.stdin, console))
            ending = _carried_out(job, prompt, UserInterface(hear, consent_for(sys.stdin, console)))
    except KeyboardInterrupt:  # before the work began, or while it was being put away
        ending = "aborted"
    sys.exit(EXIT_CODES[ending])


def _narrator(job: Job, console: Console) -> Narrator:
    """Who tells a person; what the output's encoding cannot show becomes a question mark instead of an end."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return Narrator(voice_on(sys.stdout, console), console, partial(job.going_on, "run"))


@contextmanager
def _leave_told(tell: Callable[[Told], None]) -> Iterator[Callable[[Told], None]]:
    """Tells on, and says in the end on stderr what was refused only because nobody could be asked."""
    refused: list[ToolRefused] = []

    def hear(told: Told) -> None:
        if isinstance(told, ToolRefused) and told.allow and not can_ask(sys.stdin):
            refused.append(told)
        tell(told)

    try:
        yield hear
    finally:
        if refused:
            click.echo(leave_wanted(refused), err=True)


def _carried_out(job: Job, prompt: str, person: UserInterface) -> RunEnding:
    with opened(job, person) as work:
        return (work.run(prompt) if prompt else work.go_on()).ending


def _prompt(task: tuple[str, ...], *, goes_on: bool) -> str:
    """The task as it was written, then what was piped in; empty where nobody says anything and a session goes on."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _piped()
    prompt = "\n\n".join(text for text in (" ".join(task).strip(), piped.strip()) if text)
    if not prompt and (task or not goes_on):
        raise click.UsageError("there is no task; give it in quotes, or pipe it in")
    return cleaned(prompt)  # what is no text on the command line comes as surrogates, which no store keeps


def _piped() -> str:
    """What was piped in; bytes that are no text are shown as such."""
    content = sys.stdin.buffer.read(LONGEST_PIPED + 1)
    if len(content) > LONGEST_PIPED:
        raise UsageError(f"more than {LONGEST_PIPED:,} bytes were piped in; write them to a file and name it")
    return content.decode("utf-8", "replace")
