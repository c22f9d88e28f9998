"""Split a streamed answer into complete blocks of markdown, and draw them.

A block is drawn once, when the next one has begun, so that code and lists are never split.
"""

import re
from collections.abc import Iterator

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, Markdown
from rich.segment import Segment
from rich.text import Text

from infold.reports.text import printable

TAB_CELLS = 4

_FENCE = re.compile(r"\s{0,9}(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r"([-*+]|\d{1,3}[.)])\s")

ENOUGH = 5
"""Characters of a line that are needed to recognise an item of a list."""


class Blocks(Struct, frozen=True):
    """A text so far: its complete blocks, and the rest, which may still grow."""

    done: tuple[str, ...]
    rest: str


def split_blocks(text: str) -> Blocks:
    """Split markdown at blank lines, except inside code and before an item or an indented line."""
    lines = text.split("\n")
    done: list[str] = []
    begin, fence, is_after_blank = 0, "", False
    for at, line in enumerate(lines):
        if is_after_blank and not fence and line.strip():
            if not _may_begin(line, is_last=at == len(lines) - 1):
                is_after_blank = False
            elif "\n".join(lines[begin:at]).strip():
                done.append("\n".join(lines[begin:at]).strip("\n"))
                begin = at
        fence = _fence_after(line, fence)
        is_after_blank = not line.strip() if line.strip() or not is_after_blank else True
    return Blocks(tuple(done), "\n".join(lines[begin:]))


def split_lines(text: str) -> Blocks:
    """Split plain text at line ends."""
    whole, newline, rest = text.rpartition("\n")
    return Blocks((whole,) if newline else (), rest)


def _may_begin(line: str, *, is_last: bool) -> bool:
    """Whether a line after a blank one begins a block; for the incomplete last line only if that is certain."""
    if line[0].isspace() or _LIST_ITEM.match(line):
        return False
    return not is_last or len(line) >= ENOUGH


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after a line; one is closed by its own kind, at least as long."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found[1]
    is_closing = found[1].startswith(fence) and not line.strip().strip(fence[0])
    return "" if is_closing else fence


# Drawing.


def draw_block(text: str) -> RenderableType:
    """Draw a block of markdown, in colours if the console has them."""
    return Printable(_Prose(printable(text.expandtabs(TAB_CELLS)), code_theme="ansi_dark", hyperlinks=False))


class Printable:
    """A renderable without blank lines around it and without control characters."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [_printable_line(line) for line in console.render_lines(self._inner, options, pad=False)]
        filled = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        for line in lines[filled[0] : filled[-1] + 1] if filled else ():
            yield from line
            yield Segment.line()


def _printable_line(line: list[Segment]) -> list[Segment]:
    """Replace control characters that rendering may have produced, from an entity for example."""
    return [segment._replace(text=printable(segment.text)) for segment in line if not segment.control]


class _LeftHeading(Heading):
    """A heading at the left, like the text around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _Prose(Markdown):
    """Markdown with headings at the left."""

    elements = {**Markdown.elements, "heading_open": _LeftHeading}  # noqa: RUF012 - as the class it extends has it
