"""How the terminal face draws: token numbers, the gauge of a window, the colours of what fills it.

Draws what it is given and decides nothing. Every picture has a form without colour and beyond ASCII nothing but what the
console says it can show.
"""

import io
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import assert_never

from msgspec import Struct
from rich.box import ASCII, ROUNDED
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infold.core.budget import Budget
from infold.core.entries import Reason
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.session.report import describe_event, describe_safety

PLAIN_WIDTH = 100
"""Columns where there is no terminal to ask."""


TELLING = ("The user's", "Rules", "Files changed", "Errors", "Todo", "Commands")
"""How the sections of a checkpoint begin that a short form shows."""


MOST_LINES, MOST_RULES = 2, 8


WHY: dict[Reason, str] = {
    "trigger": "the trigger was reached",
    "overflow": "the provider refused the request",
    "forced": "the reply was cut off",
    "manual": "somebody asked for it",
    "safety": "it would not have fitted",
    "arrival": "it was long",
    "import": "read from a transcript",
    "price": "going on would have cost more",
}
"""Why something was done, in words."""


class Category(Struct, frozen=True):
    """How one kind of content is shown: by a colour, and by a letter where there are no colours."""

    letter: str
    colour: str


CATEGORIES = {
    "system": Category("s", "bright_black"),
    "tools": Category("o", "white"),
    "summary": Category("f", "green"),
    "user": Category("u", "yellow"),
    "injected": Category("i", "bright_yellow"),
    "assistant": Category("a", "cyan"),
    "reasoning": Category("t", "magenta"),
    "calls": Category("c", "blue"),
    "results": Category("r", "red"),
    "media": Category("m", "bright_magenta"),
}
"""What fills a window, in the order in which it is stacked."""


PLAYED = ("system", "summary", "user", "assistant", "reasoning", "calls", "results")
"""The categories that occur in the demo's session."""


class Gauge(Struct, frozen=True):
    """A window as a bar: what fills it by category, and where its policy acts, aims and stops."""

    window_tokens: int
    budget: Budget
    width: int = 60

    def bar(self, tokens: Mapping[str, int], *, plain: bool) -> Text:
        """The filled part stacked by category, then what is free, then the reserve beyond the limit."""
        drawn = stacked(tokens, whole=self.window_tokens, width=self.width, plain=plain)
        free = max(0, self._cell(self.budget.limit_tokens) - len(drawn))
        drawn.append(("." if plain else "·") * free, style="dim")
        return drawn.append(("-" if plain else "░") * (self.width - len(drawn)), style="dim")

    def marks(self, *, indent: int) -> Text:
        """The line beside the bar: target and trigger end at their places, the limit begins at its own.

        Of two that would overlap, the first is shown.
        """
        line = ""
        for name in ("target", "trigger"):
            label = f"{name}^"
            place = self._cell(getattr(self.budget, f"{name}_tokens")) - len(label)
            line = line.ljust(place) + label if place >= len(line) else line
        line = line.ljust(self._cell(self.budget.limit_tokens)) + "^limit"
        return Text(" " * indent + line, style="bold")

    def _cell(self, tokens: int) -> int:
        return round(self.width * tokens / self.window_tokens)


def console_for(*, plain: bool) -> Console:
    """The console to draw on: colours and movement in a terminal, else lines of a fixed width and no more.

    What the output's encoding cannot show becomes a question mark instead of a crash.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal and not plain:
        return console
    return Console(highlight=False, markup=False, emoji=False, color_system=None, width=PLAIN_WIDTH)


def event_line(number: int, event: Event) -> str:
    """One line on what was done before a request, from how much to how much, and why."""
    return f"request {number:>3}  {event_text(event)}"


def event_text(event: Event) -> str:
    """What was done, from how much to how much, and why."""
    match event:
        case Pruned():
            done = f"pruned {counted(len(event.targets), 'old result')}"
        case Clipped():
            done = f"clipped {counted(len(event.targets), 'large part')}"
        case Compacted(folded_messages=0):
            done = "wrote the checkpoint anew"
        case Compacted():
            done = f"folded {counted(event.folded_messages, 'message')}"
        case _:
            return describe_event(event)
    change = f"{thousands(event.tokens_before):>6} -> {thousands(event.tokens_after):>6}"
    beyond = describe_safety(event) if isinstance(event, Compacted) else ""
    return f"{done:<26}{change} tokens   {WHY[event.reason]}{beyond}"


def is_worth_a_line(event: Event) -> bool:
    """Whether an event shows anything: what was shortened by less than the numbers tell is no news to a person."""
    if not isinstance(event, Pruned | Clipped):
        return True
    return thousands(event.tokens_before) != thousands(event.tokens_after)


def counted(number: int, noun: str) -> str:
    """A number and what it counts: 1 message, 2,000 messages."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def heading(text: str) -> Text:
    """The title of a section, a line above it left free."""
    return Text(f"\n{text}", style="bold")


