"""Draw in a terminal: consoles, tables, bars of a window by category, checkpoints.

Everything has a form without colour, and uses characters beyond ASCII only if the console can show them.
"""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
import msgspec
from msgspec import Struct
from rich.box import ASCII, ROUNDED
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 100
"""Columns if there is no terminal."""

FIRST_SECTIONS = ("The user's", "Rules", "Files changed", "Errors", "Todo", "Commands")
"""How the sections of a checkpoint begin that its short form shows."""

MOST_LINES, MOST_RULES = 2, 8
"""Lines of each section in the short form of a checkpoint, and of the user's rules."""


class CategoryStyle(Struct, frozen=True):
    """How a category is drawn: by a colour, or by a letter without colours."""

    letter: str
    colour: str


CATEGORIES = {
    "system": CategoryStyle("s", "bright_black"),
    "tools": CategoryStyle("o", "white"),
    "summary": CategoryStyle("f", "green"),
    "user": CategoryStyle("u", "yellow"),
    "injected": CategoryStyle("i", "bright_yellow"),
    "assistant": CategoryStyle("a", "cyan"),
    "reasoning": CategoryStyle("t", "magenta"),
    "calls": CategoryStyle("c", "blue"),
    "results": CategoryStyle("r", "red"),
    "media": CategoryStyle("m", "bright_magenta"),
}
"""In the order in which they are stacked."""


# Output.


def open_console(*, plain: bool = False, plain_width: int = PLAIN_WIDTH, colour: bool = False) -> Console:
    """Return a console with colours and movement in a terminal, or else with lines of a fixed width.

    `colour` gives colours also to a pipe. What the encoding of the output cannot show becomes a question mark.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    literal = partial(Console, highlight=False, markup=False, emoji=False)
    console = literal()
    width = console.width if console.is_terminal and not plain else plain_width
    if colour:
        return literal(color_system="standard", no_color=False, width=width)
    return console if console.is_terminal and not plain else literal(color_system=None, width=width)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show these words and a spinner on stderr while the block runs; in a terminal only, and nothing is left of it."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True, highlight=False, markup=False, emoji=False).status(Text(what)):
        yield


def to_json(value: Any) -> bytes:
    """Return a value as indented JSON with a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def print_json(value: Any) -> None:
    """Write a value to stdout as JSON."""
    click.echo(to_json(value), nl=False)


# Tables and text.


def heading(text: str) -> Text:
    """Return the title of a section, after an empty line."""
    return Text(f"\n{text}", style="bold")


def make_table(*columns: str, left: Iterable[str] = (), free: str = "", **settings: Any) -> Table:
    """Return a table without lines; columns are right-aligned but for the first, bars and those named in `left`.

    `free` is one more column, for text, that takes the remaining width.
    """
    table = Table(**{"box": None, "padding": (0, 1), "header_style": "dim", "expand": bool(free), **settings})
    for place, name in enumerate(columns):
        is_left = place == 0 or not name or name in left
        table.add_column(name, justify="left" if is_left else "right", no_wrap=True, overflow="ellipsis")
    if free:
        table.add_column(free, ratio=1, no_wrap=True, overflow="ellipsis")
    return table


def titled(title: str, table: Table) -> Group:
    """Return a table below its title, with whole numbers."""
    return Group(heading(title), keep_numbers(table))


def keep_numbers(table: Table) -> Table:
    """Keep the numbers of a table whole in a narrow terminal: bars, then names, get shorter first."""
    for column in table.columns:
        if column.justify == "right":
            words = (*map(str, column.cells), *str(column.header).split())
            column.min_width = max(map(cell_len, words), default=0)
        elif not column.header:
            column.no_wrap = False
    return table


def frame(lines: Iterable[str], title: str, *, plain: bool, item: str = "") -> Panel:
    """Return lines in a frame; if the items of a list begin with `item`, other lines are bold."""
    body = Text("\n").join(Text(line, style="" if line.startswith(item) else "bold") for line in lines)
    return Panel(body, title=title, title_align="left", box=ASCII if plain else ROUNDED)


def checkpoint_panel(text: str, *, plain: bool) -> Panel:
    """Return the short form of a checkpoint: its main sections, a few lines of each."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    main = [block for block in blocks if block[0].startswith(FIRST_SECTIONS)] or blocks[:6]
    lines = [line for block in main for line in _shorten(block)]
    if len(blocks) > len(main):
        lines.append(f"(and {len(blocks) - len(main)} more sections)")
    title = "the newest checkpoint, shortened: what the model still has of everything folded"
    return frame(lines, title, plain=plain, item="- ")


def _shorten(block: list[str]) -> list[str]:
    most = MOST_RULES if block[0].startswith("Rules") else MOST_LINES
    left_out = len(block) - 1 - most
    return block if left_out <= 0 else [*block[: most + 1], f"- ({left_out} more lines)"]


# Bars.


class Bar:
    """A bar as long as its share of `width`, or of the space there is; at least one cell unless the share is 0."""

    def __init__(self, share: float, *, width: int, colour: str, plain: bool) -> None:
        self._share, self._width, self._colour, self._plain = share, width, colour, plain

    def draw(self, width: int) -> Text:
        """Return the bar in so many cells."""
        if self._plain:
            return Text("#" * max(round(self._share * width), int(self._share > 0)))
        eighths = max(round(self._share * width * 8), int(self._share > 0))
        return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style=self._colour)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, self._width).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.draw(min(self._width, options.max_width))


def window_bar(tokens: Mapping[str, int], *, window: int, limit: int, width: int, plain: bool) -> Text:
    """Return a window as a bar of `width` cells: filled by category, then free up to the limit, then the reserve beyond it."""
    drawn = Text()
    reached = 0
    for name, category in CATEGORIES.items():
        reached += tokens.get(name, 0)
        cells = max(0, min(width, round(width * reached / window)) - len(drawn))
        drawn.append((category.letter if plain else "█") * cells, style=category.colour)
    drawn.append(("." if plain else "·") * max(0, round(width * limit / window) - len(drawn)), style="dim")
    return drawn.append(("-" if plain else "░") * (width - len(drawn)), style="dim")


def legend(shown: Iterable[str], *, plain: bool) -> Text:
    """Return what the colours or letters of a bar stand for."""
    drawn = Text()
    for name in shown:
        category = CATEGORIES[name]
        drawn.append(category.letter if plain else "█", style=category.colour)
        drawn.append(f" {name}   ")
    return drawn
