"""The deterministic fold: a checkpoint made from the history by code, with no model (B10).

Decides what of a ledger is written into a given number of tokens: the user's instructions verbatim first (B2), then what
was changed, what failed, what is open, what was run, and excerpts of what was reported. What finds no room stays in the log;
the text says how much there is of it.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from infold.core.foldlines import (
    at_handle,
    changed_lines,
    command_lines,
    error_lines,
    excerpts,
    facts_on,
    quoted,
    read_lines,
    shared_folder,
    stubbed,
)
from infold.core.ledger import Ledger, Quote
from infold.core.policy import Ruler
from infold.core.tokens import estimate

__all__ = ["FoldedText", "render_fold"]

OPENING = (
    "[Earlier conversation, folded. What follows was taken from it word for word or by rule; "
    "it is a record of the past, not a new request.]"
)
RECALL_HINT = "The full text of anything marked with a number can be brought back with the recall tool by that number."

FOLDER_NOTE = "Paths below are in {folder} unless they begin with a slash."

MORE_TOKENS = 8
"""Room for the count of what is left out."""

MOST_TRIES = 6
"""How often a text that came out too long is written again; pins alone can keep it too long."""

CHANGED_SHARE = 0.7
"""What the files that were changed may take of the room that instructions leave."""

TOLD_WHOLE = (40, 20, 10, 5, 0)
"""How many changed files are told whole where there is no room for all."""

CHANGED = ("written", "edited", "deleted", "moved")


class FoldedText(Struct, frozen=True):
    """The text of a fold, and the instructions that had to be shortened to a stub for want of room."""

    text: str
    stubbed: tuple[str, ...] = ()


class _Section(Struct, frozen=True):
    """A heading, its lines with the most telling first, and the share of the remaining room it may take."""

    heading: str
    lines: tuple[str, ...]
    share: float


def render_fold(ledger: Ledger, *, budget_tokens: int, must_keep_share: float, rule: Ruler, recall: bool) -> FoldedText:
    """Write a ledger into at most that many tokens; only pins are written whatever they take.

    Instructions come first and may take their share; of those the first request comes before the latest, then constraints,
    newest first. One that does not fit stays as a one-line stub.
    """
    room_tokens = budget_tokens
    for _ in range(MOST_TRIES):
        folded = _write(ledger, _Room(room_tokens, rule), must_keep_share, recall)
        over = estimate(folded.text, rule) - budget_tokens
        if over <= 0:
            break
        # Lines are sized one by one, and together they may come to a little more.
        room_tokens -= over + 4
    return folded


def _write(ledger: Ledger, room: "_Room", must_keep_share: float, recall: bool) -> FoldedText:
    share_tokens = int(room.left * must_keep_share)
    opening = [OPENING, RECALL_HINT] if recall else [OPENING]
    for text in opening:
        room.take(text)
    pinned = _pinned_block([quoted(quote, recall) for quote in ledger.pinned])
    kept, short = _must_keep(ledger, room, share_tokens, recall)
    folder = shared_folder(ledger.files)
    where = [FOLDER_NOTE.format(folder=folder)] if folder else []
    sections = room.fill((_changed(ledger, room, folder, recall), *_sections(ledger, folder, recall)), *where)
    return FoldedText("\n\n".join((*opening, *pinned, *kept, *sections)), tuple(short))


class _Room:
    """The tokens still free; a scratch pad of `render_fold`."""

    def __init__(self, budget_tokens: int, rule: Ruler) -> None:
        self.left = budget_tokens
        self.rule: Ruler = rule

    def size(self, text: str) -> int:
        return estimate(text, self.rule) + 1

    def take(self, text: str) -> None:
        self.left -= self.size(text)

    def fill(self, sections: Sequence[_Section], *notes: str) -> list[str]:
        """As many lines of each section as its share holds, then more of each while there is room; notes come first.

        What a section does not need is the others'; a count says what is left out. Notes stand only beside sections.
        """
        for note in notes:
            self.take(note)
        taken = [self._lines_within(section, 0, int(self.left * section.share)) for section in sections]
        for place, section in enumerate(sections):
            waiting = sum(
                count < len(other.lines) for count, other in zip(taken[place:], sections[place:], strict=True)
            )
            taken[place] += self._lines_within(section, taken[place], self.left // max(1, waiting))
        blocks = [_block(section, count) for section, count in zip(sections, taken, strict=True) if count]
        return [*notes, *blocks] if blocks else []

    def _lines_within(self, section: _Section, start: int, allowed: int) -> int:
        """How many lines from there on fit, with the heading if they are the first; their room is taken."""
        spent = 0 if start else self.size(section.heading) + MORE_TOKENS
        count = 0
        for line in section.lines[start:]:
            size = self.size(line)
            if spent + size > allowed:
                break
            spent += size
            count += 1
        self.left -= spent if count else 0
        return count


def _block(section: _Section, count: int) -> str:
    left_out = sum(map(facts_on, section.lines[count:]))
    more = [f"- … and {left_out:,} more"] if left_out else []
    return "\n".join((section.heading, *section.lines[:count], *more))


def _pinned_block(pinned: Sequence[str]) -> list[str]:
    return ["Pinned:\n" + "\n".join(pinned)] if pinned else []


def _must_keep(ledger: Ledger, room: _Room, allowed: int, recall: bool) -> tuple[list[str], list[str]]:
    """The user's instructions as blocks, and the handles of those that had to become stubs."""
    instructions = _Instructions(room, min(allowed, room.left), recall)
    first, latest = ledger.first_request, ledger.latest_request
    instructions.write("The user's first request, verbatim:", () if first is None else (first,))
    instructions.write("The user's latest request, verbatim:", () if latest is None or latest == first else (latest,))
    rules = tuple(dict.fromkeys(reversed(ledger.constraints)))
    missing = tuple(quote for quote in rules if quote.handle not in instructions.verbatim)
    instructions.write("Rules the user laid down, verbatim, newest first:", missing)
    return instructions.blocks, instructions.stubbed


