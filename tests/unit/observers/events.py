"""One event of each kind, with a secret in each text that must not leave the process."""

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

__all__ = ["EVENTS", "SECRET"]

SECRET = "the harbour key is quay-4711"

EVENTS: tuple[Event, ...] = (
    Pruned("s", (Handle(SECRET),), 900, 1_000, 150, "trigger", 140),
    Clipped("s", (Handle(SECRET),), 1_000, 150, "safety", 150),
    Compacted("s", 7, 1_000, 250, "price", "gpt-x", 0.25, 2_500, 240, faults=("invented",), error=SECRET),
    InstructionStubbed("s", (SECRET, SECRET)),
    StubRepeated("s", SECRET),
    SummaryRejected("s", ("empty", "model: gpt-x", SECRET.replace(" ", ":", 1)), SECRET),
    SummariserPaused("s", 2, 120),
    SummariserResumed("s", 2),
    SummaryProgressed("s", SECRET),
    CompactionVetoed("s", "forced", SECRET, is_urgent=True),
    PluginFailed("s", "kites", SECRET),
    Rejected("s", 9_000, 9_100, 8_192),
    OutputLowered("s", 32_000, 9_000),
    PreparedAhead("s", 0.5, 4_000),
    PreparationDiscarded("s", SECRET, 0.5),
    Restored("s", 4, 900),
    FailedOpen("s", SECRET),
    NotManaged("s", SECRET),
    WindowFound("s", "m", 8_192, "http://localhost/props"),
    Repaired("s", (SECRET,)),
    Exceeded("s", 900, 800),
    MediaNotStored("s", "image/png", SECRET, 9_000, 8_000),
    CacheMissed("s", "expired", 9_000, 0.05, 700, 300, SECRET),
)
