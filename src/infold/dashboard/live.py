"""News for open pages, as server-sent events: what happened, and that a session grew.

Events tell what infold did. That a reply was recorded is no event, and another process may write to the same store; so the store
is looked at too, every few seconds, by what is cheap: its list of the sessions that changed last.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from infold.core.events import Event, SummaryProgressed
from infold.dashboard.desk import Feed
from infold.dashboard.listing import newest
from infold.errors import InfoldError
from infold.ports import Archive, SessionKey, StoredSession

RETRY_MS = 2_000
"""How long a browser waits before it asks again after the line broke."""

OPENING = f"retry: {RETRY_MS}\n\n"
HEARTBEAT = "event: still-here\ndata: {}\n\n"
"""An event, not a comment: a page that hears none for long knows that the line is dead."""

GROWN = "grown"
"""What is told where a session has more entries than before, or is gone, and no event said why."""


class Pace(Struct, frozen=True):
    """How often the store is looked at, and after how long without news a sign of life is given."""

    watch_seconds: float = 2.0
    heartbeat_seconds: float = 15.0


class News(Struct, frozen=True, omit_defaults=True):
    """What a page is told: of which session, what happened, and a piece of the summary that is being written for it."""

    session: str
    event: str
    text: str = ""


async def news(store: Archive, feed: Feed, key: SessionKey | None = None, pace: Pace = Pace()) -> AsyncIterator[str]:  # noqa: B008
    """What happens from now on, in one session or in all, until the feed ends or the store cannot be read."""
    yield OPENING
    events = feed.subscribe()
    coming = asyncio.ensure_future(_next(events))
    clock, quiet_since = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    try:
        seen = await asyncio.to_thread(_look, store, key, None)
        while True:
            await asyncio.wait({coming}, timeout=pace.watch_seconds)
            lines: list[str] = []
            if coming.done():
                told = coming.result()
                if told is None:
                    return
                coming = asyncio.ensure_future(_next(events))
                lines += [_line(one) for one in (news_of(*told, key),) if one is not None]
            else:
                found = await asyncio.to_thread(_look, store, key, seen)
                changed = found if found is not None else seen
                lines += [_line(News(changed.key.session_id, GROWN))] if changed is not None and found != seen else []
                seen = found
            if not lines and clock.time() - quiet_since >= pace.heartbeat_seconds:
                lines.append(HEARTBEAT)
            for line in lines:
                quiet_since = clock.time()
                yield line
    except InfoldError:
        return  # the browser asks again, and its page says what is wrong
    finally:
        coming.cancel()


def news_of(tenant: str | None, event: Event, key: SessionKey | None) -> News | None:
    """What a page that shows this session, or all of them, is told of an event; none where it is not its affair."""
    tag = str(event.__struct_config__.tag)
    if key is not None and (event.session_id != key.session_id or tenant not in (None, key.tenant)):
        return None
    if isinstance(event, SummaryProgressed):
        return None if key is None else News(event.session_id, tag, event.text)
    return News(event.session_id, tag)


async def _next(events: AsyncIterator[tuple[str | None, Event]]) -> tuple[str | None, Event] | None:
    return await anext(events, None)


def _look(store: Archive, key: SessionKey | None, seen: StoredSession | None) -> StoredSession | None:
    """How a session stands in the list, or the one that changed last; none where it should have come by now and is gone."""
    if key is None:
        return newest(store)
    for one in store.sessions(key.tenant):
        if one.key == key:
            return one
        if seen is not None and one.changed_ms < seen.changed_ms:
            break
    return None


def _line(told: News) -> str:
    return f"data: {msgspec.json.encode(told).decode()}\n\n"
