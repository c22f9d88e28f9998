"""Read in pages: a reader pays for what it takes, and nothing stays open between two pages."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from infold.core.entries import Entry, decode_entry
from infold.errors import StoreBroken, UndecodableLog
from infold.ports import SessionKey

__all__ = ["PAGE", "decoded", "in_pages"]

PAGE = 50
"""Rows of one read. A view after a checkpoint is a few dozen messages, so opening a session is one or two reads."""

Row = TypeVar("Row")


def in_pages(fetch: Callable[[Row | None], Sequence[Row]]) -> Iterator[Row]:
    """All rows, where `fetch` gives the page that follows the row it is given, or the first page for none."""
    last: Row | None = None
    while page := fetch(last):
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1]


def decoded(rows: Iterator[tuple[int, bytes]], key: SessionKey, where: str) -> Iterator[tuple[int, Entry]]:
    """Stored entries as entries; raises `StoreBroken`, naming the entry, for one that is damaged."""
    for sequence, stored in rows:
        try:
            yield sequence, decode_entry(stored)
        except UndecodableLog as error:
            raise StoreBroken(
                where,
                f"entry {sequence} of session {key.session_id!r} cannot be read ({error.detail})",
                remedy="open it with the version of infold that wrote it, or restore the store from a copy",
            ) from error
