"""Read and write the files a user names.

What is read is a transcript in any known format, or a JSON file with the messages of a request. Both become recorded sessions;
a request keeps its body too, so that it can be written back. Notes on what could not be read go to stderr. What is written is in
one of `OUTPUT_FORMATS`, and never half written.
"""

import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from infold.cli.options import combine
from infold.cli.render import to_json, working
from infold.core.messages import ModelRef, SystemMessage, text_of
from infold.errors import BrokenInput, FormatError, UnknownFormat
from infold.formats.registry import (
    ANTHROPIC_MESSAGES,
    FORMATS,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    WireFormat,
    detect,
    format_named,
)
from infold.reports.text import name_some, one_line, plural, printable
from infold.transcripts.infold_log import to_log
from infold.transcripts.record import RecordedSession, Skipped, import_session
from infold.transcripts.registry import FORMAT_NAMES, read_transcript
from infold.transcripts.source import Source, open_file
from infold.transcripts.write import to_anthropic, to_markdown, to_openai_chat
from infold.transcripts.write_opencode import to_opencode

WIRE_NAMES: tuple[str, ...] = tuple(wire.name for wire in FORMATS)
KNOWN_FORMATS = (*FORMAT_NAMES, *WIRE_NAMES)

OUTPUT_FORMATS = ("openai", "anthropic", "markdown", "jsonl", "opencode")

MOST_IDS, LONGEST_ID = 8, 60

FIELDS: Mapping[str, WireFormat | None] = {"messages": None, "input": OPENAI_RESPONSES, "contents": GEMINI}
"""The fields of a request's body that hold its messages, with the format if only one has such a field."""

REMEDY = "name it with --format NAME; a JSON file must hold a list of messages, or a request with messages, input or contents"

input_options = combine(
    click.option(
        "--format",
        type=click.Choice(KNOWN_FORMATS),
        metavar="NAME",
        help="The format of FILE, if it cannot be detected.",
    ),
    click.option(
        "--session",
        metavar="ID",
        help="The session of FILE to use, by its id or the beginning of it; the longest by default.",
    ),
)
"""The options of every verb that reads a file."""


class RequestFile(Struct, frozen=True):
    """A request as it is in its file: format, body, and the field of the messages (`None` if the body is the list)."""

    wire: WireFormat
    body: Any
    field: str | None
    items: tuple[Any, ...]

    def with_items(self, items: list[Any]) -> Any:
        """Return the body with other messages."""
        return items if self.field is None else {**self.body, self.field: items}


class InputFile(Struct, frozen=True):
    """The content of a file; `request` is set if it holds a request."""

    path: Path
    format: str
    sessions: tuple[RecordedSession, ...]
    skipped: tuple[Skipped, ...] = ()
    request: RequestFile | None = None

    @property
    def longest(self) -> RecordedSession:
        """The session with the most messages, the first of several; a sub-agent's only if there is no other."""
        own = [session for session in self.sessions if session.parent is None]
        return max(own or self.sessions, key=lambda session: len(session.messages))


def read_input(path: Path, format_name: str | None) -> InputFile:
    """Read a file in the given format, or in the detected one, and note on stderr what could not be read.

    Raise `UnknownFormat` with all formats tried, `BrokenInput` if nothing in it can be read.
    """
    with working(f"reading {printable(path.name)}"):
        found = _read(path, format_name)
    for skipped in found.skipped:
        if not skipped.reason.startswith("bookkeeping:"):
            where = f", first at line {skipped.line}" if skipped.line else ""
            done = "repaired" if skipped.repaired else "skipped"
            times = plural(skipped.count, "time")
            click.echo(f"note: {printable(path.name)}: {done} ({times}{where}): {skipped.reason}", err=True)
    return found


def choose_session(found: InputFile, wanted: str | None, *, is_listed: bool = False) -> RecordedSession:
    """Return the session with that id or the only one that begins so; the longest if no id is given.

    Note on stderr which one that is and what else the file holds, unless the verb lists that itself.
    """
    if wanted is None:
        longest = found.longest
        if len(found.sessions) > 1 and not is_listed:
            others = [_name_session(session) for session in found.sessions if session is not longest]
            chosen = (
                f"{printable(found.path.name)} holds {len(found.sessions)} sessions; this is {_name_session(longest)}"
            )
            click.echo(f"note: {chosen}, the longest; --session ID chooses {name_some(others, MOST_IDS)}", err=True)
        return longest
    matching = [session for session in found.sessions if session.id == wanted]
    matching = matching or [session for session in found.sessions if session.id.startswith(wanted)]
    if len(matching) == 1:
        return matching[0]
    ids = name_some([repr(session.id) for session in found.sessions], MOST_IDS)
    problem = "several sessions begin so" if matching else "no such session"
    raise click.BadParameter(f"{wanted!r}: {problem}; the file holds {ids}", param_hint="'--session'")


