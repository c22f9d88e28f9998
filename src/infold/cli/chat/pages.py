"""Pages of a chat: what fills the window, the last turn of a continued session, the help."""

from collections.abc import Iterator

from msgspec import Struct
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infold.cli.chat.commands import COMMANDS
from infold.cli.chat.markdown import draw_block
from infold.cli.render import CATEGORIES, Bar, heading, make_table, window_bar
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, TextPart, UserMessage, calls_of, text_of
from infold.reports.contents import ViewContents
from infold.reports.text import one_line, plural, printable, short_number

BAR_CELLS = 24

NUMBERS_CELLS = 30
"""Width of a row of the chart without its bar."""

WHAT_CELLS, NARROW_WHAT_CELLS, NARROW = 32, 14, 60
"""Width of the description of a large part, in a wide terminal and in one of fewer columns than `NARROW`."""

MOST_CHARACTERS = 2_000
"""Characters of an earlier answer that are shown when its session is continued."""

KEYS = (
    ("Enter", "send"),
    ("Alt-Enter", "a new line; pasted text may have any number"),
    (
        "Ctrl-C",
        "while the agent works: stop this step, keep what it wrote; at the prompt: clear the line, twice leaves",
    ),
    ("Ctrl-D", "leave"),
    ("Up, Ctrl-R", "what was typed before"),
)


# What fills the window.


def context_page(contents: ViewContents, *, width: int, plain: bool) -> Iterator[RenderableType]:
    """Yield a bar of the window, a chart by category, and the largest parts with the handles that /pin and /show take."""
    window = max(contents.window_tokens, contents.total_tokens, 1)
    of = f" of {short_number(contents.limit_tokens)} that may be sent" if contents.limit_tokens else ""
    yield Text(f"The next request: {short_number(contents.total_tokens)} tokens{of}", style="bold")
    yield window_bar(contents.tokens, window=window, limit=contents.limit_tokens, width=min(72, width - 2), plain=plain)
    yield Padding(_chart(contents, width, plain=plain), (1, 0, 0, 0))
    if contents.largest:
        yield heading("Largest parts")
        yield _largest(contents, NARROW_WHAT_CELLS if width < NARROW else WHAT_CELLS)


def _chart(contents: ViewContents, width: int, *, plain: bool) -> Table:
    """Return the size of each category; in a narrow terminal the bars are shorter, and the numbers stay."""
    table = make_table("", "", "", show_header=False)
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    cells = max(1, min(BAR_CELLS, width - NUMBERS_CELLS))
    largest = max(contents.tokens.values(), default=1) or 1
    whole = contents.window_tokens or contents.total_tokens or 1
    for name, tokens in contents.tokens.items():
        category = CATEGORIES[name]
        bar = Bar(tokens / largest, width=cells, colour=category.colour, plain=plain)
        mark = Text(category.letter if plain else "█", style=category.colour)
        table.add_row(mark, name, bar, short_number(tokens), f"{tokens / whole:.0%}")
    if contents.limit_tokens:
        reserve = max(0, contents.window_tokens - contents.limit_tokens)
        free = (("." if plain else "·", "free", contents.free_tokens), ("-" if plain else "░", "reserve", reserve))
        for sign, name, tokens in free:
            table.add_row(sign, name, "", short_number(tokens), f"{tokens / whole:.0%}", style="dim")
    return table


def _largest(contents: ViewContents, what_cells: int) -> Table:
    table = make_table(expand=True)
    table.add_column("handle", style="cyan", no_wrap=True)
    table.add_column("what", no_wrap=True, overflow="ellipsis", max_width=what_cells)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("begins", ratio=1, no_wrap=True, overflow="ellipsis")
    for part in contents.largest:
        pinned = ", pinned" if part.handle in contents.pinned else ""
        what = one_line(part.what, what_cells - len(pinned)) + pinned
        table.add_row(part.handle, what, short_number(part.tokens), one_line(part.excerpt))
    return table


# The last turn.


class LastTurn(Struct, frozen=True):
    """The last prompt, the number of tool calls, and the answer; `is_complete`: the turn was not interrupted."""

    prompt: str
    calls: int
    answer: str
    is_complete: bool


def last_turn(log: Log) -> LastTurn | None:
    """Return the last turn of a session as far as it is not folded, or `None` if the session is empty."""
    live = [placed for placed in log.live if not placed.is_business]
    begin = next((at for at in range(len(live) - 1, -1, -1) if live[at].is_persons), None)
    if not live or (begin is None and log.checkpoint is None):
        return None
    turn = [placed.message for placed in live[begin or 0 :]]
    replies = [message for message in turn if isinstance(message, AssistantMessage)]
    prompt = "" if begin is None else _own_words(turn[0])
    answer = next((text_of(reply) for reply in reversed(replies) if text_of(reply).strip()), "")
    return LastTurn(prompt, sum(len(calls_of(reply)) for reply in replies), answer, _is_complete(turn[-1]))


def _own_words(message: Message) -> str:
    texts = (part.text for part in message.parts if isinstance(part, TextPart) and not part.synthetic)
    return "\n".join(texts) if isinstance(message, UserMessage) else ""


def _is_complete(newest: Message) -> bool:
    """Whether a turn ends with a reply that calls nothing and was not interrupted."""
    if not isinstance(newest, AssistantMessage):
        return False
    return not calls_of(newest) and newest.finish not in ("abort", "error", "length") and not newest.error


def turn_page(turn: LastTurn, mark: str) -> Iterator[RenderableType]:
    """Yield the last turn, shortened."""
    if turn.prompt:
        yield Text(mark, style="cyan").append(printable(_shorten(turn.prompt)), style="dim")
    if turn.calls:
        yield Text(f"({plural(turn.calls, 'tool call')})", style="dim")
    if turn.answer:
        yield draw_block(_shorten(turn.answer))
    if not turn.is_complete:
        yield Text("This turn was interrupted. Say how to continue, or use /continue.", style="yellow")


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS].rstrip()} …"


def help_page() -> Table:
    """Return every command and every key."""
    table = make_table(show_header=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    for command in COMMANDS.values():
        table.add_row(f"/{command.name} {command.takes}".rstrip(), command.does)
    for key, does in KEYS:
        table.add_row(key, does)
    return table
