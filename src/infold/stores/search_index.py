"""Search, the same in every store: the indexes of the sessions that were searched, and parts read by their handles.

`core.recall.Index` ranks. Here it is built from a session's entries on the first search, extended by what was appended
since, and kept in memory for the next. What ranking needs is also stored in pieces, so that a new process does not divide
the texts into tokens again. Where the pieces cannot be written, searching works all the same.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import Protocol

from msgspec import Struct

from infold.core.entries import Entry, MessageEntry, split_handle
from infold.core.messages import Message, Part, calls_of, results_of
from infold.core.recall import Document, DocumentReader, Hit, Index, IndexSize, documents_of
from infold.errors import StoreBroken, UnknownReference, UnknownSession
from infold.ports import SessionKey

FARTHEST_CALL = 50
"""How many entries before a result are searched for its call."""

LONGEST_HANDLE = 18
"""Characters of the longest handle a session could have; a longer one is not looked up."""

LEAST_PASSAGES = 200
"""Passages that are stored together: about a tenth of a second's work, and few writes in a session that is often searched."""

MOST_CHARACTERS = 32_000_000
"""Characters of a session that are searched by words, the newest first: eight million tokens, which take some 200 MB."""

DOCUMENT_CHARACTERS = 300
"""What a document counts in addition to its text, so that very many small ones are bounded too."""


class Entries(Protocol):
    """The part of a store that is read here."""

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Yield the numbered entries, newest first."""
        ...


class IndexPiece(Struct, frozen=True):
    """A stored piece of a session's index, for the entries from `first` to before `end`; see `core.recall.Index.pack`."""

    first: int
    end: int
    packed: bytes


class SearchedSession(Struct, frozen=True):
    """A session to be searched, as its store reads and writes it.

    A new session under the same key has another number. `newest_first` yields its entries, `pieces` returns what is stored
    of its index, and `keep` stores a piece in place of one with the same beginning, or raises `StoreBroken`; without it
    nothing is stored.
    """

    number: int
    next_sequence: int
    newest_first: Callable[[], Iterator[tuple[int, Entry]]]
    pieces: Callable[[], Iterable[IndexPiece]] = tuple
    keep: Callable[[IndexPiece], object] | None = None


class SessionIndexes:
    """The indexes of the sessions that were searched last, within a limit of characters."""

    def __init__(self, *, most_characters: int = MOST_CHARACTERS, least_passages: int = LEAST_PASSAGES) -> None:
        self._most_characters = most_characters
        self._least_passages = least_passages
        self._lock = Lock()
        self._indexes: OrderedDict[int, SessionIndex] = OrderedDict()

    def search(self, session: SearchedSession, query: str, most: int) -> tuple[Hit, ...]:
        """Return the best passages of a session."""
        index = self._index_of(session.number)
        with index.lock:
            try:
                index.advance(session)
            except BaseException:
                self.close()  # what was interrupted is not to be continued
                raise
            return index.search(query, most)

    def _index_of(self, number: int) -> "SessionIndex":
        with self._lock:
            index = self._indexes.pop(number, None)
            if index is None or index.characters > 2 * self._most_characters:
                index = SessionIndex(self._most_characters, self._least_passages)
            self._indexes[number] = index
            while len(self._indexes) > 1 and self._characters() > self._most_characters:
                self._indexes.popitem(last=False)
            return index

    def _characters(self) -> int:
        return sum(index.characters for index in self._indexes.values())

    def close(self) -> None:
        """Forget all indexes: what was deleted does not stay in memory."""
        with self._lock:
            self._indexes.clear()


class _Mark(Struct, frozen=True):
    """A place in a session: the number of its next entry, and the size of the index up to it."""

    sequence: int = 0
    size: IndexSize = IndexSize()


