"""`infold inspect`: what fills the window of a recorded session or a request."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from infold.catalogue import Assumed
from infold.cli import options
from infold.cli.filling import filling_of, size_of_session
from infold.cli.inspect_page import Inspection, show_inspection
from infold.cli.opening import chosen_session, open_recording
from infold.cli.render import console_for
from infold.cli.yardstick import yardstick_for
from infold.errors import InfoldError


class Asked(Struct, frozen=True):
    """The command line."""

    files: tuple[Path, ...]
    format: str | None
    session: str | None
    model: str | None
    window: int | None
    as_json: bool


@click.command("inspect", short_help="Show what fills the window of a recorded session.")
@click.argument("files", nargs=-1, required=True, type=options.EXISTING, metavar="FILE...")
@options.reading
@options.model
@options.window
@options.as_json
def inspect(**given: Any) -> None:
    """Show what fills the window: by category, by turn and by tool, the largest parts, recorded usage and compactions.

    FILE is a transcript of any agent infold knows, gzip-compressed or not, or a JSON file with the messages of a request
    (OpenAI chat or Responses, Anthropic, Gemini). Nothing is sent and nothing is written.

    \b
    Example:
      infold inspect session.jsonl --window 200k
    """
    asked = Asked(**given)
    inspections, faults = _inspected(asked)
    if asked.as_json:
        page = msgspec.json.encode({"files": [_as_json(inspection) for inspection in inspections]})
        click.echo(msgspec.json.format(page, indent=2))
    else:
        _show(inspections)
    for fault in faults:
        click.echo(f"Error: {fault}", err=True)
    raise click.exceptions.Exit(1 if faults else 0)


def _inspected(asked: Asked) -> tuple[list[Inspection], list[str]]:
    """All files that can be read, measured, and a line for each that cannot."""
    inspections: list[Inspection] = []
    faults: list[str] = []
    for path in asked.files:
        try:
            inspections.append(_inspection(path, asked))
        except InfoldError as error:
            faults.append(" ".join(str(error).split()))
    return inspections, faults


def _inspection(path: Path, asked: Asked) -> Inspection:
    recording = open_recording(path, asked.format)
    session = chosen_session(recording, asked.session)
    yardstick = yardstick_for(session, asked.model, asked.window)
    return Inspection(recording, session, yardstick, filling_of(session, yardstick))


def _show(inspections: Sequence[Inspection]) -> None:
    console = console_for(plain=False)
    for inspection in inspections:
        show_inspection(console, inspection, plain=not console.is_terminal)


def _as_json(inspection: Inspection) -> dict[str, Any]:
    session, filling, yardstick = inspection.session, inspection.filling, inspection.yardstick
    return {
        "file": str(inspection.recording.path),
        "format": inspection.recording.format,
        "session": session.id,
        "model": _model(inspection),
        "window_tokens": yardstick.window_tokens,
        "counting": {"exact": yardstick.counting.is_exact, "margin": yardstick.counting.margin},
        "messages": filling.messages,
        "tokens": {"now": filling.now_tokens, "whole": filling.whole_tokens},
        "by_category": {"now": filling.now, "whole": filling.whole},
        "by_turn": filling.turns,
        "by_tool": filling.tools,
        "largest": filling.largest,
        "usage": filling.usage,
        "compactions": [_compaction(inspection, index) for index in range(len(session.compactions))],
        "cost_dollars": filling.cost_dollars,
        "sessions": [
            {
                "id": one.id,
                "parent": one.parent,
                "messages": len(one.messages),
                "tokens": size_of_session(one, yardstick.counting.ruler),
            }
            for one in inspection.recording.sessions
        ],
        "skipped": [
            {"reason": one.reason, "line": one.line, "count": one.count, "repaired": one.repaired}
            for one in inspection.recording.skipped
        ],
    }


def _model(inspection: Inspection) -> dict[str, Any]:
    found, recorded = inspection.yardstick.model, inspection.session.model
    return {
        "recorded": recorded.id if recorded else None,
        "matched": None if found is None or isinstance(found, Assumed) else found.matched,
    }


def _compaction(inspection: Inspection, index: int) -> dict[str, Any]:
    one = inspection.session.compactions[index]
    return {
        "position": one.position,
        "tokens_before": one.tokens_before,
        "first_kept": one.first_kept,
        "summary": one.summary,
    }
