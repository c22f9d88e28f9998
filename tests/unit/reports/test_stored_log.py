"""What a page reads of a session, and no more."""

from collections.abc import Iterator

import pytest

from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.messages import Overhead, SessionId
from infold.errors import UnknownReference, UnknownSession
from infold.ports import SessionKey
from infold.reports.stored_log import MOST_ENTRIES, count_tokens, find_entry, load_log, read_section
from infold.reports.timeline import read_timeline
from infold.stores.memory import MemoryStore
from infold.testing.builders import replies, session, user

from .stored_sessions import KEY, reported, stored

TURNS = [message for turn in range(30) for message in (user(f"turn {turn}"), replies("done"))]


class Counting(MemoryStore):
    """Counts the entries that are read."""

    taken = 0

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The same entries, counted."""
        for numbered in super().newest_first(key, before=before):
            self.taken += 1
            yield numbered


def test_only_the_newest_requests_are_read() -> None:
    """So many requests and what was said before each; whether there is more is told."""
    store = stored(*TURNS)
    newest, whole = read_section(store, KEY, requests=5), read_section(store, KEY, requests=30)

    assert ([number for number, _ in newest.entries], newest.has_older) == (list(range(50, 60)), True)
    assert (len(whole.entries), whole.has_older) == (60, False)
    assert [number for number, _ in read_section(store, KEY, before=50, requests=2).entries] == [46, 47, 48, 49]


def test_the_cost_of_reading_does_not_grow_with_age() -> None:
    """S4.1: of a long session that was folded, what is shown and the view before it are read."""
    store = Counting()
    stored(*(user("old") for _ in range(900)), Checkpoint("x"), *TURNS, store=store)

    found = read_timeline(store, read_section(store, KEY, requests=5))

    assert store.taken < 90
    assert [point.number for point in found.points] == [26, 27, 28, 29, 30]


def test_a_session_of_few_requests_is_bounded_too() -> None:
    """However much was said without a reply, a page reads so many entries at most."""
    store = stored(*(user(f"note {number}") for number in range(MOST_ENTRIES + 9)))

    assert (len(read_section(store, KEY).entries), read_section(store, KEY).has_older) == (MOST_ENTRIES, True)


def test_what_is_not_there_is_told() -> None:
    """A session without entries is unknown; one that has none so early, or none of that number, says so."""
    store = stored(user("a"))
    nobody = SessionKey("", SessionId("nobody"))

    with pytest.raises(UnknownSession):
        read_section(store, nobody)
    with pytest.raises(UnknownSession):
        read_section(store, nobody, before=4)
    with pytest.raises(UnknownReference):
        read_section(store, KEY, before=0)
    with pytest.raises(UnknownSession):
        find_entry(store, nobody, 0)
    for number in (-1, 7, 10**30):
        with pytest.raises(UnknownReference):
            find_entry(store, KEY, number)
    assert isinstance(find_entry(store, KEY, 0), MessageEntry)


def test_a_session_is_read_as_it_stood() -> None:
    """Before an entry the session is what it was then, whatever was done to it since."""
    store = stored(user("a"), replies("b"), user("c"), Checkpoint("x", first_kept=2))

    assert len(load_log(store, KEY, 3).live) == 3
    assert len(load_log(store, KEY).live) == 1


def test_fullness_is_what_was_reported_and_what_came_since() -> None:
    """S7.2: a report wins over the estimate, and what is new is added to it."""
    silent = session(user("word " * 100), replies("b"))
    told = session(user("word " * 100), reported(replies("b"), 5_000), user("more"))

    assert count_tokens(silent, Overhead(1_000, 200)) == 1_200 + silent.size.measure
    assert 5_010 < count_tokens(told, Overhead()) < 5_050
