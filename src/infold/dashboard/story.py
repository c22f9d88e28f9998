"""What one entry did to the view: a compaction as before and after, a pruning or clipping as what it hid.

Read from the log alone: the session as it stood before the entry, and the session with it.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from infold.core.entries import Checkpoint, Clipping, Entry, Handle, Pruning, Restoration, split_handle
from infold.core.log import Log
from infold.core.logged_message import hidden_parts
from infold.core.messages import Part, Usage
from infold.core.tokens import measure_part
from infold.dashboard.facts import Facts, facts_of
from infold.dashboard.reading import entry_at, log_before
from infold.dashboard.rows import can_be_undone, message_tokens, preview_of, role_of
from infold.dashboard.timeline import RENDERING, reply_of
from infold.errors import UnknownReference
from infold.ports import SessionKey, Store


class Line(Struct, frozen=True):
    """A message of a view on one line."""

    sequence: int
    role: str
    words: str
    tokens: int


class Compaction(Struct, frozen=True):
    """A compaction with everything that is known of it.

    `folded` and `kept` are the messages that left the view and that stayed, `earlier` what an older checkpoint had said of those
    before them. `next_usage` is what the provider reported for the next request.
    """

    sequence: int
    checkpoint: Checkpoint
    earlier: Checkpoint | None
    folded: tuple[Line, ...]
    kept: tuple[Line, ...]
    facts: tuple[Facts, ...]
    next_usage: Usage | None
    is_undone: bool
    can_undo: bool

    @property
    def coded(self) -> str:
        """What of the text in the head's place code wrote; the model's narrative, where there is one, follows it."""
        return self.checkpoint.text.removesuffix(self.checkpoint.narrative).rstrip()

    @property
    def left_share(self) -> float | None:
        """What part of the view was left."""
        checkpoint = self.checkpoint
        return checkpoint.tokens_after / checkpoint.tokens_before if checkpoint.tokens_before else None

    @property
    def cached_share(self) -> float | None:
        """What part of the next request came from the provider's cache all the same."""
        usage = self.next_usage
        return usage.cache_read / usage.prompt if usage is not None and usage.prompt else None


class Hidden(Struct, frozen=True):
    """A part that was hidden: what it took as it was said, and what it took then."""

    handle: Handle
    role: str
    words: str
    tokens: int
    shown_tokens: int


class Hiding(Struct, frozen=True):
    """A pruning or a clipping with the parts it hid."""

    sequence: int
    entry: Pruning | Clipping
    parts: tuple[Hidden, ...]
    is_undone: bool
    can_undo: bool

    @property
    def freed_tokens(self) -> int:
        """By how much the view became smaller."""
        return sum(part.tokens - part.shown_tokens for part in self.parts)


def story_at(store: Store, key: SessionKey, sequence: int) -> Compaction | Hiding:
    """What the entry of that number did; raises `UnknownReference` where it hid and folded nothing."""
    _, entry = entry_at(store, key, sequence)
    before, after = log_before(store, key, sequence), log_before(store, key, sequence + 1)
    can_undo = can_be_undone(sequence, log_before(store, key))
    if after.checkpoint is not None and after.checkpoint_sequence == sequence:
        return _compaction(before, after, _since(store.newest_first(key), sequence), can_undo=can_undo)
    if isinstance(entry, Pruning | Clipping):
        since = _since(store.newest_first(key), sequence)
        parts = tuple(_hidden(entry, before, after))
        return Hiding(sequence, entry, parts, is_undone=since.is_undone, can_undo=can_undo)
    raise UnknownReference("change numbered", str(sequence), remedy="open a compaction, a pruning or a clipping")


class _Since(Struct, frozen=True):
    """What happened after an entry: what the next request reported, and whether the entry was undone."""

    next_usage: Usage | None
    is_undone: bool


def _since(newest_first: Iterable[tuple[int, Entry]], sequence: int) -> _Since:
    next_usage, is_undone = None, False
    for number, entry in newest_first:
        if number <= sequence:
            break
        is_undone = is_undone or (isinstance(entry, Restoration) and entry.sequence == sequence)
        reply = reply_of(entry)
        next_usage = next_usage if reply is None else reply.usage
    return _Since(next_usage, is_undone)


def _compaction(before: Log, after: Log, since: _Since, *, can_undo: bool) -> Compaction:
    assert after.checkpoint is not None
    lines = tuple(_lines(before))
    return Compaction(
        after.checkpoint_sequence,
        after.checkpoint,
        before.checkpoint,
        folded=tuple(line for line in lines if after.at(line.sequence) is None),
        kept=tuple(line for line in lines if after.at(line.sequence) is not None),
        facts=facts_of(after.checkpoint.ledger),
        next_usage=since.next_usage,
        is_undone=since.is_undone,
        can_undo=can_undo,
    )


def _lines(log: Log) -> Iterator[Line]:
    """The messages of a view as it showed them, without those about compaction itself."""
    for placed in log.live:
        if not placed.is_business:
            shown = log.shown(placed)
            yield Line(placed.sequence, role_of(shown), preview_of(shown), message_tokens(shown))


def _hidden(entry: Pruning | Clipping, before: Log, after: Log) -> Iterator[Hidden]:
    for handle, _ in hidden_parts(entry):
        placed = before.find(handle)
        if placed is not None:
            position = split_handle(handle)[1]
            said, left = before.shown(placed).parts[position], after.shown(placed).parts[position]
            words = preview_of(placed.message)
            yield Hidden(handle, role_of(placed.message), words, _tokens(said), _tokens(left))


def _tokens(part: Part) -> int:
    return measure_part(part, RENDERING.estimate)
