"""What an agent does, told as it happens: answers on one stream, everything about the work on another.

The answer alone goes to standard output, so that a pipe gets nothing else. With JSON every happening is a line of its own.
"""

from collections.abc import Callable
from typing import IO, TypeAlias

import msgspec
from rich.console import Console
from rich.text import Text

from infold.agent.events import (
    Answered,
    Called,
    Ended,
    Ending,
    Happening,
    Reasoned,
    Retried,
    Spoke,
    Stepped,
    Titled,
)
from infold.cli.render import counted, event_text, legible, one_line
from infold.core.events import Event, PreparedAhead, SummaryProgressed

__all__ = ["ENDINGS", "Narrator", "Told", "json_lines"]

Told: TypeAlias = Happening | Event

LONGEST_LINE = 110

ENDINGS: dict[Ending, str] = {
    "done": "done",
    "aborted": "aborted; nothing of it is lost",
    "length": "the reply was cut off for length, and compacting did not help; ask for less at once",
    "steps": "stopped after as many steps as it may take; raise --steps, or go on",
    "circling": "stopped: it made the same calls over and over with the same answers; tell it what to do differently",
    "filtered": "the provider withheld the reply; ask for it in other words",
}
"""Why an agent stopped, in words that say what to do."""


class Narrator:
    """Tells a person: `answer` gets what the model says, the console everything else."""

    def __init__(self, answer: IO[str], console: Console) -> None:
        self._answer = answer
        self._console = console
        self._is_mid_line = False

    def tell(self, told: Told) -> None:
        """Tell of one happening."""
        match told:
            case Spoke():
                self._say(legible(told.text))
            case Called():
                self._line(f"• {told.tool}  ", told.what, "cyan")
            case Answered():
                self._line("  ", outcome_of(told), "dim" if told.status == "completed" else "red")
            case Retried():
                self._note(f"  once more: {one_line(told.problem, 2 * LONGEST_LINE)}", "yellow")
            case Ended():
                self.finish_line()
                if told.ending != "done":
                    self._note(f"{ENDINGS[told.ending]} (session {told.session_id})", "yellow")
            case Reasoned() | Stepped() | Titled() | SummaryProgressed() | PreparedAhead():
                pass
            case _:
                self._note(f"◆ {event_text(told)}", "green")

    def finish_line(self) -> None:
        """End the line that the answer is on."""
        if self._is_mid_line:
            self._say("\n")

    def _say(self, text: str) -> None:
        self._answer.write(text)
        self._answer.flush()
        self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line

    def _line(self, opening: str, text: str, style: str) -> None:
        """A note of one line, at most as long as the terminal is wide."""
        width = self._console.width if self._console.is_terminal else LONGEST_LINE
        self._note(opening + one_line(text, max(0, width - len(opening))), style)

    def _note(self, line: str, style: str) -> None:
        self.finish_line()
        self._console.print(Text(legible(line), style=style), soft_wrap=True)  # a terminal wraps by itself


def outcome_of(answered: Answered) -> str:
    """How a call went, in one line."""
    if answered.status != "completed":
        return one_line(answered.output, LONGEST_LINE)
    lines = counted(len(answered.output.splitlines()), "line")
    status = "" if not answered.exit_status else f", exit status {answered.exit_status}"
    return f"{lines}{status}, {answered.duration_ms / 1000:.1f} s"


def json_lines(out: IO[str]) -> Callable[[Told], None]:
    """Tells a program: one JSON object a line, each with the name of its `event`."""

    def tell(told: Told) -> None:
        out.write(msgspec.json.encode(told).decode() + "\n")
        out.flush()

    return tell
