"""What a page reads of a session: its newest entries, no more than are shown, and the session as it stood before any of them."""

from collections.abc import Iterator

from msgspec import Struct

from infold.core.budget import Window, budget_for
from infold.core.gauge import Situation, gauge
from infold.core.load import load
from infold.core.log import Log
from infold.core.messages import Overhead
from infold.core.policy import INFOLD
from infold.dashboard.timeline import RENDERING, Numbered, Timeline, is_reply, timeline
from infold.errors import UnknownReference, UnknownSession
from infold.ports import SessionKey, Store

MOST_REQUESTS = 400
"""Requests of one picture: as many as have a column of their own on a phone."""

MOST_ENTRIES = 4_000
"""Entries of one picture, where a session has few requests and much else."""

LAST = 10**18
"""Above every number that an entry has, and small enough for every store."""

_UNBOUNDED = budget_for(Window(0), INFOLD)


class Reading(Struct, frozen=True):
    """The newest entries up to some number, oldest first, and whether there are older ones."""

    key: SessionKey
    entries: tuple[Numbered, ...]
    has_older: bool


def read(store: Store, key: SessionKey, *, before: int | None = None, requests: int = MOST_REQUESTS) -> Reading:
    """The entries of the newest requests before a number; raises `UnknownSession` or `UnknownReference` where none are."""
    newest_first = store.newest_first(key, before=before)
    taken: list[Numbered] = []
    replies = 0
    for numbered in newest_first:
        replies += is_reply(numbered[1])
        if replies > requests or len(taken) == MOST_ENTRIES:
            return Reading(key, tuple(reversed(taken)), has_older=True)
        taken.append(numbered)
    if taken:
        return Reading(key, tuple(reversed(taken)), has_older=False)
    check_known(store, key)
    raise UnknownReference("entry before", str(before), remedy="go back to the session")


def read_timeline(store: Store, reading: Reading) -> Timeline:
    """The picture of what was read; the view it began with is read too, and no further than needed."""

    def earlier(number: int) -> Iterator[Numbered]:
        return store.newest_first(reading.key, before=number)

    return timeline(reading.key.session_id, reading.entries, earlier)


def log_before(store: Store, key: SessionKey, before: int | None = None) -> Log:
    """The session as it stood before an entry, or as it stands now."""
    return load(key.session_id, store.newest_first(key, before=before), RENDERING)


def entry_at(store: Store, key: SessionKey, sequence: int) -> Numbered:
    """The entry of that number; raises `UnknownSession` or `UnknownReference` where there is none."""
    found = next(store.newest_first(key, before=min(max(0, sequence), LAST) + 1), None)
    if found is not None and found[0] == sequence:
        return found
    check_known(store, key)
    raise UnknownReference("entry", str(sequence), remedy="go back to the session")


def check_known(store: Store, key: SessionKey) -> None:
    """Raise `UnknownSession` where nothing is stored under a key."""
    if next(store.newest_first(key), None) is None:
        raise UnknownSession(key.session_id)


def fill_tokens(log: Log, overhead: Overhead) -> int:
    """How full the window is: what was reported last and the estimate of what came since, as the default policy counts."""
    return gauge(log, Situation(INFOLD, _UNBOUNDED, overhead_tokens=overhead.tokens)).count_tokens
