"""`infold delete`: remove whole sessions for good, the one thing that infold cannot take back (B27)."""

import sys
from time import time

import click

from infold.cli import options
from infold.cli.output_files import json_bytes
from infold.cli.permission_prompt import can_ask
from infold.cli.render import legible, one_line
from infold.cli.session_lookup import chosen_key, naming, reading_store
from infold.engine.titles import title_of
from infold.errors import InfoldError, UsageError
from infold.ports import FullStore, SessionKey
from infold.reports.listing import Tallies, newest_sessions
from infold.reports.text import ago

LONGEST_TITLE = 60


@click.command("delete", short_help="Remove sessions for good.")
@click.argument("sessions", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@naming
@options.as_json
def delete(sessions: tuple[str, ...], store: str | None, tenant: str | None, *, is_sure: bool, as_json: bool) -> None:
    """Remove sessions ID for good: every message, checkpoint and title, and what recall would find.

    This is the one act that cannot be undone; infold export keeps a copy. You are shown the sessions and asked first. Where one
    of the IDs names no session, nothing is removed. Snapshots that the agent took of your files go by themselves after a month.

    \b
    Examples:
      infold delete 20260105
      infold delete 20260105-kite 20260106-boat --yes
    """
    with reading_store(store) as opened:
        keys = list(dict.fromkeys(chosen_key(opened, one, tenant) for one in sessions))
        if not is_sure:
            _ask(opened, keys)
        for key in keys:
            opened.delete(key)
    if as_json:
        click.echo(json_bytes({"deleted": [key.session_id for key in keys]}), nl=False)
        return
    for key in keys:
        click.echo(f"deleted: {legible(key.session_id)}")


def _ask(store: FullStore, keys: list[SessionKey]) -> None:
    """Show what would go, and end here unless a person says yes; raises `UsageError` where there is nobody to ask."""
    if not can_ask(sys.stdin):
        raise UsageError(f"nobody is there to be asked; to delete {_named(keys)} for good, add --yes")
    changed_ms = {one.key: one.changed_ms for one in newest_sessions(store)}
    for key in keys:
        age = ago(changed_ms.get(key), int(time() * 1000))
        click.echo(f"  {legible(key.session_id)}  {_title(store, key)}  ({age})", err=True)
    click.confirm(f"Delete {'it' if len(keys) == 1 else 'all of them'} for good?", abort=True, err=True)


def _named(keys: list[SessionKey]) -> str:
    return ", ".join(legible(key.session_id) for key in keys)


def _title(store: FullStore, key: SessionKey) -> str:
    try:
        return one_line(Tallies(store).get(key).title or title_of(store, key), LONGEST_TITLE)
    except InfoldError:
        return ""