def stacked(tokens: Mapping[str, int], *, whole: int, width: int, plain: bool) -> Text:
    """What fills a window of `whole` tokens, category after category; never wider than `width`."""
    drawn = Text()
    reached = 0
    for name, category in CATEGORIES.items():
        reached += tokens.get(name, 0)
        cells = max(0, min(width, round(width * reached / whole)) - len(drawn))
        drawn.append((category.letter if plain else "█") * cells, style=category.colour)
    return drawn


def narrowable(table: Table) -> Table:
    """Return a table whose numbers and their headings stay whole in a narrow terminal: bars, then names, get shorter first."""
    for column in table.columns:
        if column.justify == "right":
            words = (*map(str, column.cells), *str(column.header).split())
            column.min_width = max(map(cell_len, words), default=0)
        elif not column.header:
            column.no_wrap = False
    return table


class Bar:
    """One bar of a chart, as long as its share of `width`, or of the room there is; what is not nothing is seen."""

    def __init__(self, share: float, *, width: int, colour: str, plain: bool) -> None:
        self._share, self._width, self._colour, self._plain = share, width, colour, plain

    def drawn(self, width: int) -> Text:
        """Return the bar in so many cells."""
        if self._plain:
            return Text("#" * max(round(self._share * width), int(self._share > 0)))
        eighths = max(round(self._share * width * 8), int(self._share > 0))
        return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style=self._colour)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, self._width).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.drawn(min(self._width, options.max_width))


def legible(text: str) -> str:
    """Text that a terminal shows and never obeys: control and formatting characters become question marks."""
    kept = (character if character.isprintable() or character == "\n" else _stand_in(character) for character in text)
    return "".join(kept)


def _stand_in(character: str) -> str:
    return " " if character.isspace() else "?"


def one_line(text: str, most: int = 200) -> str:
    """The beginning of a text on one line, whatever breaks and controls are in it."""
    return legible(" ".join(text[: most * 4].split()))[:most]


def moment(milliseconds: int | None) -> str:
    """A time to the minute, in UTC; empty where none was recorded."""
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def dollars(amount: float) -> str:
    """A price for people: enough digits to see a small one."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def legend(*, plain: bool, shown: Iterable[str] = PLAYED) -> Text:
    """What the colours or letters of a bar stand for."""
    drawn = Text()
    for name, category in ((name, CATEGORIES[name]) for name in shown):
        drawn.append(category.letter if plain else "█", style=category.colour)
        drawn.append(f" {name}   ")
    return drawn


def thousands(tokens: int) -> str:
    """A number of tokens, short: 840, 6.8k, 46.2k, 393k, 2.0M."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 1_000_000:
        return f"{tokens / 1_000:.1f}k" if tokens < 100_000 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.1f}M"


def checkpoint_panel(text: str, *, plain: bool) -> Panel:
    """A checkpoint in a frame, shortened: the sections a reader asks for first, a few lines of each."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    telling = [block for block in blocks if block[0].startswith(TELLING)] or blocks[:6]
    shown = [line for block in telling for line in _shortened(block)]
    if len(blocks) > len(telling):
        shown.append(f"(and {len(blocks) - len(telling)} more sections)")
    title = "what the model still has of all that was folded: the newest checkpoint, shortened"
    body = Text("\n").join(Text(line, style="" if line.startswith("- ") else "bold") for line in shown)
    return Panel(body, title=title, title_align="left", box=ASCII if plain else ROUNDED)


def _shortened(block: list[str]) -> list[str]:
    most = MOST_RULES if block[0].startswith("Rules") else MOST_LINES
    left_out = len(block) - 1 - most
    return block if left_out <= 0 else [*block[: most + 1], f"- ({left_out} more lines)"]


def what_of(part: Part) -> str:
    """What a part is, in a few words."""
    match part:
        case ToolResultPart():
            return f"{part.tool or 'tool'} result"
        case ToolCallPart():
            return f"{part.tool} call"
        case FilePart():
            return part.media_type
        case TextPart(synthetic=True):
            return "injected text"
        case _:
            return type(part).__name__.removesuffix("Part").lower()


def content_of(part: Part) -> str:
    """A part's own text, however it is called."""
    match part:
        case TextPart() | ReasoningPart():
            return part.text
        case ToolCallPart():
            return part.arguments
        case ToolResultPart():
            return part.output
        case FilePart():
            return part.name or part.reference
        case _:
            return ""


def who_of(message: Message, part: Part) -> str:
    """Who said a part: the user, the assistant, the harness, or a tool by its name."""
    match part:
        case ToolResultPart():
            return part.tool or "tool"
        case TextPart(synthetic=True) if isinstance(message, UserMessage):
            return "harness"
    match message:
        case SystemMessage():
            return "system"
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case ToolMessage():
            return "tool"
        case _:
            assert_never(message)
