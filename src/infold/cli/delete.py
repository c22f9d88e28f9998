"""`infold delete`: remove whole sessions for good, the one action that cannot be undone."""

import sys
from time import time

import click

from infold.cli import options
from infold.cli.agent_options import can_ask
from infold.cli.render import print_json
from infold.cli.session_lookup import find_session, open_existing_store, store_options
from infold.errors import UsageError
from infold.ports import FullStore, SessionKey
from infold.reports.listing import Tallies, list_session, newest_sessions
from infold.reports.text import ago, one_line, printable

LONGEST_TITLE = 60


@click.command("delete")
@click.argument("sessions", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@store_options
@options.as_json
def delete(sessions: tuple[str, ...], store: str | None, tenant: str | None, *, is_sure: bool, as_json: bool) -> None:
    """Remove sessions ID for good: every message, checkpoint and title, and everything recall would find.

    This cannot be undone; infold export makes a copy. The sessions are shown and you are asked first. If one of the IDs
    names no session, nothing is removed. Snapshots that the agent took of your files are deleted after a month.

    \b
    Examples:
      infold delete 20260105
      infold delete 20260105-kite 20260106-boat --yes
    """
    with open_existing_store(store) as opened:
        keys = list(dict.fromkeys(find_session(opened, one, tenant) for one in sessions))
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
    if not can_ask(sys.stdin):
        names = ", ".join(printable(key.session_id) for key in keys)
        raise UsageError(f"cannot ask without a terminal; to delete {names} for good, add --yes")
    now_ms, tallies = int(time() * 1000), Tallies(store)
    stored = {one.key: one for one in newest_sessions(store)}
    for key in keys:
        title = one_line(list_session(tallies, stored[key]).title, LONGEST_TITLE)
        age = ago(stored[key].changed_ms, now_ms)
        click.echo(f"  {printable(key.session_id)}  {title}  ({age})", err=True)
    click.confirm(f"Delete {'it' if len(keys) == 1 else 'all of them'} for good?", abort=True, err=True)