class _Instructions:
    """Blocks of the user's words within their share of the room; a scratch pad of `_must_keep`."""

    def __init__(self, room: _Room, allowed: int, recall: bool) -> None:
        self.room = room
        self.allowed = allowed
        self.recall = recall
        self.blocks: list[str] = []
        self.stubbed: list[str] = []
        self.verbatim: set[str] = set()

    def write(self, heading: str, quotes: Sequence[Quote]) -> None:
        """Write what fits under a heading, word for word or as stubs."""
        self.allowed -= self.room.size(heading)
        lines = [line for quote in quotes if (line := self._line(quote))]
        if lines and len(lines) < len(quotes):
            lines.append(f"- … and {len(quotes) - len(lines):,} more")
            self.room.take(lines[-1])
        if lines:
            self.room.take(heading)
            self.blocks.append("\n".join((heading, *lines)))
        else:
            self.allowed += self.room.size(heading)

    def _line(self, quote: Quote) -> str:
        """A quotation if there is room for it, else its stub, else nothing."""
        whole, stub = quoted(quote, self.recall), stubbed(quote, self.recall)
        line = next((text for text in (whole, stub) if self.room.size(text) <= self.allowed), "")
        if line:
            self.allowed -= self.room.size(line)
            self.room.take(line)
        if line == whole:
            self.verbatim.add(quote.handle)
        elif quote.handle not in self.stubbed:
            self.stubbed.append(quote.handle)
        return line


def _changed(ledger: Ledger, room: _Room, folder: str, recall: bool) -> _Section:
    """The files that were changed: all of them, with as many told whole as there is room for."""
    files = [fact for fact in reversed(ledger.files) if fact.operation in CHANGED]
    allowed = room.left * CHANGED_SHARE - room.size(FOLDER_NOTE) - room.size(folder) - MORE_TOKENS
    lines: tuple[str, ...] = ()
    for whole in (len(files), *TOLD_WHOLE):
        lines = changed_lines(files, folder, recall, whole=whole)
        if sum(map(room.size, lines)) <= allowed:
            break
    return _Section("Files changed, newest first:", lines, CHANGED_SHARE)


def _sections(ledger: Ledger, folder: str, recall: bool) -> Iterator[_Section]:
    told = [line for quote in reversed(ledger.narratives) for line in quote.text.splitlines() if line.strip()]
    yield _Section("From an earlier summary, word for word:", tuple(told), 0.5)
    read = [fact for fact in reversed(ledger.files) if fact.operation == "read"]
    todos = tuple(f"- [{fact.status}] {fact.item}" for fact in ledger.todos or ())
    yield _Section("Todo list as last written:", todos, 0.4)
    errors = error_lines(reversed(ledger.errors), folder, recall)
    yield _Section("Errors not seen to be settled, newest first:", errors, 0.35)
    yield _Section("Questions still open:", tuple(quoted(quote, recall) for quote in ledger.questions), 0.3)
    jobs = tuple(f"- {fact.description}{at_handle(fact.handle, recall)}" for fact in ledger.jobs)
    yield _Section("Started and not reported back:", jobs, 0.3)
    whole = {quote.handle for quote in (ledger.first_request, ledger.latest_request) if quote is not None}
    asked = [quote for quote in reversed(ledger.requests) if quote.handle not in whole]
    yield _Section("Other requests, newest first:", excerpts(asked, recall), 0.3)
    yield _Section("Decisions, newest first:", excerpts(reversed(ledger.decisions), recall), 0.3)
    yield _Section("Figures and references, newest first:", excerpts(reversed(ledger.findings), recall), 0.3)
    yield _Section("Files read, newest first:", read_lines(read, folder), 0.3)
    yield _Section("Commands run, newest first:", command_lines(reversed(ledger.commands), recall), 0.6)
    yield _Section("Reported to the user, newest first:", excerpts(reversed(ledger.reports), recall), 1.0)
