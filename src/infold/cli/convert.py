"""Write a session in another format: `infold convert` from a file, `infold export` from a store."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click
from msgspec.structs import replace

from infold.agent.snapshots import Snapshots, turn_spans
from infold.agent.trust import default_snapshot_folder
from infold.cli import options
from infold.cli.files import OUTPUT_FORMATS, choose_session, encode_sessions, input_options, read_input, write_output
from infold.cli.render import to_json, working
from infold.cli.session_lookup import find_session, open_existing_store, session_argument, store_location, store_options
from infold.core.entries import MessageEntry
from infold.core.messages import Message, MessageId
from infold.errors import UsageError
from infold.ports import FileDiff, SessionKey, Store
from infold.session.titles import title_of
from infold.settings.schema import store_path
from infold.transcripts.infold_log import entries_to_log, session_from_entries
from infold.transcripts.write_opencode import to_opencode

EXPORT_FORMATS = ("markdown", "jsonl", "opencode")


@click.command("convert")
@click.argument("file", type=options.EXISTING)
@click.option("--to", required=True, type=click.Choice(OUTPUT_FORMATS), help="The format to write.")
@options.output
@input_options
@options.force
def convert(*, file: Path, to: str, output: Path | None, format: str | None, session: str | None, force: bool) -> None:  # noqa: A002 - the name of the option
    """Write a session as a request for OpenAI's chat API or Anthropic's, as markdown, for OpenCode, or as infold's own log.

    A request is valid for its provider: each call is followed by its result, and reasoning that only another provider may
    see is left out. opencode is what `opencode import` reads. jsonl is infold's log, one entry per line: nothing is lost, and
    every verb reads it. It holds all sessions of FILE unless --session names one; the other formats hold one.

    \b
    Example:
      infold convert session.jsonl --to markdown -o session.md
    """
    found = read_input(file, format)
    sessions = found.sessions
    if to != "jsonl" or session is not None:
        sessions = (choose_session(found, session),)
    with working(f"writing {to}"):
        content = encode_sessions(to, sessions)
    write_output(content, output, source=file, force=force)


@click.command("export")
@session_argument
@click.option("--to", required=True, type=click.Choice(EXPORT_FORMATS), help="The format to write.")
@click.option(
    "-o", "--out", "output", type=click.Path(path_type=Path), metavar="OUT", help="Write there, not to stdout."
)
@options.force
@store_options
def export(*, session: str, to: str, output: Path | None, force: bool, store: str | None, tenant: str | None) -> None:
    """Write the whole of session ID, including what is folded or pruned.

    markdown is for people. jsonl is infold's own log, one entry per line, which the other verbs read as a FILE. opencode is
    what `opencode import` reads: compactions are folds there too, and user messages have the files that their turns changed.
    Messages that were taken back are in the log only.

    \b
    Examples:
      infold export last --to markdown -o session.md
      infold export last --to opencode -o session.json && opencode import session.json
    """
    with open_existing_store(store) as opened, working(f"writing {to}"):
        content = _encode(opened, find_session(opened, session, tenant), to)
    path = store_path(store_location(store))
    source = path if path.is_file() else Path(os.devnull)  # a database server is not a file to protect
    write_output(content, output, source=source, force=force)


def _encode(store: Store, key: SessionKey, to: str) -> bytes:
    numbered = [*store.newest_first(key)][::-1]
    entries = [entry for _, entry in numbered]
    if to == "jsonl":
        return entries_to_log(key.session_id, entries)
    session = session_from_entries(key.session_id, entries)
    session = replace(session, title=session.title or title_of(store, key))
    if to == "opencode":
        messages = {number: entry.message for number, entry in numbered if isinstance(entry, MessageEntry)}
        return to_json(to_opencode(session, _diffs_by_message(messages)))
    return encode_sessions(to, (session,))


def _diffs_by_message(messages: Mapping[int, Message]) -> dict[MessageId, tuple[FileDiff, ...]]:
    """Return the files that each turn changed, by the message that began it; without turns whose snapshots are gone."""
    folder, found = default_snapshot_folder(os.environ), dict[MessageId, tuple[FileDiff, ...]]()
    for span in turn_spans(messages.items()):
        with suppress(UsageError):
            diffs = Snapshots(Path(span.root or Path.cwd()), folder).diff(span.before, span.after)
            found[messages[span.sequence].id] = diffs
    return found
