"""Live updates of open pages, as server-sent events: what infold did, and that a session grew.

A recorded reply is not an event, and another process may write to the same store; so the store is polled too, by its list of
sessions, which is cheap.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from infold.core.events import Event, SummaryProgressed
from infold.errors import InfoldError
from infold.gateway.event_hub import EventHub
from infold.ports import Archive, SessionKey, StoredSession
from infold.reports.listing import newest_sessions

RETRY_MS = 2_000
"""How long a browser waits before it connects again."""

OPENING = f"retry: {RETRY_MS}\n\n"
HEARTBEAT = "event: still-here\ndata: {}\n\n"
"""An event, not a comment: a page that gets none for long knows that the connection is dead."""

GROWN = "grown"
"""The update for a session that has more entries than before, or was deleted, without an event."""

ALL_SESSIONS = ""
"""The session of an update for the list of sessions, when none of them is known to have changed."""


class Pace(Struct, frozen=True):
    """How often the store is polled, and after how long without updates a heartbeat is sent."""

    poll_seconds: float = 2.0
    heartbeat_seconds: float = 15.0


class Update(Struct, frozen=True, omit_defaults=True):
    """What happened in which session, with the next words of a summary that is being written."""

    session: str
    event: str
    text: str = ""


async def stream_updates(
    store: Archive,
    hub: EventHub,
    key: SessionKey | None = None,
    pace: Pace = Pace(),  # noqa: B008
) -> AsyncIterator[str]:
    """Yield what happens from now on, in one session or in all, until the hub is closed or the store fails.

    The first update covers what changed between the page's rendering and the first poll, which nothing else reports.
    """
    yield OPENING
    events = hub.subscribe()
    coming = asyncio.ensure_future(_next(events))
    clock, quiet_since = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    try:
        seen = await asyncio.to_thread(_poll, store, key, None)
        shown_session = ALL_SESSIONS if key is None else key.session_id
        yield _encode(Update(session=shown_session, event=GROWN))
        while True:
            await asyncio.wait({coming}, timeout=pace.poll_seconds)
            lines: list[str] = []
            if coming.done():
                event = coming.result()
                if event is None:
                    return
                coming = asyncio.ensure_future(_next(events))
                lines += [_encode(one) for one in (update_for(*event, key),) if one is not None]
            else:
                found = await asyncio.to_thread(_poll, store, key, seen)
                changed = found if found is not None else seen
                if changed is not None and found != seen:
                    lines.append(_encode(Update(session=changed.key.session_id, event=GROWN)))
                seen = found
            if not lines and clock.time() - quiet_since >= pace.heartbeat_seconds:
                lines.append(HEARTBEAT)
            for line in lines:
                quiet_since = clock.time()
                yield line
    except InfoldError:
        return  # the browser connects again, and its page shows the error
    finally:
        coming.cancel()


def update_for(tenant: str | None, event: Event, key: SessionKey | None) -> Update | None:
    """Return the update of an event for a page that shows this session, or all; `None` if the event does not concern it."""
    tag = str(event.__struct_config__.tag)
    if key is not None and (event.session_id != key.session_id or tenant not in (None, key.tenant)):
        return None
    if isinstance(event, SummaryProgressed):
        return None if key is None else Update(event.session_id, tag, event.text)
    return Update(event.session_id, tag)


async def _next(events: AsyncIterator[tuple[str | None, Event]]) -> tuple[str | None, Event] | None:
    return await anext(events, None)


def _poll(store: Archive, key: SessionKey | None, seen: StoredSession | None) -> StoredSession | None:
    """Return a session as listed, or the one that changed last; `None` if it is no longer listed."""
    if key is None:
        return next(newest_sessions(store), None)
    for one in store.sessions(key.tenant):
        if one.key == key:
            return one
        if seen is not None and one.changed_ms < seen.changed_ms:
            break
    return None


def _encode(update: Update) -> str:
    return f"data: {msgspec.json.encode(update).decode()}\n\n"
