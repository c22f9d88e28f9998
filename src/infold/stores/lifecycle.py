"""What all stores share: clock, closing, connections per process, reading in pages, choosing what to delete, and migrations.

Each database has a folder under `migrations/`, with files named `0001_what_it_does.sql`. A released file is never
edited; a change is a new file. The applied migrations are recorded in a table of the database itself.
"""

import hashlib
import hmac
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from types import TracebackType
from typing import Generic, NoReturn, Protocol, Self, TypeAlias, TypeVar

from msgspec import Struct

from infold.core.entries import Entry, decode_entry
from infold.errors import StoreBroken, StoreClosed, UndecodableLog, UsageError
from infold.ports import SessionKey


class SystemClock:
    """The operating system's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000


def hash_account(key: bytes, account: str) -> str:
    """Return how a store names the owner of facts: a hash of the account, keyed with a key of the store's own."""
    return hmac.new(key, account.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


class Closing(ABC):
    """Base class of stores: a context manager that cannot be pickled."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            f"a {type(self).__name__} cannot be pickled or copied, since it holds connections or locks; hand over its place, and "
            "call open_store there"
        )

    @abstractmethod
    def close(self) -> None:
        """Release connections and files; calling it again does nothing."""


class Closable(Protocol):
    """What holds connections."""

    def close(self) -> None: ...


Held = TypeVar("Held", bound=Closable)


class PerProcess(Generic[Held]):
    """The connections of a store, made on first use in each process: a forked child does not touch its parent's."""

    def __init__(self, where: str, make: Callable[[], Held]) -> None:
        self._where = where
        self._make = make
        self._by_process: dict[int, Held] = {}
        self._closed = False

    def here(self) -> Held:
        """Return this process's; raise `StoreClosed` after `close`.

        Of several threads that make one at first, one wins; a lock could be inherited locked by a forked child.
        """
        if self._closed:
            raise StoreClosed(self._where)
        held = self._by_process.get(os.getpid())
        if held is None:
            made = self._make()
            held = self._by_process.setdefault(os.getpid(), made)
            if held is not made:
                made.close()
        return held

    def close(self) -> None:
        """Close what this process opened; calling it again does nothing."""
        self._closed = True
        held = self._by_process.get(os.getpid())
        if held is not None:
            held.close()


Name = TypeVar("Name")


def choose_surplus(sizes: Iterable[tuple[Name, int]], max_bytes: int) -> list[Name]:
    """Return the sessions to delete so that the rest takes at most `max_bytes`; `sizes` has them last changed first.

    The newest that fit are kept. From the first that does not fit on, all older ones are deleted, so that only age
    decides.
    """
    kept, too_many, gone = 0, False, list[Name]()
    for name, size in sizes:
        kept += size
        too_many = too_many or kept > max_bytes
        if too_many:
            gone.append(name)
    return gone


PAGE = 50
"""Rows per read. A view after a checkpoint is a few dozen messages, so opening a session takes one or two reads."""

LAST = 2**62
"""Above every sequence number and every timestamp."""

Row = TypeVar("Row")

EntryRow: TypeAlias = tuple[int, int | None, bytes | None]


def read_pages(fetch: Callable[[Row | None], Sequence[Row]]) -> Iterator[Row]:
    """Yield all rows; `fetch` returns the page after a row, or the first page for `None`."""
    last: Row | None = None
    while page := fetch(last):
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1]


def read_entries(
    fetch: Callable[[int], Sequence[EntryRow]], key: SessionKey, where: str, before: int | None
) -> Iterator[tuple[int, Entry]]:
    """Yield a session's entries before a number, newest first; raise `StoreBroken` if one is damaged or missing.

    `fetch` returns the page below a number: rows of the session's next number, an entry's number and its bytes. The
    last two are `None` if no entry is left; the page is empty if the session does not exist (any more).
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
                raise _gap_error(where, key, end - 1, sequence)
            yield sequence, _decode(stored, sequence, key, where)
            end = sequence
        if end > 0 and len(page) < PAGE:
            raise _gap_error(where, key, end - 1, None)


def _decode(stored: bytes, sequence: int, key: SessionKey, where: str) -> Entry:
    try:
        return decode_entry(stored)
    except UndecodableLog as error:
        raise StoreBroken(
            where,
            f"entry {sequence} of session {key.session_id!r} cannot be read ({error.detail})",
            remedy="open it with the version of infold that wrote it, or restore the store from a copy",
        ) from error


def _gap_error(where: str, key: SessionKey, expected: int, found: int | None) -> StoreBroken:
    instead = "the session ends" if found is None else f"entry {found} follows"
    return StoreBroken(
        where,
        f"entry {expected} of session {key.session_id!r} is missing ({instead} where it belongs)",
        remedy="restore the store from a copy, or delete the session",
    )


_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(Struct, frozen=True):
    """One change of a database's tables."""

    number: int
    name: str
    sql: str


@cache
def migrations_for(database: str) -> tuple[Migration, ...]:
    """Return all migrations of a kind of database, in order."""
    folder = files("infold.stores").joinpath("migrations", database)
    named = ((path, _NAME.fullmatch(path.name)) for path in sorted(folder.iterdir(), key=lambda path: path.name))
    return tuple(Migration(int(found[1]), found[2], path.read_text("utf-8")) for path, found in named if found)


def pending_migrations(
    known: Sequence[Migration], applied: Sequence[tuple[int, str]], where: str
) -> tuple[Migration, ...]:
    """Return the migrations still to apply; raise `StoreBroken` if the applied ones are unknown or newer."""
    ours = [(migration.number, migration.name) for migration in known]
    if list(applied[: len(ours)]) != ours[: len(applied)]:
        raise StoreBroken(where, "its tables were made by another program", remedy="name a database of infold's own")
    if len(applied) > len(ours):
        raise StoreBroken(
            where,
            f"its tables are of schema {applied[-1][0]}, and this version of infold knows {len(ours)}",
            remedy="upgrade infold, or use the version that wrote it",
        )
    return tuple(known[len(applied) :])
