"""`infold show`: read a session, as the model sees it or as it really was."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct
from rich.console import Console

from infold.cli import options
from infold.cli.render import console_for, thousands
from infold.cli.show_page import Line, Page, show_page
from infold.cli.stored import chosen_key, naming, reading_store, session_argument
from infold.cli.writing import json_bytes
from infold.core.entries import Amendment, Entry, MessageEntry, encode_entry
from infold.core.log import Log
from infold.core.messages import Overhead
from infold.dashboard.reading import fill_tokens, log_before
from infold.dashboard.rows import state_of
from infold.engine.media import Medium
from infold.engine.recalling import recall_media
from infold.engine.titles import SESSION, title_of, titles_of
from infold.ports import FullStore, SessionKey

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
    log = log_before(store, key)
    first = 0 if whole or not log.live else log.live[0].sequence
    entries = list(takewhile(lambda numbered: numbered[0] >= first, store.newest_first(key)))[::-1]
    titles = titles_of(entry for _, entry in entries)
    facts = f"{log.next_sequence:,} entries, {thousands(fill_tokens(log, NO_OVERHEAD))} tokens in view"
    lines = _whole(entries, log) if whole else _view(log)
    return Page(key.session_id, titles.get(SESSION) or title_of(store, key), facts, tuple(lines), titles)


def _whole(entries: Sequence[tuple[int, Entry]], log: Log) -> Iterator[Line]:
    amendments = [(number, entry) for number, entry in entries if isinstance(entry, Amendment)]
    for number, entry in entries:
        is_message = isinstance(entry, MessageEntry)
        yield Line(number, entry, state_of(number, log, amendments) if is_message else None)


def _view(log: Log) -> Iterator[Line]:
    """The newest checkpoint, then the messages it did not fold, as they are shown."""
    if log.checkpoint is not None:
        yield Line(log.checkpoint_sequence, log.checkpoint)
    for placed in log.live:
        yield Line(placed.sequence, MessageEntry(log.shown(placed)), state_of(placed.sequence, log, ()))


def _plain(entry: Entry) -> dict[str, Any]:
    """An entry as its stored form has it."""
    found: dict[str, Any] = msgspec.json.decode(encode_entry(entry))
    return found
