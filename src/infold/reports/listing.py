"""The list of sessions, newest first, and the tally of each: title, messages, requests, compactions, cost, cache hits, size.

A log only grows, so a tally is kept and only new entries are added to it; a session that was deleted and started again under
the same name is recognised by its last entry and counted from the start.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clipping, Entry, MessageEntry, Pruning, Restoration, Title
from infold.core.messages import (
    AssistantMessage,
    Message,
    Overhead,
    ToolSchema,
    Usage,
    UserMessage,
    calls_of,
    is_genuine_user,
    results_of,
)
from infold.errors import InfoldError, UnknownSession
from infold.ports import Archive, FullStore, SessionKey, Store, StoredSession
from infold.reports.stored_log import NumberedEntry, count_tokens, load_log, reply_in
from infold.session.titles import closes_examples, title_of

MOST_COUNTED = 20_000
"""Entries that are read for a first tally, the newest; it is partial if there are more."""

MOST_TALLIES = 1_000

MOST_TITLES_READ = 1_000
"""Sessions, the newest, whose titles are searched; ids are searched in all."""


class Tally(Struct, frozen=True):
    """What was counted of a session up to its entry `newest`; `is_partial`: older entries were not read.

    `folds` are the numbers of its checkpoints, without those undone; `models` all that answered, the last one at the end;
    `unpriced` the replies with reported usage and no known price; `expired_tokens` were read again because the provider's cache
    had expired, which cost `expired_cost` more. `is_example`: since the last reply only an agent has written
    under the user's name, as before a reply that is an example. `schemas` are the tools of the newest request, `called` the names
    of all tools that were called.
    """

    newest: NumberedEntry | None = None
    title: str = ""
    messages: int = 0
    requests: int = 0
    folds: frozenset[int] = frozenset()
    prunings: int = 0
    clippings: int = 0
    cost: float = 0.0
    summary_cost: float = 0.0
    unpriced: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    expired_tokens: int = 0
    expired_cost: float = 0.0
    models: tuple[str, ...] = ()
    overhead: Overhead = Overhead()
    schemas: tuple[ToolSchema, ...] = ()
    called: frozenset[str] = frozenset()
    view_tokens: int = 0
    is_partial: bool = False
    is_example: bool = False

    @property
    def cached_share(self) -> float | None:
        """The share of everything sent that came from the provider's cache, or `None` without reported usage."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def model(self) -> str:
        """The model that answered last, empty if none was recorded."""
        return self.models[-1] if self.models else ""

    @property
    def total_cost(self) -> float:
        """Replies and summaries together."""
        return self.cost + self.summary_cost

    @property
    def costs_at_least(self) -> bool:
        """Whether the known cost is only a part of the whole."""
        return self.total_cost > 0 and (self.unpriced > 0 or self.is_partial)


NO_TALLY = Tally()


