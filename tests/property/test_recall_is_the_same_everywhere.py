"""The same query gets the same reply from every store, however the session was written and however often it was opened."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from infold.core.entries import Entry, MessageEntry
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    SessionId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.recall import Hit
from infold.ports import SessionKey
from infold.session.recall import recall
from infold.stores.memory import MemoryStore
from infold.stores.search_index import IndexPiece, SearchedSession, SessionIndexes
from infold.stores.sqlite import SqliteStore

KEY = SessionKey("", SessionId("s"))
NAME = MessageId("m")
words = st.lists(st.sampled_from(("kite", "hill", "make", "src/a.py", "数据库", "x_1", "\n", "12")), max_size=40).map(
    " ".join
)
ids = st.sampled_from("abc")
parts_said = st.builds(TextPart, words)
parts_called = st.builds(ToolCallPart, ids, st.sampled_from(("bash", "recall")), words)
messages = st.one_of(
    st.builds(lambda part: UserMessage(NAME, (part,)), parts_said),
    st.builds(lambda parts: AssistantMessage(NAME, tuple(parts)), st.lists(parts_said | parts_called, max_size=3)),
    st.builds(lambda call, text: ToolMessage(NAME, (ToolResultPart(call, "bash", text),)), ids, words),
)


@settings(max_examples=60)
@given(
    st.lists(st.lists(messages, min_size=1, max_size=8), min_size=1, max_size=5),
    st.lists(words, min_size=1, max_size=3),
)
def test_stores_reply_alike(appends: list[list[Message]], queries: list[str]) -> None:
    """B40: memory, a file opened for each append, and an index loaded from small pieces find the same passages."""
    asked = [f"{query} kite" for query in queries]
    memory, pieces, at = MemoryStore(), dict[int, IndexPiece](), 0
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        for said in appends:
            entries: list[Entry] = [MessageEntry(message) for message in said]
            memory.append(KEY, entries, expected=at)
            with SqliteStore(path) as store:
                at = store.append(KEY, entries, expected=at)
                recall(store, KEY, asked[0])
            from_pieces = [found_in_pieces(memory, pieces, at, query) for query in asked]
        with SqliteStore(path) as store:
            reopened = [recall(store, KEY, query) for query in asked]

    assert reopened == [recall(memory, KEY, query) for query in asked]
    assert from_pieces == [memory.search(KEY, query, most=40) for query in asked]


def found_in_pieces(store: MemoryStore, pieces: dict[int, IndexPiece], end: int, query: str) -> tuple[Hit, ...]:
    """Search as a new process does, with a piece of the index stored for every few passages."""

    def keep(piece: IndexPiece) -> None:
        pieces[piece.first] = piece

    session = SearchedSession(1, end, lambda: store.newest_first(KEY), pieces.values, keep)
    return SessionIndexes(least_passages=3).search(session, query, 40)
