"""Reading in pages."""

import pytest

from infold.core.messages import SessionId
from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.stores.paging import PAGE, decoded, in_pages


def test_pages_are_fetched_as_they_are_needed() -> None:
    """B17: a reader who stops early has fetched no more than the page it stopped in."""
    fetched: list[int] = []

    def fetch(last: int | None) -> list[int]:
        first = 0 if last is None else last + 1
        fetched.append(first)
        return list(range(first, min(first + PAGE, 120)))

    rows = in_pages(fetch)
    assert (next(rows), fetched) == (0, [0])
    assert (list(rows)[-1], fetched) == (119, [0, 50, 100])


def test_full_last_page_is_followed_by_none() -> None:
    """Rows that fill their pages exactly end with an empty page."""
    pages = {None: list(range(PAGE)), PAGE - 1: []}

    assert list(in_pages(lambda last: pages[last])) == list(range(PAGE))


def test_damaged_entry_is_named() -> None:
    """B13: an entry that cannot be decoded is told with its session and number."""
    key = SessionKey("", SessionId("s"))
    with pytest.raises(StoreBroken, match="entry 7 of session 's' cannot be read") as caught:
        list(decoded(iter([(7, b"{")]), key, "a.db"))

    assert caught.value.where == "a.db"