def _name_session(session: RecordedSession) -> str:
    kind = ", sub-agent" if session.parent is not None else ""
    return f"{one_line(session.id, LONGEST_ID)!r} ({plural(len(session.messages), 'message')}{kind})"


def _read(path: Path, format_name: str | None) -> InputFile:
    if format_name in WIRE_NAMES:
        return _read_request(path, format_name)
    try:
        transcript = read_transcript(path, format=format_name)
    except UnknownFormat:
        return _read_request(path, None)
    return InputFile(path, transcript.format, transcript.sessions, transcript.skipped)


def _read_request(path: Path, format_name: str | None) -> InputFile:
    try:
        with open_file(path) as stream:
            source = Source(stream, name=path.name, total_bytes=path.stat().st_size)
            document = source.head().document
    except BrokenInput as error:
        raise error if format_name is not None else _unknown_format(path) from error
    request = _find_request(document, path, format_name)
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
    return InputFile(
        path, request.wire.name, (import_session(session, first_kept=0),), source.issues.skipped(), request
    )


def _find_request(document: Any, path: Path, format_name: str | None) -> RequestFile:
    """Return the request in a JSON document; raise `UnknownFormat` if it does not hold one."""
    field = next((name for name in FIELDS if isinstance(document, dict) and name in document), None)
    items = document if field is None else document[field]
    if field == "input" and isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise _unknown_format(path)
    if not items:
        raise BrokenInput(path.name, "the file holds no message", remedy="give a request with messages")
    wire = format_named(format_name) if format_name is not None else _detect_wire(document, field, items, path)
    return RequestFile(wire, document, field, tuple(items))


def _detect_wire(document: Any, field: str | None, items: list[Any], path: Path) -> WireFormat:
    by_field = FIELDS[field] if field is not None else None
    if by_field is not None:
        return by_field
    try:
        found = detect(items)
    except FormatError as error:
        raise _unknown_format(path) from error
    is_anthropic = found is OPENAI_CHAT and isinstance(document, dict) and "system" in document
    return ANTHROPIC_MESSAGES if is_anthropic else found


def _unknown_format(path: Path) -> UnknownFormat:
    return UnknownFormat(printable(path.name), tried=KNOWN_FORMATS, remedy=REMEDY)


# Writing.


def encode_sessions(output_format: str, sessions: Sequence[RecordedSession]) -> bytes:
    """Return sessions in a format; a request holds the first of them."""
    match output_format:
        case "openai":
            return to_json({"messages": to_openai_chat(sessions[0])})
        case "anthropic":
            return to_json(to_anthropic(_with_system_apart(sessions[0])))
        case "markdown":
            return "\n".join(to_markdown(session) for session in sessions).encode()
        case "opencode":
            return to_json(to_opencode(sessions[0]))
        case _:
            return to_log(sessions)


def write_output(content: bytes, output: Path | None, *, source: Path, force: bool) -> None:
    """Write to a file and say so on stderr, or to stdout if none is named or it is `-`."""
    if output is None or str(output) == "-":
        click.echo(content, nl=False)
        return
    write_file(output, content, source=source, force=force)
    click.echo(f"written to {output}", err=True)


def write_file(path: Path, content: bytes, *, source: Path, force: bool) -> None:
    """Write a file whole or not at all: under another name first, which is then replaced. Devices are written directly.

    Never overwrite the `source`, and another file only with `force`; raise `ClickException` otherwise.
    """
    place = path.resolve()
    if path.exists() and not place.is_file() and not place.is_dir():  # /dev/null, /dev/stdout, a pipe
        path.write_bytes(content)
        return
    _check_overwrite(path, place, source, force=force)
    partial = place.with_name(f".{place.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if place.exists():
            partial.chmod(stat.S_IMODE(place.stat().st_mode))
        partial.replace(place)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}; choose another place with -o") from error
    finally:
        partial.unlink(missing_ok=True)


def _check_overwrite(path: Path, place: Path, source: Path, *, force: bool) -> None:
    if not place.exists():
        return
    if place.samefile(source):
        raise click.ClickException(f"{path} is the input file and is never overwritten; name another with -o")
    if not place.is_file():
        raise click.ClickException(f"{path} is a folder; name a file with -o")
    if not force:
        raise click.ClickException(f"{path} exists; add --force to overwrite it, or name another file with -o")


def _with_system_apart(session: RecordedSession) -> RecordedSession:
    """Move system messages at the start of a session into its system prompt, where Anthropic expects them."""
    messages = session.messages
    count = next((n for n, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    texts = [session.system, *map(text_of, messages[:count])]
    return replace(session, system="\n\n".join(text for text in texts if text), messages=messages[count:])
