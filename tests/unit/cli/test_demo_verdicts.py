"""What became of a summary is told in a sentence."""

import pytest

from infold.cli.demo_verdicts import judged, outcome_of, redlined, totals
from infold.core.entries import Verdict
from infold.core.events import Compacted

ACCEPTED = Compacted("s", 9, 900, 300, "trigger", "recorded", 0.0123, 2_400)
REPAIRED = Compacted("s", 9, 900, 300, "trigger", "recorded", 0.01, 2_000, faults=("invented",))
REJECTED = Compacted("s", 9, 900, 300, "trigger", cost=0.02, duration_ms=1_000, faults=("refused", "refused"))
BY_CODE = Compacted("s", 9, 900, 300, "trigger")
VERDICT = Verdict("Notes\n- one\n- two\n- three\n- four", ("invented",), ("- a/b.py is new",), ("a/b.py",))


@pytest.mark.parametrize(
    ("event", "outcome"), [(ACCEPTED, "accepted"), (REPAIRED, "repaired"), (REJECTED, "rejected"), (BY_CODE, None)]
)
def test_an_event_tells_the_outcome(event: Compacted, outcome: str | None) -> None:
    """B5: a model's words stand as they are, stand repaired, or do not stand; without a model there is nothing to judge."""
    assert outcome_of(event) == outcome


def test_a_sentence_says_what_it_took_and_why() -> None:
    """B22: price and time, and the reason where something was wrong."""
    assert judged(ACCEPTED, None) == "summary accepted ($0.0123, 2.4 s)"
    assert judged(REPAIRED, VERDICT).endswith("it had invented a/b.py")
    assert "refused twice; code alone wrote the checkpoint" in judged(REJECTED, Verdict(""))
    assert judged(BY_CODE, None).startswith("no model was asked")


def test_a_repaired_summary_is_shown_with_its_deletions() -> None:
    """Some of what stands, how much more there is, and each line that was taken out."""
    shown = [line.plain for line in redlined(VERDICT)]

    assert shown == ["| Notes", "| - one", "| - two", "| - three", "| (1 more line)", "x - a/b.py is new"]
    assert len(list(redlined(Verdict("Notes", (), ("gone",))))) == 2


def test_totals_count_and_add_up() -> None:
    """Every kind is counted, and what a rejected summary cost is in the sum."""
    assert totals([ACCEPTED, REPAIRED, REJECTED, BY_CODE]) == "accepted: 1, repaired: 1, rejected: 1; $0.0423 in all"
