"""Reading in pages."""

from collections.abc import Sequence

import pytest

from infold.core.entries import encode_entry
from infold.core.messages import SessionId
from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.stores.lifecycle import PAGE, EntryRow, read_entries, read_pages
from infold.testing.store_contract import user_entries

KEY = SessionKey("", SessionId("s"))
STORED = encode_entry(user_entries("a")[0])


def test_pages_are_fetched_as_they_are_needed() -> None:
    """B17: a reader who stops early has fetched no more than the page it stopped in."""
    fetched: list[int] = []

    def fetch(last: int | None) -> list[int]:
        first = 0 if last is None else last + 1
        fetched.append(first)
        return list(range(first, min(first + PAGE, 120)))

    rows = read_pages(fetch)
    assert (next(rows), fetched) == (0, [0])
    assert (list(rows)[-1], fetched) == (119, [0, 50, 100])


def test_full_last_page_is_followed_by_none() -> None:
    """Rows that fill their pages exactly end with an empty page."""
    pages = {None: list(range(PAGE)), PAGE - 1: []}

    assert list(read_pages(lambda last: pages[last])) == list(range(PAGE))


def test_damaged_entry_is_named() -> None:
    """B13: an entry that cannot be decoded is reported with its session and number."""
    with pytest.raises(StoreBroken, match="entry 7 of session 's' cannot be read") as caught:
        list(read_entries(lambda _: [(8, 7, b"{")], KEY, "a.db", None))

    assert caught.value.where == "a.db"


@pytest.mark.parametrize(
    ("counted", "numbers", "missing"),
    [
        (3, (2, 0), "entry 1 of session 's' is missing .entry 0 follows"),
        (3, (2, 1), "entry 0 of session 's' is missing .the session ends"),
        (3, (1, 0), "entry 2 of session 's' is missing .entry 1 follows"),
        (2, (2, 1, 0), "entry 1 of session 's' is missing .entry 2 follows"),
        (1, (None,), "entry 0 of session 's' is missing .the session ends"),
        (0, (0,), "is missing"),
    ],
)
def test_a_gap_is_noticed(counted: int, numbers: Sequence[int | None], missing: str) -> None:
    """B13: entries that are missing, at either end or between, and a wrong count of them are errors that name the entry."""
    rows: list[EntryRow] = [(counted, number, None if number is None else STORED) for number in numbers]
    with pytest.raises(StoreBroken, match=missing):
        list(read_entries(lambda _: rows, KEY, "a.db", None))


@pytest.mark.parametrize("before", [None, 0, 1, 70, 120, 500])
def test_whole_sessions_are_read_whole(before: int | None) -> None:
    """B1: a session without a gap is read from any number down to its first entry, over as many pages as it takes."""

    def fetch(end: int) -> Sequence[EntryRow]:
        return [(120, number, STORED) for number in range(min(end, 120) - 1, -1, -1)][:PAGE]

    read = [number for number, _ in read_entries(fetch, KEY, "a.db", before)]
    assert read == list(range(120 if before is None else min(before, 120)))[::-1]


def test_a_session_deleted_meanwhile_ends() -> None:
    """B27: a reader in the middle of a session that is deleted finds nothing more."""
    pages = iter([[(120, number, STORED) for number in range(119, 69, -1)], []])

    assert len(list(read_entries(lambda _: next(pages), KEY, "a.db", None))) == PAGE
