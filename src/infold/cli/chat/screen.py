"""What an agent does, on the screen of a chat: the answer as it arrives, thoughts dimmed, tool calls with their results folded.

What is complete is printed once and scrolls away like any output. Below it, while somebody works, stand the last lines of what is
still arriving and the status line; they are drawn anew a few times a second and vanish when the work is done.
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

from infold.agent.events import (
    Notice,
    ReasoningReceived,
    RequestRetried,
    RunEnded,
    RunStarted,
    SessionTitled,
    StepFinished,
    SummaryStarted,
    TextReceived,
    ToolAnswered,
    ToolCalled,
    ToolRefused,
)
from infold.cli.chat.markdown import Blocks, blocks_of, drawn_block, lines_of
from infold.cli.chat.status import Piece, drawn_status
from infold.cli.event_output import ENDINGS, Told, again
from infold.cli.render import counted, event_text, is_worth_a_line, legible, one_line
from infold.core.events import PreparedAhead, SummaryProgressed
from infold.transcripts.source import is_database_in_use

MOST_CHANGES = 12
"""Lines of a difference that are shown of one edit."""


MOST_COMPARED = 200_000
"""Characters of a text that is compared with another."""


MOST_KEPT = 200
"""Results of a chat that can be shown again by their number; all are in the session."""


class Done(Struct, frozen=True):
    """A call and its result; `number` counts the results of this chat."""

    number: int
    called: ToolCalled
    answered: ToolAnswered
    before: str = ""


class Results:
    """The results of this chat, the newest of them by number."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCalled] = {}
        self._before: dict[str, str] = {}
        self._kept: dict[int, Done] = {}
        self._count = 0

    def call(self, called: ToolCalled, before: str = "") -> None:
        """A tool is about to be run; `before` is the file it may change."""
        self._calls[called.call_id] = called
        self._before[called.call_id] = before

    def answer(self, answered: ToolAnswered) -> Done:
        """A tool has answered."""
        self._count += 1
        unknown = ToolCalled(answered.call_id, answered.tool, "", "")
        called = self._calls.pop(answered.call_id, unknown)
        done = Done(self._count, called, answered, self._before.pop(answered.call_id, ""))
        self._kept[done.number] = done
        self._kept.pop(done.number - MOST_KEPT, None)
        return done

    def find(self, number: int | None = None) -> Done | None:
        """The result of that number, or the newest."""
        return self._kept.get(self._count if number is None else number)


def folded(done: Done, width: int) -> tuple[str, ...]:
    """A result in a line or two: how it begins, how much more there is, and what opens it."""
    answered = done.answered
    lines = [line for line in answered.output.splitlines() if line.strip()]
    first = one_line(lines[0], width) if lines else "(nothing)"
    status = f"exit status {answered.exit_status}" if answered.exit_status else ""
    took = f"{answered.duration_ms / 1000:.1f} s" if answered.duration_ms >= 1_000 else ""
    more = counted(len(lines) - 1, "more line") if len(lines) > 1 else ""
    is_cut = bool(lines) and len(" ".join(lines[0].split())) > width
    opens = f"/show {done.number}" if more or is_cut else ""
    second = ", ".join(filter(None, (more, status, took, opens)))
    return (first, second) if second else (first,)


def replaced_by(called: ToolCalled, root: Path) -> str:
    """The file that a call replaces, as it is now; empty where it is not there or no text."""
    path = path_in(called) if called.tool == "write" else ""
    try:
        place = root / path
        is_small = bool(path) and place.is_file() and place.stat().st_size <= MOST_COMPARED
        return place.read_text("utf-8") if is_small and not is_database_in_use(place) else ""
    except (OSError, ValueError):
        return ""


def path_in(called: ToolCalled) -> str:
    """The file that a call would change; empty where it changes none that can be told."""
    return _field(called, "path") if called.tool in ("edit", "write") else ""


