"""News for open pages."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from infold.core.entries import MessageEntry
from infold.core.events import Compacted, Event, Restored, SummaryProgressed
from infold.core.messages import SessionId
from infold.errors import StoreBroken
from infold.gateway.event_hub import EventHub
from infold.gateway.page.live import HEARTBEAT, OPENING, Pace, Update, stream_updates, update_for
from infold.ports import SessionKey, StoredSession
from infold.stores.memory import MemoryStore
from infold.testing.builders import numbered, replies, user

from ...reports.stored_sessions import KEY, stored  # noqa: TID252 - `tests` is no package to name
from .page_client import EventList

DONE = Compacted("ferry-42", 9, 900, 100, "manual")
OTHER = Restored("another", 3, 50)
PIECE = SummaryProgressed("ferry-42", "All is ")
BEGUN = 'data: {"session":"ferry-42","event":"grown"}\n\n'
BEGUN_LIST = 'data: {"session":"","event":"grown"}\n\n'
AT_ONCE = Pace(poll_seconds=0.001, heartbeat_seconds=0.0)


class Silent(EventHub):
    """A feed that never says anything, and notes that nobody listens any more."""

    is_left = False

    async def subscribe(self) -> AsyncIterator[tuple[str | None, Event]]:
        """Nothing."""
        try:
            await asyncio.Event().wait()
            yield None, DONE
        finally:
            self.is_left = True


class Broken(MemoryStore):
    """A store that cannot be read."""

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """Fail."""
        del tenant
        raise StoreBroken("here", "it is damaged", remedy="mend it")


def updates(
    store: MemoryStore, hub: EventHub, key: SessionKey | None, *, most: int = 9, pace: Pace = Pace()
) -> list[str]:
    """What a page is told, at most so much."""

    async def listen() -> list[str]:
        lines: list[str] = []
        stream = stream_updates(store, hub, key, pace)
        async for line in stream:
            lines.append(line)
            if len(lines) == most:
                break
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator
        await asyncio.sleep(0)
        return lines

    return asyncio.run(listen())


def test_events_are_told_until_the_feed_ends() -> None:
    """A page of one session hears of it alone, with the summary as it is written; the list hears of all, without their text."""
    hub = EventList(OTHER, PIECE, DONE)

    assert updates(stored(user("a")), hub, KEY) == [
        OPENING,
        BEGUN,
        'data: {"session":"ferry-42","event":"summary-progressed","text":"All is "}\n\n',
        'data: {"session":"ferry-42","event":"session.compacted"}\n\n',
    ]
    assert [line[:60] for line in updates(stored(user("a")), hub, None)] == [
        OPENING,
        BEGUN_LIST,
        'data: {"session":"another","event":"restored"}\n\n',
        'data: {"session":"ferry-42","event":"session.compacted"}\n\n',
    ]


class Growing(MemoryStore):
    """A store in which a message arrives between the first look at its list and the second."""

    looks = 0

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """The list, one message longer from the second look on."""
        self.looks += 1
        if self.looks == 2:
            self.append(KEY, [MessageEntry(numbered([replies("b")], prefix="late")[0])], expected=1)
        return super().sessions(tenant)


@pytest.mark.parametrize("key", [KEY, None])
def test_growth_is_noticed_without_an_event(key: SessionKey | None) -> None:
    """A reply that was recorded is no event; whoever wrote it, the page hears that the session grew."""
    store = stored(user("a"), store=Growing())

    assert updates(store, Silent(), key, most=3, pace=Pace(0.001, 99)) == [
        OPENING,
        BEGUN if key else BEGUN_LIST,
        'data: {"session":"ferry-42","event":"grown"}\n\n',
    ]


def test_the_line_is_kept_alive() -> None:
    """Without news a comment is sent; when the page goes, nobody listens to the feed any more."""
    hub = Silent()

    assert updates(stored(user("a")), hub, KEY, most=4, pace=AT_ONCE) == [OPENING, BEGUN, HEARTBEAT, HEARTBEAT]
    assert hub.is_left


def test_a_broken_store_ends_the_line() -> None:
    """The browser asks again, and the page it then fetches says what is wrong."""
    assert updates(Broken(), Silent(), KEY, pace=AT_ONCE) == [OPENING]


class Passing:
    """A clock that goes on at each look."""

    now = 0

    def now_ms(self) -> int:
        """A moment later."""
        self.now += 1
        return self.now


class Vanishing(MemoryStore):
    """A store from which the session is deleted between the first look at its list and the second."""

    looks = 0

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """The list, one session shorter from the second look on."""
        self.looks += 1
        if self.looks == 2:
            self.delete(KEY)
        return super().sessions(tenant)


@pytest.mark.parametrize("others", [0, 3])
def test_a_session_that_is_gone_is_told_once(others: int) -> None:
    """Whether or not older sessions are left, a page hears that its session was deleted, and nothing of one that never was."""
    store = Vanishing(Passing())
    for number in range(others):
        stored(user("a"), key=SessionKey("", SessionId(f"older {number}")), store=store)
    stored(user("a"), store=store)
    gone = BEGUN

    assert updates(store, Silent(), KEY, most=4, pace=AT_ONCE) == [OPENING, BEGUN, gone, HEARTBEAT]
    lines = updates(store, Silent(), SessionKey("", SessionId("never")), most=3, pace=AT_ONCE)
    assert lines == [OPENING, BEGUN.replace("ferry-42", "never"), HEARTBEAT]


def test_a_change_before_the_first_poll_is_not_missed() -> None:
    """B28: what changed after the page was rendered is fetched once the first poll is done, whatever that poll found."""
    assert updates(MemoryStore(), Silent(), KEY, most=2) == [OPENING, BEGUN]


def test_news_is_for_whom_it_concerns() -> None:
    """B28: a list is not told what a summary says, nor a session what happens in another, be it another tenant's of its name."""
    assert update_for(KEY.tenant, PIECE, None) is None
    assert update_for(KEY.tenant, OTHER, KEY) is None
    assert update_for("somebody else", PIECE, KEY) is None
    assert update_for(None, DONE, KEY) == update_for(KEY.tenant, DONE, KEY) == Update("ferry-42", "session.compacted")


def test_a_sign_of_life_is_an_event() -> None:
    """A browser's script never hears of a comment, nor of an event without data."""
    assert HEARTBEAT == "event: still-here\ndata: {}\n\n"
