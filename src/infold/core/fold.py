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
)
from infold.core.instructions import told_instructions
from infold.core.ledger import Ledger
from infold.core.policy import Ruler
from infold.core.tokens import estimate

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

OTHERS_SHARE = 0.3
"""What requests that are neither the first nor the latest may take of the room that instructions leave."""

CHANGED_SHARE = 0.7
"""What the files that were changed may take of the room that instructions leave."""

TOLD_WHOLE = (40, 20, 10, 5, 0)
"""How many changed files are told whole where there is no room for all."""

CHANGED = ("written", "edited", "deleted", "moved")


class FoldedText(Struct, frozen=True):
    """The text of a fold, the handles of instructions that do not stand in it word for word, and the room it had."""

    text: str
    stubbed: tuple[str, ...] = ()
    budget_tokens: int = 0


class _Section(Struct, frozen=True):
    """A heading, its lines with the most telling first, and the share of the remaining room it may take."""

    heading: str
    lines: tuple[str, ...]
    share: float


def render_fold(ledger: Ledger, *, budget_tokens: int, must_keep_tokens: int, rule: Ruler, recall: bool) -> FoldedText:
    """Write a ledger into at most that many tokens, of which instructions come first and may take `must_keep_tokens`.

    Pins are written beside that, whatever they take; and where a model's words have left less than instructions may take, these
    still get it.
    """
    room_tokens, pinned = budget_tokens, _pinned_block([quoted(quote, recall) for quote in ledger.pinned])
    beside = sum(estimate(text, rule) for text in pinned)
    for _ in range(MOST_TRIES):
        room = _Room(room_tokens, rule)
        allowed = must_keep_tokens if must_keep_tokens > budget_tokens else min(must_keep_tokens, room_tokens)
        folded = _write(ledger, room, allowed, pinned, recall)
        over = estimate(folded.text, rule) - beside - budget_tokens
        if over <= 0:
            break
        # Lines are sized one by one, and together they may come to a little more.
        room_tokens -= over + 4
    return folded


def _write(ledger: Ledger, room: "_Room", allowed: int, pinned: Sequence[str], recall: bool) -> FoldedText:
    opening = [OPENING, RECALL_HINT] if recall else [OPENING]
    for text in opening:
        room.take(text)
    others = int(max(0, room.left - allowed) * OTHERS_SHARE)
    kept = told_instructions(ledger, allowed_tokens=allowed, more_tokens=others, size=room.size, recall=recall)
    room.left -= kept.tokens
    folder = shared_folder(ledger.files)
    where = [FOLDER_NOTE.format(folder=folder)] if folder else []
    sections = room.fill((_changed(ledger, room, folder, recall), *_sections(ledger, folder, recall)), *where)
    return FoldedText("\n\n".join((*opening, *pinned, *kept.blocks, *sections)), kept.short)


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
    yield _Section("Decisions, newest first:", excerpts(reversed(ledger.decisions), recall), 0.3)
    yield _Section("Figures and references, newest first:", excerpts(reversed(ledger.findings), recall), 0.3)
    yield _Section("Files read, newest first:", read_lines(read, folder), 0.3)
    yield _Section("Commands run, newest first:", command_lines(reversed(ledger.commands), recall), 0.6)
    yield _Section("Reported to the user, newest first:", excerpts(reversed(ledger.reports), recall), 1.0)
