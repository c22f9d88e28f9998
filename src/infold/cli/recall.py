"""`infold recall`: search a recorded session, or show one part of it whole."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from infold.cli import options
from infold.cli.files import InputFile, choose_session, input_options, read_input
from infold.cli.render import open_console, print_json, working
from infold.core.entries import handle_of
from infold.core.messages import Message, Part
from infold.core.recall import Document, Hit, Index, documents_of, search_tokens
from infold.errors import UnknownReference
from infold.reports.text import author_of, describe_part, moment, part_text, printable
from infold.transcripts.record import RecordedSession

MOST_LINES = 6
"""Lines of an excerpt that are shown, those with words of the query first."""

SHORTEST_MARKED = 2
"""Letters of a word that is marked inside others; single CJK characters are marked too."""

_HANDLE = re.compile(r"\d+\.\d+")


class PartPlace(Struct, frozen=True):
    """A part with its message and the id of its session."""

    session: str
    message: Message
    part: Part


class RecallHit(Struct, frozen=True):
    """One match, as `--json` writes it."""

    handle: str
    session: str
    who: str
    what: str
    when: str
    score: float
    excerpt: str


@click.command("recall")
@click.argument("file", type=options.EXISTING)
@click.argument("query")
@click.option("--most", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many matches to show.")
@input_options
@options.as_json
def recall(*, file: Path, query: str, most: int, format: str | None, session: str | None, as_json: bool) -> None:  # noqa: A002 - the name of the option
    """Search all messages, calls and results in FILE, its sub-agents included, best matches first.

    QUERY is words, identifiers or paths in any language. A handle from an earlier answer, such as 12.0, shows that part
    whole. Handles of other sessions than the longest of FILE have its id and a slash before them.

    \b
    Example:
      infold recall session.jsonl "database migration failed"
    """
    query = query.strip()
    if not query:
        raise click.UsageError("QUERY is empty; give words to search for, or a handle such as 12.0")
    found = read_input(file, format)
    sessions = found.sessions if session is None else (choose_session(found, session),)
    places = dict(_places(sessions, found.longest))
    if query in places:
        hits = [_hit(Hit(query, 1.0, part_text(places[query].part)), places[query])]
    elif _is_handle(query, found):
        remedy = "take a handle from an earlier answer; to search for the number itself, add a word"
        raise UnknownReference("part", query, remedy=remedy)
    else:
        with working("searching"):
            index = Index.of(_documents(sessions, found.longest))
            hits = [_hit(hit, places[hit.handle]) for hit in index.search(query, most=most)]
    if as_json:
        print_json({"file": str(file), "query": query, "hits": hits})
    elif query in places:
        click.echo(printable(hits[0].excerpt) if sys.stdout.isatty() else hits[0].excerpt)
    elif not hits:
        click.echo(f"nothing in {file} mentions {query!r}; try fewer or other words", err=True)
    else:
        _show(open_console(), hits, query)


def _is_handle(query: str, found: InputFile) -> bool:
    """Whether a query is written like a handle, with or without the id of another session before it."""
    session, _, handle = query.rpartition("/")
    return bool(_HANDLE.fullmatch(handle)) and session in ("", *(session.id for session in found.sessions))


def _places(sessions: Sequence[RecordedSession], longest: RecordedSession) -> Iterator[tuple[str, PartPlace]]:
    """Yield every part with text, by its handle; handles of other sessions than the longest contain their id."""
    for session in sessions:
        prefix = "" if session is longest else f"{session.id}/"
        for number, message in enumerate(session.messages):
            for position, part in enumerate(message.parts):
                if part_text(part).strip():
                    yield f"{prefix}{handle_of(number, position)}", PartPlace(session.id, message, part)


def _documents(sessions: Sequence[RecordedSession], longest: RecordedSession) -> Iterator[Document]:
    """Yield what is searched: the documents of each session, under the handles of `_places`."""
    for session in sessions:
        for document in documents_of(enumerate(session.messages)):
            yield document if session is longest else replace(document, handle=f"{session.id}/{document.handle}")


def _hit(hit: Hit, place: PartPlace) -> RecallHit:
    who, what = author_of(place.message, place.part), describe_part(place.part)
    when = moment(place.message.created_ms)
    return RecallHit(hit.handle, place.session, who, what, when, round(hit.score, 3), hit.excerpt)


def _show(console: Console, hits: Sequence[RecallHit], query: str) -> None:
    pattern = _pattern(query)
    for hit in hits:
        source = "  ".join(filter(None, (hit.who, hit.what if hit.what != hit.who else "", hit.when)))
        console.print(Text.assemble((printable(hit.handle), "bold cyan"), f"  {printable(source)}"))
        for line in _best_lines(hit.excerpt, pattern):
            console.print(Padding(_mark(line, pattern, plain=not console.is_terminal), (0, 0, 0, 2), expand=False))
        console.print()


def _pattern(query: str) -> re.Pattern[str]:
    """Return what to mark: the query's words and their tokens, the longest first."""
    words = sorted({*query.lower().split(), *search_tokens(query)}, key=lambda word: (-len(word), word))
    marked = [word for word in words if len(word) >= SHORTEST_MARKED or not word.isascii()] or words
    return re.compile(f"(?:{'|'.join(map(re.escape, marked))})+" if marked else r"(?!)", re.IGNORECASE)


def _best_lines(excerpt: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the lines to show, in their order: those with a match, then others as far as there is room."""
    lines = [line.rstrip() for line in printable(excerpt).splitlines() if line.strip()]
    ranked = sorted(range(len(lines)), key=lambda at: (-len({m.lower() for m in pattern.findall(lines[at])}), at))
    return [lines[at] for at in sorted(ranked[:MOST_LINES])]


def _mark(line: str, pattern: re.Pattern[str], *, plain: bool) -> Text:
    """Mark the matches in a line: by style in a terminal, by « and » elsewhere."""
    if plain:
        return Text(pattern.sub(lambda match: f"«{match.group()}»", line))
    text = Text(line)
    text.highlight_regex(pattern, "bold reverse yellow")
    return text
