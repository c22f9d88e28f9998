"""The rules of a store for the log itself: order, conflicts, reading, several writers, the lock."""

from collections.abc import Callable, Sequence
from itertools import islice
from threading import Thread

from infold.core.entries import Checkpoint, Entry, MessageEntry, Pin, Pruning, handle_of
from infold.errors import StoreConflict
from infold.ports import FullStore
from infold.testing.rules import FOREIGN, ONE, TWO, append_with_retries, raised, rule, run_together, said

# The log.


def _entries_come_back(store: FullStore) -> None:
    entries = [
        *said("a", "\0 ' \" 日本語 🎏"),
        Pin(handle_of(0, 0)),
        Pruning((handle_of(0, 0),), 7),
        Checkpoint("sum", 1),
    ]
    after = (store.append(ONE, entries[:2], expected=0), store.append(ONE, entries[2:], expected=2))
    read = list(store.newest_first(ONE))

    rule(after == (2, 5), "append gives the number that the next entry will have", after)
    rule([number for number, _ in read] == [4, 3, 2, 1, 0], "entries are numbered from 0 without gaps", read)
    rule([entry for _, entry in read] == entries[::-1], "entries come back as they were appended, newest first", read)


def _unknown_session_is_empty(store: FullStore) -> None:
    rule(list(store.newest_first(ONE)) == [], "a session that is not there has no entries")
    rule(store.append(ONE, [], expected=0) == 0, "appending nothing changes no number")
    rule(list(store.sessions(ONE.tenant)) == [], "appending nothing begins no session")
    rule(tuple(store.search(ONE, ["a"], most=5)) == (), "a search in a session that is not there finds nothing")


def _conflict_appends_nothing(store: FullStore) -> None:
    store.append(ONE, said("a", "b"), expected=0)
    for expected in (0, 1, 3):
        conflict = raised(StoreConflict, lambda at=expected: store.append(ONE, said("c"), expected=at))  # type: ignore[misc]
        numbers = (getattr(conflict, "expected", None), getattr(conflict, "actual", None))
        rule(numbers == (expected, 2), "a wrong `expected` is a StoreConflict with both numbers", conflict)
    conflict = raised(StoreConflict, lambda: store.append(TWO, said("c"), expected=1))

    rule(conflict is not None, "a session that is not there begins at 0", conflict)
    rule(len(list(store.newest_first(ONE))) == 2, "a conflict appends nothing")
    rule(list(store.newest_first(TWO)) == [], "a conflict begins no session")


def _append_is_all_or_nothing(store: FullStore) -> None:
    broken: Sequence[Entry] = [*said("a"), Pin(handle_of(0, 0), pinned=object())]  # type: ignore[arg-type]
    try:
        store.append(ONE, broken, expected=0)
    except TypeError:
        rule(list(store.newest_first(ONE)) == [], "an append is all or nothing")
    else:
        rule(None, "an entry that cannot be encoded is refused")


def _reading_can_begin_anywhere(store: FullStore) -> None:
    store.append(ONE, said(*map(str, range(120))), expected=0)

    for before, first in ((None, 119), (120, 119), (500, 119), (60, 59), (1, 0)):
        numbers = [number for number, _ in store.newest_first(ONE, before=before)]
        rule(numbers == list(range(first, -1, -1)), f"before={before} gives the entries from {first} down", numbers)
    rule(list(store.newest_first(ONE, before=0)) == [], "there is nothing before entry 0")


def _reading_locks_nothing(store: FullStore) -> None:
    store.append(ONE, said(*map(str, range(120))), expected=0)
    reading = store.newest_first(ONE)
    first = [number for number, _ in islice(reading, 10)]
    store.append(ONE, said("new", prefix="n"), expected=120)
    store.append(TWO, said("new"), expected=0)

    numbers = first + [number for number, _ in reading]
    rule(numbers == list(range(119, -1, -1)), "a reader under way sees what was there, while others append", numbers)


def _reader_of_a_deleted_session_ends(store: FullStore) -> None:
    store.append(ONE, said(*map(str, range(120))), expected=0)
    reading = store.newest_first(ONE)
    next(reading)
    store.delete(ONE)
    store.append(ONE, said(*(["other"] * 120), prefix="o"), expected=0)

    texts = {str(entry) for _, entry in reading}
    rule(not any("other" in text for text in texts), "a reader never passes from a deleted session into its successor")


# Several writers.


def _writers_never_interleave(store: FullStore) -> None:
    def write(name: str) -> None:
        for at in range(12):
            append_with_retries(store, ONE, said("first", "second", prefix=f"{name}-{at}-"))

    threads = [Thread(target=write, args=(name,)) for name in "abcd"]
    run_together(threads)
    ids = [entry.message.id for _, entry in store.newest_first(ONE) if isinstance(entry, MessageEntry)][::-1]
    pairs = list(zip(ids[::2], ids[1::2], strict=True))

    rule(len(ids) == 96 and len(set(ids)) == 96, "what several threads append is all there, once (B14)", ids)
    rule(all(one[:-1] == two[:-1] for one, two in pairs), "what is appended together stays together (B14)", ids)
    for name in "abcd":
        own = [id_ for id_ in ids if id_.startswith(f"{name}-")]
        rule(own == sorted(own, key=_turn), "each writer's entries stand in its order (B14)", own)


def _one_holder(store: FullStore) -> None:
    others: list[bool] = []

    def try_to_hold() -> None:
        with store.hold(ONE) as held:
            others.append(held)

    with store.hold(ONE) as first, store.hold(TWO) as second, store.hold(FOREIGN) as third:
        try_to_hold()
        run_together([Thread(target=try_to_hold)])
        appended = store.append(ONE, said("a"), expected=0)
        try_to_hold()
    with store.hold(ONE) as again:
        pass

    rule(first and second and third, "a lock that nobody holds is given, each session having its own")
    rule(others == [False] * 3, "a session has one holder at a time, and who asks meanwhile is told so", others)
    rule(appended == 1, "a held session can be appended to")
    rule(again, "a lock is given back at the end of the block")


def _hold_survives_errors(store: FullStore) -> None:
    seen = None
    try:
        with store.hold(ONE):
            raise ConnectionError("of the block's own")
    except ConnectionError as error:
        seen = error
    with store.hold(ONE) as again:
        rule(again and seen is not None, "an error in the block passes through as it is and gives the lock back", seen)


def _turn(id_: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in id_.split("-")[1:])


LOG_RULES: tuple[Callable[[FullStore], None], ...] = (
    _entries_come_back,
    _unknown_session_is_empty,
    _conflict_appends_nothing,
    _append_is_all_or_nothing,
    _reading_can_begin_anywhere,
    _reading_locks_nothing,
    _reader_of_a_deleted_session_ends,
    _writers_never_interleave,
    _one_holder,
    _hold_survives_errors,
)
"""Each is called with an empty store."""
