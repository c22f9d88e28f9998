"""Summaries written ahead of need."""

from asyncio import CancelledError
from contextvars import ContextVar
from threading import Event

import pytest

from infold.core.policy import INFOLD
from infold.errors import ModelError
from infold.observers.bus import Bus
from infold.session.background import MOST_BEGUN, BackgroundSummary
from infold.session.summariser import Callbacks
from infold.session.summary import JudgedSummary, PreparedSummary, SummaryBasis

PATIENCE_SECONDS = 30.0
asked_by: ContextVar[str] = ContextVar("asked_by", default="")


def prepared(text: str = "told") -> PreparedSummary:
    """A summary."""
    return PreparedSummary(SummaryBasis(-1, frozenset(), INFOLD, 3), JudgedSummary(text))


def write(_: Callbacks) -> PreparedSummary:
    """Write a summary at once."""
    return prepared()


@pytest.fixture
def callbacks() -> Callbacks:
    """Callbacks of the operation that fetches."""
    return Callbacks(Bus())


@pytest.fixture
def background() -> BackgroundSummary:
    """A session without a summary."""
    return BackgroundSummary(PATIENCE_SECONDS)


def ended(background: BackgroundSummary) -> None:
    """Wait until nothing is being written."""
    if background._running is not None:
        background._running.ended.result(PATIENCE_SECONDS)


def test_a_summary_is_fetched_once(background: BackgroundSummary, callbacks: Callbacks) -> None:
    """B18: a summary waits until a request needs it, and is gone then; without one nothing is waited for."""
    assert background.fetch(callbacks, wait=True) is None
    background.begin(0, callbacks, write)

    assert background.fetch(callbacks, wait=True) == prepared()
    assert background.fetch(callbacks, wait=True) is None
    assert not background.is_busy


def test_only_a_request_that_cannot_go_on_waits(callbacks: Callbacks) -> None:
    """B18: a request that fits takes what is there; one that does not waits, and not for ever."""
    background, gate = BackgroundSummary(0.01), Event()

    def slow(_: Callbacks) -> PreparedSummary:
        gate.wait(PATIENCE_SECONDS)
        return prepared()

    background.begin(0, callbacks, slow)
    assert background.fetch(callbacks, wait=False) is None
    assert background.fetch(callbacks, wait=True) is None
    assert background.is_busy
    running = background._running
    assert running is not None
    gate.set()
    running.ended.result(PATIENCE_SECONDS)
    assert background.fetch(callbacks, wait=False) == prepared()


def test_wasted_work_is_bounded(background: BackgroundSummary, callbacks: Callbacks) -> None:
    """B18: one summary at a time, and of one head only so many; another head begins the count anew."""
    begun: list[int] = []

    def count(_: Callbacks) -> PreparedSummary:
        begun.append(1)
        return prepared()

    for _ in range(MOST_BEGUN + 3):
        background.begin(0, callbacks, count)
        background.begin(0, callbacks, count)
        background.fetch(callbacks, wait=True)
    assert len(begun) == MOST_BEGUN
    background.begin(1, callbacks, count)
    ended(background)
    assert len(begun) == MOST_BEGUN + 1


@pytest.mark.parametrize("error", [ModelError("m", "is down"), CancelledError()])
def test_a_failure_leaves_nothing(background: BackgroundSummary, callbacks: Callbacks, error: BaseException) -> None:
    """B10, B18: whatever a summary fails with, the next request asks for itself."""

    def fail(_: Callbacks) -> PreparedSummary:
        raise error

    background.begin(0, callbacks, fail)

    assert background.fetch(callbacks, wait=True) is None
    assert not background.is_busy


def test_a_cancelled_summary_is_dropped(background: BackgroundSummary, callbacks: Callbacks) -> None:
    """B18: a summary whose head is gone is not used, its thread is woken, and another may begin at once."""

    def wait(own: Callbacks) -> PreparedSummary:
        own.pause(PATIENCE_SECONDS)
        return prepared("late")

    background.begin(0, callbacks, wait)
    future = background.cancel()
    assert future is not None
    future.result(PATIENCE_SECONDS / 2)

    assert not callbacks.is_cancelled
    assert background.fetch(callbacks, wait=True) is None
    assert background.cancel() is None


def test_a_cancelled_request_does_not_wait(background: BackgroundSummary, callbacks: Callbacks) -> None:
    """B13: an operation that is cancelled leaves the summary it waits for to the next one."""
    gate = Event()

    def slow(_: Callbacks) -> PreparedSummary:
        callbacks.cancel()
        gate.wait(PATIENCE_SECONDS)
        return prepared()

    background.begin(0, callbacks, slow)
    with pytest.raises(CancelledError):
        background.fetch(callbacks, wait=True)
    gate.set()

    assert background.fetch(Callbacks(Bus()), wait=True) == prepared()


def test_a_leftover_comes_first(background: BackgroundSummary, callbacks: Callbacks) -> None:
    """B14: a summary that lost against another writer is used before one that was written ahead."""
    background.begin(0, callbacks, write)
    ended(background)
    background.keep(prepared("left over"))

    assert [background.fetch(callbacks, wait=False) for _ in range(3)] == [prepared("left over"), prepared(), None]


def test_the_writer_has_the_callers_context(background: BackgroundSummary, callbacks: Callbacks) -> None:
    """A summariser that looks at context variables finds those of the request it is written for."""
    seen: list[str] = []
    asked_by.set("the request")

    def look(_: Callbacks) -> PreparedSummary:
        seen.append(asked_by.get())
        return prepared()

    background.begin(0, callbacks, look)
    ended(background)

    assert seen == ["the request"]
