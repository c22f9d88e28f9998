"""The deterministic fold: a checkpoint made from the history by code, with no model (B10).

Decides what of a ledger is written into a given number of tokens: the user's instructions verbatim first (B2), then what
was changed, what failed, what is open, what was run, and excerpts of what was reported. What finds no room stays in the log;
the text says how much there is of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from infold.core.ledger import CommandFact, FileFact, Ledger, Quote
from infold.core.policy import Ruler
from infold.core.tokens import estimate

__all__ = ["FoldedText", "render_fold"]

OPENING = (
    "[Earlier conversation, folded. What follows was taken from it word for word or by rule; "
    "it is a record of the past, not a new request.]"
)
RECALL_HINT = "The full text of anything marked with a number can be brought back with the recall tool by that number."

MOST_TRIES = 6
"""How often a text that came out too long is written again; pins alone can keep it too long."""

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
    pinned = _pinned_block([_quoted(quote, recall) for quote in ledger.pinned])
    kept, stubbed = _must_keep(ledger, room, share_tokens, recall)
    sections = [block for section in _sections(ledger, recall) if (block := room.fill(section))]
    return FoldedText("\n\n".join((*opening, *pinned, *kept, *sections)), tuple(stubbed))


class _Room:
    """The tokens still free; a scratch pad of `render_fold`."""

    def __init__(self, budget_tokens: int, rule: Ruler) -> None:
        self.left = budget_tokens
        self.rule: Ruler = rule

    def size(self, text: str) -> int:
        return estimate(text, self.rule) + 1

    def take(self, text: str) -> None:
        self.left -= self.size(text)

    def fill(self, section: _Section) -> str:
        """As many lines of a section as its share holds, with a count of the rest; empty if not even one does."""
        allowed = int(self.left * section.share)
        spent = self.size(section.heading) + 8
        lines: list[str] = []
        for line in section.lines:
            spent += self.size(line)
            if spent > allowed:
                break
            lines.append(line)
        if not lines:
            return ""
        left_out = len(section.lines) - len(lines)
        more = [f"- … and {left_out:,} more"] if left_out else []
        block = "\n".join((section.heading, *lines, *more))
        self.take(block)
        return block


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
        whole, stub = _quoted(quote, self.recall), _stubbed(quote, self.recall)
        line = next((text for text in (whole, stub) if self.room.size(text) <= self.allowed), "")
        if line:
            self.allowed -= self.room.size(line)
            self.room.take(line)
        if line == whole:
            self.verbatim.add(quote.handle)
        elif quote.handle not in self.stubbed:
            self.stubbed.append(quote.handle)
        return line


def _sections(ledger: Ledger, recall: bool) -> Iterator[_Section]:
    told = [line for quote in reversed(ledger.narratives) for line in quote.text.splitlines() if line.strip()]
    yield _Section("From an earlier summary, word for word:", tuple(told), 0.5)
    changed = [fact for fact in reversed(ledger.files) if fact.operation in CHANGED]
    read = [fact for fact in reversed(ledger.files) if fact.operation == "read"]
    yield _Section("Files changed, newest first:", _lines(changed, _file_line(recall)), 0.5)
    yield _Section(
        "Todo list as last written:", tuple(f"- [{fact.status}] {fact.item}" for fact in ledger.todos or ()), 0.4
    )
    yield _Section(
        "Errors not seen to be settled, newest first:",
        tuple(f"- {fact.origin}: {fact.line}{_at(fact.handle, recall)}" for fact in reversed(ledger.errors)),
        0.35,
    )
    yield _Section("Questions still open:", tuple(_quoted(quote, recall) for quote in ledger.questions), 0.3)
    yield _Section(
        "Started and not reported back:",
        tuple(f"- {fact.description}{_at(fact.handle, recall)}" for fact in ledger.jobs),
        0.3,
    )
    whole = {quote.handle for quote in (ledger.first_request, ledger.latest_request) if quote is not None}
    asked = [quote for quote in reversed(ledger.requests) if quote.handle not in whole]
    yield _Section("Other requests, newest first:", _excerpts(asked, recall), 0.4)
    yield _Section("Decisions, newest first:", _excerpts(list(reversed(ledger.decisions)), recall), 0.35)
    yield _Section("Reported to the user, newest first:", _excerpts(list(reversed(ledger.reports)), recall), 0.45)
    yield _Section("Commands run, newest first:", _lines(list(reversed(ledger.commands)), _command_line(recall)), 0.6)
    yield _Section("Files read, newest first:", _lines(read, _file_line(recall)), 1.0)


def _lines(facts: Iterable[FileFact] | Iterable[CommandFact], line: Callable[..., str]) -> tuple[str, ...]:
    return tuple(line(fact) for fact in facts)


def _file_line(recall: bool) -> Callable[[FileFact], str]:
    def line(fact: FileFact) -> str:
        times = f" ({fact.edits} times)" if fact.edits > 1 else ""
        return f"- {fact.path}: {fact.operation}{times}{_at(fact.handle, recall)}"

    return line


def _command_line(recall: bool) -> Callable[[CommandFact], str]:
    def line(fact: CommandFact) -> str:
        status = "" if fact.exit_status is None else f" → exit {fact.exit_status}"
        outcome = f" ({fact.outcome})" if fact.outcome else ""
        return f"- `{fact.command}`{status}{outcome}{_at(fact.handle, recall)}"

    return line


def _excerpts(quotes: Sequence[Quote], recall: bool) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"- {_one_line(quote.text, 240)}{_at(quote.handle, recall)}" for quote in quotes))


def _quoted(quote: Quote, recall: bool) -> str:
    return (
        f"{quote.text}{_at(quote.handle, recall)}"
        if "\n" in quote.text
        else f"- {quote.text}{_at(quote.handle, recall)}"
    )


def _stubbed(quote: Quote, recall: bool) -> str:
    hint = f"; recall {quote.handle}" if recall else ""
    return f"- {_one_line(quote.text, 160)} [{len(quote.text):,} characters in all{hint}]"


def _one_line(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _at(handle: str, recall: bool) -> str:
    return f" [{handle}]" if recall else ""
