"""A store that is served is held to its limits, beside the requests."""

import logging
from threading import Event

import pytest

from infold.cli.serve_app import limits_enforced
from infold.errors import StoreBroken
from infold.settings import StoreLimits
from infold.stores.memory import MemoryStore

LONG_SECONDS = 60.0


class Watched(MemoryStore):
    """A store that tells when it was asked to delete by age, and may be broken."""

    def __init__(self, *, times: int = 1, broken: bool = False) -> None:
        super().__init__()
        self.asked = Event()
        self.ages: list[int] = []
        self._times = times
        self._broken = broken

    def expire(self, older_than_ms: int) -> int:
        """Note it."""
        self.ages.append(older_than_ms)
        if len(self.ages) >= self._times:
            self.asked.set()
        if self._broken:
            raise StoreBroken("x.sqlite3", "the disk is full", remedy="make room")
        return super().expire(older_than_ms)


def test_a_store_is_held_to_its_limits_from_the_start() -> None:
    """B27: the first time at once, in a thread of its own that ends with the server."""
    store = Watched()
    with limits_enforced(store, StoreLimits(max_age_days=30, max_bytes=None)):
        assert store.asked.wait(LONG_SECONDS)

    assert store.ages == [30 * 24 * 60 * 60 * 1000]


def test_it_is_held_to_them_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    """A store that fails is told of in the log and asked again; nothing ends."""
    store = Watched(times=3, broken=True)
    with caplog.at_level(logging.WARNING), limits_enforced(store, StoreLimits(1, None), every_seconds=0.001):
        assert store.asked.wait(LONG_SECONDS)

    assert "the limits of the store were not enforced: x.sqlite3: the disk is full" in caplog.text


def test_without_limits_nothing_is_deleted() -> None:
    """B27: both are off unless they are set."""
    store = Watched()
    with limits_enforced(store, StoreLimits(None, None), every_seconds=0.001):
        assert not store.asked.wait(0.05)
