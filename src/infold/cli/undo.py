"""`infold undo`: undo the newest compaction of a session, or another entry that hides something."""

import click

from infold.cli import options
from infold.cli.render import print_json
from infold.cli.session_lookup import find_session, open_existing_store, session_argument, store_options
from infold.core.entries import Checkpoint
from infold.core.events import Event, Restored
from infold.core.log import Log
from infold.errors import UsageError
from infold.ports import SessionKey, Store
from infold.reports.stored_log import recorded_model
from infold.reports.text import printable, short_number
from infold.session.session import Session
from infold.session.settings import SessionSettings

WINDOW_TOKENS = 1_000_000
"""A window to open a session with; any will do, since undoing neither compacts nor sends anything."""


@click.command("undo")
@session_argument
@click.option(
    "--entry", type=click.IntRange(min=0), metavar="N", help="Undo this pruning, clipping or compaction instead."
)
@store_options
@options.as_json
def undo(session: str, entry: int | None, store: str | None, tenant: str | None, *, as_json: bool) -> None:
    """Undo the newest compaction of session ID: everything it folded is in the view again, word for word.

    Nothing is deleted: the log keeps the compaction and records that it was undone. --entry takes the number that infold show
    --all prints before a pruning or clipping. The next request may compact again, if the view is over its window.

    \b
    Examples:
      infold undo last
      infold undo 20260105 --entry 42
    """
    events: list[Event] = []
    with open_existing_store(store) as opened:
        key = find_session(opened, session, tenant)
        model = recorded_model(opened, key).id or None  # counts as the session did
        settings = SessionSettings(model=model, window=WINDOW_TOKENS, on_event=events.append)
        own = Session(opened, key.session_id, settings, tenant=key.tenant)
        _check_newest(opened, key, own.log, entry)
        own.undo(entry)
    restored = next(event for event in events if isinstance(event, Restored))
    if as_json:
        print_json({"session": key.session_id, "entry": restored.sequence, "tokens": restored.tokens_after})
        return
    view = f"its view is {short_number(restored.tokens_after)} tokens now"
    click.echo(f"undone: entry {restored.sequence} of {printable(key.session_id)}; {view}")


def _check_newest(store: Store, key: SessionKey, log: Log, wanted: int | None) -> None:
    """Raise `UsageError` for a compaction that is not the newest, since later ones build on it."""
    if wanted is None or wanted == log.checkpoint_sequence:
        return
    older = next((entry for number, entry in store.newest_first(key) if number == wanted), None)
    if isinstance(older, Checkpoint):
        newest = "and there is none now" if log.checkpoint is None else f"which is {log.checkpoint_sequence}"
        raise UsageError(f"entry {wanted} cannot be undone; only the newest compaction can, {newest}")
