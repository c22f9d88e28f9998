"""The screen of a chat: the answer as it arrives, reasoning dimmed, tool calls with their results shortened.

Complete text is printed once and scrolls away like any output. While the agent works, the last lines of what is still arriving
and the status line are below it; they are redrawn a few times a second and vanish at the end.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from threading import RLock, Thread
from time import monotonic, sleep
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.text import Text
from rich.theme import Theme

from infold.agent import events
from infold.agent.run import RunEvent
from infold.cli.agent_options import describe_ending, describe_retry
from infold.cli.chat.markdown import Blocks, draw_block, split_blocks, split_lines
from infold.cli.chat.status import StatusPiece, draw_status
from infold.core.events import PreparedAhead, SummaryProgressed
from infold.reports.text import event_line, is_noticeable, one_line, plural, printable
from infold.transcripts.source import is_database_in_use

MOST_CHANGES = 12
"""Lines of an edit that are shown."""

MOST_COMPARED = 200_000
"""Characters of the largest text that is compared with another."""

MOST_KEPT = 200
"""Results of a chat that can be shown again by their number; the session has all."""


class ToolRun(Struct, frozen=True):
    """A call and its result; `number` counts the results of this chat, `before` is the file it replaced."""

    number: int
    called: events.ToolCalled
    answered: events.ToolAnswered
    before: str = ""


class Results:
    """The results of this chat, the newest of them by number."""

    def __init__(self) -> None:
        self._calls: dict[str, events.ToolCalled] = {}
        self._before: dict[str, str] = {}
        self._kept: dict[int, ToolRun] = {}
        self._count = 0

    def call(self, called: events.ToolCalled, before: str = "") -> None:
        """Note a call; `before` is the file it may replace."""
        self._calls[called.call_id] = called
        self._before[called.call_id] = before

    def answer(self, answered: events.ToolAnswered) -> ToolRun:
        """Note a result and return it with its call."""
        self._count += 1
        unknown = events.ToolCalled(answered.call_id, answered.tool, "", "")
        called = self._calls.pop(answered.call_id, unknown)
        done = ToolRun(self._count, called, answered, self._before.pop(answered.call_id, ""))
        self._kept[done.number] = done
        self._kept.pop(done.number - MOST_KEPT, None)
        return done

    def find(self, number: int | None = None) -> ToolRun | None:
        """Return the result of that number, or the newest."""
        return self._kept.get(self._count if number is None else number)


def shorten_result(done: ToolRun, width: int) -> tuple[str, ...]:
    """Return a result in a line or two: how it begins, how much more there is, and the command that shows it."""
    answered = done.answered
    lines = [line for line in answered.output.splitlines() if line.strip()]
    first = one_line(lines[0], width) if lines else "(nothing)"
    status = f"exit status {answered.exit_status}" if answered.exit_status else ""
    took = f"{answered.duration_ms / 1000:.1f} s" if answered.duration_ms >= 1_000 else ""
    more = plural(len(lines) - 1, "more line") if len(lines) > 1 else ""
    is_cut = bool(lines) and len(" ".join(lines[0].split())) > width
    opens = f"/show {done.number}" if more or is_cut else ""
    second = ", ".join(filter(None, (more, status, took, opens)))
    return (first, second) if second else (first,)


def replaced_text(called: events.ToolCalled, root: Path) -> str:
    """Return the file that a call replaces; empty if it does not exist or is not text."""
    path = _field(called, "path") if called.tool == "write" else ""
    try:
        place = root / path
        is_small = bool(path) and place.is_file() and place.stat().st_size <= MOST_COMPARED
        return place.read_text("utf-8") if is_small and not is_database_in_use(place) else ""
    except (OSError, ValueError):
        return ""


def changes_in(done: ToolRun) -> tuple[str, ...]:
    """Return the lines that an edit changed, marked `+`, `-` or with a space."""
    if done.answered.status != "completed":
        return ()
    match done.called.tool:
        case "edit":
            return tuple(_diff(_field(done.called, "old"), _field(done.called, "new")))
        case "write":
            return tuple(_diff(done.before, _field(done.called, "content")))
        case _:
            return ()


def _diff(before: str, after: str) -> Iterator[str]:
    """Yield the differences of two texts, without the headings of a patch."""
    if max(len(before), len(after)) > MOST_COMPARED:
        return
    lines: Sequence[str] = list(unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))
    for line in islice(lines, 2, None):
        if not line.startswith("@@"):
            yield printable(line[:1] + line[1:].expandtabs(4))


def _field(called: events.ToolCalled, name: str) -> str:
    """Return a text argument of a call, or an empty text."""
    try:
        arguments = msgspec.json.decode(called.arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return ""
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else ""


Stream: TypeAlias = Literal["answer", "thought", "summary"]

REFRESHES = 10
"""Redraws per second of the lines below."""

MOST_LINES = 10
"""Lines of what is still arriving."""

INDENT = 2

THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "", "markdown.block_quote": "italic"})
"""Without backgrounds, which do not suit every terminal."""

DIFFERENCE = {"+": "green", "-": "red"}


class Screen:
    """The terminal of a chat; `results` are those of the tools that ran."""

    def __init__(self, console: Console, root: Path, status: Callable[[int], tuple[StatusPiece, ...]]) -> None:
        self.console = console
        self.console.push_theme(THEME)
        self.results = Results()
        self.shows_summary = False
        self._root = root
        self._status = status
        self._lock = RLock()
        self._live: Live | None = None
        self._later: list[RunEvent] = []
        self._stream: Stream = "answer"
        self._text = ""
        self._doing = ""
        self._since = 0.0
        self._is_spaced = True
        self._spinner = Spinner("line" if console.options.ascii_only else "dots", style="cyan")

    # While the agent works.

    @contextmanager
    def working(self, doing: str) -> Iterator[None]:
        """Show events while the block runs; those outside of it are kept and shown the next time."""
        self._doing, self._since, self._is_spaced = doing, monotonic(), False
        try:
            self._begin()
            kept, self._later = self._later, []
            for event in kept:
                self.show(event)
            yield
        finally:
            self._end()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Remove the lines below, so that a question can be asked there."""
        self._end()
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        self._live = Live(
            get_renderable=self._below,
            console=self.console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)
        Thread(target=self._redraw, args=(self._live,), name="infold screen", daemon=True).start()

    def _redraw(self, live: Live) -> None:
        """Redraw the lines below until they are removed.

        Printing and drawing share one lock. Rich's own thread draws while another prints, and the printing one then moves the
        cursor up by the height that the lines had before.
        """
        while True:
            sleep(1 / REFRESHES)
            with self._lock:
                if self._live is not live:
                    return
                live.refresh()

    def _end(self) -> None:
        """Print what has arrived and remove the lines below, also if Ctrl-C is pressed again."""
        with _uninterrupted():
            with self._lock:
                self._finish()
                live, self._live = self._live, None
            if live is not None:
                live.stop()

    # Events.

    def show(self, event: RunEvent) -> None:
        """Show one event; may be called from any thread."""
        with self._lock:
            if self._live is not None:
                self._show(event)
            elif not isinstance(event, events.SummaryStarted | SummaryProgressed):
                self._later.append(event)

    def _show(self, event: RunEvent) -> None:  # noqa: C901, PLR0912 - a branch for each kind of event
        match event:
            case events.TextReceived():
                self._arrive("answer", event.text)
            case events.ReasoningReceived():
                self._arrive("thought", event.text)
            case SummaryProgressed():
                self._doing = "writing a summary"
                if self.shows_summary:
                    self._arrive("summary", event.text)
            case events.ToolCalled():
                self._show_call(event)
            case events.ToolAnswered():
                self._show_result(event)
            case events.RequestRetried():
                self.note(describe_retry(event, 4 * self._room), "yellow")
            case events.StepFinished():
                self._finish()
            case events.SummaryStarted():
                if self.shows_summary:  # separate it from the one above, which was not accepted
                    self._finish()
                    self.space()
            case events.Notice():
                self.note(event.text, "dim")
            case events.RunEnded():
                if why := describe_ending(event):
                    self.note(why, "yellow")
            case events.RunStarted() | events.ToolRefused() | events.SessionTitled() | PreparedAhead():
                pass
            case _:
                if is_noticeable(event):
                    self._finish()
                    if self._stream == "summary":
                        self.space()
                    self.note(f"◆ {event_line(event)}", "green")

    def note(self, line: str, style: str = "") -> None:
        """Print a line of infold's own."""
        self._finish()
        self._print(Text(self._shown(printable(line)), style=style))

    def print_command(self, line: str) -> None:
        """Print a command to copy, which only the terminal wraps."""
        with self._lock:
            self.console.print(Text(printable(line), style="dim"), soft_wrap=True)
            self._is_spaced = False

    def print(self, *drawn: RenderableType) -> None:
        """Print after an empty line."""
        self.space()
        for one in drawn:
            self._print(one)
        self._is_spaced = False

    def space(self) -> None:
        """Leave one line empty, however often it is called."""
        with self._lock:
            if not self._is_spaced:
                self.console.print()
                self._is_spaced = True

    # Text as it arrives.

    def _arrive(self, stream: Stream, text: str) -> None:
        if stream != self._stream:
            self._finish()
            self._stream = stream
        self._doing = {"answer": "answering", "thought": "thinking", "summary": self._doing}[stream]
        self._text += text
        if "\n" in text or len(self._text) - len(text) < 1:
            self._print_blocks(split_blocks(self._text) if stream == "answer" else split_lines(self._text))

    def _finish(self) -> None:
        """Print what has arrived."""
        with self._lock:
            self._print_blocks(Blocks((self._text.rstrip(),), ""))

    def _print_blocks(self, blocks: Blocks) -> None:
        self._text = blocks.rest
        for block in blocks.done:
            if self._stream == "answer" and block.strip():
                self.print(draw_block(block))
                self._is_spaced = False
            elif self._stream != "answer" and (block.strip() or blocks.rest):
                self._print(Padding(Text(printable(block), style="dim italic"), (0, 0, 0, INDENT)))

    # Tools.

    def _show_call(self, called: events.ToolCalled) -> None:
        self._finish()
        self._doing = f"running {one_line(called.tool, 20)}"
        self.results.call(called, replaced_text(called, self._root))
        what = Text(one_line(called.what, 2 * self._room))
        self.print(Text.assemble((self._shown("● "), "cyan"), (printable(called.tool), "bold cyan"), "  ", what))
        self._is_spaced = False

    def _show_result(self, answered: events.ToolAnswered) -> None:
        self._doing = "thinking"
        done = self.results.answer(answered)
        changes = changes_in(done)
        style = "dim" if answered.status == "completed" else "red"
        for line in shorten_result(done, self._room - INDENT):
            self._print(Padding(Text(self._shown(line), style=style), (0, 0, 0, INDENT)))
        for line in changes[:MOST_CHANGES]:
            self._print(draw_change(line[: 2 * self._room]))
        if len(changes) > MOST_CHANGES:
            more = f"({plural(len(changes) - MOST_CHANGES, 'more line')}, /show {done.number})"
            self._print(Padding(Text(more, style="dim"), (0, 0, 0, INDENT + 2)))

    # How it is drawn.

    @property
    def _room(self) -> int:
        return max(20, self.console.width - INDENT)

    def _print(self, drawn: RenderableType) -> None:
        with self._lock:
            self.console.print(drawn)
            self._is_spaced = False

    def _shown(self, text: str) -> str:
        """Replace what the console cannot show."""
        return text.encode("ascii", "replace").decode() if self.console.options.ascii_only else text

    def _below(self) -> RenderableType:
        """Return the last lines of what is arriving, what is being done, and the status line."""
        seconds = int(monotonic() - self._since)
        doing = f"{self._doing}{f', {seconds} s' if seconds else ''}; Ctrl-C stops"
        self._spinner.update(text=Text(doing, style="dim"))
        width = self.console.width
        return Group(*self._arriving(width), self._spinner, draw_status(self._status(width - 1)))

    def _arriving(self, width: int) -> list[Text]:
        tail = self._text[-width * MOST_LINES :]
        if not tail.strip():
            return []
        most = max(1, min(MOST_LINES, self.console.height - 6))
        text = Text(printable(tail.expandtabs(4)).strip("\n"), style="" if self._stream == "answer" else "dim italic")
        return [Text(), *text.wrap(self.console, width - 1)[-most:]]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay interrupts while the block runs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def draw_change(line: str) -> RenderableType:
    """Return a line of an edit in colour."""
    return Padding(Text(line, DIFFERENCE.get(line[:1], "dim")), (0, 0, 0, INDENT + 2))
