"""Logs written by hand, and a desk to look at them from: a store in memory, acts that are noted, a feed that ends."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.testclient import TestClient

from infold.core.entries import Entry, MessageEntry
from infold.core.events import Event
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
from infold.dashboard.addresses import address_of
from infold.dashboard.app import page_routes
from infold.dashboard.desk import Desk
from infold.dashboard.timeline import Earlier, Numbered
from infold.errors import InfoldError
from infold.ports import FullStore, SessionKey
from infold.session.compaction import Preview
from infold.stores.memory import MemoryStore
from infold.testing.builders import numbered

__all__ = [
    "HERE",
    "KEY",
    "OVERHEAD",
    "Acted",
    "Clock",
    "Told",
    "client",
    "earlier_of",
    "entries_of",
    "reported",
    "stored",
]

KEY = SessionKey("", SessionId("ferry-42"))
HERE = f"/sessions/{address_of(KEY)}"

OVERHEAD = Overhead(system=1_000, tools=500)
PREVIEW = Preview(3, 4, 9_000, 1_000, "[folded]")
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


def entries_of(*things: Message | Entry) -> list[Numbered]:
    """Drafts of messages and other entries, numbered from 0 in one order."""
    messages = iter(numbered(thing for thing in things if isinstance(thing, MESSAGES)))
    return [
        (number, MessageEntry(next(messages)) if isinstance(thing, MESSAGES) else thing)
        for number, thing in enumerate(things)
    ]


def earlier_of(entries: Sequence[Numbered]) -> Earlier:
    """How a store would give the entries before a number."""
    return lambda before: (one for one in reversed(entries) if one[0] < before)


def stored(*things: Message | Entry, key: SessionKey = KEY, store: MemoryStore | None = None) -> MemoryStore:
    """A store with one session of these."""
    kept = store if store is not None else MemoryStore(Clock())
    kept.append(key, [entry for _, entry in entries_of(*things)], expected=0)
    return kept


class Acted:
    """Notes what it is asked to do, or refuses."""

    def __init__(
        self,
        refusal: InfoldError | None = None,
        *,
        preview: Preview = PREVIEW,
        is_done: bool = True,
        summarises: bool = True,
    ) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._is_done = is_done
        self._summarises = summarises
        self._refusal = refusal
        self._preview = preview

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> bool:
        """Note it."""
        self._note("compact", key, focus, up_to)
        return self._is_done

    async def undo(self, key: SessionKey, sequence: int | None) -> None:
        """Note it."""
        self._note("undo", key, sequence)

    async def pin(self, key: SessionKey, handle: str, pinned: bool) -> None:
        """Note it."""
        self._note("pin", key, handle, pinned)

    def summarises(self, key: SessionKey) -> bool:
        """As it was made."""
        del key
        return self._summarises

    async def preview(self, key: SessionKey, up_to: int | None) -> Preview:
        """Always the same."""
        self._note("preview", key, up_to)
        return self._preview

    def _note(self, *asked: object) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.asked.append(asked)


class Told:
    """A feed that tells of some events and ends."""

    def __init__(self, *events: Event, tenant: str | None = None) -> None:
        self._events = events
        self._tenant = tenant

    async def subscribe(self) -> AsyncIterator[tuple[str | None, Event]]:
        """All of them."""
        for event in self._events:
            yield self._tenant, event


def client(
    store: FullStore,
    acts: Acted | None = None,
    *,
    feed: Told | None = None,
    window_of: Callable[[SessionKey], int | None] = lambda _: 8_000,
    previews: bool = True,
) -> TestClient:
    """A browser of sorts, on a desk over this store."""
    given = acts or Acted()
    more: dict[str, Any] = {"preview": given.preview} if previews else {}
    desk = Desk(
        store=store,
        acts=given,
        feed=feed or Told(),
        window_of=window_of,
        now_ms=lambda: Clock().now_ms() + 90_000,
        **more,
    )
    return TestClient(Starlette(routes=page_routes(desk)), follow_redirects=False)
