"""What the flow asks of the world: to append entries, to ask a model, to tell observers.

An effect is a value. The flow yields it and is sent the outcome, so that one flow serves sync and async callers alike.
"""

from typing import TypeAlias

from msgspec import Struct

from infold.core.entries import Entry
from infold.core.events import Event
from infold.core.judge import Answer
from infold.core.messages import Usage
from infold.core.summary import SummaryRequest

__all__ = ["Append", "Ask", "Effect", "Publish", "Told"]


class Append(Struct, frozen=True):
    """Append these entries, all or none, as the numbers from `expected` on; the outcome is the next number."""

    entries: tuple[Entry, ...]
    expected: int


class Ask(Struct, frozen=True):
    """Ask the summariser; the outcome is a `Told`, or a `ModelError` is thrown into the flow."""

    request: SummaryRequest


class Publish(Struct, frozen=True):
    """Tell observers what happened; there is no outcome."""

    events: tuple[Event, ...]


Effect: TypeAlias = Append | Ask | Publish


class Told(Struct, frozen=True):
    """A summariser's answer, and what it took."""

    answer: Answer
    model: str = ""
    usage: Usage | None = None
    cost: float = 0.0
    duration_ms: int = 0
