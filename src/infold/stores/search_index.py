"""What a store indexes of an entry, what a search asks for, and how the parts that were found are ranked.

Shared by all stores, so that every store finds the same. A part is ranked by the tokens it holds, each weighing more the
fewer parts of its session hold it; how often and how near they stand is `core.recall.Index`'s affair, which ranks the
passages of the parts found here. No number depends on another session's content (B28).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from math import log
from typing import TypeAlias

from msgspec import Struct

from infold.core.entries import Entry, MessageEntry, handle_of, split_handle
from infold.core.messages import Message, calls_of, results_of
from infold.core.recall import Document, documents_of, tokens_of
from infold.errors import StoreBroken, UnknownReference, UnknownSession
from infold.ports import Found, SessionKey, Store

LONGEST_TOKEN = 256
"""Characters by which a token is known; PostgreSQL takes 2,046 bytes, and longer ones are encoded data."""


LARGEST_SLICE = 400_000
"""Bytes of tokens indexed as one row; PostgreSQL takes a megabyte, its own bookkeeping included."""


MOST_PLACES = 10_000
"""Places looked at per token, newest first: a word in more parts than that tells nothing, and a search stays bounded."""


MOST_TOKENS = 64
"""Distinct tokens of a query that are looked up; a question has a dozen, a pasted log thousands."""


FARTHEST_CALL = 50
"""Entries before a result among which its call is looked for."""


LONGEST_HANDLE = 18
"""Characters of a handle that a session could have; what is longer need not be looked for."""


BATCH = 200
"""Entries indexed at once: what was indexed before a search was interrupted need not be done again."""


_TOKEN = re.compile(r"[\w./\\:@#+-]+")


Place: TypeAlias = tuple[int, int]
"""A message's number and a part's position in it."""


Earlier: TypeAlias = Callable[[], Iterable[tuple[int, Entry]]]
"""Gives the entries before those at hand, newest first; called only if a result's call must be looked for."""


class Slice(Struct, frozen=True):
    """The distinct tokens of a part, or of a piece of a very large one."""

    sequence: int
    position: int
    tokens: tuple[str, ...]


class Indexed(Struct, frozen=True):
    """How far a session's index has come: the entries it holds, and those there are."""

    entries: int
    of: int


def index_all(
    store: Store,
    key: SessionKey,
    state: Callable[[], Indexed | None],
    add: Callable[[Indexed, int, Sequence[Slice]], None],
) -> list[Slice] | None:
    """Index what was appended since the last search, and return what could not be indexed; `None` if the session does not exist.

    Finding words costs more than storing them, and most sessions are never searched: so it is done here and not as entries
    come. `state` returns how far the index has come; `add` takes it on from there to that number, unless another has done so.
    Where the index cannot be written (a full disk, a file that may only be read), the rest is searched without it.
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


def _slices_between(store: Store, key: SessionKey, first: int, end: int) -> list[Slice]:
    entries = [entry for _, entry in islice(store.newest_first(key, before=end), end - first)][::-1]
    first = end - len(entries)
    return slices_of(entries, first, partial(store.newest_first, key, before=first))


def places_in(slices: Sequence[Slice], token: str) -> list[Place]:
    """Return where a token stands in what is not indexed."""
    return [(piece.sequence, piece.position) for piece in slices if token in piece.tokens]


def slices_of(entries: Sequence[Entry], first: int, earlier: Earlier) -> list[Slice]:
    """What is to be indexed of entries that are numbered from `first` on."""
    said = [(first + at, entry.message) for at, entry in enumerate(entries) if isinstance(entry, MessageEntry)]
    return [
        Slice(*split_handle(document.handle), tokens)
        for document in _documents(said, earlier)
        for tokens in _cut(dict.fromkeys(_clipped(chain(tokens_of(document.title), tokens_of(document.text)))))
    ]


def askable(tokens: Iterable[str]) -> list[str]:
    """A query's first tokens, each once, without what is no token and could mean something to a database."""
    return list(dict.fromkeys(_clipped(token for token in tokens if _TOKEN.fullmatch(token))))[:MOST_TOKENS]


def ranked(places: Iterable[Sequence[Place]], most: int) -> tuple[Found, ...]:
    """The parts found, best first and of equals the newest, from the places of each token asked for."""
    scores: dict[Place, float] = {}
    for held in places:
        distinct = set(held)
        weight = log(1 + MOST_PLACES / max(1, len(distinct)))
        for place in distinct:
            scores[place] = scores.get(place, 0.0) + weight
    best = sorted(scores, key=lambda place: (scores[place], place), reverse=True)[: max(0, most)]
    return tuple(Found(handle_of(*place), round(scores[place], 6)) for place in best)


def document_at(store: Store, key: SessionKey, handle: str) -> Document:
    """The part of that handle, as a store's `read` gives it."""
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


def _documents(said: Sequence[tuple[int, Message]], earlier: Earlier) -> Iterator[Document]:
    """The documents of these messages, in order, each message by itself but for the calls that it answers.

    So what is found does not depend on which messages were appended together.
    """
    makers = {call.call_id: numbered for numbered in said for call in calls_of(numbered[1])}
    missing = {result.call_id for _, message in said for result in results_of(message)} - makers.keys()
    for numbered in _makers(missing, earlier()) if missing else ():
        makers.update((call.call_id, numbered) for call in calls_of(numbered[1]))
    for sequence, message in said:
        called = {result.call_id for result in results_of(message)} & makers.keys()
        before = {makers[call_id][0]: makers[call_id] for call_id in called if makers[call_id][0] != sequence}
        own = (found for found in documents_of([*before.values(), (sequence, message)]) if _is_of(found, sequence))
        yield from sorted(own, key=lambda document: split_handle(document.handle))


def _is_of(document: Document, sequence: int) -> bool:
    return split_handle(document.handle)[0] == sequence


def _makers(missing: set[str], earlier: Iterable[tuple[int, Entry]]) -> Iterator[tuple[int, Message]]:
    """The messages that made these calls, so far as they are near; stops as soon as all are found."""
    for sequence, entry in islice(earlier, FARTHEST_CALL):
        if not isinstance(entry, MessageEntry):
            continue
        found = missing & {call.call_id for call in calls_of(entry.message)}
        if found:
            yield sequence, entry.message
            missing = missing - found
        if not missing:
            return


def _clipped(tokens: Iterable[str]) -> Iterator[str]:
    return (token[:LONGEST_TOKEN] for token in tokens)


def _cut(tokens: Iterable[str]) -> Iterator[tuple[str, ...]]:
    held, size = list[str](), 0
    for token in tokens:
        size += len(token.encode()) + 1
        if size > LARGEST_SLICE:
            yield tuple(held)
            held, size = [], len(token.encode()) + 1
        held.append(token)
    if held:
        yield tuple(held)