def changes_in(done: Done) -> tuple[str, ...]:
    """The lines that an edit changed, marked `+`, `-` or with a space; the numbers are left out where they are not known."""
    if done.answered.status != "completed":
        return ()
    match done.called.tool:
        case "edit":
            return tuple(_difference(_field(done.called, "old"), _field(done.called, "new")))
        case "write":
            return tuple(_difference(done.before, _field(done.called, "content")))
        case _:
            return ()


def _difference(before: str, after: str) -> Iterator[str]:
    """Two texts beside each other, line by line, without the heading of a patch."""
    if max(len(before), len(after)) > MOST_COMPARED:
        return
    lines: Sequence[str] = list(unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))
    for line in islice(lines, 2, None):
        if not line.startswith("@@"):
            yield legible(line[:1] + line[1:].expandtabs(4))


def _field(called: ToolCalled, name: str) -> str:
    """A text among a call's arguments; empty where there is none."""
    try:
        arguments = msgspec.json.decode(called.arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return ""
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else ""


Stream: TypeAlias = Literal["answer", "thought", "summary"]


REFRESHES = 10
"""How often a second the lines below are drawn anew; more is not seen, and costs the terminal."""


MOST_LINES = 10
"""Lines of what is still arriving."""


INDENT = 2


THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "", "markdown.block_quote": "italic"})
"""Without backgrounds, which only suit the terminal they were chosen for."""


DIFFERENCE = {"+": "green", "-": "red"}


