"""What one entry did to the view."""

import pytest

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, Pruning, Restoration
from infold.core.ledger import EMPTY_LEDGER, CommandFact, ErrorFact, FileFact, JobFact, Ledger, Quote, TodoFact
from infold.errors import UnknownReference
from infold.reports.details import CompactionDetail, HidingDetail, LedgerFact, entry_detail, list_facts
from infold.testing.builders import calls, replies, requests_compaction, result, summary, user

from .stored_sessions import KEY, reported, stored


def compaction(*things: object, sequence: int) -> CompactionDetail:
    """A compaction of a session."""
    detail = entry_detail(stored(*things), KEY, sequence)  # type: ignore[arg-type]  # messages and entries
    assert isinstance(detail, CompactionDetail)
    return detail


def hiding(*things: object, sequence: int) -> HidingDetail:
    """A pruning or clipping of a session."""
    detail = entry_detail(stored(*things), KEY, sequence)  # type: ignore[arg-type]  # messages and entries
    assert isinstance(detail, HidingDetail)
    return detail


FOLD = Checkpoint("All told.", first_kept=3, tokens_before=900, tokens_after=300)
SAID = (user("a"), calls("t"), result(90), user("b"))


def test_a_compaction_is_before_and_after() -> None:
    """What was folded, what stayed, what part of the view was left, and what the cache still served of the next request."""
    found = compaction(*SAID, FOLD, reported(replies("c"), 400, cached=100), reported(replies("d"), 500), sequence=4)

    assert [line.sequence for line in found.folded] == [0, 1, 2]
    assert [(line.role, line.words) for line in found.kept] == [("user", "b")]
    assert (found.remaining_share, found.cached_share, found.earlier) == (1 / 3, 0.25, None)
    assert (found.is_undone, found.can_undo) == (False, True)


def test_a_compaction_knows_its_neighbours() -> None:
    """B3: what an earlier one had left is shown; the earlier one cannot be undone before the later."""
    things = (*SAID, FOLD, user("c"), Checkpoint("More told.", first_kept=5))
    earlier, later = (compaction(*things, sequence=sequence) for sequence in (4, 6))

    assert (earlier.can_undo, later.can_undo) == (False, True)
    assert later.earlier is not None
    assert later.earlier.text == "All told."
    assert (later.remaining_share, later.cached_share) == (None, None)


def test_an_undone_compaction_says_so() -> None:
    """B1: it is still told what it had done."""
    found = compaction(*SAID, FOLD, Restoration(4), reported(replies("c"), 0), sequence=4)

    assert (found.is_undone, found.can_undo, len(found.folded), found.cached_share) == (True, False, 3, None)


def test_a_summary_of_the_documents_kind_is_one() -> None:
    """S4.1: the finished summary is the compaction, and what was about compacting is no message of the view."""
    found = compaction(user("a"), requests_compaction(), summary("Told."), sequence=2)

    assert found.checkpoint.text == "Told."
    assert [line.sequence for line in found.folded] == [0]


def test_a_pruning_is_what_it_hid() -> None:
    """Each part with what it took as it was said and what its stub takes."""
    found = hiding(*SAID, Pruning((Handle("2.0"),), 90), sequence=4)
    (part,) = found.parts

    assert (part.handle, part.role, found.can_undo, found.is_undone) == ("2.0", "tool", True, False)
    assert part.shown_tokens < part.tokens
    assert found.freed_tokens == part.tokens - part.shown_tokens


def test_a_clipping_that_was_undone_says_so() -> None:
    """The same for what lost its middle."""
    found = hiding(user("word " * 300), Clipping((Clip(Handle("0.0"), 20, 20),)), Restoration(1), sequence=1)

    assert (found.is_undone, found.can_undo, found.freed_tokens > 200) == (True, False, True)


def test_nothing_else_has_a_detail() -> None:
    """A message or a restoration hid nothing."""
    for number in (0, 9):
        with pytest.raises(UnknownReference):
            entry_detail(stored(*SAID), KEY, number)


# The ledger.


def test_every_kind_of_fact_is_shown() -> None:
    """B4: each kind has its title, the newest first, with how it ended and where it stands."""
    quote = Quote("1.0", "said")
    found = list_facts(
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

    assert by_title["Requests"] == (LedgerFact("second", "", "4.0"), LedgerFact("first", "", "0.0"))
    assert by_title["Files"] == (LedgerFact("b.py", "read", "3.0"), LedgerFact("a.py", "edited, 2 edits", "2.0"))
    assert by_title["Commands"] == (LedgerFact("ls", "", "6.0"), LedgerFact("make", "exit 1, 2 failed, 3 runs", "5.0"))
    assert by_title["Unsettled errors"] == (LedgerFact("no rule", "make", "5.0"),)
    assert by_title["Todos"] == (LedgerFact("port it", "done"),)
    assert by_title["Running jobs"] == (LedgerFact("watch", "", "7.0"),)
    assert {"Pinned", "Rules", "Decisions", "Findings", "Open questions"} <= by_title.keys()


def test_only_real_parts_are_led_to() -> None:
    """What stands in place of a handle and is none is shown and leads nowhere."""
    assert [LedgerFact("a", "", handle).sequence for handle in ("12.0", "12", "", "<b>.0")] == [12, None, None, None]


def test_an_empty_ledger_shows_nothing() -> None:
    """A kind without facts has no title."""
    assert list_facts(EMPTY_LEDGER) == ()
