"""What was kept, as rows."""

from infold.replay.facts import HistoryFact
from infold.replay.retention import Measurement, ScoredFact, render_retention, summarise_retention


def scored(held: bool, recalled: bool = False) -> ScoredFact:
    """A fact that was needed later, in context or not, brought back or not."""
    fact = HistoryFact("reference", ("commit",), ("a8f68ce",), "1.0", sets=frozenset({"later"}))
    return ScoredFact(
        fact,
        held=frozenset({"infold k=10"} if held else ()),
        stale=frozenset(() if held else {"infold k=10"}),
        recalled=frozenset({"use 2"} if recalled else ()),
    )


def measured(session: str, *facts: ScoredFact) -> Measurement:
    """A session with these facts."""
    return Measurement("file", session, 1_000, facts, {"infold k=10": 40}, {"infold k=10": ("x",)})


POINTS = (
    measured("a@0", *[scored(True)] * 5),
    measured("a@1", *[scored(False)] * 5),
    measured("b@0", *[scored(False)] * 5),
    measured("c@0", scored(False, recalled=True)),
    measured("d@0", scored(False)),
)


def test_sessions_count_alike() -> None:
    """The mean is over sessions, however many facts and points each has; those with hardly any count together as one."""
    line = summarise_retention(POINTS).lines[0]

    assert line.rates["later"].mean == 16.7
    assert (line.rates["later"].facts, line.rates["later"].sessions) == (17, 4)
    assert line.rates["later"].low <= 16.7 <= line.rates["later"].high
    assert (line.share_of_history, line.stale, line.invented) == (0.04, 12, 5)
    assert "gate" not in line.rates


def test_recall_is_counted_apart_and_together() -> None:
    """By itself, and beside what is in context."""
    means = {line.way: line.rates["later"].mean for line in summarise_retention(POINTS).lines}

    assert (means["recall: use 2"], means["recall: use 1"]) == (16.7, 0.0)
    assert means["infold k=10 or recall: use 2"] == means["in context or any recall"] == 33.3


def test_the_table_is_always_the_same() -> None:
    """Intervals are from seeded resamples; a set without facts shows a dash."""
    text = render_retention(summarise_retention(POINTS))

    assert text == render_retention(summarise_retention(POINTS))
    assert text.startswith("5 points in 4 sessions, 5,000 tokens of history folded")
    assert "16.7 [0–50] (17)" in text
    assert "–" in text
    assert text.splitlines()[4].endswith("4.0%     12        5")
