"""`infold diff`: show what a session, or one of its turns, changed on disk."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from infold.agent.snapshots import Snapshots, find_span, sum_diffs
from infold.agent.trust import default_snapshot_folder
from infold.cli import options
from infold.cli.render import make_table, open_console, print_json, working
from infold.cli.session_lookup import (
    LAST,
    find_session,
    note_other_folder,
    open_existing_store,
    session_argument,
    store_options,
)
from infold.ports import FileDiff
from infold.reports.text import one_line, plural, printable

BAR_CELLS = 40

STYLES = (("+++", "bold"), ("---", "bold"), ("diff ", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
"""The styles of a patch's lines by their beginning; the first match counts."""

BINARY = "GIT binary patch"
NOTHING = "nothing to compare: no step has a snapshot (they need git, and agent.snapshots must be on)"


@click.command("diff")
@session_argument
@click.option("--message", type=click.IntRange(min=0), metavar="N", help="Only the turn that this user message began.")
@click.option("--stat", is_flag=True, help="Show files and numbers of lines instead of the lines.")
@store_options
@options.as_json
def diff(
    *, session: str, message: int | None, stat: bool, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Show what session ID changed in its project, from its first step to its last, as a unified diff.

    It includes manual changes between two steps. --message takes the number that infold show prints before a user message.
    In a pipe the output is the bare patch, for git apply; --json has each file's contents before and after.

    \b
    Examples:
      infold diff last
      infold diff last --stat
      infold diff last --message 12 | git apply --reverse
    """
    with open_existing_store(store) as opened:
        key = find_session(opened, session, tenant)
        if session != LAST:
            note_other_folder(opened, key, Path.cwd())
        span = find_span(opened, key, message)
    snapshots = Snapshots(Path(span.root or Path.cwd()), default_snapshot_folder(os.environ))
    with working("comparing"):
        files = snapshots.diff(span.before, span.after)
    totals = sum_diffs(files)
    if as_json:
        counts = [{"file": one.file, "additions": one.additions, "deletions": one.deletions} for one in files]
        compared = {"before": span.before, "after": span.after, "files": counts if stat else files, "totals": totals}
        print_json({"session": key.session_id, "message": message, **compared})
        return
    if not span.before:
        click.echo(NOTHING, err=True)
        return
    console = open_console()
    patch = b"" if stat else snapshots.patch(span.before, span.after)
    if stat:
        _print_stat(console, files)
    elif console.is_terminal:
        _print_patch(console, patch)
    else:
        click.echo(patch, nl=False)
    lines = f"{plural(totals.additions, 'line')} added, {plural(totals.deletions, 'line')} deleted"
    click.echo(f"{plural(totals.files, 'file')} changed, {lines}", err=not stat)


def _print_patch(console: Console, patch: bytes) -> None:
    """Print a patch in colours; of a binary file only its name."""
    is_binary = False
    for line in patch.decode("utf-8", "replace").split("\n")[:-1]:
        is_binary = line == BINARY or (is_binary and not line.startswith("diff "))
        if is_binary and line != BINARY:
            continue
        style = next((style for beginning, style in STYLES if line.startswith(beginning)), "")
        console.print(Text(printable(line.expandtabs()), style=style), soft_wrap=True)


def _print_stat(console: Console, files: Sequence[FileDiff]) -> None:
    most = max((one.additions + one.deletions for one in files), default=1) or 1
    table = make_table(show_header=False)
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
