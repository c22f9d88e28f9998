"""`infold run`: one task, carried out by the agent in this folder; for people, pipes and scripts."""

import sys
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console

from infold.agent.events import Ending
from infold.agent.work import Person
from infold.cli.consenting import consent_for
from infold.cli.narrating import Narrator, Told, json_lines
from infold.cli.working import Job, interrupted_by_sigterm, opened, working
from infold.errors import UsageError
from infold.formats.items import cleaned

__all__ = ["run"]

EXIT_CODES: dict[Ending, int] = {"done": 0, "length": 3, "steps": 3, "circling": 3, "filtered": 3, "aborted": 130}
"""How the command ends: 3 where the agent stopped before it was done, 130 after an interrupt, as shells have it."""

LONGEST_PIPED = 4_000_000
"""Bytes that are read from a pipe; more is no prompt."""


@click.command("run", short_help="Carry out one task with the agent, in this folder.")
@click.argument("task", nargs=-1)
@working
@click.option("--json", "as_json", is_flag=True, help="Write each event as a line of JSON.")
def run(task: tuple[str, ...], *, as_json: bool, **given: Any) -> None:
    """Carry out TASK in this folder with the agent: it reads, searches, edits and runs commands until it is done.

    Text that is piped in is put after TASK. The answer goes to standard output, everything about the work to standard error;
    --json writes every event as a line of JSON instead. Without a terminal nobody can be asked, so commands run only as far as
    --allow or your settings say.

    Exit status: 0 done, 1 an error, 2 a wrong command line, 3 stopped before it was done, 130 interrupted, 143
    terminated.

    \b
    Examples:
      infold run "Why does tests/test_io.py fail? Mend it." --allow shell
      git diff | infold run "Review this diff." --agent plan
      infold run "Now write the changelog line." --session last
    """
    job = Job(**given)
    tell = json_lines(sys.stdout) if as_json else Narrator(sys.stdout, Console(stderr=True, highlight=False)).tell
    prompt = _prompt(task)
    try:
        with interrupted_by_sigterm():
            ending = _carried_out(job, prompt, tell)
    except KeyboardInterrupt:  # before the work began, or while it was being put away
        ending = "aborted"
    sys.exit(EXIT_CODES[ending])


def _carried_out(job: Job, prompt: str, tell: Callable[[Told], None]) -> Ending:
    consent = consent_for(sys.stdin, Console(stderr=True, highlight=False))
    with opened(job, Person(tell, consent)) as work:
        return work.run(prompt).ending


def _prompt(task: tuple[str, ...]) -> str:
    """The task as it was written, then what was piped in."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _piped()
    prompt = "\n\n".join(text for text in (" ".join(task).strip(), piped.strip()) if text)
    if not prompt:
        raise click.UsageError("there is no task; give it in quotes, or pipe it in")
    return cleaned(prompt)  # what is no text on the command line comes as surrogates, which no store keeps


def _piped() -> str:
    """What was piped in; bytes that are no text are shown as such."""
    content = sys.stdin.buffer.read(LONGEST_PIPED + 1)
    if len(content) > LONGEST_PIPED:
        raise UsageError(f"more than {LONGEST_PIPED:,} bytes were piped in; write them to a file and name it")
    return content.decode("utf-8", "replace")
