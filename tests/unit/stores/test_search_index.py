"""What is indexed, what is asked for, and what comes first."""

import pytest

from infold.core.entries import Entry, MessageEntry, Pin, handle_of
from infold.core.messages import AssistantMessage, MessageId, ToolCallPart, ToolMessage, ToolResultPart
from infold.core.recall import search_tokens
from infold.stores.search_index import (
    LARGEST_SLICE,
    LONGEST_TOKEN,
    MOST_TOKENS,
    Slice,
    query_tokens,
    rank_parts,
    slices_of,
)
from infold.testing.builders import calls, result, user
from infold.testing.store_contract import as_entries, user_entries

STORY = as_entries([user("look"), calls("bash", arguments='{"command": "make kites"}'), result(output="blue")])


def unneeded() -> list[tuple[int, Entry]]:
    """Earlier entries that must not be looked at."""
    raise AssertionError("nothing had to be looked for")


def test_slices_are_numbered_from_the_first() -> None:
    """B6: each part is indexed under its entry's own number; entries that say nothing are passed over."""
    slices = slices_of([*user_entries("a b a"), Pin(handle_of(7, 0)), *user_entries("c")], 7, unneeded)

    assert slices == [Slice(7, 0, ("a", "b")), Slice(9, 0, ("c",))]


def test_grouping_does_not_matter() -> None:
    """B6: what is found is the same however the messages were grouped into appends."""
    together = slices_of(STORY, 0, unneeded)
    apart = slices_of(STORY[:2], 0, unneeded) + slices_of(STORY[2:], 2, lambda: [(1, STORY[1]), (0, STORY[0])])

    assert together == apart
    assert "kites" in together[-1].tokens


def test_call_that_is_far_away_is_not_looked_for() -> None:
    """B17: a result's call is looked for among the nearest entries only, so that an append stays cheap."""
    looked_at: list[int] = []

    def earlier() -> "list[tuple[int, Entry]]":
        looked_at.append(1)
        return [(100 - at, entry) for at, entry in enumerate([*user_entries(*"x" * 60), *STORY[:2]])]

    slices = slices_of(STORY[2:], 101, earlier)

    assert looked_at == [1]
    assert "kites" not in slices[0].tokens


def test_several_calls_are_found() -> None:
    """B6: a message that answers calls of two earlier messages is indexed under both; other entries are passed over."""
    one = AssistantMessage(MessageId("a"), (ToolCallPart("c1", "bash", '{"x": "apple"}'),))
    two = AssistantMessage(MessageId("b"), (ToolCallPart("c2", "bash", '{"x": "pear"}'),))
    both = ToolMessage(MessageId("c"), (ToolResultPart("c1", "bash", "out"), ToolResultPart("c2", "bash", "out")))
    before: list[tuple[int, Entry]] = [(2, MessageEntry(two)), (1, Pin(handle_of(0, 0))), (0, MessageEntry(one))]
    slices = slices_of([MessageEntry(both)], 3, lambda: before)

    assert ["apple" in piece.tokens for piece in slices] == [True, False]
    assert ["pear" in piece.tokens for piece in slices] == [False, True]


def test_large_part_is_cut() -> None:
    """B6: the tokens of a very large part are spread over rows that any database takes, none lost."""
    text = " ".join(f"word{number}" for number in range(60_000))
    slices = slices_of(user_entries(text), 0, unneeded)

    assert len(slices) > 1
    assert all(len(" ".join(piece.tokens)) <= LARGEST_SLICE for piece in slices)
    assert [token for piece in slices for token in piece.tokens] == list(dict.fromkeys(search_tokens(text)))


def test_only_tokens_are_asked_for() -> None:
    """What could mean something to a database is no token; endless tokens are known by their beginning."""
    given = ["a", "a", "b.c", "x\\y", "日本", 'q"', "a b", "'", "", "(", "\0", "$1", "y" * 300]

    assert query_tokens(given) == ["a", "b.c", "x\\y", "日本", "y" * LONGEST_TOKEN]


def test_endless_query_is_bounded() -> None:
    """B17: of a query as long as a log only the first tokens are looked up."""
    assert query_tokens(map(str, range(5_000))) == [str(number) for number in range(MOST_TOKENS)]


def test_rare_tokens_weigh_more() -> None:
    """B6: a part with a rare token comes before those with a common one, of equals the newest first."""
    common = [(number, 0) for number in range(9)]
    found = rank_parts([common, [(3, 0)], []], most=3)

    assert [one.handle for one in found] == ["3.0", "8.0", "7.0"]
    assert rank_parts([common], most=-1) == ()


@pytest.mark.parametrize("places", [[(4, 0), (4, 0)], [(4, 0)]])
def test_pieces_of_a_part_count_once(places: list[tuple[int, int]]) -> None:
    """B6: a part that was cut into pieces is found once, at the same score."""
    assert rank_parts([places], most=9) == rank_parts([[(4, 0)]], most=9)
