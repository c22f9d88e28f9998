"""Read in pages: a reader pays for what it takes, and nothing stays open between two pages."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from infold.core.entries import Entry, decode_entry
from infold.errors import StoreBroken, UndecodableLog
from infold.ports import SessionKey

PAGE = 50
"""Rows of one read. A view after a checkpoint is a few dozen messages, so opening a session is one or two reads."""

LAST = 2**62
"""Above every number and every moment."""

Row = TypeVar("Row")
EntryRow: TypeAlias = tuple[int, int | None, bytes | None]


def in_pages(fetch: Callable[[Row | None], Sequence[Row]]) -> Iterator[Row]:
    """All rows, where `fetch` gives the page that follows the row it is given, or the first page for none."""
    last: Row | None = None
    while page := fetch(last):
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1]


def numbered_entries(
    fetch: Callable[[int], Sequence[EntryRow]], key: SessionKey, where: str, before: int | None
) -> Iterator[tuple[int, Entry]]:
    """Yield a session's entries before a number, newest first; raise `StoreBroken` for one that is damaged or missing.

    `fetch` returns the page below a number: rows of the session's next number, an entry's number and its bytes. The last two are
    `None` if no entry is left; there is no row at all if the session does not exist (any more).
    """
    end = LAST if before is None else before
    while end > 0:
        page = fetch(end)
        if not page:
            return
        end = min(end, page[0][0])
        for _, sequence, stored in page:
            if sequence is None and end <= 0:
                return
            if sequence is None or stored is None or sequence != end - 1:
                raise _missing(where, key, end - 1, sequence)
            yield sequence, _entry(stored, sequence, key, where)
            end = sequence
        if end > 0 and len(page) < PAGE:
            raise _missing(where, key, end - 1, None)


def _entry(stored: bytes, sequence: int, key: SessionKey, where: str) -> Entry:
    try:
        return decode_entry(stored)
    except UndecodableLog as error:
        raise StoreBroken(
            where,
            f"entry {sequence} of session {key.session_id!r} cannot be read ({error.detail})",
            remedy="open it with the version of infold that wrote it, or restore the store from a copy",
        ) from error


def _missing(where: str, key: SessionKey, expected: int, found: int | None) -> StoreBroken:
    instead = "the session ends" if found is None else f"entry {found} follows"
    return StoreBroken(
        where,
        f"entry {expected} of session {key.session_id!r} is missing ({instead} where it belongs)",
        remedy="restore the store from a copy, or delete the session",
    )
