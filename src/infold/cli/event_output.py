"""Print what an agent does while it runs: answers on one stream, everything about the work on another.

In a terminal the model's words stream as they arrive. A pipe or a file gets the answer alone, once it is known which words those
are; with JSON every event is a line.
"""

from collections.abc import Callable
from typing import IO, Protocol

import msgspec
from rich.console import Console
from rich.text import Text

from infold.agent.events import (
    Notice,
    ReasoningReceived,
    RequestRetried,
    RunEnded,
    RunEnding,
    RunStarted,
    SessionTitled,
    StepFinished,
    SummaryStarted,
    TextReceived,
    ToolAnswered,
    ToolCalled,
    ToolRefused,
)
from infold.agent.run import RunEvent
from infold.core.events import PreparedAhead, SummaryProgressed
from infold.reports.text import event_line, is_noticeable, one_line, plural, printable

LONGEST_LINE = 110

LONG_WAIT_SECONDS = 5.0
"""Show the duration of waits longer than this."""

ENDINGS: dict[RunEnding, str] = {
    "done": "done",
    "aborted": "aborted; the session is stored",
    "length": "the reply was cut off for length, and compacting did not help; ask for less at once",
    "steps": "stopped at the maximum number of steps; raise --steps, or continue",
    "circling": "stopped: it repeated the same calls with the same results; tell it what to do differently",
    "stop": "stopped: the summary failed, and the preset has no other way to continue; try again, or name another model",
    "filtered": "the provider withheld the reply; ask for it in other words",
    "failed": "",
}
"""Why an agent stopped, and what to do; a failure has its own error message."""

ANSWERS: tuple[RunEnding, ...] = ("done", "length", "filtered")
"""Endings whose last reply is the answer, or a part of it."""


# The model's words.


class AnswerOutput(Protocol):
    """Where the model's words go."""

    def write(self, text: str) -> None:
        """Take the next words of a reply."""

    def interrupt(self) -> None:
        """Prepare for a line about the work."""

    def finish(self, text: str) -> None:
        """Take the whole answer."""


def open_output(out: IO[str], console: Console) -> AnswerOutput:
    """Return the output for a stream: words as they arrive in a terminal, the answer alone elsewhere."""
    return StreamingOutput(out) if out.isatty() else FinalOutput(out, console)


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
            case TextReceived():
                self._output.write(printable(event.text))
            case ToolCalled():
                self._line(f"• {event.tool}  ", event.what, "cyan")
            case ToolAnswered():
                self._line("  ", describe_result(event), "dim" if event.status == "completed" else "red")
            case RequestRetried():
                self._note(f"  {describe_retry(event, 2 * LONGEST_LINE)}", "yellow")
            case Notice():
                self._note(f"  {event.text}", "dim")
            case RunEnded():
                self._end(event)
            case RunStarted() | ToolRefused() | ReasoningReceived() | StepFinished() | SessionTitled():
                pass
            case SummaryStarted() | SummaryProgressed() | PreparedAhead():
                pass
            case _:
                if is_noticeable(event):
                    self._note(f"◆ {event_line(event)}", "green")

    def _end(self, ended: RunEnded) -> None:
        if ended.ending in ANSWERS:
            self._output.finish(printable(ended.text))
        self._output.interrupt()
        words = ended.problem if ended.ending == "done" else ENDINGS[ended.ending]
        if words:
            self._note(words, "yellow")
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


def describe_retry(retried: RequestRetried, most: int) -> str:
    """Return when a request is retried, and why, in one line."""
    when = f" in {retried.wait_seconds:.0f} s" if retried.wait_seconds >= LONG_WAIT_SECONDS else ""
    return f"retrying{when}: {one_line(retried.problem, most)}"


def describe_result(answered: ToolAnswered) -> str:
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
