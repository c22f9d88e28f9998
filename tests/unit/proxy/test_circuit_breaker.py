"""After a slow failure the store is skipped for a while."""

from collections.abc import Sequence

from infold.api.session_settings import SessionSettings
from infold.core.entries import Entry
from infold.errors import StoreBroken, StoreConflict
from infold.ports import SessionKey
from infold.proxy.sessions import REST_SECONDS, SLOW_SECONDS, SessionPool, StoreCircuitBreaker
from infold.stores.memory import MemoryStore

from .talks import no_model, request_of

HI = request_of([{"role": "user", "content": "hi"}], headers={"x-infold-session": "ferry"})


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


def begin(store: Away, breaker: StoreCircuitBreaker) -> str:
    """Return the store error that one request reports."""
    return str(SessionPool(store, SessionSettings(window=8_192), breaker=breaker).begin(HI, no_model).store_error)


def test_one_request_waits_for_a_store_that_is_away() -> None:
    """B17: the others of that time do not, whoever's they are; then it is asked again, and what it takes is stored."""
    clock = Clock()
    store, breaker = Away(clock, 10.0), StoreCircuitBreaker(clock)
    told = {begin(store, breaker) for _ in range(3)}
    waited = (store.asked, clock.now)
    store.is_back = True
    clock.now += REST_SECONDS

    assert waited == (1, 110.0)
    assert told == {"db: the server is away; start it"}
    assert begin(store, breaker) == "None"
    assert [stored.key.session_id for stored in store.sessions("")] == ["ferry"]


def test_one_request_alone_tries_whether_the_store_is_back() -> None:
    """B17: while it waits, those that come meanwhile do not, or at every trial all of them would."""
    clock = Clock()
    breaker = StoreCircuitBreaker(clock)
    breaker.note_failure(StoreBroken("db", "the server is away", remedy="start it"), clock.now - SLOW_SECONDS)
    clock.now += REST_SECONDS
    assert breaker.error is None
    breaker.begin()
    clock.now += REST_SECONDS / 2

    assert "the server is away" in str(breaker.error)
    breaker.note_success()
    assert breaker.error is None


def test_what_is_stored_again_is_not_held_in_memory() -> None:
    """Once the store has a session, the one that stood in for it is let go; those of other names are not."""
    clock = Clock()
    store, settings = Away(clock, SLOW_SECONDS / 2), SessionSettings(window=8_192)
    pool = SessionPool(store, settings)

    def ask(name: str) -> None:
        pool.begin(request_of([{"role": "user", "content": "hi"}], headers={"x-infold-session": name}), no_model)

    ask("ferry")
    ask("ferryman")
    store.is_back = True
    ask("ferry")

    assert [session.log.session_id for session in pool._unstored.all()] == ["ferryman"]


def test_a_history_without_a_name_waits_for_no_store() -> None:
    """It is in none, so that a store that is away is no trouble to it, and it tells nothing of one that is back."""
    clock = Clock()
    breaker = StoreCircuitBreaker(clock)
    breaker.note_failure(StoreBroken("db", "the server is away", remedy="start it"), clock.now - SLOW_SECONDS)
    pool = SessionPool(Away(clock, 10.0), SessionSettings(window=8_192), breaker=breaker)
    begun = pool.begin(request_of([{"role": "user", "content": "hi"}]), no_model)

    assert begun.store_error is None
    assert breaker.error is not None


def test_a_failure_that_keeps_nobody_waiting_is_of_one_request() -> None:
    """One damaged session is no reason to leave the others out of the store."""
    clock = Clock()
    store, breaker = Away(clock, SLOW_SECONDS / 2), StoreCircuitBreaker(clock)
    for _ in range(3):
        begin(store, breaker)

    assert store.asked == 3
    assert breaker.error is None


def test_another_writer_is_no_outage() -> None:
    """A request that waited for a summary, and was then too late, says nothing about the store."""
    clock = Clock()
    breaker, begun = StoreCircuitBreaker(clock), clock()
    clock.now += 60
    breaker.note_failure(StoreConflict("ferry", expected=3, actual=4), begun)

    assert breaker.error is None
