"""`infold export`: a stored session as a file that people or other programs read."""

import os
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from infold.cli import options
from infold.cli.output_files import in_shape, write_file
from infold.cli.session_lookup import chosen_key, naming, place_of, reading_store, session_argument
from infold.ports import SessionKey, Store
from infold.session.titles import title_of
from infold.transcripts.infold_log import entries_to_log, session_from_entries

SHAPES = ("markdown", "jsonl", "opencode")


class Asked(Struct, frozen=True):
    """The command line."""

    session: str
    to: str
    output: Path | None
    force: bool
    store: str | None
    tenant: str | None


@click.command("export", short_help="Write a session as markdown, as infold's log or for OpenCode.")
@session_argument
@click.option("--to", required=True, type=click.Choice(SHAPES), help="The shape to write.")
@click.option(
    "-o", "--out", "output", type=click.Path(path_type=Path), metavar="OUT", help="Write there, not to stdout."
)
@options.force
@naming
def export(**given: Any) -> None:
    """Write the whole of session ID: all that was said, also what is folded or pruned.

    markdown is for people. jsonl is infold's own log, every entry a line, which the other verbs read as a FILE. opencode is
    what `opencode import` takes: compactions are folds there too. Messages that were taken back are in the log alone.

    \b
    Examples:
      infold export last --to markdown -o session.md
      infold export last --to opencode -o session.json && opencode import session.json
    """
    asked = Asked(**given)
    with reading_store(asked.store) as store:
        content = _content(store, chosen_key(store, asked.session, asked.tenant), asked.to)
    if asked.output is None or str(asked.output) == "-":
        click.echo(content, nl=False)
        return
    write_file(asked.output, content, source=_source(asked.store), force=asked.force)
    click.echo(f"written to {asked.output}", err=True)


def _content(store: Store, key: SessionKey, shape: str) -> bytes:
    entries = [entry for _, entry in store.newest_first(key)][::-1]
    if shape == "jsonl":
        return entries_to_log(key.session_id, entries)
    session = session_from_entries(key.session_id, entries)
    return in_shape(shape, (replace(session, title=session.title or title_of(store, key)),))


def _source(named: str | None) -> Path:
    """The file that was read, which is never written over; a database is none."""
    path = Path(place_of(named).removeprefix("sqlite:")).expanduser()
    return path if path.is_file() else Path(os.devnull)