class Screen:
    """A terminal in which an agent is watched; `results` are those of the tools that ran."""

    def __init__(self, console: Console, root: Path, status: Callable[[int], tuple[Piece, ...]]) -> None:
        self.console = console
        self.console.push_theme(THEME)
        self.results = Results()
        self.shows_summary = False
        self._root = root
        self._status = status
        self._lock = RLock()
        self._live: Live | None = None
        self._later: list[Told] = []
        self._stream: Stream = "answer"
        self._text = ""
        self._doing = ""
        self._since = 0.0
        self._is_spaced = True
        self._spinner = Spinner("line" if console.options.ascii_only else "dots", style="cyan")

    # While somebody works.

    @contextmanager
    def working(self, doing: str) -> Iterator[None]:
        """Within it, what happens is shown as it happens; what happens elsewhere is kept and shown the next time."""
        self._doing, self._since, self._is_spaced = doing, monotonic(), False
        try:
            self._begin()
            kept, self._later = self._later, []
            for told in kept:
                self.tell(told)
            yield
        finally:
            self._end()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it, the lines below are gone, so that something can be asked there."""
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
        """Draw the lines below anew until they are taken away.

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
        """Print what has arrived, and take the lines below away; a second Ctrl-C does not leave them there."""
        with _uninterrupted():
            with self._lock:
                self._finish()
                live, self._live = self._live, None
            if live is not None:
                live.stop()

    # What is told.

    def tell(self, told: Told) -> None:
        """Show one happening; may be called from any thread."""
        with self._lock:
            if self._live is not None:
                self._tell(told)
            elif not isinstance(told, SummaryStarted | SummaryProgressed):
                self._later.append(told)

    def _tell(self, told: Told) -> None:  # noqa: C901, PLR0912 - a branch for each kind of happening
        match told:
            case TextReceived():
                self._arrive("answer", told.text)
            case ReasoningReceived():
                self._arrive("thought", told.text)
            case SummaryProgressed():
                self._doing = "writing a summary"
                if self.shows_summary:
                    self._arrive("summary", told.text)
            case ToolCalled():
                self._show_call(told)
            case ToolAnswered():
                self._show_result(told)
            case RequestRetried():
                self.note(again(told, 4 * self._room), "yellow")
            case StepFinished():
                self._finish()
            case SummaryStarted():
                self._part_summaries()
            case Notice():
                self.note(told.text, "dim")
            case RunEnded():
                self._show_ending(told)
            case RunStarted() | ToolRefused() | SessionTitled() | PreparedAhead():
                pass
            case _:
                if is_worth_a_line(told):
                    self._show_event(event_text(told))

    def _show_ending(self, ended: RunEnded) -> None:
        """Say why it stopped, where that is not to be seen; what failed is told by the error itself."""
        words = ended.problem if ended.ending == "done" else ENDINGS[ended.ending]
        if words:
            self.note(words, "yellow")

    def note(self, line: str, style: str = "") -> None:
        """A line of infold's own, between what was said."""
        self._finish()
        self._print(Text(self._shown(legible(line)), style=style))

    def tell_command(self, line: str) -> None:
        """A line with a command to copy, which the terminal alone may break."""
        with self._lock:
            self.console.print(Text(legible(line), style="dim"), soft_wrap=True)
            self._is_spaced = False

    def print(self, *drawn: RenderableType) -> None:
        """Something drawn, with a line left free above all of it."""
        self.space()
        for one in drawn:
            self._print(one)
        self._is_spaced = False

    def space(self) -> None:
        """One line left free, however often it is asked for."""
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
            self._print_blocks(blocks_of(self._text) if stream == "answer" else lines_of(self._text))

    def _finish(self) -> None:
        """Print what has arrived, however it ends."""
        with self._lock:
            self._print_blocks(Blocks((self._text.rstrip(),), ""))

    def _print_blocks(self, blocks: Blocks) -> None:
        self._text = blocks.rest
        for block in blocks.done:
            if self._stream == "answer" and block.strip():
                self.print(drawn_block(block))
                self._is_spaced = False
            elif self._stream != "answer" and (block.strip() or blocks.rest):
                self._print(Padding(Text(legible(block), style="dim italic"), (0, 0, 0, INDENT)))

    def _part_summaries(self) -> None:
        """Leave a line free before a summary that is read along: the one above it was not accepted."""
        if self.shows_summary:
            self._finish()
            self.space()

    def _show_event(self, words: str) -> None:
        self._finish()
        if self._stream == "summary":
            self.space()
        self.note(f"◆ {words}", "green")

    # Tools.

    def _show_call(self, called: ToolCalled) -> None:
        self._finish()
        self._doing = f"running {one_line(called.tool, 20)}"
        self.results.call(called, replaced_by(called, self._root))
        what = Text(one_line(called.what, 2 * self._room))
        self.print(Text.assemble((self._shown("● "), "cyan"), (legible(called.tool), "bold cyan"), "  ", what))
        self._is_spaced = False

    def _show_result(self, answered: ToolAnswered) -> None:
        self._doing = "thinking"
        done = self.results.answer(answered)
        changes = changes_in(done)
        style = "dim" if answered.status == "completed" else "red"
        for line in folded(done, self._room - INDENT):
            self._print(Padding(Text(self._shown(line), style=style), (0, 0, 0, INDENT)))
        for line in changes[:MOST_CHANGES]:
            self._print(drawn_change(line[: 2 * self._room]))
        if len(changes) > MOST_CHANGES:
            more = f"({counted(len(changes) - MOST_CHANGES, 'more line')}, /show {done.number})"
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
        """Text with what the console cannot show replaced."""
        return text.encode("ascii", "replace").decode() if self.console.options.ascii_only else text

    def _below(self) -> RenderableType:
        """The last lines of what is arriving, what is being done, and the status line."""
        seconds = int(monotonic() - self._since)
        doing = f"{self._doing}{f', {seconds} s' if seconds else ''}; Ctrl-C stops"
        self._spinner.update(text=Text(doing, style="dim"))
        width = self.console.width
        return Group(*self._arriving(width), self._spinner, drawn_status(self._status(width - 1)))

    def _arriving(self, width: int) -> list[Text]:
        tail = self._text[-width * MOST_LINES :]
        if not tail.strip():
            return []
        most = max(1, min(MOST_LINES, self.console.height - 6))
        text = Text(legible(tail.expandtabs(4)).strip("\n"), style="" if self._stream == "answer" else "dim italic")
        return [Text(), *text.wrap(self.console, width - 1)[-most:]]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Within it, an interrupt waits."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def drawn_change(line: str) -> RenderableType:
    """A line that an edit took away, put there or left."""
    return Padding(Text(line, DIFFERENCE.get(line[:1], "dim")), (0, 0, 0, INDENT + 2))
