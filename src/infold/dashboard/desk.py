"""What the page needs of whoever serves it: a store to read, somebody who acts, and news of what happens."""

from collections.abc import AsyncIterator, Awaitable, Callable
from time import time
from typing import Protocol

from msgspec import Struct

from infold.core.events import Event
from infold.ports import FullStore, SessionKey
from infold.session.compaction import Preview


class Acts(Protocol):
    """What a person may do to a session; every refusal is an `InfoldError`, whose words the person is shown."""

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> bool:
        """Compact a session now, up to the message of that number where one is given; whether anything was done."""
        ...

    async def undo(self, key: SessionKey, sequence: int | None) -> None:
        """Undo the newest compaction, or what the entry of that number hid."""
        ...

    async def pin(self, key: SessionKey, handle: str, pinned: bool) -> None:
        """Pin a part or release it."""
        ...

    def summarises(self, key: SessionKey) -> bool:
        """Whether a model writes the summaries of a compaction from here; code alone has no use for a focus."""
        ...


class Feed(Protocol):
    """Where news comes from."""

    def subscribe(self) -> AsyncIterator[tuple[str | None, Event]]:
        """The events from now on, each with the tenant it is of where that is known; where they end, so does whatever listens."""
        ...


class Desk(Struct, frozen=True, kw_only=True):
    """All that the page works with.

    `window_of` is the limit to draw for a session, none where it is not known. `preview` tells what compacting up to a message
    would do; without it the page compacts unseen.
    """

    store: FullStore
    acts: Acts
    feed: Feed
    window_of: Callable[[SessionKey], int | None]
    preview: Callable[[SessionKey, int | None], Awaitable[Preview]] | None = None
    now_ms: Callable[[], int] = lambda: int(time() * 1000)
