"""`infold sessions` lists the stored sessions; `infold delete` removes some for good, which cannot be undone."""

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from time import time

import click
from msgspec import Struct

from infold.cli import options
from infold.cli.render import keep_numbers, make_table, open_console, print_json, working
from infold.cli.session_lookup import (
    START_HINT,
    complete_session,
    find_session,
    open_existing_store,
    session_folder,
    store_exists,
    store_location,
    store_options,
)
from infold.errors import UsageError
from infold.ports import FullStore, SessionKey
from infold.reports.listing import ListedSession, Tallies, list_session, newest_sessions
from infold.reports.text import ago, dollars, one_line, plural, printable, short_number
from infold.settings import format_value

PLAIN_WIDTH = 160
"""Columns if there is no terminal: room for long ids and titles."""

WIDE, MEDIUM, FOLDER_CELLS = 100, 76, 20
"""Columns of a terminal that has room for folders and all numbers, and for ages; and the width of a folder."""

SHORTEST_TITLE = 8

LONGEST_TITLE = 60
"""Characters of a title in the question before a deletion."""

NUMBERS = ("messages", "tokens", "compactions", "cost")
MAIN_NUMBERS = ("messages", "tokens", "cost")
"""Those that a narrow terminal shows; the messages are left out below `MEDIUM` too."""


class SessionLine(Struct, frozen=True):
    """One session of the list, as `--json` writes it."""

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


@click.command("sessions")
@click.option("--most", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many to show.")
@store_options
@options.as_json
def sessions(most: int, store: str | None, tenant: str | None, *, as_json: bool) -> None:
    """List stored sessions, the last changed first: title, folder, age, messages, tokens of the view, compactions and cost.

    The id at the beginning of a line, or any unique beginning of it, names a session to infold show, diff, undo and export,
    and to infold run --session; `last` is the first of the current folder, else of the list. Tokens are the size of the next
    request.

    \b
    Examples:
      infold sessions
      infold sessions --store gateway.sqlite3 --json
    """
    place = store_location(store)
    lines, has_more = [], False
    if store is not None or place == "memory" or store_exists(place):
        with open_existing_store(store) as opened, working("counting"):
            tallies = Tallies(opened)
            newest = list(islice(newest_sessions(opened, tenant), most + 1))
            lines = [_line(opened, list_session(tallies, one)) for one in newest[:most]]
            has_more = len(newest) > most
    if as_json:
        print_json({"sessions": lines, "has_more": has_more})
    elif not lines:
        click.echo(f"there are no sessions yet; {START_HINT}", err=True)
    else:
        _show(lines, has_more=has_more, named=store)


def _line(store: FullStore, listed: ListedSession) -> SessionLine:
    stored, tally = listed.stored, listed.tally
    return SessionLine(
        stored.key.session_id,
        stored.key.tenant,
        listed.title,
        stored.changed_ms,
        stored.entries,
        tally.messages,
        tally.view_tokens,
        len(tally.folds),
        round(tally.total_cost, 6),
        tally.model,
        tally.is_partial,
        listed.problem,
        "" if listed.problem else session_folder(store, stored.key),
        tally.costs_at_least,
    )


def _show(lines: Sequence[SessionLine], *, has_more: bool, named: str | None) -> None:
    console = open_console(plain_width=PLAIN_WIDTH)
    now_ms = int(time() * 1000)
    table = make_table(header_style="bold", expand=console.is_terminal)
    longest = max(len(one.id) for one in lines)
    table.add_column("id", no_wrap=True, overflow="fold", style="cyan", min_width=min(longest, console.width // 3))
    table.add_column("title", no_wrap=True, overflow="ellipsis", ratio=1, min_width=SHORTEST_TITLE)
    has_folders = console.width >= WIDE and any(one.folder for one in lines)
    if has_folders:
        table.add_column("folder", no_wrap=True, overflow="ellipsis", max_width=FOLDER_CELLS)
    has_changed = console.width >= MEDIUM
    if has_changed:
        table.add_column("changed", no_wrap=True, min_width=10)
    numbers = NUMBERS if console.width >= WIDE else MAIN_NUMBERS if has_changed else MAIN_NUMBERS[1:]
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for one in lines:
        title = one_line(f"cannot be read: {one.problem}") if one.problem else one.title
        folder = (Path(one.folder).name,) if has_folders else ()
        changed = (ago(one.changed_ms, now_ms),) if has_changed else ()
        cells = [_numbers(one)[name] for name in numbers]
        table.add_row(*map(printable, (one.id, title, *folder, *changed, *cells)))
    console.print(keep_numbers(table))
    more = "; more with --most" if has_more else ""
    command = f"infold run --session ID{f' --store {quote(format_value(named))}' if named else ''}"
    console.print(
        printable(f"{plural(len(lines), 'session')}{more}; continue with: {command}"), style="dim", soft_wrap=True
    )


def _numbers(one: SessionLine) -> dict[str, str]:
    if one.problem:
        return dict.fromkeys(NUMBERS, "")
    least = "≥" if one.is_partial else ""
    cost = f"{'≥' if one.costs_at_least else ''}{dollars(one.cost)}" if one.cost else ""
    shown = (f"{least}{one.messages:,}", short_number(one.tokens), f"{least}{one.compactions}", cost)
    return dict(zip(NUMBERS, shown, strict=True))


# Deleting.


@click.command("delete")
@click.argument("sessions", metavar="ID...", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@store_options
@options.as_json
def delete(sessions: tuple[str, ...], store: str | None, tenant: str | None, *, is_sure: bool, as_json: bool) -> None:
    """Remove sessions ID for good: every message, checkpoint and title, and everything recall would find.

    This cannot be undone; infold export makes a copy. The sessions are shown and you are asked first. If one of the IDs
    names no session, nothing is removed; `last` is one of the current folder only. Snapshots that the agent took of your
    files are deleted after a month.

    \b
    Examples:
      infold delete 20260105
      infold delete 20260105-kite 20260106-boat --yes
    """
    with open_existing_store(store) as opened:
        keys = list(dict.fromkeys(find_session(opened, one, tenant, is_final=True) for one in sessions))
        if not is_sure:
            _confirm(opened, keys)
        for key in keys:
            opened.delete(key)
    if as_json:
        print_json({"deleted": [key.session_id for key in keys]})
        return
    for key in keys:
        click.echo(f"deleted: {printable(key.session_id)}")


def _confirm(store: FullStore, keys: list[SessionKey]) -> None:
    """Show the sessions and ask; raise `UsageError` without a terminal to ask on."""
    if not options.can_ask(sys.stdin):
        names = ", ".join(printable(key.session_id) for key in keys)
        raise UsageError(f"cannot ask without a terminal; to delete {names} for good, add --yes")
    now_ms, tallies = int(time() * 1000), Tallies(store)
    stored = {one.key: one for one in newest_sessions(store)}
    for key in keys:
        title = one_line(list_session(tallies, stored[key]).title, LONGEST_TITLE)
        age = ago(stored[key].changed_ms, now_ms)
        click.echo(f"  {printable(key.session_id)}  {title}  ({age})", err=True)
    click.confirm(f"Delete {'it' if len(keys) == 1 else 'all of them'} for good?", abort=True, err=True)
