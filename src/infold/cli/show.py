"""`infold show`: read a session, as the model sees it or as it really was."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, assert_never

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from infold.cli import options
from infold.cli.output_files import json_bytes
from infold.cli.render import (
    WHY,
    console_for,
    content_of,
    counted,
    dollars,
    legible,
    moment,
    one_line,
    thousands,
    what_of,
)
from infold.cli.session_lookup import chosen_key, naming, reading_store, session_argument
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
    encode_entry,
    handle_of,
)
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Overhead,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.engine.media import Medium
from infold.engine.recalling import recall_media
from infold.engine.titles import SESSION, title_of, titles_of
from infold.ports import FullStore, SessionKey
from infold.reports.log_rows import MessageState, message_state, role_of
from infold.reports.stored_log import count_tokens, load_log

MOST_LINES = 3
"""Lines of a tool result, a thought or a text of a program that are shown where it is folded."""


INDENT = 2


COLOURS = {"user": "yellow", "assistant": "cyan", "tool": "red", "system": "bright_black", "summary": "green"}


class Line(Struct, frozen=True):
    """One entry of the page; `state` is what has become of a message."""

    number: int
    entry: Entry
    state: MessageState | None = None


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


NO_OVERHEAD = Overhead()


class Asked(Struct, frozen=True):
    """The command line."""

    session: str
    whole: bool
    full: bool
    color: bool
    media: str | None
    output: Path | None
    store: str | None
    tenant: str | None
    as_json: bool


@click.command("show", short_help="Read a session.")
@session_argument
@click.option("--all", "whole", is_flag=True, help="The whole log, also what is folded, pruned or taken back.")
@click.option("--full", is_flag=True, help="Show tool results and thoughts to their last line.")
@click.option("--color", is_flag=True, help="Colours also where the page goes into a pipe, as less -R shows them.")
@click.option("--media", metavar="HANDLE", help="Write the image, document or sound under this handle to --output.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The file for --media.")
@naming
@options.as_json
def show(**given: Any) -> None:
    """Read session ID as the next request has it: the newest checkpoint and all that was said since, pruned results as stubs.

    --all reads the log instead, from the first message on, with a mark where something was pruned, folded, undone or refused.
    The numbers in brackets are what infold diff --message, infold undo --entry and recall go by.

    \b
    Examples:
      infold show last
      infold show last --all --color | less -R
      infold show last --media 0.1 -o mockup.png
    """
    asked = Asked(**given)
    if (asked.media is None) != (asked.output is None):
        raise click.UsageError("--media HANDLE and --output FILE go together")
    with reading_store(asked.store) as store:
        key = chosen_key(store, asked.session, asked.tenant)
        if asked.media is not None and asked.output is not None:
            _write(recall_media(store, key, asked.media)[0], asked.output)
            return
        page = _page(store, key, whole=asked.whole)
    if asked.as_json:
        entries = [{"number": line.number, "state": line.state, **_plain(line.entry)} for line in page.lines]
        click.echo(json_bytes({"session": page.id, "title": page.title, "entries": entries}), nl=False)
    else:
        show_page(_coloured() if asked.color else console_for(plain=False), page, full=asked.full)


def _write(medium: Medium, path: Path) -> None:
    try:
        path.write_bytes(medium.data)
    except OSError as error:
        raise click.FileError(str(path), error.strerror or "cannot be written") from error
    click.echo(f"{path}: {len(medium.data):,} bytes of {medium.media_type}", err=True)


def _coloured() -> Console:
    """The console of this process with colours, whatever it leads to."""
    width = console_for(plain=False).width
    return Console(highlight=False, markup=False, emoji=False, color_system="standard", no_color=False, width=width)


def _page(store: FullStore, key: SessionKey, *, whole: bool) -> Page:
    log = load_log(store, key)
    first = 0 if whole or not log.live else log.live[0].sequence
    entries = list(takewhile(lambda numbered: numbered[0] >= first, store.newest_first(key)))[::-1]
    titles = titles_of(entry for _, entry in entries)
    facts = f"{log.next_sequence:,} entries, {thousands(count_tokens(log, NO_OVERHEAD))} tokens in view"
    lines = _whole(entries, log) if whole else _view(log)
    return Page(key.session_id, titles.get(SESSION) or title_of(store, key), facts, tuple(lines), titles)


def _whole(entries: Sequence[tuple[int, Entry]], log: Log) -> Iterator[Line]:
    amendments = [(number, entry) for number, entry in entries if isinstance(entry, Amendment)]
    for number, entry in entries:
        is_message = isinstance(entry, MessageEntry)
        yield Line(number, entry, message_state(number, log, amendments) if is_message else None)


def _view(log: Log) -> Iterator[Line]:
    """The newest checkpoint, then the messages it did not fold, as they are shown."""
    if log.checkpoint is not None:
        yield Line(log.checkpoint_sequence, log.checkpoint)
    for placed in log.live:
        yield Line(placed.sequence, MessageEntry(log.shown(placed)), message_state(placed.sequence, log, ()))


def _plain(entry: Entry) -> dict[str, Any]:
    """An entry as its stored form has it."""
    found: dict[str, Any] = msgspec.json.decode(encode_entry(entry))
    return found
