"""What one entry did to the view: a compaction as before and after, a pruning or clipping as the parts it hid."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from infold.core.entries import Checkpoint, Clipping, Entry, Handle, Pruning, Restoration, split_handle
from infold.core.ledger import CommandFact, FileFact, Ledger, Quote
from infold.core.log import Log
from infold.core.logged_message import hidden_parts
from infold.core.messages import Usage
from infold.core.tokens import measure_part
from infold.errors import UnknownReference
from infold.ports import SessionKey, Store
from infold.reports.log_rows import can_undo, message_tokens, preview_message, role_of
from infold.reports.stored_log import RENDERING, find_entry, load_log, reply_in
from infold.reports.text import plural
from infold.reports.timeline import cached_share


class MessageLine(Struct, frozen=True):
    """A message of a view as one line."""

    sequence: int
    role: str
    words: str
    tokens: int


class LedgerFact(Struct, frozen=True):
    """One fact of a ledger, a note on it, and the handle of its source."""

    words: str
    note: str = ""
    handle: str = ""

    @property
    def sequence(self) -> int | None:
        """The number of the source message, or `None` if the ledger names none."""
        number = split_handle(self.handle)[0]
        return None if number < 0 else number


class LedgerFacts(Struct, frozen=True):
    """The facts of one kind, newest first."""

    title: str
    facts: tuple[LedgerFact, ...]


class CompactionDetail(Struct, frozen=True):
    """A compaction: `folded` messages left the view, `kept` ones stayed, `earlier` is the checkpoint it built on.

    `next_usage` is what the provider reported for the next request.
    """

    sequence: int
    checkpoint: Checkpoint
    earlier: Checkpoint | None
    folded: tuple[MessageLine, ...]
    kept: tuple[MessageLine, ...]
    facts: tuple[LedgerFacts, ...]
    next_usage: Usage | None
    is_undone: bool
    can_undo: bool

    @property
    def code_text(self) -> str:
        """The part of the checkpoint that code wrote, without the model's summary after it."""
        return self.checkpoint.text.removesuffix(self.checkpoint.narrative).rstrip()

    @property
    def remaining_share(self) -> float | None:
        """The size of the view after the compaction as a share of the size before it."""
        checkpoint = self.checkpoint
        return checkpoint.tokens_after / checkpoint.tokens_before if checkpoint.tokens_before else None

    @property
    def cached_share(self) -> float | None:
        """The share of the next request that came from the provider's cache."""
        return cached_share(self.next_usage)


class HiddenPart(Struct, frozen=True):
    """A part that was hidden, with its size before and after."""

    handle: Handle
    role: str
    words: str
    tokens: int
    shown_tokens: int


class HidingDetail(Struct, frozen=True):
    """A pruning or a clipping with the parts it hid."""

    sequence: int
    entry: Pruning | Clipping
    parts: tuple[HiddenPart, ...]
    is_undone: bool
    can_undo: bool

    @property
    def freed_tokens(self) -> int:
        """By how much the view became smaller."""
        return sum(part.tokens - part.shown_tokens for part in self.parts)


class _After(Struct, frozen=True):
    """What followed an entry: the usage of the next request, and whether the entry was undone."""

    next_usage: Usage | None
    is_undone: bool


def entry_detail(store: Store, key: SessionKey, sequence: int) -> CompactionDetail | HidingDetail:
    """Return what the entry of that number did; raise `UnknownReference` if it hid and folded nothing."""
    entry = find_entry(store, key, sequence)
    before, with_entry = load_log(store, key, sequence), load_log(store, key, sequence + 1)
    is_open = can_undo(sequence, load_log(store, key))
    if with_entry.checkpoint is not None and with_entry.checkpoint_sequence == sequence:
        return _compaction(before, with_entry, _after(store.newest_first(key), sequence), can_undo=is_open)
    if isinstance(entry, Pruning | Clipping):
        after = _after(store.newest_first(key), sequence)
        parts = tuple(_hidden(entry, before, with_entry))
        return HidingDetail(sequence, entry, parts, is_undone=after.is_undone, can_undo=is_open)
    raise UnknownReference("change numbered", str(sequence), remedy="open a compaction, a pruning or a clipping")


