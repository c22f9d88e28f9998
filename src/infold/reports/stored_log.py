"""Read a stored session: its newest entries, one entry, or the log as it was before an entry."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from infold.core.budget import Window, budget_for
from infold.core.entries import Entry, MessageEntry
from infold.core.gauge import PlanInputs, gauge
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import AssistantMessage, ModelRef, Overhead
from infold.core.policy import INFOLD
from infold.errors import UnknownReference, UnknownSession
from infold.ports import SessionKey, Store
from infold.session.settings import resolve_settings

NumberedEntry: TypeAlias = tuple[int, Entry]

MOST_RULERS = 64
"""Models whose way of counting is kept."""

MOST_REQUESTS = 400
"""Requests of one timeline: as many as have a column of their own on a phone."""

MOST_ENTRIES = 4_000
"""Entries of one timeline, for sessions with few requests and much else."""

MOST_READ = 50
"""Entries that are searched for the model of a session."""

LARGEST_SEQUENCE = 10**18
"""Above the number of every entry, and small enough for every store."""

_UNBOUNDED = budget_for(Window(0), INFOLD)


class RecordedModel(Struct, frozen=True):
    """The model of a session's newest reply and the window it was requested with; `None` and 0 if unknown."""

    ref: ModelRef | None = None
    window_tokens: int = 0

    @property
    def id(self) -> str:
        """The name of the model, empty if it is unknown."""
        return "" if self.ref is None else self.ref.id


class LogSection(Struct, frozen=True):
    """The newest entries up to some number, oldest first, and whether there are older ones."""

    key: SessionKey
    entries: tuple[NumberedEntry, ...]
    has_older: bool


def read_section(
    store: Store, key: SessionKey, *, before: int | None = None, requests: int = MOST_REQUESTS
) -> LogSection:
    """Return the entries of the newest requests before an entry; raise `UnknownSession` or `UnknownReference` if empty."""
    taken: list[NumberedEntry] = []
    replies = 0
    for numbered in store.newest_first(key, before=before):
        replies += reply_in(numbered[1]) is not None
        if replies > requests or len(taken) == MOST_ENTRIES:
            return LogSection(key, tuple(reversed(taken)), has_older=True)
        taken.append(numbered)
    if taken:
        return LogSection(key, tuple(reversed(taken)), has_older=False)
    check_exists(store, key)
    raise UnknownReference("entry before", str(before), remedy="go back to the session")


def load_log(store: Store, key: SessionKey, before: int | None = None, *, model: str | None = None) -> Log:
    """Return the session as it was before an entry, or as it is now, measured for `model`, by default the recorded one."""
    name = recorded_model(store, key).id if model is None else model
    return load(key.session_id, store.newest_first(key, before=before), rendering_for(name))


@lru_cache(MOST_RULERS)
def rendering_for(model: str) -> Rendering:
    """Return how a session is measured: as its model counts, whatever its policy is, so that a report has the sizes that the
    session itself reported, and two sessions can be compared."""
    return resolve_settings(model or None, window=0).rendering


def find_entry(store: Store, key: SessionKey, sequence: int) -> Entry:
    """Return the entry of that number; raise `UnknownSession` or `UnknownReference` if it does not exist."""
    found = next(store.newest_first(key, before=min(max(0, sequence), LARGEST_SEQUENCE) + 1), None)
    if found is not None and found[0] == sequence:
        return found[1]
    check_exists(store, key)
    raise UnknownReference("entry", str(sequence), remedy="go back to the session")


def recorded_model(store: Store, key: SessionKey) -> RecordedModel:
    """Return the model that answered a session last, from its newest entries."""
    return model_in(islice(store.newest_first(key), MOST_READ))


def model_in(newest_first: Iterable[NumberedEntry]) -> RecordedModel:
    """Return the model of the first reply among entries that has one recorded, or its window."""
    replies = (reply_in(entry) for _, entry in newest_first)
    last = next((one for one in replies if one and (one.model is not None or one.window_tokens)), None)
    return RecordedModel() if last is None else RecordedModel(last.model, last.window_tokens)


def check_exists(store: Store, key: SessionKey) -> None:
    """Raise `UnknownSession` if nothing is stored under a key."""
    if next(store.newest_first(key), None) is None:
        raise UnknownSession(key.session_id)


def reply_in(entry: Entry) -> AssistantMessage | None:
    """Return the model's reply to a request of the session, if an entry is one; summaries are not."""
    message = entry.message if isinstance(entry, MessageEntry) else None
    return message if isinstance(message, AssistantMessage) and not message.summary else None


def count_tokens(log: Log, overhead: Overhead) -> int:
    """Return how full the window is: the last reported usage and an estimate of what was added since."""
    return gauge(log, PlanInputs(INFOLD, _UNBOUNDED, overhead_tokens=overhead.tokens)).count_tokens
