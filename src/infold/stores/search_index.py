"""Search, the same in every store: what is indexed of an entry, what a query looks up, and how the parts found are
ranked.

A part's score is the sum of the tokens it holds, each weighted by how few parts of its session hold it.
`core.recall.Index` then ranks passages of these parts by frequency and nearness. No score depends on another
session's content.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from math import log
from typing import Protocol, TypeAlias

from msgspec import Struct

from infold.core.entries import Entry, MessageEntry, handle_of, split_handle
from infold.core.messages import Message, calls_of, results_of
from infold.core.recall import Document, documents_of, search_tokens
from infold.errors import StoreBroken, UnknownReference, UnknownSession
from infold.ports import Found, SessionKey

LONGEST_TOKEN = 256
"""Characters of a token that are indexed; PostgreSQL takes 2,046 bytes, and longer tokens are encoded data."""

LARGEST_SLICE = 400_000
"""Bytes of tokens in one row of the index; PostgreSQL takes a megabyte, including its own bookkeeping."""

MOST_PLACES = 10_000
"""Places read per token, newest first: a more frequent word carries no information, and a search stays bounded."""

MOST_TOKENS = 64
"""Distinct tokens of a query that are looked up; a question has a dozen, a pasted log thousands."""

FARTHEST_CALL = 50
"""How many entries before a result are searched for its call."""

LONGEST_HANDLE = 18
"""Characters of the longest handle a session could have; a longer one is not looked up."""

BATCH = 200
"""Entries indexed at once: what was indexed before an interruption is kept."""

_TOKEN = re.compile(r"[\w./\\:@#+-]+")

PartPlace: TypeAlias = tuple[int, int]
"""A message's number and a part's position in it."""

EarlierEntries: TypeAlias = Callable[[], Iterable[tuple[int, Entry]]]
"""Returns the entries before the current ones, newest first; called only to find the call of a result."""


class Entries(Protocol):
    """The part of a store that is read here."""

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Yield the numbered entries, newest first."""
        ...


class Slice(Struct, frozen=True):
    """The distinct tokens of a part, or of a piece of a very large part."""

    sequence: int
    position: int
    tokens: tuple[str, ...]


class Indexed(Struct, frozen=True):
    """How many entries of a session are indexed, and how many it has."""

    entries: int
    of: int


def index_all(
    store: Entries,
    key: SessionKey,
    state: Callable[[], Indexed | None],
    add: Callable[[Indexed, int, Sequence[Slice]], None],
) -> list[Slice] | None:
    """Index what was appended since the last search; return what could not be indexed, `None` if the session does not
    exist.

    Most sessions are never searched, so they are indexed on the first search rather than on append. `state` returns
    how far the index has come; `add` advances it to a number, unless another writer has done so. If the index cannot
    be written (full disk, read-only file), the rest is searched without it.
    """
    before: Indexed | None = None
    while True:
        reached = state()
        if reached is None:
            return None
        if reached.entries >= reached.of:
            return []
        end = min(reached.of, reached.entries + BATCH)
        try:
            if reached != before:
                add(reached, end, _slices_between(store, key, reached.entries, end))
                before = reached
                continue
        except StoreBroken:
            pass  # what cannot be read either is reported by the reading below
        return _slices_between(store, key, max(0, reached.entries), reached.of)


def _slices_between(store: Entries, key: SessionKey, first: int, end: int) -> list[Slice]:
    entries = [entry for _, entry in islice(store.newest_first(key, before=end), end - first)][::-1]
    first = end - len(entries)
    return slices_of(entries, first, partial(store.newest_first, key, before=first))


def mark_of(number: int) -> str:
    """Return the word that marks a session's rows in the index; it cannot occur as a token."""
    return f"${number}"


def places_in(slices: Sequence[Slice], token: str) -> list[PartPlace]:
    """Return the places of a token in slices that are not indexed."""
    return [(piece.sequence, piece.position) for piece in slices if token in piece.tokens]


def slices_of(entries: Sequence[Entry], first: int, earlier: EarlierEntries) -> list[Slice]:
    """Return what to index of entries that are numbered from `first` on."""
    said = [(first + at, entry.message) for at, entry in enumerate(entries) if isinstance(entry, MessageEntry)]
    return [
        Slice(*split_handle(document.handle), tokens)
        for document in _documents(said, earlier)
        for tokens in _split_tokens(
            dict.fromkeys(_clip_tokens(chain(search_tokens(document.title), search_tokens(document.text))))
        )
    ]


def query_tokens(tokens: Iterable[str]) -> list[str]:
    """Return a query's first tokens, each once, without characters that a database could interpret."""
    return list(dict.fromkeys(_clip_tokens(token for token in tokens if _TOKEN.fullmatch(token))))[:MOST_TOKENS]


def rank_parts(places: Iterable[Sequence[PartPlace]], most: int) -> tuple[Found, ...]:
    """Return the parts found, best first and then newest first, given the places of each token."""
    scores: dict[PartPlace, float] = {}
    for held in places:
        distinct = set(held)
        weight = log(1 + MOST_PLACES / max(1, len(distinct)))
        for place in distinct:
            scores[place] = scores.get(place, 0.0) + weight
    best = sorted(scores, key=lambda place: (scores[place], place), reverse=True)[: max(0, most)]
    return tuple(Found(handle_of(*place), round(scores[place], 6)) for place in best)


def document_at(store: Entries, key: SessionKey, handle: str) -> Document:
    """Return the part under a handle, for a store's `read`."""
    sequence = split_handle(handle)[0] if len(handle) <= LONGEST_HANDLE else -1
    newest_first = store.newest_first(key, before=max(0, sequence) + 1)
    number, entry = next(newest_first, (None, None))
    if number is None:
        raise UnknownSession(key.session_id)
    if number == sequence and isinstance(entry, MessageEntry):
        for document in _documents([(sequence, entry.message)], lambda: newest_first):
            if document.handle == handle:
                return document
    raise UnknownReference("part", handle, remedy="name a part that holds text, by a handle from a search or a stub")


def _documents(said: Sequence[tuple[int, Message]], earlier: EarlierEntries) -> Iterator[Document]:
    """Yield the documents of these messages in order, each message read with only the calls that it answers.

    So the result does not depend on which messages were appended together.
    """
    makers = {call.call_id: numbered for numbered in said for call in calls_of(numbered[1])}
    missing = {result.call_id for _, message in said for result in results_of(message)} - makers.keys()
    for numbered in _find_callers(missing, earlier()) if missing else ():
        makers.update((call.call_id, numbered) for call in calls_of(numbered[1]))
    for sequence, message in said:
        called = {result.call_id for result in results_of(message)} & makers.keys()
        before = {makers[call_id][0]: makers[call_id] for call_id in called if makers[call_id][0] != sequence}
        own = (found for found in documents_of([*before.values(), (sequence, message)]) if _is_of(found, sequence))
        yield from sorted(own, key=lambda document: split_handle(document.handle))


def _is_of(document: Document, sequence: int) -> bool:
    return split_handle(document.handle)[0] == sequence


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


def _clip_tokens(tokens: Iterable[str]) -> Iterator[str]:
    return (token[:LONGEST_TOKEN] for token in tokens)


def _split_tokens(tokens: Iterable[str]) -> Iterator[tuple[str, ...]]:
    held, size = list[str](), 0
    for token in tokens:
        size += len(token.encode()) + 1
        if size > LARGEST_SLICE:
            yield tuple(held)
            held, size = [], len(token.encode()) + 1
        held.append(token)
    if held:
        yield tuple(held)