class Tallies:
    """The tallies of the sessions that were looked at last; may be used from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tallies: OrderedDict[SessionKey, Tally] = OrderedDict()
        self._lock = Lock()

    def get(self, key: SessionKey) -> Tally:
        """Return the tally of a session as it is now; raise `UnknownSession` if it does not exist."""
        tally = self._update(key, self.peek(key))
        with self._lock:
            self._tallies[key] = tally
            self._tallies.move_to_end(key)
            if len(self._tallies) > MOST_TALLIES:
                self._tallies.popitem(last=False)
        return tally

    def peek(self, key: SessionKey) -> Tally:
        """Return the last tally of a session without reading the store."""
        with self._lock:
            return self._tallies.get(key, NO_TALLY)

    def title(self, key: SessionKey) -> str:
        """Return the title a session was given when it was last counted, or else its first words."""
        return self.peek(key).title or title_of(self._store, key)

    def _update(self, key: SessionKey, known: Tally) -> Tally:
        new: list[NumberedEntry] = []
        newest_first = self._store.newest_first(key)
        for numbered in islice(newest_first, MOST_COUNTED):
            if known.newest is not None and numbered[0] <= known.newest[0]:
                if numbered != known.newest:
                    return self._update(key, NO_TALLY)
                break
            new.append(numbered)
        else:
            known = Tally(is_partial=next(newest_first, None) is not None)
        if not new and known.newest is None:
            raise UnknownSession(key.session_id)
        if not new:
            return known
        tally = add_entries(known, reversed(new))
        return replace(tally, view_tokens=count_tokens(load_log(self._store, key, model=tally.model), tally.overhead))


class ListedSession(Struct, frozen=True):
    """One session of a list; `problem` is why it cannot be read, and then it has no tally."""

    stored: StoredSession
    title: str = ""
    tally: Tally = NO_TALLY
    problem: str = ""


def newest_sessions(store: Archive, tenant: str | None = None) -> Iterator[StoredSession]:
    """Yield the sessions of a tenant, or of all tenants, the last changed first."""
    tenants = store.tenants() if tenant is None else (tenant,)
    return merge(*(store.sessions(one) for one in tenants), key=lambda one: -one.changed_ms)


def find_sessions(store: FullStore, tallies: Tallies, words: str) -> Iterator[StoredSession]:
    """Yield the sessions whose id or title contains these words, the last changed first."""
    wanted = words.casefold()
    for place, one in enumerate(newest_sessions(store)):
        if wanted in one.key.session_id.casefold():
            yield one
            continue
        try:
            if place < MOST_TITLES_READ and wanted in tallies.title(one.key).casefold():
                yield one
        except InfoldError:
            continue


def list_session(tallies: Tallies, stored: StoredSession) -> ListedSession:
    """Return a session with its title and tally, or with the reason why it cannot be read."""
    try:
        tally = tallies.get(stored.key)
        return ListedSession(stored, tallies.title(stored.key), tally)
    except InfoldError as error:
        return ListedSession(stored, problem=str(error))


# Counting.


def add_entries(tally: Tally, entries: Iterable[NumberedEntry]) -> Tally:
    """Return the tally with these entries, given oldest first, counted in."""
    for sequence, entry in entries:
        tally = replace(_count(tally, sequence, entry), newest=(sequence, entry))
    return tally


def _count(tally: Tally, sequence: int, entry: Entry) -> Tally:  # noqa: PLR0911 - one return for each kind of entry
    match entry:
        case Checkpoint():
            folds, spent = tally.folds | {sequence}, tally.summary_cost + entry.cost
            return replace(tally, folds=folds, summary_cost=spent)
        case Pruning():
            return replace(tally, prunings=tally.prunings + 1)
        case Clipping():
            return replace(tally, clippings=tally.clippings + 1)
        case Restoration():
            return replace(tally, folds=tally.folds - {entry.sequence})
        case Title(message_id=""):
            return replace(tally, title=entry.text)
        case MessageEntry():
            reply = reply_in(entry)
            tally = replace(tally, messages=tally.messages + 1)
            return _count_input(tally, entry.message) if reply is None else _count_reply(tally, reply)
        case _:
            return tally


def _count_input(tally: Tally, message: Message) -> Tally:
    """Count a message between two replies; the replies in an agent's opening examples were not requested."""
    if is_genuine_user(message) or results_of(message):
        return replace(tally, is_example=False)
    if not isinstance(message, UserMessage):
        return tally
    closes = closes_examples(message) and not tally.prompt_tokens
    return replace(tally, is_example=True, requests=0 if closes else tally.requests)


def _count_reply(tally: Tally, reply: AssistantMessage) -> Tally:
    usage = reply.usage or Usage()
    is_example = tally.is_example and reply.usage is None and reply.finish is None
    models, overhead = tally.models, reply.overhead or tally.overhead
    if reply.model is not None:
        models = (*(one for one in models if one != reply.model.id), reply.model.id)
    return replace(
        tally,
        requests=tally.requests + (not is_example),
        is_example=False,
        cost=tally.cost + reply.cost,
        unpriced=tally.unpriced + (usage.prompt > 0 and not reply.cost),
        prompt_tokens=tally.prompt_tokens + usage.prompt,
        cached_tokens=tally.cached_tokens + usage.cache_read,
        expired_tokens=tally.expired_tokens + (reply.cache_loss.tokens if reply.cache_loss else 0),
        expired_cost=tally.expired_cost + (reply.cache_loss.cost if reply.cache_loss else 0.0),
        models=models,
        overhead=overhead,
        schemas=overhead.schemas or (tally.schemas if overhead.tools else ()),
        called=tally.called.union(call.tool for call in calls_of(reply)),
    )
