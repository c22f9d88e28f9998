"""Events in words."""

from typing import get_args

import pytest

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
from infold.session.report import describe_event, describe_safety

TOLD: list[tuple[Event, str]] = [
    (InstructionStubbed("s", ("1.0",)), "no longer shown word for word, too little room: 1 instruction of the user"),
    (InstructionStubbed("s", ("1.0", "2.0")), "too little room: 2 instructions of the user"),
    (StubRepeated("s", "m7"), "message m7 repeats the text of a stub"),
    (SummaryRejected("s", ("empty", "failed")), "a summary was rejected (empty, failed)"),
    (SummaryRejected("s", ("failed",), "m: status 401: no key"), "was rejected (failed): m: status 401: no key"),
    (SummariserPaused("s", 2, 120), "code alone folds for 120 s, since summaries failed (2 in a row)"),
    (SummariserResumed("s", 2), "the summariser is asked again after 2 failed compactions"),
    (SummaryProgressed("s", "x" * 1_234), "1,234 characters more"),
    (CompactionVetoed("s", "trigger", "a deploy runs", is_urgent=False), "vetoed the compaction: a deploy runs"),
    (PluginFailed("s", "mine", "it broke"), "the plugin mine failed and was passed over: it broke"),
    (Rejected("s", 9_000), "the provider refused a request estimated at 9,000 tokens"),
    (Rejected("s", 9_000, 9_500, 8_192), "estimated at 9,000 tokens, its limit is 8,192"),
    (Rejected("s", 9_000, outdated_thinking=1), "refused the thinking of 1 message, which is bound to another"),
    (Rejected("s", 9_000, outdated_thinking=3), "refused the thinking of 3 messages, which is bound"),
    (
        MediaNotStored("s", "image/png", "a.png", 9_000, 8_000),
        "a.png (image/png) has 9,000 bytes, over the limit of 8,000",
    ),
    (MediaNotStored("s", "image/png", "", 9_000, 8_000), "image/png has 9,000 bytes"),
    (
        CacheMissed("s", "expired", 9_000, 0.05, 1_700, 300),
        "9,000 tokens were read again, $0.0500 more: the session was idle for 1,700 s, and the provider's cache keeps",
    ),
    (
        CacheMissed("s", "changed", 9_000, 0.0, 7, 300, "tools_changed"),
        "9,000 tokens were read again: the provider reports tools_changed",
    ),
    (PreparedAhead("s", 0.5, 2_345), "ahead of need in 2.3 s"),
    (PreparationDiscarded("s", "the pins changed"), "discarded: the pins changed"),
    (Restored("s", 12, 34_567), "entry 12 was undone; the view has 34,567 tokens again"),
    (FailedOpen("s", "the store is gone"), "relayed unchanged: the store is gone"),
    (NotManaged("s", "the provider holds it"), "relayed at its own size: the provider holds it"),
    (OutputLowered("s", 32_000, 9_000), "asks for 9,000 tokens of output, not 32,000"),
    (WindowFound("s", "m", 8_192, "http://localhost/props"), "m is 8,192 tokens, as http://localhost/props reports"),
    (Repaired("s", ("a",)), "there is no result: 1 call"),
    (Repaired("s", ("a", "b")), "there is no result: 2 calls"),
    (Exceeded("s", 5_000, 4_000), "still 5,000 tokens for 4,000 usable"),
]


@pytest.mark.parametrize(("event", "words"), TOLD)
def test_an_incident_is_told_in_a_sentence(event: Event, words: str) -> None:
    """B22: what happened, with its numbers, for people."""
    assert words in describe_event(event)


def test_what_a_preset_does_not_have_is_told() -> None:
    """S1.0: what infold did beyond a document is the end of the compaction's line; an ordinary one has none."""
    own = Compacted("s", 7, 1_000, 250, "trigger", safety=("code-fold", "flattened", "other"))

    assert describe_safety(own).startswith("; the summary failed; folding by code is infold's own step")
    assert describe_safety(own).endswith("as messages, so it read a flattened text; other")
    assert describe_safety(Compacted("s", 7, 1_000, 250, "trigger")) == ""


def test_every_incident_has_its_words() -> None:
    """B22: all events but those that themselves make the view smaller are told here."""
    told = {type(event) for event, _ in TOLD}

    assert set(get_args(Event)) - told == {Pruned, Clipped, Compacted}
