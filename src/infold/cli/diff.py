"""`infold diff`: what a session, or one of its turns, changed on disk."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from infold.agent.snapshots import DiffTotals, FileDiff, Snapshots, SnapshotSpan, session_span, sum_diffs, turn_spans
from infold.agent.trust import default_snapshot_folder
from infold.cli import options
from infold.cli.output_files import json_bytes
from infold.cli.render import console_for, counted, legible, one_line
from infold.cli.session_lookup import LAST, chosen_key, naming, reading_store, session_argument, tell_where
from infold.core.entries import MessageEntry
from infold.core.messages import Message
from infold.errors import UsageError
from infold.ports import SessionKey, Store

MOST_CHOICES = 8


BAR_CELLS = 40


STYLES = (("+++", "bold"), ("---", "bold"), ("diff ", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
"""How the lines of a patch are coloured, by how they begin; the first that fits."""


BINARY = "GIT binary patch"


NOTHING = "nothing to compare: no step of it has a snapshot (they need git, and agent.snapshots must be on)"


class Asked(Struct, frozen=True):
    """The command line."""

    session: str
    message: int | None
    stat: bool
    store: str | None
    tenant: str | None
    as_json: bool


class Compared(Struct, frozen=True):
    """Two snapshots beside each other."""

    session: str
    span: SnapshotSpan
    files: tuple[FileDiff, ...]
    totals: DiffTotals
    patch: bytes


@click.command("diff", short_help="Show what a session changed on disk.")
@session_argument
@click.option("--message", type=click.IntRange(min=0), metavar="N", help="Only the turn that this user message began.")
@click.option("--stat", is_flag=True, help="Files and numbers of lines instead of the lines.")
@naming
@options.as_json
def diff(**given: Any) -> None:
    """Show what session ID changed in its project, from its first step to its last, as a unified diff.

    What was changed by hand between two steps is in it too. --message takes the number that infold show has before a user
    message. Into a pipe goes the bare patch, such as git apply takes; --json has each file's contents before and after.

    \b
    Examples:
      infold diff last
      infold diff last --stat
      infold diff last --message 12 | git apply --reverse
    """
    asked = Asked(**given)
    with reading_store(asked.store) as store:
        key = chosen_key(store, asked.session, asked.tenant)
        if asked.session != LAST:
            tell_where(store, key, Path.cwd())
        compared = _compared(store, key, asked)
    if asked.as_json:
        click.echo(json_bytes(_page(compared, asked)), nl=False)
        return
    if not compared.span.before:
        click.echo(NOTHING, err=True)
        return
    console = console_for(plain=False)
    if asked.stat:
        _show_stat(console, compared.files)
    elif console.is_terminal:
        _show_patch(console, compared.patch)
    else:
        click.echo(compared.patch, nl=False)
    click.echo(_in_words(compared.totals), err=not asked.stat)


def _compared(store: Store, key: SessionKey, asked: Asked) -> Compared:
    numbered = [(at, entry.message) for at, entry in store.newest_first(key) if isinstance(entry, MessageEntry)][::-1]
    messages = [message for _, message in numbered]
    span = session_span(messages) if asked.message is None else _turn(numbered, asked.message)
    snapshots = Snapshots(Path(span.root or Path.cwd()), default_snapshot_folder(os.environ))
    files = snapshots.diff(span.before, span.after)
    patch = b"" if asked.stat or asked.as_json else snapshots.patch(span.before, span.after)
    return Compared(key.session_id, span, files, sum_diffs(files), patch)


def _turn(numbered: Sequence[tuple[int, Message]], wanted: int) -> SnapshotSpan:
    spans = turn_spans(numbered)
    found = next((span for span in spans if span.sequence == wanted), None)
    if found is not None:
        return found
    choices = ", ".join(str(span.sequence) for span in spans[-MOST_CHOICES:])
    remedy = f"the newest that are: {choices}" if choices else "there is none in this session"
    raise UsageError(f"entry {wanted} is no message that a person wrote; {remedy}")


def _page(compared: Compared, asked: Asked) -> dict[str, object]:
    counts = [{"file": one.file, "additions": one.additions, "deletions": one.deletions} for one in compared.files]
    return {
        "session": compared.session,
        "message": asked.message,
        "before": compared.span.before,
        "after": compared.span.after,
        "files": counts if asked.stat else compared.files,
        "totals": compared.totals,
    }


# Showing.


def _show_patch(console: Console, patch: bytes) -> None:
    """Print a patch in colours; what is no text is only named."""
    is_binary = False
    for line in patch.decode("utf-8", "replace").split("\n")[:-1]:
        is_binary = line == BINARY or (is_binary and not line.startswith("diff "))
        if is_binary and line != BINARY:
            continue
        style = next((style for beginning, style in STYLES if line.startswith(beginning)), "")
        console.print(Text(legible(line.expandtabs()), style=style), soft_wrap=True)


def _show_stat(console: Console, files: Sequence[FileDiff]) -> None:
    most = max((one.additions + one.deletions for one in files), default=1) or 1
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(overflow="fold")
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for one in files:
        cells = min(1.0, BAR_CELLS / most)
        bar = Text("+" * round(one.additions * cells), "green").append("-" * round(one.deletions * cells), "red")
        table.add_row(one_line(one.file), f"+{one.additions}", f"-{one.deletions}", bar)
    if files:
        console.print(table)


def _in_words(totals: DiffTotals) -> str:
    lines = f"{counted(totals.additions, 'line')} added, {counted(totals.deletions, 'line')} deleted"
    return f"{counted(totals.files, 'file')} changed, {lines}"
