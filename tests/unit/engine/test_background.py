"""Shelves: what was written ahead, and who is writing."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from threading import Event, current_thread

import pytest

from infold.core.policy import INFOLD
from infold.engine.ahead import Mark, Preparation
from infold.engine.background import MOST_BEGUN, AsyncShelf, Shelf
from infold.engine.notes import Notes
from infold.errors import ModelError

PATIENCE_SECONDS = 30.0
asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")


def notes(text: str = "told") -> Preparation:
    """A summary."""
    return Preparation(Mark(-1, frozenset(), INFOLD, 3), Notes(text))


def failing() -> Preparation:
    """A summary that fails."""
    raise ModelError("m", "is down")


# A thread.


def test_an_empty_shelf_has_nothing() -> None:
    """B18: nobody waits where nothing was begun."""
    shelf = Shelf(PATIENCE_SECONDS)

    assert shelf.fetch(wait=True) is None
    assert not shelf.is_busy


def test_what_was_written_is_fetched_once() -> None:
    """B18: a summary waits on the shelf for whoever needs it, and is gone then."""
    shelf = Shelf(PATIENCE_SECONDS)
    assert shelf.begin(0, notes)

    assert shelf.fetch(wait=True) == notes()
    assert shelf.fetch(wait=True) is None
    assert not shelf.is_busy


def test_nobody_waits_who_need_not() -> None:
    """B18: a request that fits takes what is there and leaves what is being written."""
    shelf, written = Shelf(PATIENCE_SECONDS), Event()

    def write() -> Preparation:
        written.wait(PATIENCE_SECONDS)
        return notes()

    shelf.begin(0, write)
    early = shelf.fetch(wait=False)
    written.set()

    assert early is None
    assert shelf.fetch(wait=True) == notes()


def test_waiting_ends() -> None:
    """B13: a summary that is never finished holds nobody up for longer than the shelf is patient."""
    shelf, written = Shelf(0.01), Event()

    def write() -> Preparation:
        written.wait(PATIENCE_SECONDS)
        return notes()

    shelf.begin(0, write)
    late = shelf.fetch(wait=True)
    still = shelf.is_busy
    written.set()

    assert late is None
    assert still


def test_one_at_a_time() -> None:
    """B18: none is begun while one is being written or waits to be used."""
    shelf = Shelf(PATIENCE_SECONDS)
    shelf.put(notes())

    assert shelf.is_busy
    assert not shelf.begin(0, failing)
    assert shelf.fetch(wait=False) == notes()
    assert shelf.begin(0, notes)


def test_wasted_work_is_bounded() -> None:
    """B18: for one head no more summaries are begun than are likely to be used; another head begins anew."""
    shelf = Shelf(PATIENCE_SECONDS)
    begun = []
    for head in (*[1] * (MOST_BEGUN + 2), 2):
        begun.append(shelf.begin(head, notes))
        shelf.fetch(wait=True)

    assert begun == [*[True] * MOST_BEGUN, False, False, True]


@pytest.mark.parametrize("write", [failing, lambda: None])
def test_a_failure_leaves_the_shelf_empty(write: Callable[[], Preparation | None]) -> None:
    """B10: a summary that failed is not there; whoever needs one asks, and the shelf can be used again."""
    shelf = Shelf(PATIENCE_SECONDS)
    shelf.begin(0, write)

    assert shelf.fetch(wait=True) is None
    assert shelf.begin(0, notes)


def test_the_writer_knows_who_asked() -> None:
    """B22: traces follow a session into the thread that writes for it; a program may end while that runs."""
    shelf, seen = Shelf(PATIENCE_SECONDS), list[tuple[str, bool]]()
    asked_by.set("the session")

    def write() -> Preparation:
        seen.append((asked_by.get(), current_thread().daemon))
        return notes()

    shelf.begin(0, write)
    shelf.fetch(wait=True)

    assert seen == [("the session", True)]


# A task.


async def told() -> Preparation:
    """A summary, awaited."""
    return notes()


async def broken() -> Preparation:
    """A summary that fails, awaited."""
    raise ModelError("m", "is down")


def with_shelf(act: Callable[[AsyncShelf], object], patience_seconds: float = PATIENCE_SECONDS) -> object:
    """What an act gives that awaits a shelf, which is closed after it."""

    async def run() -> object:
        shelf = AsyncShelf(patience_seconds)
        outcome = await act(shelf)  # type: ignore[misc] # any of the acts below
        await shelf.close()
        return outcome

    return asyncio.run(run())


def test_a_task_writes_like_a_thread() -> None:
    """B18: begun, fetched once, one at a time, bounded for one head, and nothing after a failure."""

    async def act(shelf: AsyncShelf) -> object:
        nothing = await shelf.fetch(wait=True)
        first = shelf.begin(0, told)
        second = shelf.begin(0, told)
        fetched = (await shelf.fetch(wait=True), await shelf.fetch(wait=True))
        failed = shelf.begin(0, broken), await shelf.fetch(wait=True)
        enough = shelf.begin(0, told)
        shelf.put(notes("kept"))
        return nothing, first, second, fetched, failed, enough, shelf.is_busy, await shelf.fetch(wait=False)

    assert with_shelf(act) == (None, True, False, (notes(), None), (True, None), False, True, notes("kept"))


def test_a_task_that_wrote_nothing_leaves_nothing() -> None:
    """B10: a summary that was rejected is not there; the next one may be begun."""

    async def act(shelf: AsyncShelf) -> object:
        async def rejected() -> None:
            return None

        begun = shelf.begin(0, rejected), await shelf.fetch(wait=True)
        return begun, shelf.is_busy, shelf.begin(0, told), await shelf.fetch(wait=True)

    assert with_shelf(act) == ((True, None), False, True, notes())


def test_a_task_is_not_waited_for_without_need() -> None:
    """B18: what is being written is left to be written, and waiting ends."""

    async def act(shelf: AsyncShelf) -> object:
        written = asyncio.Event()

        async def write() -> Preparation:
            await written.wait()
            return notes()

        shelf.begin(0, write)
        early, late, still = await shelf.fetch(wait=False), await shelf.fetch(wait=True), shelf.is_busy
        written.set()
        return early, late, still, await shelf.fetch(wait=True)

    assert with_shelf(act, patience_seconds=0.01) == (None, None, True, notes())


@pytest.mark.parametrize("begun", [True, False])
def test_closing_gives_up_what_is_written(begun: bool) -> None:
    """B13: after closing no task is left, whether or not one was begun."""

    async def run() -> int:
        shelf = AsyncShelf(PATIENCE_SECONDS)

        async def write() -> Preparation:
            await asyncio.Event().wait()
            return notes()

        if begun:
            shelf.begin(0, write)
            await asyncio.sleep(0)
        await shelf.close()
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1
