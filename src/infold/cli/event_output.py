"""What an agent does, told as it happens: answers on one stream, everything about the work on another.

At a terminal the model's words stream as they arrive. A pipe or a file gets the answer alone, once it is known which words those
are; with JSON every happening is a line of its own.
"""

from collections.abc import Callable
from typing import IO, Protocol, TypeAlias

import msgspec
from rich.console import Console
from rich.text import Text

from infold.agent.events import (
    AgentEvent,
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
from infold.cli.render import counted, event_text, is_worth_a_line, legible, one_line
from infold.core.events import Event, PreparedAhead, SummaryProgressed

Told: TypeAlias = AgentEvent | Event


LONGEST_LINE = 110


WORTH_TELLING_SECONDS = 5.0
"""How long somebody waits before they wonder for how long."""


ENDINGS: dict[RunEnding, str] = {
    "done": "done",
    "aborted": "aborted; nothing of it is lost",
    "length": "the reply was cut off for length, and compacting did not help; ask for less at once",
    "steps": "stopped after as many steps as it may take; raise --steps, or go on",
    "circling": "stopped: it made the same calls over and over with the same answers; tell it what to do differently",
    "stop": "stopped: no summary could be written, and the preset goes on with nothing else; ask again, or name another model",
    "filtered": "the provider withheld the reply; ask for it in other words",
    "failed": "",
}
"""Why an agent stopped, in words that say what to do; what failed is told by the error itself."""


ANSWERS: tuple[RunEnding, ...] = ("done", "length", "filtered")
"""Endings whose last reply is the answer, or what there is of it; after others it is something said on the way."""


# Where the model's words go.


class Voice(Protocol):
    """How the model's words are told: `speak` takes them as they arrive, `pause` comes before a note about the work."""

    def speak(self, text: str) -> None:
        """Take a piece of a reply."""

    def pause(self) -> None:
        """Make room for a line about the work."""

    def answer(self, text: str) -> None:
        """Take the answer, whole."""


def voice_on(out: IO[str], console: Console) -> Voice:
    """The words as they arrive where a person reads along; elsewhere the answer alone."""
    return Aloud(out) if out.isatty() else InTheEnd(out, console)


class Aloud:
    """Words as they arrive."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._is_mid_line = False

    def speak(self, text: str) -> None:
        """Write it at once."""
        self._out.write(text)
        self._out.flush()
        self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line

    def pause(self) -> None:
        """End the line."""
        if self._is_mid_line:
            self.speak("\n")

    def answer(self, text: str) -> None:
        """It was read already."""
        del text


class InTheEnd:
    """The answer alone; what a model says on the way, and a reply that broke off, belong to the work and go to the console."""

    def __init__(self, out: IO[str], console: Console) -> None:
        self._out = out
        self._console = console
        self._said = ""

    def speak(self, text: str) -> None:
        """Keep it until it is known what it was."""
        self._said += text

    def pause(self) -> None:
        """Something follows, so it was not the answer."""
        said, self._said = self._said.strip("\n"), ""
        if said:
            self._console.print(Text(said, style="dim"), soft_wrap=True)

    def answer(self, text: str) -> None:
        """Write it."""
        self._said = ""
        self._out.write(text if not text or text.endswith("\n") else f"{text}\n")
        self._out.flush()


# What is told.


class Narrator:
    """Tells a person: the voice has what the model says, the console the rest; `go_on` gives a session's command, or none."""

    def __init__(self, voice: Voice, console: Console, go_on: Callable[[str], str]) -> None:
        self._voice = voice
        self._console = console
        self._go_on = go_on

    def tell(self, told: Told) -> None:
        """Tell of one happening."""
        match told:
            case TextReceived():
                self._voice.speak(legible(told.text))
            case ToolCalled():
                self._line(f"• {told.tool}  ", told.what, "cyan")
            case ToolAnswered():
                self._line("  ", outcome_of(told), "dim" if told.status == "completed" else "red")
            case RequestRetried():
                self._note(f"  {again(told, 2 * LONGEST_LINE)}", "yellow")
            case Notice():
                self._note(f"  {told.text}", "dim")
            case RunEnded():
                self._end(told)
            case RunStarted() | ToolRefused() | ReasoningReceived() | StepFinished() | SessionTitled():
                pass
            case SummaryStarted() | SummaryProgressed() | PreparedAhead():
                pass
            case _:
                if is_worth_a_line(told):
                    self._note(f"◆ {event_text(told)}", "green")

    def _end(self, ended: RunEnded) -> None:
        if ended.ending in ANSWERS:
            self._voice.answer(legible(ended.text))
        self._voice.pause()
        words = ended.problem if ended.ending == "done" else ENDINGS[ended.ending]
        if words:
            self._note(words, "yellow")
        command = self._go_on(ended.session_id) if ended.ending != "done" else ""
        if command:
            self._note(f"go on with: {command}", "dim")

    def _line(self, opening: str, text: str, style: str) -> None:
        """A note of one line, at most as long as the terminal is wide."""
        width = self._console.width if self._console.is_terminal else LONGEST_LINE
        self._note(opening + one_line(text, max(0, width - len(opening))), style)

    def _note(self, line: str, style: str) -> None:
        self._voice.pause()
        self._console.print(Text(legible(line), style=style), soft_wrap=True)  # a terminal wraps by itself


def again(retried: RequestRetried, most: int) -> str:
    """That a request is sent once more, when, and why, in one line."""
    when = f" in {retried.wait_seconds:.0f} s" if retried.wait_seconds >= WORTH_TELLING_SECONDS else ""
    return f"once more{when}: {one_line(retried.problem, most)}"


def outcome_of(answered: ToolAnswered) -> str:
    """How a call went, in one line."""
    if answered.status != "completed":
        return one_line(answered.output, LONGEST_LINE)
    lines = counted(len(answered.output.splitlines()), "line")
    status = "" if not answered.exit_status else f", exit status {answered.exit_status}"
    return f"{lines}{status}, {answered.duration_ms / 1000:.1f} s"


def json_lines(out: IO[bytes]) -> Callable[[Told], None]:
    """Tells a program: one JSON object a line in UTF-8, each with the name of its `event`."""

    def tell(told: Told) -> None:
        out.write(msgspec.json.encode(told) + b"\n")
        out.flush()

    return tell
