"""What one entry did to the view."""

import pytest

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, Pruning, Restoration
from infold.dashboard.story import Compaction, Hiding, story_at
from infold.errors import UnknownReference
from infold.testing.builders import calls, replies, requests_compaction, result, summary, user

from .desks import KEY, reported, stored


def compaction(*things: object, sequence: int) -> Compaction:
    """A compaction of a session."""
    story = story_at(stored(*things), KEY, sequence)  # type: ignore[arg-type]  # messages and entries
    assert isinstance(story, Compaction)
    return story


def hiding(*things: object, sequence: int) -> Hiding:
    """A pruning or clipping of a session."""
    story = story_at(stored(*things), KEY, sequence)  # type: ignore[arg-type]  # messages and entries
    assert isinstance(story, Hiding)
    return story


FOLD = Checkpoint("All told.", first_kept=3, tokens_before=900, tokens_after=300)
SAID = (user("a"), calls("t"), result(90), user("b"))


def test_a_compaction_is_before_and_after() -> None:
    """What was folded, what stayed, what part of the view was left, and what the cache still served of the next request."""
    found = compaction(*SAID, FOLD, reported(replies("c"), 400, cached=100), reported(replies("d"), 500), sequence=4)

    assert [line.sequence for line in found.folded] == [0, 1, 2]
    assert [(line.role, line.words) for line in found.kept] == [("user", "b")]
    assert (found.left_share, found.cached_share, found.earlier) == (1 / 3, 0.25, None)
    assert (found.is_undone, found.can_undo) == (False, True)


def test_a_compaction_knows_its_neighbours() -> None:
    """B3: what an earlier one had left is shown; the earlier one cannot be undone before the later."""
    things = (*SAID, FOLD, user("c"), Checkpoint("More told.", first_kept=5))
    earlier, later = (compaction(*things, sequence=sequence) for sequence in (4, 6))

    assert (earlier.can_undo, later.can_undo) == (False, True)
    assert later.earlier is not None
    assert later.earlier.text == "All told."
    assert (later.left_share, later.cached_share) == (None, None)


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


def test_nothing_else_has_a_story() -> None:
    """A message or a restoration hid nothing."""
    for number in (0, 9):
        with pytest.raises(UnknownReference):
            story_at(stored(*SAID), KEY, number)
