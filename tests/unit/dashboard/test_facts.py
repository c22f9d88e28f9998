"""A ledger as lists a person can read."""

from typing import get_args

from infold.core.entries import Fault
from infold.core.ledger import EMPTY_LEDGER, CommandFact, ErrorFact, FileFact, JobFact, Ledger, Quote, TodoFact
from infold.dashboard.facts import FAULTS, Fact, facts_of


def test_every_kind_of_fact_is_shown() -> None:
    """B4: each kind has its title, the newest first, with how it ended and where it stands."""
    quote = Quote("1.0", "said")
    found = facts_of(
        Ledger(
            requests=(Quote("0.0", "first"), Quote("4.0", "second")),
            constraints=(quote,),
            pinned=(quote,),
            files=(FileFact("a.py", "edited", 2, "2.0"), FileFact("b.py", "read", 0, "3.0")),
            commands=(CommandFact("make", "5.0", 1, "2 failed", 3), CommandFact("ls", "6.0")),
            errors=(ErrorFact("make", "no rule", "5.0"),),
            todos=(TodoFact("port it", "done"),),
            decisions=(quote,),
            findings=(quote,),
            questions=(quote,),
            jobs=(JobFact("watch", "7.0"),),
        )
    )
    by_title = {kind.title: kind.facts for kind in found}

    assert by_title["Requests"] == (Fact("second", "", "4.0"), Fact("first", "", "0.0"))
    assert by_title["Files"] == (Fact("b.py", "read", "3.0"), Fact("a.py", "edited, 2 edits", "2.0"))
    assert by_title["Commands"] == (Fact("ls", "", "6.0"), Fact("make", "exit 1, 2 failed, 3 runs", "5.0"))
    assert by_title["Unsettled errors"] == (Fact("no rule", "make", "5.0"),)
    assert by_title["Todos"] == (Fact("port it", "done"),)
    assert by_title["Running jobs"] == (Fact("watch", "", "7.0"),)
    assert {"Pinned", "Rules", "Decisions", "Findings", "Open questions"} <= by_title.keys()


def test_only_real_parts_are_led_to() -> None:
    """What stands in place of a handle and is none is shown and leads nowhere."""
    assert [Fact("a", "", handle).sequence for handle in ("12.0", "12", "", "<b>.0")] == [12, None, None, None]


def test_an_empty_ledger_shows_nothing() -> None:
    """A kind without facts has no title."""
    assert facts_of(EMPTY_LEDGER) == ()


def test_every_fault_has_words() -> None:
    """B5: whatever the judge can find is told."""
    assert FAULTS.keys() == set(get_args(Fault))
