"""`infold recall`: find something that was said in a session, or bring one part back whole."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from infold.cli import options
from infold.cli.input_files import Recording, chosen_session, open_recording
from infold.cli.output_files import json_bytes
from infold.cli.render import console_for, content_of, legible, moment, what_of, who_of
from infold.core.entries import handle_of
from infold.core.messages import Message, Part, ToolCallPart
from infold.core.recall import Document, Hit, Index, tokens_of
from infold.errors import UnknownReference
from infold.transcripts.record import RecordedSession

MOST_LINES = 6
"""Lines of an excerpt that are shown: those with the query's words in them first."""


SHORTEST_MARKED = 2
"""Letters of a word before its occurrences inside others are marked; single CJK characters are marked all the same."""


_HANDLE = re.compile(r"\d+\.\d+")


class Asked(Struct, frozen=True):
    """The command line."""

    file: Path
    query: str
    format: str | None
    session: str | None
    most: int
    as_json: bool


class Place(Struct, frozen=True):
    """Where a part stands: its session, its message and itself."""

    session: str
    message: Message
    part: Part


class Found(Struct, frozen=True):
    """One hit, with all that tells a reader where it is from."""

    handle: str
    session: str
    who: str
    what: str
    when: str
    score: float
    excerpt: str


@click.command("recall", short_help="Find something that was said in a session.")
@click.argument("file", type=options.EXISTING)
@click.argument("query")
@click.option("--most", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many places to show.")
@options.reading
@options.as_json
def recall(**given: Any) -> None:
    """Search everything that was said, called and answered in FILE, its sub-agents included, best matches first.

    QUERY is words, identifiers or paths in any language. A handle from an earlier answer, such as 12.0, brings that part
    back whole.

    \b
    Example:
      infold recall session.jsonl "database migration failed"
    """
    asked = Asked(**{**given, "query": given["query"].strip()})
    if not asked.query:
        raise click.UsageError("QUERY is empty; give words to search for, or a handle such as 12.0")
    recording = open_recording(asked.file, asked.format)
    places = dict(_places(_searched(recording, asked.session), recording.sessions[0]))
    if asked.query in places:
        whole = content_of(places[asked.query].part)
        found = [_found(Hit(asked.query, 1.0, whole), places[asked.query])]
    elif _is_handle(asked.query, recording):
        remedy = "take a handle from an earlier answer; to search for the number itself, add a word"
        raise UnknownReference("part", asked.query, remedy=remedy)
    else:
        index = Index.of(Document(handle, _searchable(place.part)) for handle, place in places.items())
        found = [_found(hit, places[hit.handle]) for hit in index.search(asked.query, most=asked.most)]
    if asked.as_json:
        click.echo(json_bytes({"file": str(asked.file), "query": asked.query, "hits": found}), nl=False)
    elif asked.query in places:
        click.echo(legible(found[0].excerpt) if sys.stdout.isatty() else found[0].excerpt)
    elif not found:
        click.echo(f"nothing in {asked.file} mentions {asked.query!r}; try fewer or other words", err=True)
    else:
        _show(console_for(plain=False), found, asked.query)


def _is_handle(query: str, recording: Recording) -> bool:
    """Return whether a query is written like a handle: a number and a position, behind the id of another session or not."""
    session, _, handle = query.rpartition("/")
    return bool(_HANDLE.fullmatch(handle)) and session in ("", *(session.id for session in recording.sessions))


def _searched(recording: Recording, wanted: str | None) -> tuple[RecordedSession, ...]:
    return recording.sessions if wanted is None else (chosen_session(recording, wanted),)


def _places(sessions: Sequence[RecordedSession], first: RecordedSession) -> Iterator[tuple[str, Place]]:
    """Every part that says something, by its handle; those of other sessions than the file's first carry its id."""
    for session in sessions:
        prefix = "" if session is first else f"{session.id}/"
        for number, message in enumerate(session.messages):
            for position, part in enumerate(message.parts):
                if content_of(part).strip():
                    yield f"{prefix}{handle_of(number, position)}", Place(session.id, message, part)


def _searchable(part: Part) -> str:
    return f"{part.tool} {part.arguments}" if isinstance(part, ToolCallPart) else content_of(part)


def _found(hit: Hit, place: Place) -> Found:
    who, what = who_of(place.message, place.part), what_of(place.part)
    when = moment(place.message.created_ms)
    return Found(hit.handle, place.session, who, what, when, round(hit.score, 3), hit.excerpt)


# Showing.


def _show(console: Console, found: Sequence[Found], query: str) -> None:
    pattern = _pattern(query)
    for hit in found:
        told = "  ".join(filter(None, (hit.who, hit.what if hit.what != hit.who else "", hit.when)))
        console.print(Text.assemble((legible(hit.handle), "bold cyan"), f"  {legible(told)}"))
        for line in _telling(hit.excerpt, pattern):
            console.print(Padding(_marked(line, pattern, plain=not console.is_terminal), (0, 0, 0, 2), expand=False))
        console.print()


def _pattern(query: str) -> re.Pattern[str]:
    """What to mark: the query's words and their tokens, the longest first, wherever they stand."""
    words = sorted({*query.lower().split(), *tokens_of(query)}, key=lambda word: (-len(word), word))
    telling = [word for word in words if len(word) >= SHORTEST_MARKED or not word.isascii()] or words
    return re.compile(f"(?:{'|'.join(map(re.escape, telling))})+" if telling else r"(?!)", re.IGNORECASE)


def _telling(excerpt: str, pattern: re.Pattern[str]) -> list[str]:
    """The lines to show, in their order: those with a match, then as many others as there is room for."""
    lines = [line.rstrip() for line in legible(excerpt).splitlines() if line.strip()]
    ranked = sorted(range(len(lines)), key=lambda at: (-len({m.lower() for m in pattern.findall(lines[at])}), at))
    return [lines[at] for at in sorted(ranked[:MOST_LINES])]


def _marked(line: str, pattern: re.Pattern[str], *, plain: bool) -> Text:
    """A line with the matching words marked: by style in a terminal, by « and » elsewhere."""
    if plain:
        return Text(pattern.sub(lambda match: f"«{match.group()}»", line))
    text = Text(line)
    text.highlight_regex(pattern, "bold reverse yellow")
    return text
