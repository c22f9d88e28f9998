"""`infold compact`: fold a session into a window, and show or write what would be sent."""

from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins

from infold.cli import options
from infold.cli.compact_page import change_of, kept_messages, show_outcome
from infold.cli.compacting import Aim, Outcome, checkpoint_of, compacted
from infold.cli.opening import Recording, chosen_session, open_recording
from infold.cli.render import console_for
from infold.cli.writing import SHAPES, in_shape, json_bytes, write_file
from infold.errors import PolicyError, WindowExceeded
from infold.transcripts.record import RecordedSession


class Asked(Struct, frozen=True):
    """The command line."""

    file: Path
    format: str | None
    session: str | None
    model: str | None
    window: int | None
    policy: str
    output: Path | None
    to: str | None
    preview: bool
    force: bool
    as_json: bool


@click.command("compact", short_help="Fold a session into a window and show what was done.")
@click.argument("file", type=options.EXISTING)
@options.window
@options.model
@options.policy
@options.reading
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="OUT", help="Write the request there, '-' to stdout."
)
@click.option(
    "--to", type=click.Choice(SHAPES), help="The shape of OUT: openai if FILE is a transcript, else FILE's own."
)
@click.option("--preview", is_flag=True, help="Show the request part by part, and write nothing.")
@options.force
@options.as_json
def compact(**given: Any) -> None:
    """Compact a session until its next request fits a window: old tool results become stubs, old turns a checkpoint.

    The session is played from its beginning, compacted where a running agent would have been, by code alone: no model, no
    key, no network. Shown are what fills the window before and after, what was done and why, the checkpoint, and what was
    kept. Give --window, or --model to take its window; without either, the recorded model's is taken.

    \b
    Example:
      infold compact session.jsonl --window 64k -o request.json
    """
    asked = Asked(**given)
    recording = open_recording(asked.file, asked.format)
    session = chosen_session(recording, asked.session)
    outcome = _compacted(recording, session, asked)
    written = None if asked.preview or asked.output is None else _written(recording, outcome, asked)
    if written == "-":
        return
    if asked.as_json:
        click.echo(json_bytes(_as_json(recording, outcome, written)), nl=False)
        return
    show_outcome(console_for(plain=False), outcome, preview=asked.preview)
    click.echo(_ending(written, asked))


def _compacted(recording: Recording, session: RecordedSession, asked: Asked) -> Outcome:
    """Compact; what is too small is the window, which is all that this command can change."""
    try:
        return compacted(recording, session, Aim(asked.window, asked.model, asked.policy))
    except WindowExceeded as error:
        smallest = f"the smallest request has {error.floor_tokens:,} tokens"
        raise click.ClickException(f"{smallest}, {error.usable_tokens:,} are usable; give a larger --window") from error
    except PolicyError as error:
        raise click.ClickException(f"{error.problem}; give a larger --window") from error


def _written(recording: Recording, outcome: Outcome, asked: Asked) -> str:
    """Write the request; where it went."""
    assert asked.output is not None, "asked for only with -o"
    own_shape = asked.to is None and recording.request is not None
    content = json_bytes(outcome.body) if own_shape else in_shape(asked.to or "openai", (outcome.session,))
    if str(asked.output) == "-":
        click.echo(content, nl=False)
    else:
        write_file(asked.output, content, source=asked.file, force=asked.force)
    return str(asked.output)


def _ending(written: str | None, asked: Asked) -> str:
    if written is not None:
        return f"written to {written}"
    return "nothing was written" if asked.preview else "nothing was written; -o OUT writes the request"


def _as_json(recording: Recording, outcome: Outcome, written: str | None) -> dict[str, Any]:
    report, change = outcome.report, change_of(outcome)
    return {
        "file": str(recording.path),
        "format": recording.format,
        "session": outcome.session.id,
        "policy": report.policy,
        "budget": report.budget,
        "counting": {"exact": report.counting.is_exact, "margin": report.counting.margin},
        "changed": report.changed,
        "tokens": {"before": change.tokens_before, "after": change.tokens_after, "upper": report.upper_tokens},
        "by_category": {"before": change.before, "after": change.after},
        "events": [to_builtins(event) for event in report.events],
        "left": report.left,
        "checkpoint": checkpoint_of(report),
        "kept": [message.id for message in kept_messages(report)],
        "messages": {"before": len(report.history), "after": len(report.sent)},
        "written": written,
    }
