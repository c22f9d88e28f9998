"""A store that kept a request waiting in vain is left alone for a while."""

import asyncio
from collections.abc import Sequence

import pytest

from infold.api.outages import REST_SECONDS, SLOW_SECONDS, Outage
from infold.api.passages import AsyncPassages, Passages
from infold.core.entries import Entry
from infold.errors import StoreBroken, StoreConflict
from infold.ports import SessionKey
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore

from .talks import exchange_of, no_model, no_model_async

HI = exchange_of([{"role": "user", "content": "hi"}], headers={"x-infold-session": "ferry"})


class Clock:
    """The time, which a test tells."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class Away(MemoryStore):
    """A store whose server is away: each append waits for so long, and fails."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self.asked = 0
        self.is_back = False
        self._time = clock
        self._seconds = seconds

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Wait, and fail."""
        self.asked += 1
        if self.is_back:
            return super().append(key, entries, expected=expected)
        self._time.now += self._seconds
        raise StoreBroken("db", "the server is away", remedy="start it")


def begin(store: Away, outage: Outage, *, is_async: bool) -> str:
    """What one request is told of the store."""
    settings = SessionSettings(window=8_192)
    if is_async:
        passages = AsyncPassages(store, settings, outage=outage)
        return str(asyncio.run(passages.begin(HI, no_model_async)).trouble)
    return str(Passages(store, settings, outage=outage).begin(HI, no_model).trouble)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_one_request_waits_for_a_store_that_is_away(*, is_async: bool) -> None:
    """B17: the others of that time do not, whoever's they are; then it is asked again, and what it takes is stored."""
    clock = Clock()
    store, outage = Away(clock, 10.0), Outage(clock)
    told = {begin(store, outage, is_async=is_async) for _ in range(3)}
    waited = (store.asked, clock.now)
    store.is_back = True
    clock.now += REST_SECONDS

    assert waited == (1, 110.0)
    assert told == {"db: the server is away; start it"}
    assert begin(store, outage, is_async=is_async) == "None"
    assert [stored.key.session_id for stored in store.sessions("")] == ["ferry"]


def test_one_request_alone_tries_whether_the_store_is_back() -> None:
    """B17: while it waits, those that come meanwhile do not, or at every trial all of them would."""
    clock = Clock()
    outage = Outage(clock)
    outage.note(StoreBroken("db", "the server is away", remedy="start it"), clock.now - SLOW_SECONDS)
    clock.now += REST_SECONDS
    assert outage.error is None
    outage.begin()
    clock.now += REST_SECONDS / 2

    assert "the server is away" in str(outage.error)
    outage.end()
    assert outage.error is None


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_is_stored_again_is_not_held_in_memory(*, is_async: bool) -> None:
    """Once the store has a session, the one that stood in for it is let go; those of other names are not."""
    clock = Clock()
    store, settings = Away(clock, SLOW_SECONDS / 2), SessionSettings(window=8_192)
    passages = AsyncPassages(store, settings) if is_async else Passages(store, settings)

    def ask(name: str) -> None:
        exchange = exchange_of([{"role": "user", "content": "hi"}], headers={"x-infold-session": name})
        if isinstance(passages, AsyncPassages):
            asyncio.run(passages.begin(exchange, no_model_async))
        else:
            passages.begin(exchange, no_model)

    ask("ferry")
    ask("ferryman")
    store.is_back = True
    ask("ferry")

    assert [session.log.session_id for session in passages._unstored.all()] == ["ferryman"]


def test_a_history_without_a_name_waits_for_no_store() -> None:
    """It is in none, so that a store that is away is no trouble to it, and it tells nothing of one that is back."""
    clock = Clock()
    outage = Outage(clock)
    outage.note(StoreBroken("db", "the server is away", remedy="start it"), clock.now - SLOW_SECONDS)
    passages = Passages(Away(clock, 10.0), SessionSettings(window=8_192), outage=outage)
    begun = passages.begin(exchange_of([{"role": "user", "content": "hi"}]), no_model)

    assert begun.trouble is None
    assert outage.error is not None


def test_a_failure_that_keeps_nobody_waiting_is_of_one_request() -> None:
    """One damaged session is no reason to leave the others out of the store."""
    clock = Clock()
    store, outage = Away(clock, SLOW_SECONDS / 2), Outage(clock)
    for _ in range(3):
        begin(store, outage, is_async=False)

    assert store.asked == 3
    assert outage.error is None


def test_another_writer_is_no_outage() -> None:
    """A request that waited for a summary, and was then too late, says nothing about the store."""
    clock = Clock()
    outage, begun = Outage(clock), clock()
    clock.now += 60
    error = StoreConflict("ferry", expected=3, actual=4)

    assert outage.note(error, begun) is error
    assert outage.error is None
