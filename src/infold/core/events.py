"""Facts for observers, in the past tense (B22). An event tells what was done; it never asks for anything."""

from typing import TypeAlias

from msgspec import Struct

from infold.core.entries import Handle, Reason

__all__ = [
    "Clipped",
    "Compacted",
    "Event",
    "Exceeded",
    "InstructionStubbed",
    "Pruned",
    "StubRepeated",
    "SummaryRejected",
]


class Pruned(Struct, frozen=True, tag_field="event", tag="pruned"):
    """Old tool results or call arguments became stubs."""

    session_id: str
    targets: tuple[Handle, ...]
    freed_tokens: int
    tokens_before: int
    tokens_after: int
    reason: Reason


class Clipped(Struct, frozen=True, tag_field="event", tag="clipped"):
    """Parts too large for the window were shortened."""

    session_id: str
    targets: tuple[Handle, ...]
    tokens_before: int
    tokens_after: int
    reason: Reason


class Compacted(Struct, frozen=True, tag_field="event", tag="session.compacted"):
    """The head of a session was folded (S3.7); `summariser` names the model, or is empty where code alone did it."""

    session_id: str
    folded_messages: int
    tokens_before: int
    tokens_after: int
    reason: Reason
    summariser: str = ""
    cost: float = 0.0
    duration_ms: int = 0

    @property
    def ratio(self) -> float:
        """What part of the view is left."""
        return self.tokens_after / self.tokens_before if self.tokens_before else 1.0


class InstructionStubbed(Struct, frozen=True, tag_field="event", tag="instruction-stubbed"):
    """An instruction of the user no longer fitted verbatim and stands as a one-line stub (B2)."""

    session_id: str
    handles: tuple[str, ...]


class Exceeded(Struct, frozen=True, tag_field="event", tag="window-exceeded"):
    """Nothing more can be hidden and the view still does not fit (B9)."""

    session_id: str
    floor_tokens: int
    usable_tokens: int


class StubRepeated(Struct, frozen=True, tag_field="event", tag="stub-repeated"):
    """A reply wrote the text of a stub as if it were content; whoever acts on it would write the stub to a file (B24)."""

    session_id: str
    message_id: str


class SummaryRejected(Struct, frozen=True, tag_field="event", tag="summary-rejected"):
    """A model's summary could not be used: what the judge or the model's failure said of it (B5)."""

    session_id: str
    faults: tuple[str, ...]


Event: TypeAlias = Pruned | Clipped | Compacted | InstructionStubbed | StubRepeated | SummaryRejected | Exceeded
"""Everything the core can report."""
