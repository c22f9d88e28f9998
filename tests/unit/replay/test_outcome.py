"""Sums over sessions and files."""

from infold.replay.outcome import (
    BrokenFile,
    FileOutcome,
    PolicyOutcome,
    ReplayPlan,
    ReplayReport,
    SessionOutcome,
    Spend,
    totals,
)

SMALL = PolicyOutcome(
    "infold", 1, calls=2, input_tokens=10, read_tokens=5, peak_tokens=6, prompt_tokens=10, spend=Spend(read=1)
)
LARGE = PolicyOutcome(
    "infold", 1, calls=1, input_tokens=30, read_tokens=5, peak_tokens=30, spend=Spend(output=2, refetch=3)
)
OTHER = PolicyOutcome("none", 1, calls=2)


def test_outcomes_add_up_by_window_and_policy() -> None:
    """Counts are added, the peak is the highest, ratios follow from the sums."""
    summed, other = totals([SMALL, OTHER, LARGE])

    assert (summed.calls, summed.input_tokens, summed.peak_tokens) == (3, 40, 30)
    assert summed.hit_ratio == 0.25
    assert (summed.dollars, summed.dollars_with_refetch) == (3, 6)
    assert (other.hit_ratio, other.mean_tokens, PolicyOutcome("x", 1).mean_tokens) == (0.0, 0, 0)


def test_replay_tells_what_was_replayed_from_what_was_not() -> None:
    """Sums leave broken files out; the longest session stands for its file."""
    short, long = (SessionOutcome("s", "m", True, calls, 1.0, 0.0, 0, (SMALL,)) for calls in (1, 9))
    told = ReplayReport(
        ReplayPlan(("infold",), (1,)), "today", (FileOutcome("f", "pi", (short, long)), BrokenFile("g", "empty"))
    )

    assert told.replayed[0].longest is long
    assert [broken.path for broken in told.broken] == ["g"]
    assert told.outcomes[0].calls == 4
