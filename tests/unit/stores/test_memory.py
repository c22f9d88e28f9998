"""The store in memory, beyond the contract."""

from concurrent.futures import ThreadPoolExecutor

from infold.ports import FullStore
from infold.stores.memory import MemoryStore
from infold.testing.store_contract import ONE, TWO, user_entries


class FakeClock:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        """The time it was given."""
        return self.ms


def test_time_comes_from_the_clock() -> None:
    """B27: a session's age is by the clock that the store was given."""
    clock = FakeClock()
    store: FullStore = MemoryStore(clock)
    store.append(ONE, user_entries("a"), expected=0)
    clock.ms = 2_000
    store.append(TWO, user_entries("a"), expected=0)

    assert [session.changed_ms for session in store.sessions("tenant")] == [2_000, 1_000]
    assert store.expire(1_000) == 0
    assert store.expire(999) == 1


def test_a_session_is_read_while_it_is_written() -> None:
    """A reader finds a session that another thread is appending to, without a gap."""
    store = MemoryStore()
    store.append(ONE, user_entries("x"), expected=0)
    sizes = list[int]()

    def read() -> None:
        while not sizes or sizes[-1] < 3_000:
            sizes.append(next((number for number, _ in store.newest_first(ONE)), -1))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for number in range(1, 3_001):
            store.append(ONE, user_entries("x"), expected=number)
        reading.result(timeout=8)
    assert sizes == sorted(sizes)
