"""Pages of a chat: what fills the window, the last exchange of a session that is gone on with, the help."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest

from msgspec import Struct
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infold.cli.chat.commands import COMMANDS
from infold.cli.chat.markdown import drawn_block
from infold.cli.render import (
    CATEGORIES,
    Bar,
    content_of,
    counted,
    heading,
    legible,
    one_line,
    stacked,
    thousands,
    what_of,
)
from infold.core.entries import handle_of
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Message,
    Overhead,
    TextPart,
    ToolMessage,
    UserMessage,
    calls_of,
    text_of,
)
from infold.core.policy import INFOLD
from infold.core.tokens import measure_part, token_ruler
from infold.core.view import view
from infold.session.report import tokens_by_category, with_beside

BAR_CELLS = 24


FIGURES_CELLS = 30
"""What a row of the chart takes beside its bar: mark, name, tokens and share, with the space around them."""


WHAT_CELLS, NARROW_WHAT_CELLS, NARROW = 32, 14, 60
"""Room for what a large part is, in a terminal that has it and in one of fewer columns than that."""


MOST_PARTS = 5


MOST_CHARACTERS = 2_000
"""Of an earlier answer that is shown when its session is gone on with."""


KEYS = (
    ("Enter", "say it"),
    ("Alt-Enter", "a new line; what is pasted may have as many as it likes"),
    (
        "Ctrl-C",
        "while the agent works: stop this step, keep what was said; at the prompt: forget the line, twice leaves",
    ),
    ("Ctrl-D", "leave"),
    ("Up, Ctrl-R", "what was typed before"),
)


# What fills the window.


class Large(Struct, frozen=True):
    """One of the largest parts of a view."""

    handle: str
    what: str
    tokens: int
    begins: str
    is_pinned: bool = False


class Fill(Struct, frozen=True):
    """What fills a window: tokens by category, the most a request may be, the window itself, and the largest parts.

    `limit_tokens` and `window_tokens` are 0 where the window has no limit.
    """

    tokens: Mapping[str, int]
    limit_tokens: int
    window_tokens: int
    largest: tuple[Large, ...]

    @property
    def sum_tokens(self) -> int:
        """All of it."""
        return sum(self.tokens.values())

    @property
    def free_tokens(self) -> int:
        """What may still be sent."""
        return max(0, self.limit_tokens - self.sum_tokens)


def fill_of(log: Log, overhead: Overhead, *, tokens: int, limit_tokens: int, window_tokens: int) -> Fill:
    """What fills the window of a session whose view is counted as that many tokens, shared out by our own measure."""
    ruler = token_ruler(log.rendering.estimate)
    beside = {"system": overhead.system, "tools": overhead.tools}
    measured = with_beside(tokens_by_category(view(log, INFOLD.summary), ruler), beside)
    factor = tokens / (sum(measured.values()) or 1)
    by_category = {name: round(count * factor) for name, count in measured.items()}
    parts = (
        Large(handle, what_of(part), round(measure_part(part, ruler) * factor), content_of(part), handle in log.pins)
        for placed in log.live
        for position, part in enumerate(log.shown(placed).parts)
        for handle in (handle_of(placed.sequence, position),)
    )
    largest = nlargest(MOST_PARTS, (part for part in parts if part.tokens), key=lambda part: part.tokens)
    return Fill(by_category, limit_tokens, window_tokens, tuple(largest))


def context_page(fill: Fill, *, width: int, plain: bool) -> Iterator[RenderableType]:
    """A bar of the window, a chart by category, and the largest parts with the handles that /pin and /show take."""
    whole = max(fill.window_tokens, fill.sum_tokens, 1)
    of = f" of {thousands(fill.limit_tokens)} that may be sent" if fill.limit_tokens else ""
    yield Text(f"The next request: {thousands(fill.sum_tokens)} tokens{of}", style="bold")
    yield _window(fill, whole, min(72, width - 2), plain=plain)
    yield Padding(_chart(fill, width, plain=plain), (1, 0, 0, 0))
    if fill.largest:
        yield heading("Largest parts")
        yield _parts(fill.largest, NARROW_WHAT_CELLS if width < NARROW else WHAT_CELLS)


def _window(fill: Fill, whole: int, cells: int, *, plain: bool) -> Text:
    """What is filled by category, what is free, and the reserve for the reply."""
    drawn = stacked(fill.tokens, whole=whole, width=cells, plain=plain)
    free = round(cells * fill.limit_tokens / whole) - len(drawn) if fill.limit_tokens else 0
    drawn.append(("." if plain else "·") * max(0, free), style="dim")
    return drawn.append(("-" if plain else "░") * (cells - len(drawn)), style="dim")


def _chart(fill: Fill, width: int, *, plain: bool) -> Table:
    """What each category takes; in a narrow terminal the bars are shorter, and the numbers stay."""
    table = Table(box=None, padding=(0, 1), show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    cells = max(1, min(BAR_CELLS, width - FIGURES_CELLS))
    largest = max(fill.tokens.values(), default=1) or 1
    whole = fill.window_tokens or fill.sum_tokens or 1
    for name, tokens in fill.tokens.items():
        category = CATEGORIES[name]
        drawn = Bar(tokens / largest, width=cells, colour=category.colour, plain=plain)
        mark = Text(category.letter if plain else "█", style=category.colour)
        table.add_row(mark, name, drawn, thousands(tokens), f"{tokens / whole:.0%}")
    for sign, name, tokens in _left_over(fill, plain=plain):
        table.add_row(sign, name, "", thousands(tokens), f"{tokens / whole:.0%}", style="dim")
    return table


def _left_over(fill: Fill, *, plain: bool) -> Iterator[tuple[str, str, int]]:
    if fill.limit_tokens:
        yield "." if plain else "·", "free", fill.free_tokens
        yield "-" if plain else "░", "reserve", max(0, fill.window_tokens - fill.limit_tokens)


def _parts(largest: Sequence[Large], what_cells: int) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim", expand=True)
    table.add_column("handle", style="cyan", no_wrap=True)
    table.add_column("what", no_wrap=True, overflow="ellipsis", max_width=what_cells)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("begins", ratio=1, no_wrap=True, overflow="ellipsis")
    for part in largest:
        pinned = ", pinned" if part.is_pinned else ""
        what = one_line(part.what, what_cells - len(pinned)) + pinned
        table.add_row(part.handle, what, thousands(part.tokens), one_line(part.begins))
    return table


# Where a session stands.


class Exchange(Struct, frozen=True):
    """The last thing a person said, how many tools were called for it, and what was answered; `is_whole`: it came to its end."""

    asked: str
    calls: int
    answer: str
    is_whole: bool


def last_exchange(log: Log) -> Exchange | None:
    """The last turn of a session as far as it is not folded; none where nobody has said anything."""
    live = [placed for placed in log.live if not placed.is_business]
    begin = next((at for at in range(len(live) - 1, -1, -1) if live[at].is_persons), None)
    if not live or (begin is None and log.checkpoint is None):
        return None
    turn = [placed.message for placed in live[begin or 0 :]]
    replies = [message for message in turn if isinstance(message, AssistantMessage)]
    asked = "" if begin is None else _own_words(turn[0])
    answer = next((text_of(reply) for reply in reversed(replies) if text_of(reply).strip()), "")
    return Exchange(asked, sum(len(calls_of(reply)) for reply in replies), answer, _is_whole(turn[-1]))


def _own_words(message: Message) -> str:
    texts = (part.text for part in message.parts if isinstance(part, TextPart) and not part.synthetic)
    return "\n".join(texts) if isinstance(message, UserMessage) else ""


def _is_whole(newest: Message) -> bool:
    """Whether a turn ended by itself: with a reply that calls nothing and was not broken off."""
    if isinstance(newest, UserMessage | ToolMessage) or not isinstance(newest, AssistantMessage):
        return False
    return not calls_of(newest) and newest.finish not in ("abort", "error", "length") and not newest.error


def exchange_page(exchange: Exchange, mark: str) -> Iterator[RenderableType]:
    """The exchange as it was seen, shortened."""
    if exchange.asked:
        yield Text(mark, style="cyan").append(legible(_shortened(exchange.asked)), style="dim")
    if exchange.calls:
        yield Text(f"({counted(exchange.calls, 'tool call')})", style="dim")
    if exchange.answer:
        yield drawn_block(_shortened(exchange.answer))
    if not exchange.is_whole:
        yield Text("This turn was broken off. Say how to go on, or /continue.", style="yellow")


def _shortened(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS].rstrip()} …"


# Help.


def help_page() -> Table:
    """Every command and every key."""
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    for command in COMMANDS.values():
        table.add_row(f"/{command.name} {command.takes}".rstrip(), command.does)
    for key, does in KEYS:
        table.add_row(key, does)
    return table
