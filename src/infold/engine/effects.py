"""What the flow asks of the world: to append entries, to ask a model, to hear plugins, to tell observers.

An effect is a value. The flow yields it and is sent the outcome, so that one flow serves sync and async callers alike.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from infold.core.entries import Checkpoint, Entry
from infold.core.events import Event
from infold.core.summary_request import Additions, SummaryRequest
from infold.ports import Decision, Occasion


class Append(Struct, frozen=True):
    """Append these entries, all or none, as the numbers from `expected` on; a `StoreConflict` tells of another writer."""

    entries: tuple[Entry, ...]
    expected: int


class Load(Struct, frozen=True):
    """Read the session from its store; the outcome is a `Log`."""


class Keep(Struct, frozen=True):
    """Keep the bytes of media for the session, before the messages that name them are appended; there is no outcome."""

    media: Mapping[str, bytes]


class ReadMedia(Struct, frozen=True):
    """Read the bytes of media by their digests; the outcome is a mapping with those that are there."""

    digests: tuple[str, ...]


class Hold(Struct, frozen=True):
    """Take the session's lock; the outcome is whether it was free. It is given back when the flow ends, however it ends."""


class Release(Struct, frozen=True):
    """Give the session's lock back before the flow ends."""


class Wait(Struct, frozen=True):
    """Let that much time pass."""

    seconds: float


class Ask(Struct, frozen=True):
    """Ask the summariser; the outcome is a `Told`, or a `ModelError` is thrown into the flow."""

    request: SummaryRequest


class Fetch(Struct, frozen=True):
    """Fetch the summary that was prepared ahead, if there is one; `wait`: also one that is still being written (B18)."""

    wait: bool


class Consult(Struct, frozen=True):
    """Hear what plugins have to say about a compaction; the outcome is a `Guidance`."""

    occasion: Occasion


class Announce(Struct, frozen=True):
    """Tell plugins that a compaction was committed; there is no outcome."""

    checkpoint: Checkpoint


class Publish(Struct, frozen=True):
    """Tell observers what happened; there is no outcome."""

    events: tuple[Event, ...]


Effect: TypeAlias = (
    Append | Keep | ReadMedia | Load | Hold | Release | Wait | Ask | Fetch | Consult | Announce | Publish
)
EFFECTS = (Append, Keep, ReadMedia, Load, Hold, Release, Wait, Ask, Fetch, Consult, Announce, Publish)


class Guidance(Struct, frozen=True):
    """What plugins want: additions to the instruction, a decision, and whether a continue message may follow."""

    additions: Additions = Additions()
    decision: Decision | None = None
    may_continue: bool = True
