"""`infold convert`: a recorded session in the shape another program reads."""

from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from infold.cli import options
from infold.cli.input_files import Recording, chosen_session, open_recording
from infold.cli.output_files import SHAPES, in_shape, write_file
from infold.transcripts.record import RecordedSession


class Asked(Struct, frozen=True):
    """The command line."""

    file: Path
    format: str | None
    session: str | None
    to: str
    output: Path | None
    force: bool


@click.command("convert", short_help="Write a session in another shape.")
@click.argument("file", type=options.EXISTING)
@click.option("--to", required=True, type=click.Choice(SHAPES), help="The shape to write.")
@click.option("-o", "output", type=click.Path(path_type=Path), metavar="OUT", help="Write there instead of to stdout.")
@options.reading
@options.force
def convert(**given: Any) -> None:
    """Write a session as a request for OpenAI's chat API or Anthropic's, as markdown, for OpenCode, or as infold's own log.

    What is written for a provider is valid for it: each call is followed by its result, and reasoning that only its own
    provider may see is left out. opencode is what `opencode import` takes. jsonl is infold's log, an entry a line: nothing is
    lost, and every verb reads it again. It holds all sessions of FILE unless --session names one; the other shapes hold one.

    \b
    Example:
      infold convert session.jsonl --to markdown -o session.md
    """
    asked = Asked(**given)
    recording = open_recording(asked.file, asked.format)
    content = in_shape(asked.to, _sessions(recording, asked))
    if asked.output is None or str(asked.output) == "-":
        click.echo(content, nl=False)
        return
    write_file(asked.output, content, source=asked.file, force=asked.force)
    click.echo(f"written to {asked.output}", err=True)


def _sessions(recording: Recording, asked: Asked) -> tuple[RecordedSession, ...]:
    if asked.to == "jsonl" and asked.session is None:
        return recording.sessions
    chosen = chosen_session(recording, asked.session)
    if asked.session is None and len(recording.sessions) > 1:
        others = len(recording.sessions) - 1
        click.echo(f"note: session {chosen.id} is written; {others} more in the file, see --session", err=True)
    return (chosen,)
