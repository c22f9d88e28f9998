"""`infold sessions`: what there is to go on with, the last changed first."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from time import time

import click
from msgspec import Struct
from rich.table import Table

from infold.cli import options
from infold.cli.output_files import json_bytes
from infold.cli.render import console_for, counted, dollars, legible, one_line, thousands
from infold.cli.session_lookup import BEGIN, folder_of, is_there, naming, place_of, reading_store
from infold.dashboard.figures import ago
from infold.dashboard.listing import by_change
from infold.dashboard.tally import Tallies
from infold.engine.titles import title_of
from infold.errors import InfoldError
from infold.ports import FullStore, StoredSession
from infold.settings import format_value

PLAIN_WIDTH = 160
"""Columns where there is no terminal: room for long ids beside their titles."""


WIDE, FOLDER_CELLS = 100, 20
"""Columns of a terminal that has room for the folders of sessions beside their titles, and how many those may take."""


COLUMNS = ("messages", "tokens", "compactions", "cost")


class Listed(Struct, frozen=True):
    """One session in the list; `problem` says why it cannot be read, and then nothing is counted."""

    id: str
    tenant: str
    title: str
    changed_ms: int
    entries: int
    messages: int = 0
    tokens: int = 0
    compactions: int = 0
    cost: float = 0.0
    model: str = ""
    is_partial: bool = False
    problem: str = ""
    folder: str = ""
    costs_at_least: bool = False


@click.command("sessions", short_help="List the sessions there are.")
@click.option("--most", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many to show.")
@naming
@options.as_json
def sessions(most: int, store: str | None, tenant: str | None, *, as_json: bool) -> None:
    """List stored sessions, the last changed first: title, folder, age, messages, tokens of the view, compactions and cost.

    The id at the beginning of a line, or as much of it as no other has, names a session to infold show, diff, undo and export,
    and to infold run --session; `last` is the first of the current folder, else of the list. Tokens are what the next request
    would send.

    \b
    Examples:
      infold sessions
      infold sessions --store gateway.sqlite3 --json
    """
    listed, has_more = _found(most, store, tenant)
    if as_json:
        click.echo(json_bytes({"sessions": listed, "has_more": has_more}), nl=False)
    elif not listed:
        click.echo(f"there are no sessions yet; {BEGIN}", err=True)
    else:
        _show(listed, has_more=has_more, named=store)


def _found(most: int, named: str | None, tenant: str | None) -> tuple[list[Listed], bool]:
    """The sessions to show, and whether there are more; a store of one's own that was never begun has none."""
    place = place_of(None) if named is None else named
    if named is None and place != "memory" and not is_there(place):
        return [], False
    with reading_store(named) as store:
        tallies = Tallies(store)
        newest = list(islice(by_change(store, tenant), most + 1))
        return [_listed(store, tallies, one) for one in newest[:most]], len(newest) > most


def _listed(store: FullStore, tallies: Tallies, stored: StoredSession) -> Listed:
    key = stored.key
    try:
        tally = tallies.of(key)
        title = tally.title or title_of(store, key)
    except InfoldError as error:
        return Listed(key.session_id, key.tenant, "", stored.changed_ms, stored.entries, problem=str(error))
    return Listed(
        key.session_id,
        key.tenant,
        title,
        stored.changed_ms,
        stored.entries,
        tally.messages,
        tally.fill_tokens,
        len(tally.folds),
        round(tally.whole_cost, 6),
        tally.model,
        tally.is_partial,
        folder=folder_of(store, key),
        costs_at_least=tally.costs_at_least,
    )


def _show(listed: Sequence[Listed], *, has_more: bool, named: str | None) -> None:
    console = console_for(plain=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    now_ms = int(time() * 1000)
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("id", no_wrap=True, overflow="fold", style="cyan")
    table.add_column("title", no_wrap=True, overflow="ellipsis", ratio=1)
    has_folders = console.width >= WIDE and any(one.folder for one in listed)
    if has_folders:
        table.add_column("folder", no_wrap=True, overflow="ellipsis", max_width=FOLDER_CELLS)
    table.add_column("changed", no_wrap=True, min_width=10)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for one in listed:
        folder = (Path(one.folder).name,) if has_folders else ()
        table.add_row(*map(legible, (one.id, _title(one), *folder, ago(one.changed_ms, now_ms), *_figures(one))))
    console.print(table)
    more = "; more with --most" if has_more else ""
    go_on = f"infold run --session ID{f' --store {quote(format_value(named))}' if named else ''}"
    console.print(legible(f"{counted(len(listed), 'session')}{more}; go on with: {go_on}"), style="dim", soft_wrap=True)


def _title(one: Listed) -> str:
    return one_line(f"cannot be read: {one.problem}") if one.problem else one.title


def _figures(one: Listed) -> tuple[str, ...]:
    if one.problem:
        return ("",) * len(COLUMNS)
    least = "≥" if one.is_partial else ""
    cost = f"{'≥' if one.costs_at_least else ''}{dollars(one.cost)}" if one.cost else ""
    return (f"{least}{one.messages:,}", thousands(one.tokens), f"{least}{one.compactions}", cost)
