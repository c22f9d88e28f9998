"""Events: facts for observers."""

import typing

import msgspec
import pytest

from infold.core.entries import Handle
from infold.core.events import (
    CacheMissed,
    Clipped,
    Compacted,
    CompactionVetoed,
    Event,
    Exceeded,
    FailedOpen,
    InstructionStubbed,
    MediaNotStored,
    NotManaged,
    OutputLowered,
    PluginFailed,
    PreparationDiscarded,
    PreparedAhead,
    Pruned,
    Rejected,
    Repaired,
    Restored,
    StubRepeated,
    SummariserPaused,
    SummariserResumed,
    SummaryProgressed,
    SummaryRejected,
    WindowFound,
)

EVENTS: tuple[Event, ...] = (
    Pruned("s", (Handle("2.0"),), 900, 1_000, 150, "trigger"),
    Clipped("s", (Handle("2.0"),), 1_000, 150, "safety"),
    Compacted("s", 7, 1_000, 250, "manual", "model"),
    InstructionStubbed("s", ("0.0",)),
    StubRepeated("s", "m4"),
    SummaryRejected("s", ("empty", "cut-off")),
    SummariserPaused("s", 2, 120),
    SummariserResumed("s", 2),
    SummaryProgressed("s", "The parser"),
    CompactionVetoed("s", "trigger", "a demonstration is running", is_urgent=False),
    PluginFailed("s", "notes", "KeyError"),
    Rejected("s", 900, 1_000, 950),
    OutputLowered("s", 32_000, 9_000),
    PreparedAhead("s", 0.02, 3_100),
    PreparationDiscarded("s", "the pins changed", 0.02),
    NotManaged("s", "the provider holds the history"),
    WindowFound("s", "m", 8_192, "http://localhost/props"),
    Repaired("s", ("c1",)),
    Restored("s", 12, 900),
    FailedOpen("s", "the body is no JSON object"),
    Exceeded("s", 900, 800),
    MediaNotStored("s", "image/png", "a.png", 9_000, 8_000),
    CacheMissed("s", "expired", 9_000, 0.05, 700, 300),
)


@pytest.mark.parametrize(("before", "after", "ratio"), [(1_000, 250, 0.25), (0, 0, 1.0), (100, 120, 1.2)])
def test_the_ratio_is_what_is_left(before: int, after: int, ratio: float) -> None:
    """S3.7: a compaction tells what part of the view is left; of nothing, all is left."""
    assert Compacted("s", 1, before, after, "trigger").ratio == pytest.approx(ratio)


@pytest.mark.parametrize(("summariser", "outcome"), [("model", "summarised"), ("", "folded")])
def test_the_outcome_tells_who_wrote_it(summariser: str, outcome: str) -> None:
    """S3.7: a compaction tells whether a model's summary stands for the head, or what code alone could tell."""
    assert Compacted("s", 1, 100, 50, "trigger", summariser).outcome == outcome


def test_every_event_is_known_by_its_tag() -> None:
    """B22: each event of the closed union is told apart by a tag of its own and survives being written down."""
    assert {type(event) for event in EVENTS} == set(typing.get_args(Event))
    assert len({type(event).__struct_config__.tag for event in EVENTS}) == len(EVENTS)
    assert all(msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event for event in EVENTS)


def test_a_compaction_keeps_its_published_name() -> None:
    """S3.7: the event of a compaction is published as session.compacted with the session id."""
    told = msgspec.json.decode(msgspec.json.encode(EVENTS[2]))

    assert (told["event"], told["session_id"]) == ("session.compacted", "s")