class SessionIndex:
    """The index of one session and how far it has come; `lock` is for who reads or extends it."""

    def __init__(self, most_characters: int, least_passages: int) -> None:
        self.lock = Lock()
        self.characters = 0
        self._most_characters = most_characters
        self._least_passages = least_passages
        self._index = Index()
        self._reader = DocumentReader()
        self._next = 0
        self._stored = self._settled = _Mark()
        self._is_whole = True

    def search(self, query: str, most: int) -> tuple[Hit, ...]:
        """Return the best passages."""
        return self._index.search(query, most=most)

    def advance(self, session: SearchedSession) -> None:
        """Add what was appended since the last search, and store it once it is worth a piece."""
        if session.next_sequence <= self._next:
            return
        messages = deque(self._new_messages(session))
        if not self._next and self._is_whole:
            self._add_pieces(session, messages)
        while messages:
            sequence = messages[0][0]
            for document in self._read(messages, sequence + 1):
                self._index.add(document)
            if self._reader.is_settled:
                self._settled = _Mark(sequence + 1, self._index.size)
        self._next = session.next_sequence
        if session.keep is not None and self._is_whole:
            self._store(session.keep)

    def _store(self, keep: Callable[[IndexPiece], object]) -> None:
        first, end = self._stored, self._settled
        if end.size.passages - first.size.passages < self._least_passages:
            return
        with suppress(StoreBroken):
            keep(IndexPiece(first.sequence, end.sequence, self._index.pack(first.size, end.size)))
        self._stored = end

    def _new_messages(self, session: SearchedSession) -> list[tuple[int, Message]]:
        """Return the messages not yet read, oldest first; of a session that is too large the newest."""
        found = list[tuple[int, Message]]()
        for sequence, entry in session.newest_first():
            if sequence < self._next:
                break
            if isinstance(entry, MessageEntry):
                found.append((sequence, entry.message))
                self.characters += sum(map(_characters_of, entry.message.parts))
            if self.characters > self._most_characters and not self._next:
                self._is_whole = sequence == 0
                break
        return found[::-1]

    def _add_pieces(self, session: SearchedSession, messages: deque[tuple[int, Message]]) -> None:
        """Add the messages of which the index is stored, up to a piece that is missing or not usable."""
        pieces = {piece.first: piece for piece in session.pieces()}
        while messages and (piece := pieces.get(self._stored.sequence)):
            documents = list(self._read(messages, piece.end))
            is_usable = documents and self._reader.is_settled and self._index.unpack(piece.packed, documents)
            if not is_usable:
                for document in documents:
                    self._index.add(document)
            if self._reader.is_settled:
                self._settled = _Mark(min(piece.end, session.next_sequence), self._index.size)
            if not is_usable:
                return
            self._stored = self._settled

    def _read(self, messages: deque[tuple[int, Message]], end: int) -> Iterator[Document]:
        """Yield the documents of the messages before an entry."""
        while messages and messages[0][0] < end:
            yield from self._reader.read(*messages.popleft())


def _characters_of(part: Part) -> int:
    texts = (getattr(part, name, "") for name in ("text", "output", "arguments"))
    return DOCUMENT_CHARACTERS + sum(len(text) for text in texts)


def document_at(store: Entries, key: SessionKey, handle: str) -> Document:
    """Return the part under a handle, for a store's `read`."""
    sequence = split_handle(handle)[0] if len(handle) <= LONGEST_HANDLE else -1
    newest_first = store.newest_first(key, before=max(0, sequence) + 1)
    number, entry = next(newest_first, (None, None))
    if number is None:
        raise UnknownSession(key.session_id)
    if number == sequence and isinstance(entry, MessageEntry):
        missing = {result.call_id for result in results_of(entry.message)} - {
            call.call_id for call in calls_of(entry.message)
        }
        before = _find_callers(missing, newest_first) if missing else ()
        for document in documents_of([*before, (sequence, entry.message)]):
            if document.handle == handle:
                return document
    raise UnknownReference("part", handle, remedy="name a part that holds text, by a handle from a search or a stub")


def _find_callers(missing: set[str], earlier: Iterable[tuple[int, Entry]]) -> Iterator[tuple[int, Message]]:
    """Yield the nearby messages that made these calls; stop when all are found."""
    for sequence, entry in islice(earlier, FARTHEST_CALL):
        if not isinstance(entry, MessageEntry):
            continue
        found = missing & {call.call_id for call in calls_of(entry.message)}
        if found:
            yield sequence, entry.message
            missing = missing - found
        if not missing:
            return
