"""`infold undo`: take back the newest compaction of a session, or what one entry hid."""

import click

from infold.cli import options
from infold.cli.output_files import json_bytes
from infold.cli.render import legible, thousands
from infold.cli.session_lookup import chosen_key, naming, reading_store, session_argument
from infold.core.entries import Checkpoint
from infold.core.events import Event, Restored
from infold.core.log import Log
from infold.errors import UsageError
from infold.ports import SessionKey, Store
from infold.session.session import Session
from infold.session.settings import SessionSettings

WINDOW_TOKENS = 1_000_000
"""A window to open a session with; undoing neither compacts nor sends anything, so any will do."""


@click.command("undo", short_help="Undo a session's newest compaction.")
@session_argument
@click.option(
    "--entry", type=click.IntRange(min=0), metavar="N", help="Undo this pruning, clipping or compaction instead."
)
@naming
@options.as_json
def undo(session: str, entry: int | None, store: str | None, tenant: str | None, *, as_json: bool) -> None:
    """Undo the newest compaction of session ID: everything it folded is in the view again, word for word.

    Nothing is deleted: the log keeps the compaction and notes that it was undone. --entry takes the number that infold show
    --all has before a pruning or clipping. The next request may compact again, if the view is over its window.

    \b
    Examples:
      infold undo last
      infold undo 20260105 --entry 42
    """
    told: list[Event] = []
    with reading_store(store) as opened:
        key = chosen_key(opened, session, tenant)
        settings = SessionSettings(window=WINDOW_TOKENS, on_event=told.append)
        kept = Session(opened, key.session_id, settings, tenant=key.tenant)
        _refuse_older(opened, key, kept.log, entry)
        kept.undo(entry)
    restored = next(event for event in told if isinstance(event, Restored))
    if as_json:
        page = {"session": key.session_id, "entry": restored.sequence, "tokens": restored.tokens_after}
        click.echo(json_bytes(page), nl=False)
        return
    view = f"its view is {thousands(restored.tokens_after)} tokens now"
    click.echo(f"undone: entry {restored.sequence} of {legible(key.session_id)}; {view}")


def _refuse_older(store: Store, key: SessionKey, log: Log, wanted: int | None) -> None:
    """Raises `UsageError` for a compaction that is not the newest: those after it were made of what it left."""
    if wanted is None or wanted == log.checkpoint_sequence:
        return
    older = next((entry for number, entry in store.newest_first(key) if number == wanted), None)
    if isinstance(older, Checkpoint):
        newest = "and there is none now" if log.checkpoint is None else f"which is {log.checkpoint_sequence}"
        raise UsageError(f"entry {wanted} is another; only the newest compaction can be undone, {newest}")
