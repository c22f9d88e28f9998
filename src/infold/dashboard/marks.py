"""What was done to a view between two requests, as marks on its timeline."""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.entries import Amendment, Checkpoint, Clipping, Entry, Pruning, Rejection, Restoration
from infold.core.log import Log
from infold.dashboard.figures import plural, short

MarkKind: TypeAlias = Literal["compaction", "pruning", "clipping", "restoration", "rejection", "amendment"]

OPENED: tuple[MarkKind, ...] = ("compaction", "pruning", "clipping")
"""What has a page of its own."""


class Mark(Struct, frozen=True):
    """Something that was done between two requests: `request` is the number of the one after it."""

    kind: MarkKind
    sequence: int
    request: int
    words: str
    created_ms: int | None = None
    is_undone: bool = False


def mark_of(sequence: int, entry: Entry, after: Log, *, request: int) -> Mark | None:
    """The mark of an entry, given the session with it; none for what was only said, pinned or named."""
    match entry:
        case Pruning():
            words = f"{plural(len(entry.targets), 'part')} pruned, {short(entry.freed_tokens)} tokens freed"
            return Mark("pruning", sequence, request, words, entry.pruned_ms)
        case Clipping():
            return Mark("clipping", sequence, request, f"{plural(len(entry.clips), 'part')} clipped", entry.clipped_ms)
        case Restoration():
            return Mark("restoration", sequence, request, f"entry {entry.sequence} undone")
        case Rejection():
            return Mark("rejection", sequence, request, _refused(entry), entry.rejected_ms)
        case Amendment():
            return Mark("amendment", sequence, request, f"messages from {entry.first} on taken back")
        case _:  # a checkpoint, or a summary that became one
            return _compaction(after, request) if after.checkpoint_sequence == sequence else None


def _compaction(after: Log, request: int) -> Mark:
    checkpoint = after.checkpoint
    assert checkpoint is not None
    return Mark("compaction", after.checkpoint_sequence, request, _folded(checkpoint), checkpoint.created_ms)


def _folded(checkpoint: Checkpoint) -> str:
    if not checkpoint.tokens_before:
        return "the head folded"
    return f"{short(checkpoint.tokens_before)} → {short(checkpoint.tokens_after)} tokens"


def _refused(rejection: Rejection) -> str:
    """A refusal in the provider's numbers, where it told any."""
    if rejection.bound_thinking:
        return "thinking refused, removed"
    counted = rejection.reported_tokens or rejection.estimated_tokens
    limit = "" if rejection.limit_tokens is None else f", {short(rejection.limit_tokens)} are allowed"
    return f"{short(counted)} tokens were too many{limit}"