def _after(newest_first: Iterable[tuple[int, Entry]], sequence: int) -> _After:
    next_usage, is_undone = None, False
    for number, entry in newest_first:
        if number <= sequence:
            break
        is_undone = is_undone or (isinstance(entry, Restoration) and entry.sequence == sequence)
        reply = reply_in(entry)
        next_usage = next_usage if reply is None else reply.usage
    return _After(next_usage, is_undone)


def _compaction(before: Log, with_entry: Log, after: _After, *, can_undo: bool) -> CompactionDetail:
    assert with_entry.checkpoint is not None
    lines = tuple(_lines(before))
    return CompactionDetail(
        with_entry.checkpoint_sequence,
        with_entry.checkpoint,
        before.checkpoint,
        folded=tuple(line for line in lines if with_entry.at(line.sequence) is None),
        kept=tuple(line for line in lines if with_entry.at(line.sequence) is not None),
        facts=list_facts(with_entry.checkpoint.ledger),
        next_usage=after.next_usage,
        is_undone=after.is_undone,
        can_undo=can_undo,
    )


def _lines(log: Log) -> Iterator[MessageLine]:
    """Yield the messages of a view as it showed them, without those about compaction itself."""
    for placed in log.live:
        if not placed.is_business:
            shown = log.shown(placed)
            yield MessageLine(placed.sequence, role_of(shown), preview_message(shown), message_tokens(shown))


def _hidden(entry: Pruning | Clipping, before: Log, after: Log) -> Iterator[HiddenPart]:
    for handle, _ in hidden_parts(entry):
        placed = before.find(handle)
        if placed is not None:
            position = split_handle(handle)[1]
            sizes = (measure_part(log.shown(placed).parts[position], RENDERING.estimate) for log in (before, after))
            yield HiddenPart(handle, role_of(placed.message), preview_message(placed.message), *sizes)


# The ledger.


def list_facts(ledger: Ledger) -> tuple[LedgerFacts, ...]:
    """Return a ledger's facts by kind: requests and rules first, then what was done, then what is open."""
    found = (LedgerFacts(title, tuple(facts)) for title, facts in _kinds(ledger))
    return tuple(facts for facts in found if facts.facts)


def _kinds(ledger: Ledger) -> Iterator[tuple[str, Iterable[LedgerFact]]]:
    yield "Pinned", _quotes(ledger.pinned)
    yield "Requests", _quotes(ledger.requests)
    yield "Rules", _quotes(ledger.constraints)
    yield "Files", map(_file, reversed(ledger.files))
    yield "Commands", map(_command, reversed(ledger.commands))
    yield "Unsettled errors", (LedgerFact(fact.line, fact.origin, fact.handle) for fact in reversed(ledger.errors))
    yield "Todos", (LedgerFact(fact.item, fact.status) for fact in ledger.todos or ())
    yield "Decisions", _quotes(ledger.decisions)
    yield "Findings", _quotes(ledger.findings)
    yield "Open questions", _quotes(ledger.questions)
    yield "Running jobs", (LedgerFact(fact.description, "", fact.handle) for fact in ledger.jobs)


def _quotes(quotes: tuple[Quote, ...]) -> Iterator[LedgerFact]:
    return (LedgerFact(quote.text, "", quote.handle) for quote in reversed(quotes))


def _file(fact: FileFact) -> LedgerFact:
    edits = f", {plural(fact.edits, 'edit')}" if fact.edits else ""
    return LedgerFact(fact.path, f"{fact.operation}{edits}", fact.handle)


def _command(fact: CommandFact) -> LedgerFact:
    ended = "" if fact.exit_status is None else f"exit {fact.exit_status}"
    runs = f"{fact.runs} runs" if fact.runs > 1 else ""
    return LedgerFact(fact.command, ", ".join(filter(None, (ended, fact.outcome, runs))), fact.handle)
