"""One flow, two drivers."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from threading import current_thread

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.entries import Entry
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.messages import Message, SessionId
from infold.core.policy import INFOLD
from infold.engine.call import Call, Flow, Outrun
from infold.engine.drive import drive, drive_async
from infold.engine.effects import Hold, Release
from infold.engine.flow import Prepared, prepare
from infold.errors import ModelError, StoreConflict
from infold.testing.builders import calls, numbered, result, user

from .worlds import KEY, Scripted


def history() -> tuple[Message, ...]:
    """Far more than a window of 16k."""
    drafts = (calls("bash", arguments='{"command": "make part"}'), result(4_000))
    return numbered((user("Port the parser."), *(draft for _ in range(30) for draft in drafts)))


def call() -> Call:
    """A request that needs a compaction by a model."""
    return Call(history(), Situation(INFOLD, budget_for(Window(16_000), INFOLD), summariser=True))


def waited(scripted: Scripted) -> Prepared | Outrun:
    """The flow driven by a caller that waits."""
    return drive(prepare(Log(SessionId("s")), call()), scripted.world())


def awaited(scripted: Scripted) -> Prepared | Outrun:
    """The flow driven by a caller that awaits."""
    return asyncio.run(drive_async(prepare(Log(SessionId("s")), call()), scripted.async_world()))


def test_both_drivers_do_the_same() -> None:
    """B13: waiting and awaiting callers get the same request, entries and events."""
    one, other = Scripted(), Scripted()
    first, second = waited(one), awaited(other)

    assert isinstance(first, Prepared)
    assert isinstance(second, Prepared)
    assert first.view == second.view
    assert one.entries == other.entries
    assert one.events == other.events


@pytest.mark.parametrize("driven", [waited, awaited])
def test_a_model_that_fails_is_thrown_into_the_flow(driven: object) -> None:
    """B10: a summariser's failure ends in the deterministic fold, whoever drives."""
    scripted = Scripted(ModelError("remote", "is down"), ModelError("remote", "is down"))
    done = waited(scripted) if driven is waited else awaited(scripted)

    assert isinstance(done, Prepared)
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.summariser == ""


def test_a_store_that_writes_beside_the_loop_is_not_waited_for_in_a_thread() -> None:
    """B13: where the store answers later, the same is appended, and a refusal is thrown into the flow as ever."""
    one, other = Scripted(), Scripted()
    threads: list[str] = []

    def append_soon(entries: Sequence[Entry], expected: int) -> Future[int]:
        threads.append(current_thread().name)
        answer: Future[int] = Future()
        try:
            answer.set_result(one.append(entries, expected))
        except StoreConflict as conflict:
            answer.set_exception(conflict)
        return answer

    world = replace(one.async_world(), append_soon=append_soon)
    done = asyncio.run(drive_async(prepare(Log(SessionId("s")), call()), world))
    refused = asyncio.run(drive_async(prepare(Log(SessionId("s")), call()), world))

    assert isinstance(done, Prepared)
    assert isinstance(awaited(other), Prepared)
    assert one.entries == other.entries
    assert refused == Outrun()
    assert set(threads) == {current_thread().name}


def test_what_was_begun_is_waited_for() -> None:
    """B13: a task that is cancelled while the store writes ends when that is done."""
    scripted = Scripted()
    begun: list[Future[int]] = []

    def append_soon(entries: Sequence[Entry], expected: int) -> Future[int]:
        begun.append(Future())
        return begun[-1]

    async def cancel() -> bool:
        world = replace(scripted.async_world(), append_soon=append_soon)
        task = asyncio.create_task(drive_async(prepare(Log(SessionId("s")), call()), world))
        while not begun:
            await asyncio.sleep(0)
        task.cancel()
        _, waits = await asyncio.wait({task}, timeout=0.01)
        begun[0].set_result(1)
        with pytest.raises(asyncio.CancelledError):
            await task
        return bool(waits)

    assert asyncio.run(cancel())


def test_a_store_that_refuses_ends_the_flow() -> None:
    """B14: a conflict is told as a value, so that the caller loads the session again; nothing was appended."""
    scripted = Scripted()

    def refuse(_: Sequence[Entry], expected: int) -> int:
        raise StoreConflict("s", expected=expected, actual=expected + 1)

    assert drive(prepare(Log(SessionId("s")), call()), replace(scripted.world(), append=refuse)) == Outrun()
    assert scripted.entries == []


def holding(*, fails: bool) -> Flow[bool]:
    """A flow that takes the lock and ends, well or badly, without giving it back."""
    taken = yield Hold()
    if fails:
        raise ModelError("m", "is down")
    return bool(taken)


@pytest.mark.parametrize("fails", [False, True])
def test_a_lock_is_given_back_however_a_flow_ends(fails: bool) -> None:
    """B13: a flow that fails while it holds the session's lock leaves it free."""
    scripted = Scripted()
    for _ in range(2):
        try:
            assert drive(holding(fails=fails), scripted.world())
        except ModelError:
            assert fails
        with scripted.store.hold(KEY) as free:
            assert free


def test_a_lock_can_be_given_back_early() -> None:
    """B14: after a release others may take the lock while the flow goes on."""
    scripted = Scripted()
    seen: list[bool] = []

    def flow() -> Flow[None]:
        for _ in range(2):
            yield Hold()
            yield Release()
            with scripted.store.hold(KEY) as free:
                seen.append(free)

    drive(flow(), scripted.world())

    assert seen == [True, True]
