"""`infold convert`: write a recorded session in another format."""

from pathlib import Path

import click

from infold.cli import options
from infold.cli.files import OUTPUT_FORMATS, choose_session, encode_sessions, input_options, read_input, write_output


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
    if session is None and len(sessions) < len(found.sessions):
        others = len(found.sessions) - 1
        click.echo(f"note: wrote session {sessions[0].id} only; choose among {others} more with --session", err=True)
    write_output(encode_sessions(to, sessions), output, source=file, force=force)
