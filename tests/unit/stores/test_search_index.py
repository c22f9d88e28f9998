"""The indexes of sessions: what they cost, what is stored of them, and that replies do not depend on it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread

import pytest

from infold.core.entries import Entry, MessageEntry, Pin, handle_of
from infold.core.messages import AssistantMessage, Message, MessageId, ToolCallPart, ToolMessage, ToolResultPart
from infold.core.recall import Index, documents_of
from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.stores.search_index import LEAST_PASSAGES, IndexPiece, SearchedSession, SessionIndexes, document_at
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import calls, result, user
from infold.testing.store_contract import ONE, TWO, as_entries, run_together, user_entries

TURN = (user("look"), calls("bash", arguments='{"command": "make kites"}'), result(output="blue\n" * 30))


class Recorded:
    """A session in lists: its entries, the pieces of its index, and which entries were read."""

    def __init__(self, drafts: Sequence[Message] = ()) -> None:
        self.entries = as_entries(drafts)
        self.pieces: dict[int, IndexPiece] = {}
        self.read: list[int] = []

    def newest_first(self) -> Iterator[tuple[int, Entry]]:
        """Yield the entries, and note which."""
        for number in range(len(self.entries) - 1, -1, -1):
            self.read.append(number)
            yield number, self.entries[number]

    def keep(self, piece: IndexPiece) -> None:
        """Store a piece."""
        self.pieces[piece.first] = piece

    def session(self) -> SearchedSession:
        """Return it as a store would."""
        return SearchedSession(1, len(self.entries), self.newest_first, lambda: self.pieces.values(), self.keep)


def many(turns: int) -> list[Message]:
    """Turns with words of their own."""
    return [
        draft
        for at in range(turns)
        for draft in (user(f"wish {at}"), calls("bash", arguments=f'{{"n": {at}}}'), result(output=f"kite {at} flew"))
    ]


def test_only_what_is_new_is_read() -> None:
    """B40, B17: a second search reads no entry again, and after an append only the new one."""
    recorded, indexes = Recorded(TURN), SessionIndexes()
    indexes.search(recorded.session(), "kites", 5)
    recorded.read.clear()
    indexes.search(recorded.session(), "blue", 5)
    assert recorded.read == []
    recorded.entries += user_entries("green", prefix="g")

    assert [hit.handle for hit in indexes.search(recorded.session(), "green", 5)] == ["3.0"]
    assert recorded.read == [3, 2]


def test_a_new_process_loads_what_was_stored() -> None:
    """B40: the stored pieces give the same hits as the texts, and are used in their place."""
    recorded = Recorded(many(LEAST_PASSAGES))
    first = SessionIndexes().search(recorded.session(), "kite 17 flew", 40)
    [piece] = recorded.pieces.values()
    recorded.entries += as_entries(many(LEAST_PASSAGES), prefix="n")
    grown = SessionIndexes().search(recorded.session(), "kite 17 flew", 40)

    assert (piece.first, piece.end) == (0, 3 * LEAST_PASSAGES)
    assert sorted(recorded.pieces) == [0, 3 * LEAST_PASSAGES]
    messages = [entry.message for entry in recorded.entries if isinstance(entry, MessageEntry)]
    assert grown == SessionIndexes().search(recorded.session(), "kite 17 flew", 40)
    assert grown == Index.of(documents_of(enumerate(messages))).search("kite 17 flew", most=40)
    assert first != grown


def test_what_waits_for_a_result_is_not_stored() -> None:
    """B40: a piece ends where no call is open, so that its result is found under it by a new process too."""
    late = (calls("bash", arguments='{"command": "make whistle"}'), result(output="shrill"))
    recorded = Recorded([*many(LEAST_PASSAGES), *late])
    answer = recorded.entries.pop()
    assert SessionIndexes().search(recorded.session(), "whistle", 5) == ()
    [piece] = recorded.pieces.values()
    recorded.entries.append(answer)

    assert piece.end == len(recorded.entries) - 2
    assert [hit.handle for hit in SessionIndexes().search(recorded.session(), "whistle", 5)] == ["601.0"]


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_a_piece_that_does_not_fit_is_made_again(damage: bytes | None) -> None:
    """B13, B40: damaged pieces, those of other texts and those that end nowhere change no reply, and are replaced."""
    recorded = Recorded(many(LEAST_PASSAGES))
    wanted = SessionIndexes().search(recorded.session(), "kite 17", 9)
    right = recorded.pieces[0]
    other = Recorded(many(LEAST_PASSAGES + 1))
    SessionIndexes().search(other.session(), "kite", 9)
    for wrong in (IndexPiece(0, 0, right.packed), IndexPiece(0, 5, right.packed)):
        recorded.pieces[0] = wrong
        assert SessionIndexes().search(recorded.session(), "kite 17", 9) == wanted
    recorded.pieces[0] = IndexPiece(0, right.end, other.pieces[0].packed if damage is None else damage)

    assert SessionIndexes().search(recorded.session(), "kite 17", 9) == wanted
    assert recorded.pieces[0] == right


def test_an_index_that_cannot_be_stored_is_used() -> None:
    """B13: a store that cannot write is searched all the same."""
    recorded = Recorded(many(LEAST_PASSAGES))

    def refuse(piece: IndexPiece) -> None:
        raise StoreBroken("here", "it is full", remedy="free some space")

    session = SearchedSession(1, len(recorded.entries), recorded.newest_first, tuple, refuse)
    assert SessionIndexes().search(session, "kite 17", 1)[0].handle == "53.0"


def test_a_search_that_fails_is_begun_again() -> None:
    """B13: after an error in the middle of reading the next search finds everything once."""
    recorded, indexes = Recorded(TURN), SessionIndexes()

    def broken() -> Iterator[tuple[int, Entry]]:
        yield from list(recorded.newest_first())[:1]
        raise StoreBroken("here", "it is damaged", remedy="mend it")

    with pytest.raises(StoreBroken):
        indexes.search(SearchedSession(1, 3, broken), "blue", 5)
    assert indexes.search(recorded.session(), "blue", 5) == SessionIndexes().search(recorded.session(), "blue", 5)


def test_memory_is_bounded() -> None:
    """B17: of a very large session the newest part is searched, and sessions searched long ago are forgotten."""
    recorded = Recorded([user(f"kite {at} {'x' * 1_000}") for at in range(200)])
    indexes = SessionIndexes(most_characters=100_000)

    assert indexes.search(recorded.session(), "kite 3", 5) != ()
    assert min(recorded.read) > 100
    assert not recorded.pieces
    recorded.entries += as_entries([user(f"pear {at} {'x' * 1_000}") for at in range(100)], prefix="p")
    indexes.search(recorded.session(), "pear", 5)
    recorded.read.clear()
    recorded.entries += user_entries("plum", prefix="q")
    assert [hit.handle for hit in indexes.search(recorded.session(), "plum", 5)] == ["300.0"]
    assert 200 < min(recorded.read) < 298  # what had grown beyond twice the limit was read again, the newest alone
    others = [Recorded([user(f"apple {'x' * 60_000}")]) for _ in range(3)]
    for number, other in enumerate((*others, others[0])):
        other.read.clear()
        indexes.search(SearchedSession(10 + number % 3, 1, other.newest_first), "apple", 5)
    assert others[0].read == [0]


def test_threads_share_an_index() -> None:
    """B14: searches from several threads, while others append, each find what was there."""
    store = MemoryStore()
    store.append(ONE, as_entries(many(30)), expected=0)
    found: list[int] = []

    def search() -> None:
        for _ in range(20):
            found.append(len(store.search(ONE, "kite 7", most=40)))  # noqa: PERF401 - each takes its time

    def append() -> None:
        for at in range(20):
            store.append(ONE, user_entries(f"kite again {at}", prefix=f"{at}-"), expected=90 + at)

    run_together([*(Thread(target=search) for _ in range(4)), Thread(target=append)])

    assert len(found) == 80
    assert len(store.search(ONE, "kite 7", most=100)) == 51


def test_a_deleted_session_is_not_found_under_its_key(tmp_path: Path) -> None:
    """B27: a session that another process deleted and began again has an index of its own."""
    with SqliteStore(tmp_path / "a.db") as store, SqliteStore(tmp_path / "a.db") as other:
        store.append(ONE, user_entries("apple", "pear"), expected=0)
        assert store.search(ONE, "apple", most=1)
        other.delete(ONE)
        assert store.search(ONE, "apple", most=1) == ()
        other.append(ONE, user_entries("plum", "cherry"), expected=0)

        assert store.search(ONE, "apple", most=1) == ()
        assert [hit.handle for hit in store.search(ONE, "plum", most=1)] == ["0.0"]
        assert store.search(TWO, "plum", most=1) == ()


# Parts by their handles.


class Entries:
    """A store of these entries."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Yield the entries, newest first."""
        del key
        end = len(self.entries) if before is None else before
        yield from ((number, self.entries[number]) for number in range(min(end, len(self.entries)) - 1, -1, -1))


