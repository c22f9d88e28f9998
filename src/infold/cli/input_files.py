"""Open what a user names: a transcript in any format that is known, or a JSON file with the messages of a request.

Both become sessions; a request keeps its own shape beside them, so that it can be written back. Tells on stderr what of a
file was not read, and how far a long reading is.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from infold.cli.options import WIRE_NAMES
from infold.cli.render import counted, legible
from infold.core.messages import ModelRef
from infold.errors import BrokenInput, FormatError, UnknownFormat
from infold.formats.registry import (
    ANTHROPIC_MESSAGES,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    WireFormat,
    detect,
    format_named,
)
from infold.transcripts import source as sources
from infold.transcripts.record import Issues, RecordedSession, Skipped, import_session
from infold.transcripts.registry import FORMAT_NAMES, read_transcript

LONG_BYTES = 1_000_000
"""A file below this is read before a progress bar could be looked at."""


MOST_IDS = 8


FIELDS: Mapping[str, WireFormat | None] = {"messages": None, "input": OPENAI_RESPONSES, "contents": GEMINI}
"""The fields of a request's body that hold its messages, and the format that alone has such a field."""


REMEDY = "say which it is with --format NAME; a JSON file holds a list of messages, or a request with messages, input or contents"


class WireRequest(Struct, frozen=True):
    """A request as it was in its file: the format, the whole body, the field of the messages (none: the body is the list)."""

    wire: WireFormat
    body: Any
    field: str | None
    items: tuple[Any, ...]

    def with_items(self, items: list[Any]) -> Any:
        """The body with other messages in their place."""
        return items if self.field is None else {**self.body, self.field: items}


class Recording(Struct, frozen=True):
    """All that one file told; `request` is its own shape if it is a request."""

    path: Path
    format: str
    sessions: tuple[RecordedSession, ...]
    skipped: tuple[Skipped, ...] = ()
    request: WireRequest | None = None


def open_recording(path: Path, form: str | None) -> Recording:
    """Read a file in the format asked for, or in the one its content tells; what was not read is told on stderr.

    Raises `UnknownFormat` with all that was tried, `BrokenInput` where nothing in it can be read.
    """
    with watching(path) as progress:
        recording = _read(path, form, progress)
    for skipped in recording.skipped:
        if not skipped.reason.startswith("bookkeeping:"):
            click.echo(_note(path, skipped), err=True)
    return recording


def chosen_session(recording: Recording, wanted: str | None) -> RecordedSession:
    """The session asked for by its id or an unambiguous beginning of it; the first if none is."""
    if wanted is None:
        return recording.sessions[0]
    found = [session for session in recording.sessions if session.id == wanted]
    found = found or [session for session in recording.sessions if session.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(repr(session.id) for session in recording.sessions[:MOST_IDS])
    more = f" and {len(recording.sessions) - MOST_IDS} more" if len(recording.sessions) > MOST_IDS else ""
    problem = "several sessions begin so" if found else "there is no such session"
    raise click.BadParameter(f"{wanted!r}: {problem}; the file holds {ids}{more}", param_hint="'--session'")


@contextmanager
def watching(path: Path) -> Iterator[sources.Progress | None]:
    """A bar on stderr while a long file is read, if there is a terminal to show it."""
    if not sys.stderr.isatty() or path.stat().st_size < LONG_BYTES:
        yield None
        return
    columns = (TextColumn("reading {task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(legible(path.name), total=path.stat().st_size)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _read(path: Path, form: str | None, progress: sources.Progress | None) -> Recording:
    if form in WIRE_NAMES:
        return _read_request(path, form, progress)
    try:
        transcript = read_transcript(path, format=form, progress=progress)
    except UnknownFormat:
        return _read_request(path, None, progress)
    return Recording(path, transcript.format, transcript.sessions, transcript.skipped)


def _read_request(path: Path, form: str | None, progress: sources.Progress | None) -> Recording:
    notes = Issues()
    try:
        document = _document(path, notes, progress)
    except BrokenInput as error:
        raise error if form is not None else _unknown(path) from error
    request = _request_in(document, path, form)
    decoded = request.wire.decode(request.items)
    body = request.body if isinstance(request.body, dict) else {}
    name = body.get("model")
    session = RecordedSession(
        path.name,
        decoded.messages,
        model=ModelRef("", name) if isinstance(name, str) and name else None,
        system=request.wire.system_text(body),
        tools=request.wire.tools_text(body),
    )
    return Recording(path, request.wire.name, (import_session(session, first_kept=0),), notes.skipped(), request)


def _document(path: Path, notes: Issues, progress: sources.Progress | None) -> Any:
    with sources.open_file(path) as stream:
        size = path.stat().st_size
        source = sources.Source(stream, name=path.name, issues=notes, total_bytes=size, progress=progress)
        return source.head().document


def _request_in(document: Any, path: Path, form: str | None) -> WireRequest:
    """The request that a JSON document is; raises `UnknownFormat` if it is none."""
    field = next((name for name in FIELDS if isinstance(document, dict) and name in document), None)
    items = document if field is None else document[field]
    if field == "input" and isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise _unknown(path)
    if not items:
        raise BrokenInput(path.name, "the file holds no message", remedy="give a request with messages")
    wire = format_named(form) if form is not None else _wire_of(document, field, items, path)
    return WireRequest(wire, document, field, tuple(items))


def _wire_of(document: Any, field: str | None, items: list[Any], path: Path) -> WireFormat:
    told = FIELDS[field] if field is not None else None
    if told is not None:
        return told
    try:
        found = detect(items)
    except FormatError as error:
        raise _unknown(path) from error
    is_anthropic = found is OPENAI_CHAT and isinstance(document, dict) and "system" in document
    return ANTHROPIC_MESSAGES if is_anthropic else found


def _unknown(path: Path) -> UnknownFormat:
    return UnknownFormat(legible(path.name), tried=(*FORMAT_NAMES, *WIRE_NAMES), remedy=REMEDY)


def _note(path: Path, skipped: Skipped) -> str:
    where = f", first at line {skipped.line}" if skipped.line else ""
    done = "repaired" if skipped.repaired else "skipped"
    return f"note: {legible(path.name)}: {done} ({counted(skipped.count, 'time')}{where}): {skipped.reason}"
