"""`infold show`: print a session, as the model sees it or as it was recorded."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from infold.cli import options
from infold.cli.render import open_console, print_json, working
from infold.cli.session_lookup import find_session, open_existing_store, session_argument, store_options
from infold.core.entries import Amendment, Checkpoint, Entry, MessageEntry, encode_entry, handle_of
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
from infold.ports import FullStore, SessionKey
from infold.reports.log_rows import MessageState, message_state, role_of
from infold.reports.stored_log import count_tokens, load_log
from infold.reports.text import (
    describe_entry,
    describe_part,
    dollars,
    moment,
    one_line,
    part_text,
    plural,
    printable,
    short_number,
)
from infold.session.media import Medium
from infold.session.recall import recall_media
from infold.session.report import REASONS, describe_saving
from infold.session.titles import SESSION, title_of, titles_of

MOST_LINES = 3
"""Lines of a tool result, reasoning or injected text that are shown without --full."""

INDENT = 2
COLOURS = {"user": "yellow", "assistant": "cyan", "tool": "red", "system": "bright_black", "summary": "green"}


class ShownEntry(Struct, frozen=True):
    """One entry; `state` is set for messages."""

    number: int
    entry: Entry
    state: MessageState | None = None


class ShownSession(Struct, frozen=True):
    """A session to print: its entries in order, and the titles of its messages."""

    id: str
    title: str
    facts: str
    entries: Sequence[ShownEntry]
    titles: Mapping[MessageId, str]


class _Indented(Struct, frozen=True):
    """A text below a heading, indented also where it is wrapped."""

    text: Text


@click.command("show")
@session_argument
@click.option("--all", "whole", is_flag=True, help="The whole log, including what is folded, pruned or taken back.")
@click.option("--full", is_flag=True, help="Show tool results and reasoning in full.")
@click.option("--color", is_flag=True, help="Use colours also in a pipe, for less -R.")
@click.option("--media", metavar="HANDLE", help="Write the image, document or sound under this handle to --output.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The file for --media.")
@store_options
@options.as_json
def show(session: str, media: str | None, output: Path | None, **given: Any) -> None:
    """Print session ID as the next request has it: the newest checkpoint and all messages since, pruned results as stubs.

    --all prints the log instead, from the first message on, with a line where something was pruned, folded, undone or refused.
    The numbers in brackets are those that infold diff --message, infold undo --entry and recall use.

    \b
    Examples:
      infold show last
      infold show last --all --color | less -R
      infold show last --media 0.1 -o mockup.png
    """
    if (media is None) != (output is None):
        raise click.UsageError("--media HANDLE and --output FILE must be used together")
    with open_existing_store(given["store"]) as opened:
        key = find_session(opened, session, given["tenant"])
        if media is not None and output is not None:
            _write_medium(recall_media(opened, key, media)[0], output)
            return
        with working("reading"):
            shown = _read(opened, key, whole=given["whole"])
    if given["as_json"]:
        entries = [
            {"number": one.number, "state": one.state, **msgspec.json.decode(encode_entry(one.entry))}
            for one in shown.entries
        ]
        print_json({"session": shown.id, "title": shown.title, "entries": entries})
        return
    print_session(open_console(colour=given["color"]), shown, full=given["full"])


def _write_medium(medium: Medium, path: Path) -> None:
    try:
        path.write_bytes(medium.data)
    except OSError as error:
        raise click.FileError(str(path), error.strerror or "cannot be written") from error
    click.echo(f"{path}: {len(medium.data):,} bytes of {medium.media_type}", err=True)


# Reading.


def _read(store: FullStore, key: SessionKey, *, whole: bool) -> ShownSession:
    log = load_log(store, key)
    first = 0 if whole or not log.live else log.live[0].sequence
    entries = list(takewhile(lambda numbered: numbered[0] >= first, store.newest_first(key)))[::-1]
    titles = titles_of(entry for _, entry in entries)
    facts = f"{log.next_sequence:,} entries, {short_number(count_tokens(log, Overhead()))} tokens in view"
    shown = _whole(entries, log) if whole else _view(log)
    return ShownSession(key.session_id, titles.get(SESSION) or title_of(store, key), facts, tuple(shown), titles)


def _whole(entries: Sequence[tuple[int, Entry]], log: Log) -> Iterator[ShownEntry]:
    amendments = [(number, entry) for number, entry in entries if isinstance(entry, Amendment)]
    for number, entry in entries:
        is_message = isinstance(entry, MessageEntry)
        yield ShownEntry(number, entry, message_state(number, log, amendments) if is_message else None)


def _view(log: Log) -> Iterator[ShownEntry]:
    """Yield the newest checkpoint and the messages it did not fold, as the model sees them."""
    if log.checkpoint is not None:
        yield ShownEntry(log.checkpoint_sequence, log.checkpoint)
    for placed in log.live:
        yield ShownEntry(placed.sequence, MessageEntry(log.shown(placed)), message_state(placed.sequence, log, ()))


# Printing.


def print_session(console: Console, session: ShownSession, *, full: bool) -> None:
    """Print a session; without a terminal, lines are neither wrapped nor padded."""
    if session.title:
        _print(console, Text(printable(session.title), style="bold"))
    _print(console, Text(f"session {printable(session.id)}, {session.facts}", style="dim"))
    for one in session.entries:
        console.print()
        for line in _lines(one, session.titles, full=full, plain=not console.is_terminal):
            _print(console, line)


def _print(console: Console, line: Text | _Indented) -> None:
    match line:
        case _Indented() if console.is_terminal:
            console.print(Padding(line.text, (0, 0, 0, INDENT), expand=False))
        case _Indented():
            _print(console, Text(" " * INDENT if line.text else "").append_text(line.text))
        case _:
            console.print(line, soft_wrap=not console.is_terminal)


def _lines(one: ShownEntry, titles: Mapping[MessageId, str], *, full: bool, plain: bool) -> Iterator[Text | _Indented]:
    words = describe_entry(one.entry).replace("→", "->")
    match one.entry:
        case MessageEntry(message=message):
            yield _heading(one, message, titles.get(message.id, ""))
            for position, part in enumerate(message.parts):
                yield from _part(part, handle_of(one.number, position), full=full)
        case Checkpoint() as checkpoint:
            rule = "-" * 4 if plain else "─" * 4
            change = f", {words}" if checkpoint.tokens_before else ""
            why = f"{REASONS[checkpoint.reason]}{describe_saving(checkpoint)}"
            text = f"{rule} [{one.number}] checkpoint{change}, because {why} {rule}"
            yield Text(text, style="bold green")
            yield from _block(checkpoint.text)
            if checkpoint.steps:
                numbers = ", ".join(str(step.sequence) for step in checkpoint.steps)
                yield Text(f"· {len(checkpoint.steps):,} earlier steps stay in their own form: {numbers}", style="dim")
            for sentence in checkpoint.verdict.removed if checkpoint.verdict else ():
                yield Text(f"· removed from the summary: {printable(sentence)}", style="dim")
        case _:
            yield Text(f"· [{one.number}] {printable(words)}", style="dim")


def _heading(one: ShownEntry, message: Message, title: str) -> Text:
    role = role_of(message)
    text = Text(f"[{one.number}] ", style="dim").append(role, style=f"bold {COLOURS.get(role, 'white')}")
    state = "" if one.state in (None, "in view") else one.state
    facts = (title, moment(message.created_ms), *_reply_facts(message), state)
    return text.append("".join(f"  {printable(fact)}" for fact in facts if fact), style="dim")


def _reply_facts(message: Message) -> Iterator[str]:
    if isinstance(message, AssistantMessage):
        yield message.model.id if message.model is not None else ""
        if message.usage is not None:
            yield f"{short_number(message.usage.prompt)} in, {short_number(message.usage.output)} out"
        yield dollars(message.cost) if message.cost else ""
        yield "interrupted" if message.finish in ("abort", "error") else ""


def _part(part: Part, handle: str, *, full: bool) -> Iterator[Text | _Indented]:
    content = part_text(part)
    match part:
        case TextPart(synthetic=False):
            if content.strip():
                yield from _block(content)
        case ToolCallPart():
            arguments = content if full else one_line(content)
            yield _Indented(Text(f"-> {printable(part.tool)} ", "blue").append(printable(arguments), "dim"))
        case ToolResultPart():
            failed = "" if part.status == "completed" else f", {part.status}"
            ended = "" if part.exit_status is None else f", exit {part.exit_status}"
            heading = f"<- {printable(part.tool or 'tool')} [{handle}]{failed}{ended}"
            yield _Indented(Text(heading, style="red" if failed else "blue"))
            yield from _shortened(content, full=full)
        case ReasoningPart() | TextPart():
            if content.strip():
                yield _Indented(Text(f"({describe_part(part)})", style="magenta"))
                yield from _shortened(content, full=full)
        case _:
            if content:
                text = f"[{printable(describe_part(part))}: {one_line(content)}]"
                yield _Indented(Text(text, style="magenta"))


def _shortened(text: str, *, full: bool) -> Iterator[Text | _Indented]:
    """Yield the first lines of a text, and how many more there are."""
    lines = text.rstrip().splitlines()
    if not lines:
        return
    shown = lines if full else [line[:200] for line in lines[:MOST_LINES]]
    yield from _block("\n".join(shown), style="" if full else "dim")
    if len(lines) > len(shown):
        yield _Indented(Text(f"({plural(len(lines) - len(shown), 'more line')}; --full shows all)", style="dim"))


def _block(text: str, *, style: str = "") -> Iterator[Text | _Indented]:
    """Yield a text line by line, so that none is padded to the length of another."""
    for line in printable(text.expandtabs().strip("\n")).split("\n"):
        yield _Indented(Text(line.rstrip(), style=style))
