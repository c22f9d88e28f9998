"""How `infold show` looks: a session as a page to read, tool results folded, and marks where something was hidden or folded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from msgspec import Struct
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from infold.cli.parts import content_of, what_of
from infold.cli.render import WHY, counted, dollars, legible, moment, one_line, thousands
from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clipping,
    Entry,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    Title,
    handle_of,
)
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.dashboard.rows import State, role_of

MOST_LINES = 3
"""Lines of a tool result, a thought or a text of a program that are shown where it is folded."""

INDENT = 2
COLOURS = {"user": "yellow", "assistant": "cyan", "tool": "red", "system": "bright_black", "summary": "green"}


class Line(Struct, frozen=True):
    """One entry of the page; `state` is what has become of a message."""

    number: int
    entry: Entry
    state: State | None = None


class Page(Struct, frozen=True):
    """A session to be shown: what it is, its entries in order, and the titles of its messages."""

    id: str
    title: str
    facts: str
    lines: Sequence[Line]
    titles: Mapping[MessageId, str]


class _Indented(Struct, frozen=True):
    """A text that stands below a heading, and stays there where it is broken into lines."""

    text: Text


def show_page(console: Console, page: Page, *, full: bool) -> None:
    """Print the page; `full` folds nothing. Where there is no terminal, no line is broken or filled up."""
    plain = not console.is_terminal
    if page.title:
        _print(console, Text(legible(page.title), style="bold"))
    _print(console, Text(f"session {legible(page.id)}, {page.facts}", style="dim"))
    for line in page.lines:
        console.print()
        for piece in _pieces(line, page, full=full, plain=plain):
            _print(console, piece)


def _print(console: Console, piece: Text | _Indented) -> None:
    match piece:
        case _Indented() if console.is_terminal:
            console.print(Padding(piece.text, (0, 0, 0, INDENT), expand=False))
        case _Indented():
            _print(console, Text(" " * INDENT if piece.text else "").append_text(piece.text))
        case _:
            console.print(piece, soft_wrap=not console.is_terminal)


def _pieces(line: Line, page: Page, *, full: bool, plain: bool) -> Iterator[Text | _Indented]:
    match line.entry:
        case MessageEntry(message=message):
            yield _heading(line, message, page.titles.get(message.id, ""))
            for position, part in enumerate(message.parts):
                yield from _part(part, handle_of(line.number, position), full=full)
        case Checkpoint():
            rule = "-" if plain else "─"
            yield Text(f"{rule * 4} [{line.number}] {_words(line.entry)} {rule * 4}", style="bold green")
            yield from _block(line.entry.text)
        case _:
            yield Text(f"· [{line.number}] {legible(_words(line.entry))}", style="dim")


def _heading(line: Line, message: Message, title: str) -> Text:
    role = role_of(message)
    text = Text(f"[{line.number}] ", style="dim").append(role, style=f"bold {COLOURS.get(role, 'white')}")
    state = "" if line.state in (None, "in view") else line.state
    told = (title, moment(message.created_ms), *_spent(message), state)
    return text.append("".join(f"  {legible(one)}" for one in told if one), style="dim")


def _spent(message: Message) -> Iterator[str]:
    if isinstance(message, AssistantMessage):
        yield message.model.id if message.model is not None else ""
        if message.usage is not None:
            yield f"{thousands(message.usage.prompt)} in, {thousands(message.usage.output)} out"
        yield dollars(message.cost) if message.cost else ""
        yield "broken off" if message.finish in ("abort", "error") else ""


def _part(part: Part, handle: str, *, full: bool) -> Iterator[Text | _Indented]:
    content = content_of(part)
    match part:
        case TextPart(synthetic=False):
            if content.strip():
                yield from _block(content)
        case ToolCallPart():
            arguments = content if full else one_line(content)
            yield _Indented(Text(f"-> {legible(part.tool)} ", "blue").append(legible(arguments), "dim"))
        case ToolResultPart():
            failed = "" if part.status == "completed" else f", {part.status}"
            ended = "" if part.exit_status is None else f", exit {part.exit_status}"
            told = f"<- {legible(part.tool or 'tool')} [{handle}]{failed}{ended}"
            yield _Indented(Text(told, style="red" if failed else "blue"))
            yield from _folded(content, full=full)
        case ReasoningPart() | TextPart():
            if content.strip():
                yield _Indented(Text(f"({what_of(part)})", style="magenta"))
                yield from _folded(content, full=full)
        case _:
            if content:
                yield _Indented(Text(f"[{legible(what_of(part))}: {one_line(content)}]", style="magenta"))


def _folded(text: str, *, full: bool) -> Iterator[Text | _Indented]:
    """The first lines of a text, and how many more there are."""
    lines = text.rstrip().splitlines()
    if not lines:
        return
    shown = lines if full else [line[:200] for line in lines[:MOST_LINES]]
    yield from _block("\n".join(shown), style="" if full else "dim")
    if len(lines) > len(shown):
        yield _Indented(Text(f"({counted(len(lines) - len(shown), 'more line')}; --full shows all)", style="dim"))


def _block(text: str, *, style: str = "") -> Iterator[Text | _Indented]:
    """A text line by line, so that none is filled up to the length of another."""
    for line in legible(text.expandtabs().strip("\n")).split("\n"):
        yield _Indented(Text(line.rstrip(), style=style))


def _words(entry: Entry) -> str:  # noqa: PLR0911 - one return for each kind of entry
    """What an entry that is no message says."""
    match entry:
        case MessageEntry():
            return ""
        case Checkpoint():
            change = f", {thousands(entry.tokens_before)} -> {thousands(entry.tokens_after)} tokens"
            return f"checkpoint{change if entry.tokens_before else ''}, {WHY[entry.reason]}"
        case Pruning():
            return f"{counted(len(entry.targets), 'part')} pruned, {thousands(entry.freed_tokens)} tokens freed"
        case Clipping():
            return f"{counted(len(entry.clips), 'part')} clipped"
        case Restoration():
            return f"entry {entry.sequence} undone"
        case Pin():
            return f"part {entry.handle} {'pinned' if entry.pinned else 'released'}"
        case Rejection() if entry.bound_thinking:
            return "the provider refused thinking that is bound to another conversation"
        case Rejection():
            return f"the provider refused the request of some {thousands(entry.estimated_tokens)} tokens"
        case Amendment():
            return f"messages from {entry.first} on taken back"
        case Title():
            return f"{'message' if entry.message_id else 'session'} titled {entry.text}"
        case _:
            assert_never(entry)