def test_a_call_that_is_far_away_is_not_looked_for() -> None:
    """B17: a result's call is looked for among the nearest entries only."""
    story = as_entries(TURN)
    near = Entries([*story[:2], *user_entries(*"x" * 40), story[2]])
    far = Entries([*story[:2], *user_entries(*"x" * 60), story[2]])

    assert "make kites" in document_at(near, ONE, "42.0").title
    assert document_at(far, ONE, "62.0").title == "bash"


def test_several_calls_are_found() -> None:
    """B6: a message that answers calls of two earlier messages is read under both; other entries are passed over."""
    one = AssistantMessage(MessageId("a"), (ToolCallPart("c1", "bash", '{"x": "apple"}'),))
    two = AssistantMessage(MessageId("b"), (ToolCallPart("c2", "bash", '{"x": "pear"}'),))
    both = ToolMessage(MessageId("c"), (ToolResultPart("c1", "bash", "out"), ToolResultPart("c2", "bash", "out")))
    entries = Entries([MessageEntry(one), Pin(handle_of(0, 0)), MessageEntry(two), MessageEntry(both)])

    assert ["apple" in document_at(entries, ONE, f"3.{at}").title for at in (0, 1)] == [True, False]
    assert ["pear" in document_at(entries, ONE, f"3.{at}").title for at in (0, 1)] == [False, True]
