"""Logs written by hand, and a store in memory that holds them."""

from collections.abc import Sequence

from msgspec.structs import replace

from infold.core.entries import Entry, MessageEntry
from infold.core.messages import (
    AssistantMessage,
    Message,
    Overhead,
    SessionId,
    SystemMessage,
    ToolMessage,
    Usage,
    UserMessage,
)
from infold.ports import SessionKey
from infold.reports.stored_log import NumberedEntry
from infold.reports.timeline import ReadEarlier
from infold.stores.memory import MemoryStore
from infold.testing.builders import numbered

__all__ = ["KEY", "OVERHEAD", "Clock", "earlier_of", "entries_of", "reported", "stored"]

KEY = SessionKey("", SessionId("ferry-42"))

OVERHEAD = Overhead(system=1_000, tools=500)
MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


class Clock:
    """Noon on some day."""

    def now_ms(self) -> int:
        """Always the same."""
        return 1_790_000_000_000


def reported(reply: AssistantMessage, prompt: int, *, cached: int = 0, cost: float = 0.01) -> AssistantMessage:
    """A reply with what its provider reported of the request."""
    usage = Usage(input=prompt - cached, output=10, cache_read=cached)
    return replace(reply, usage=usage, cost=cost, overhead=OVERHEAD, created_ms=Clock().now_ms())


def entries_of(*things: Message | Entry) -> list[NumberedEntry]:
    """Drafts of messages and other entries, numbered from 0 in one order."""
    messages = iter(numbered(thing for thing in things if isinstance(thing, MESSAGES)))
    return [
        (number, MessageEntry(next(messages)) if isinstance(thing, MESSAGES) else thing)
        for number, thing in enumerate(things)
    ]


def earlier_of(entries: Sequence[NumberedEntry]) -> ReadEarlier:
    """How a store would give the entries before a number."""
    return lambda before: (one for one in reversed(entries) if one[0] < before)


def stored(*things: Message | Entry, key: SessionKey = KEY, store: MemoryStore | None = None) -> MemoryStore:
    """A store with one session of these."""
    kept = store if store is not None else MemoryStore(Clock())
    kept.append(key, [entry for _, entry in entries_of(*things)], expected=0)
    return kept
