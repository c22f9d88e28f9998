"""One flow, two drivers."""

import asyncio
from collections.abc import Sequence

import pytest

from infold.core.budget import Window, budget_for
from infold.core.entries import Entry
from infold.core.events import Event
from infold.core.gauge import Situation
from infold.core.judge import Answer
from infold.core.log import Log
from infold.core.messages import Message, SessionId
from infold.core.presets import INFOLD
from infold.core.summary import SummaryRequest
from infold.engine.drive import AsyncWorld, World, drive, drive_async
from infold.engine.effects import Told
from infold.engine.flow import Call, Prepared, prepare
from infold.errors import ModelError, StoreConflict
from infold.testing.builders import calls, numbered, result, user

GOOD = "The parser was ported part by part with make; each part built without errors."


def history() -> tuple[Message, ...]:
    """Far more than a window of 16k."""
    drafts = (calls("bash", arguments='{"command": "make part"}'), result(4_000))
    return numbered((user("Port the parser."), *(draft for _ in range(30) for draft in drafts)))


def call() -> Call:
    """A request that needs a compaction by a model."""
    return Call(history(), Situation(INFOLD, budget_for(Window(16_000), INFOLD), summariser=True))


class Kept:
    """A place for entries and events."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.events: list[Event] = []

    def append(self, entries: Sequence[Entry], expected: int) -> int:
        """Keep them if they are expected."""
        assert expected == len(self.entries)
        self.entries += entries
        return len(self.entries)


def waited(kept: Kept) -> Prepared:
    """The flow driven by a caller that waits."""
    world = World(kept.append, lambda _: Told(Answer(GOOD)), kept.events.append)
    return drive(prepare(Log(SessionId("s")), call()), world)


def awaited(kept: Kept) -> Prepared:
    """The flow driven by a caller that awaits."""

    async def ask(_: SummaryRequest) -> Told:
        await asyncio.sleep(0)
        return Told(Answer(GOOD))

    return asyncio.run(
        drive_async(prepare(Log(SessionId("s")), call()), AsyncWorld(kept.append, ask, kept.events.append))
    )


def test_both_drivers_do_the_same() -> None:
    """B13: waiting and awaiting callers get the same request, entries and events."""
    one, other = Kept(), Kept()

    assert waited(one).view == awaited(other).view
    assert one.entries == other.entries
    assert one.events == other.events


def test_a_model_that_fails_is_thrown_into_the_flow() -> None:
    """B10: an async summariser's failure ends in the deterministic fold, as a sync one's does."""

    async def ask(_: SummaryRequest) -> Told:
        raise ModelError("remote", "is down")

    kept = Kept()
    done = asyncio.run(
        drive_async(prepare(Log(SessionId("s")), call()), AsyncWorld(kept.append, ask, kept.events.append))
    )

    assert done.log.checkpoint is not None
    assert done.log.checkpoint.summariser == ""


def test_a_store_that_refuses_ends_the_flow() -> None:
    """B14: a conflict reaches the caller, who loads the session again; nothing was appended."""

    def refuse(_: Sequence[Entry], expected: int) -> int:
        raise StoreConflict("s", expected=expected, actual=expected + 1)

    with pytest.raises(StoreConflict):
        drive(prepare(Log(SessionId("s")), call()), World(refuse, lambda _: Told(Answer("")), lambda _: None))
