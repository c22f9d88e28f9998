"""Values that arrive in pieces."""

from typing import Any

import pytest

from infold.formats.codec import dict_or_empty, dicts_in
from infold.formats.streams import IndexedEntries, TextPieces, append_text, index_or_none, join_pieces, join_text, merge


def merged(*pieces: dict[str, Any]) -> object:
    """What these pieces make together."""
    into: dict[str, Any] = {}
    for piece in pieces:
        merge(into, piece)
    return join_pieces(into)


@pytest.mark.parametrize(
    ("pieces", "together"),
    [
        (({"text": "a"}, {"text": "b"}), {"text": "ab"}),
        (({"text": None}, {"text": "b"}, {"text": None}), {"text": "b"}),
        (({"id": "a", "role": "x"}, {"id": "b", "role": ""}), {"id": "a", "role": "x"}),
        (({"id": ""}, {"id": "b"}), {"id": "b"}),
        (({"name": "get_"}, {"name": "weather"}), {"name": "get_weather"}),
        (({"name": "bash"}, {"name": "bash"}), {"name": "bash"}),
        (({"n": 1}, {"n": 2}), {"n": 2}),
        (({"in": {"text": "a", "n": 1}}, {"in": {"text": "b"}}), {"in": {"text": "ab", "n": 1}}),
        (({"list": [1]}, {"list": [2]}), {"list": [1, 2]}),
        (({"text": 3}, {"text": "b"}), {"text": "b"}),
        (({"text": "a"}, {"text": {"b": 1}}), {"text": {"b": 1}}),
    ],
)
def test_pieces_of_an_object_come_together(pieces: tuple[dict[str, Any], ...], together: dict[str, Any]) -> None:
    """Text grows, lists extend, what servers repeat stays, all else is replaced."""
    assert merged(*pieces) == together


def test_text_and_blocks_may_mix() -> None:
    """Text before or after blocks is a block of its own, its pieces joined."""
    block = {"type": "thinking", "thinking": []}
    said = merged({"content": "a"}, {"content": "b"}, {"content": [block]}, {"content": "c"}, {"content": "d"})

    assert said == {"content": [{"type": "text", "text": "ab"}, block, {"type": "text", "text": "cd"}]}
    assert merged({"content": ""}, {"content": [block]}, {"content": ""}) == {"content": [block]}


def test_halves_of_a_character_come_together() -> None:
    """A character sent as two escapes in two pieces is join_pieces; half a one is marked."""
    assert join_text(["a\ud83d", "\ude00b"]) == "a😀b"
    assert join_text(["\ud83d"]) == "\ufffd"


def test_depth_has_an_end() -> None:
    """What is nested deeper than anything a provider streams is kept as it came."""
    deep: dict[str, Any] = {"text": "x"}
    for _ in range(5_000):
        deep = {"in": deep}

    assert join_pieces(merged(deep)) is not None


def test_slots_grow_by_index() -> None:
    """Entries are told apart by their index and listed in its order; a piece without one is the last entry's."""
    slots = IndexedEntries(lambda *_: False)
    for piece in ({"index": 1, "text": "c"}, {"index": 0, "text": "a"}, {"text": "b"}, {"index": 1, "text": "d"}):
        merge(slots.entry_for(piece), piece)

    assert slots.entries() == [{"index": 0, "text": "ab"}, {"index": 1, "text": "cd"}]


def test_slots_may_begin_anew_at_an_index() -> None:
    """Where the pieces themselves say so, one index holds several entries, in their order."""
    slots = IndexedEntries(lambda held, piece: held.get("id") != piece.get("id", held.get("id")))
    for piece in (
        {"index": 0, "id": "a", "text": "1"},
        {"index": 0, "id": "b", "text": "2"},
        {"index": 0, "text": "3"},
    ):
        merge(slots.entry_for(piece), piece)

    assert [entry["text"] for entry in slots.entries()] == ["1", "23"]


def test_what_is_of_a_wrong_type_is_nothing() -> None:
    """Readers of untrusted values give an empty one."""
    assert (
        dict_or_empty(3),
        dict_or_empty([]),
        dicts_in(3),
        dicts_in([1, {}, None]),
        index_or_none("0"),
        index_or_none(True),
    ) == (
        {},
        {},
        [],
        [{}],
        None,
        None,
    )
    into: dict[str, Any] = {}
    append_text(into, "text", 3)
    assert into == {}


def test_text_is_joined_only_when_asked_for() -> None:
    """A piece is put beside those before it, so that a long text costs no more by the piece than a short one."""
    into: dict[str, Any] = {}
    for _ in range(1_000):
        append_text(into, "text", "piece ")

    assert isinstance(into["text"], TextPieces)
    assert len(into["text"]) == 1_000
    assert join_pieces(into) == {"text": "piece " * 1_000}
