"""`infold run`: carry out one task with the agent; for people, pipes and scripts.

In a terminal the model's words stream as they arrive. A pipe or a file gets the answer alone, once it is known which words those
are; with JSON every event is a line.
"""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, TypeAlias

import click
import msgspec
from rich.console import Console
from rich.text import Text

from infold.agent import events
from infold.agent.run import RunEvent, UserInterface
from infold.cli.agent_options import (
    AgentOptions,
    agent_options,
    decide_trust,
    denied_hint,
    describe_ending,
    describe_retry,
    exit_on_signals,
    open_agent,
    permission_prompt,
    trust_prompt,
)
from infold.cli.options import can_ask
from infold.core.events import PreparedAhead, SummaryProgressed
from infold.errors import UsageError
from infold.formats.codec import replace_surrogates
from infold.reports.text import event_line, is_noticeable, one_line, plural, printable

EXIT_CODES: dict[events.RunEnding, int] = {
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

LONGEST_LINE = 110

ANSWERS: tuple[events.RunEnding, ...] = ("done", "length", "filtered")
"""Endings whose last reply is the answer, or a part of it."""


@click.command("run")
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
    printer = EventPrinter(open_output(sys.stdout, console), console, partial(options.resume_command, "run"))
    write = json_lines(sys.stdout.buffer) if as_json else printer.print
    prompt = _prompt(task, continues=options.session is not None)
    try:
        with exit_on_signals(), _hint_if_denied(write) as observe:
            options = decide_trust(options, trust_prompt(sys.stdin, console))
            with open_agent(options, UserInterface(observe, permission_prompt(sys.stdin, console))) as work:
                ending = (work.run(prompt) if prompt else work.go_on()).ending
    except KeyboardInterrupt:  # before the run began, or while it was being closed
        ending = "aborted"
    sys.exit(EXIT_CODES[ending])


@contextmanager
def _hint_if_denied(write: Callable[[RunEvent], None]) -> Iterator[Callable[[RunEvent], None]]:
    """Forward events; on exit, list calls refused for lack of a terminal to ask on."""
    refused: list[events.ToolRefused] = []

    def observe(event: RunEvent) -> None:
        if isinstance(event, events.ToolRefused) and event.allow and not can_ask(sys.stdin):
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


# The model's words.


class StreamingOutput:
    """Write words as they arrive."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._is_mid_line = False

    def write(self, text: str) -> None:
        """Write it at once."""
        self._out.write(text)
        self._out.flush()
        self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line

    def interrupt(self) -> None:
        """End the line."""
        if self._is_mid_line:
            self.write("\n")

    def finish(self, text: str) -> None:
        """Do nothing: the answer is written already."""
        del text


class FinalOutput:
    """Write the answer alone; other words of the model, and a reply that broke off, go to the console."""

    def __init__(self, out: IO[str], console: Console) -> None:
        self._out = out
        self._console = console
        self._words = ""

    def write(self, text: str) -> None:
        """Keep it until it is known whether it is the answer."""
        self._words += text

    def interrupt(self) -> None:
        """Write the words so far to the console: something follows, so they are not the answer."""
        words, self._words = self._words.strip("\n"), ""
        if words:
            self._console.print(Text(words, style="dim"), soft_wrap=True)

    def finish(self, text: str) -> None:
        """Write the answer."""
        self._words = ""
        self._out.write(text if not text or text.endswith("\n") else f"{text}\n")
        self._out.flush()


AnswerOutput: TypeAlias = StreamingOutput | FinalOutput
"""Where the model's words go."""


def open_output(out: IO[str], console: Console) -> AnswerOutput:
    """Return the output for a stream: words as they arrive in a terminal, the answer alone elsewhere.

    What its encoding cannot show becomes a question mark.
    """
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")
    return StreamingOutput(out) if out.isatty() else FinalOutput(out, console)


# Events.


class EventPrinter:
    """Print events for a person: the model's words to `output`, the rest to the console.

    `resume_command` returns the command that continues a session, or an empty text.
    """

    def __init__(self, output: AnswerOutput, console: Console, resume_command: Callable[[str], str]) -> None:
        self._output = output
        self._console = console
        self._resume_command = resume_command

    def print(self, event: RunEvent) -> None:
        """Print one event."""
        match event:
            case events.TextReceived():
                self._output.write(printable(event.text))
            case events.ToolCalled():
                self._line(f"• {event.tool}  ", event.what, "cyan")
            case events.ToolAnswered():
                self._line("  ", describe_result(event), "dim" if event.status == "completed" else "red")
            case events.RequestRetried():
                self._note(f"  {describe_retry(event, 2 * LONGEST_LINE)}", "yellow")
            case events.Notice():
                self._note(f"  {event.text}", "dim")
            case events.RunEnded():
                self._end(event)
            case events.RunStarted() | events.StepFinished() | events.ToolRefused() | events.SessionTitled():
                pass
            case events.ReasoningReceived() | events.SummaryStarted() | SummaryProgressed() | PreparedAhead():
                pass
            case _:
                if is_noticeable(event):
                    self._note(f"◆ {event_line(event)}", "green")

    def _end(self, ended: events.RunEnded) -> None:
        if ended.ending in ANSWERS:
            self._output.finish(printable(ended.text))
        self._output.interrupt()
        if why := describe_ending(ended):
            self._note(why, "yellow")
        command = self._resume_command(ended.session_id) if ended.ending != "done" else ""
        if command:
            self._note(f"continue with: {command}", "dim")

    def _line(self, opening: str, text: str, style: str) -> None:
        """Print one line, at most as long as the terminal is wide."""
        width = self._console.width if self._console.is_terminal else LONGEST_LINE
        self._note(opening + one_line(text, max(0, width - len(opening))), style)

    def _note(self, line: str, style: str) -> None:
        self._output.interrupt()
        self._console.print(Text(printable(line), style=style), soft_wrap=True)  # a terminal wraps by itself


def describe_result(answered: events.ToolAnswered) -> str:
    """Return the result of a call in one line."""
    if answered.status != "completed":
        return one_line(answered.output, LONGEST_LINE)
    lines = plural(len(answered.output.splitlines()), "line")
    status = "" if not answered.exit_status else f", exit status {answered.exit_status}"
    return f"{lines}{status}, {answered.duration_ms / 1000:.1f} s"


def json_lines(out: IO[bytes]) -> Callable[[RunEvent], None]:
    """Return a function that writes events for a program: one JSON object per line, with the name of its `event`."""

    def write(event: RunEvent) -> None:
        out.write(msgspec.json.encode(event) + b"\n")
        out.flush()

    return write
