"""A streamed answer in blocks: what of it is complete and can be drawn for good, and how a block of markdown is drawn.

Nothing that is drawn is ever drawn anew: a block is complete once the next one has begun, so that code and lists stay in one.
"""

import re
from collections.abc import Iterator

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, Markdown
from rich.segment import Segment
from rich.text import Text

from infold.cli.render import legible

TAB_CELLS = 4


_FENCE = re.compile(r"\s{0,9}(`{3,}|~{3,})")


_LIST_ITEM = re.compile(r"([-*+]|\d{1,3}[.)])\s")


ENOUGH = 5
"""Characters of a line before it can be told whether it is an item of a list."""


class Blocks(Struct, frozen=True):
    """A text as far as it has come: its complete blocks, and the rest, which may still grow."""

    done: tuple[str, ...]
    rest: str


def blocks_of(text: str) -> Blocks:
    """Markdown at its blank lines, except inside code and before what goes on with the block: an item, an indented line."""
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


def lines_of(text: str) -> Blocks:
    """Plain text at its line ends."""
    whole, newline, rest = text.rpartition("\n")
    return Blocks((whole,) if newline else (), rest)


def _may_begin(line: str, *, is_last: bool) -> bool:
    """Whether a line after a blank one begins a block; the last line, which is still being written, only if that is certain."""
    if line[0].isspace() or _LIST_ITEM.match(line):
        return False
    return not is_last or len(line) >= ENOUGH


def _fence_after(line: str, fence: str) -> str:
    """The fence that is open after a line; one is closed by its own kind, at least as long."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found[1]
    is_closing = found[1].startswith(fence) and not line.strip().strip(fence[0])
    return "" if is_closing else fence


# Drawing.


def drawn_block(text: str) -> RenderableType:
    """A block of markdown, in colours where the console has them."""
    return Harmless(_Prose(legible(text.expandtabs(TAB_CELLS)), code_theme="ansi_dark", hyperlinks=False))


class Harmless:
    """Something drawn, without blank lines around it, of which no control character reaches the terminal."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [_legible(line) for line in console.render_lines(self._inner, options, pad=False)]
        filled = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        for line in lines[filled[0] : filled[-1] + 1] if filled else ():
            yield from line
            yield Segment.line()


def _legible(line: list[Segment]) -> list[Segment]:
    """A line with what drawing may have made of harmless text, an entity for one, made harmless again."""
    return [segment._replace(text=legible(segment.text)) for segment in line if not segment.control]


class _LeftHeading(Heading):
    """A heading as a line of its own at the left, as in the text around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _Prose(Markdown):
    """Markdown with headings at the left."""

    elements = {**Markdown.elements, "heading_open": _LeftHeading}  # noqa: RUF012 - as the class it extends has it
