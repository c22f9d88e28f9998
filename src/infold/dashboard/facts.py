"""A checkpoint's ledger as lists a person can read, and the judge's faults in words."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from infold.core.entries import Fault, split_handle
from infold.core.ledger import CommandFact, FileFact, Ledger, Quote
from infold.dashboard.figures import plural

FAULTS: dict[Fault, str] = {
    "failed": "the model gave no answer",
    "empty": "it said nothing",
    "too-short": "it was too short to say anything",
    "repetitive": "it said the same over and over",
    "cut-off": "it was cut off before its end",
    "tool-calls": "it called tools instead of summarising",
    "refused": "the model declined",
    "language": "it was not in the user's language",
    "too-large": "it was hardly smaller than what it was to stand for",
    "invented": "it named things that occur nowhere in the session",
}
"""What each fault of a summary means."""


class Fact(Struct, frozen=True):
    """One thing the ledger knows, what else is known of it, and the part it stands in."""

    words: str
    note: str = ""
    handle: str = ""

    @property
    def sequence(self) -> int | None:
        """The number of the message it stands in; none where the ledger names none, or something that is no part."""
        number = split_handle(self.handle)[0]
        return None if number < 0 else number


class Facts(Struct, frozen=True):
    """The facts of one kind, newest first where order tells anything."""

    title: str
    facts: tuple[Fact, ...]


def facts_of(ledger: Ledger) -> tuple[Facts, ...]:
    """The ledger in the order a reader wants it: what was asked, what holds, what was done, what is open."""
    found = (Facts(title, tuple(facts)) for title, facts in _kinds(ledger))
    return tuple(facts for facts in found if facts.facts)


def _kinds(ledger: Ledger) -> Iterator[tuple[str, Iterable[Fact]]]:
    yield "Pinned", _quoted(ledger.pinned)
    yield "Requests", _quoted(ledger.requests)
    yield "Rules", _quoted(ledger.constraints)
    yield "Files", (_file(fact) for fact in reversed(ledger.files))
    yield "Commands", (_command(fact) for fact in reversed(ledger.commands))
    yield "Unsettled errors", (Fact(fact.line, fact.origin, fact.handle) for fact in reversed(ledger.errors))
    yield "Todos", (Fact(fact.item, fact.status) for fact in ledger.todos or ())
    yield "Decisions", _quoted(ledger.decisions)
    yield "Findings", _quoted(ledger.findings)
    yield "Open questions", _quoted(ledger.questions)
    yield "Running jobs", (Fact(fact.description, "", fact.handle) for fact in ledger.jobs)


def _quoted(quotes: tuple[Quote, ...]) -> Iterator[Fact]:
    return (Fact(quote.text, "", quote.handle) for quote in reversed(quotes))


def _file(fact: FileFact) -> Fact:
    edits = f", {plural(fact.edits, 'edit')}" if fact.edits else ""
    return Fact(fact.path, f"{fact.operation}{edits}", fact.handle)


def _command(fact: CommandFact) -> Fact:
    ended = "" if fact.exit_status is None else f"exit {fact.exit_status}"
    runs = f"{fact.runs} runs" if fact.runs > 1 else ""
    return Fact(fact.command, ", ".join(filter(None, (ended, fact.outcome, runs))), fact.handle)
