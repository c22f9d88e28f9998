"""What a session comes to in all: its title, messages, requests, compactions, cost, cache hits and how full its window is.

A log only grows, so a tally is kept and only what is new is added to it; a session that was deleted and begun again under its old
name is noticed by its last entry and counted anew.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clipping, Entry, MessageEntry, Pruning, Restoration, Title
from infold.core.messages import AssistantMessage, Message, Overhead, Usage, UserMessage, is_genuine_user, results_of
from infold.dashboard.reading import fill_tokens, log_before
from infold.dashboard.timeline import Numbered, reply_of
from infold.errors import UnknownSession
from infold.ports import SessionKey, Store
from infold.session.titles import closes_examples

MOST_COUNTED = 20_000
"""Entries that are read for a first tally, the newest; beyond that it says that it knows no more."""

MOST_KEPT = 1_000


class Tally(Struct, frozen=True):
    """What was counted of a session up to its entry `newest`; `is_partial`: older entries than were read are not in it.

    `folds` are the numbers of its checkpoints, less those undone; `models` all that answered, the one that did last at the end;
    `unpriced` the replies of which the usage was told and nobody knows the price. `is_staged`: since the last reply only an agent
    has written under the user's name, as before a reply that it brings along itself.
    """

    newest: Numbered | None = None
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
    models: tuple[str, ...] = ()
    overhead: Overhead = Overhead()
    fill_tokens: int = 0
    is_partial: bool = False
    is_staged: bool = False

    @property
    def cached_share(self) -> float | None:
        """What part of everything sent came from the provider's cache; none where no usage was reported."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def model(self) -> str:
        """The model that answered last, empty where none said who it is."""
        return self.models[-1] if self.models else ""

    @property
    def whole_cost(self) -> float:
        """Replies and summaries together."""
        return self.cost + self.summary_cost

    @property
    def costs_at_least(self) -> bool:
        """Whether there is more to pay than the cost that is known."""
        return self.whole_cost > 0 and (self.unpriced > 0 or self.is_partial)


NO_TALLY = Tally()


class Tallies:
    """The tallies of the sessions that were looked at, those looked at last; may be used from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[SessionKey, Tally] = OrderedDict()
        self._lock = Lock()

    def of(self, key: SessionKey) -> Tally:
        """The tally of a session as it stands; raises `UnknownSession` where there is none."""
        tally = self._brought_up(key, self.known(key))
        with self._lock:
            self._kept[key] = tally
            self._kept.move_to_end(key)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return tally

    def known(self, key: SessionKey) -> Tally:
        """What was counted of a session when it was last looked at; nothing is read."""
        with self._lock:
            return self._kept.get(key, NO_TALLY)

    def _brought_up(self, key: SessionKey, known: Tally) -> Tally:
        new: list[Numbered] = []
        newest_first = self._store.newest_first(key)
        for numbered in islice(newest_first, MOST_COUNTED):
            if known.newest is not None and numbered[0] <= known.newest[0]:
                if numbered != known.newest:
                    return self._brought_up(key, NO_TALLY)
                break
            new.append(numbered)
        else:
            known = Tally(is_partial=next(newest_first, None) is not None)
        if not new and known.newest is None:
            raise UnknownSession(key.session_id)
        return self._filled(key, added(known, reversed(new))) if new else known

    def _filled(self, key: SessionKey, tally: Tally) -> Tally:
        log = log_before(self._store, key)
        return replace(tally, fill_tokens=fill_tokens(log, tally.overhead))


def added(tally: Tally, entries: Iterable[Numbered]) -> Tally:
    """The tally with these entries, given oldest first, counted in."""
    for sequence, entry in entries:
        tally = replace(_counted(tally, sequence, entry), newest=(sequence, entry))
    return tally


def _counted(tally: Tally, sequence: int, entry: Entry) -> Tally:  # noqa: PLR0911 - one return for each kind of entry
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
            reply = reply_of(entry)
            tally = replace(tally, messages=tally.messages + 1)
            return _asked(tally, entry.message) if reply is None else _answered(tally, reply)
        case _:
            return tally


def _asked(tally: Tally, message: Message) -> Tally:
    """Count what stands between two replies; the replies in an agent's opening examples were no requests."""
    if is_genuine_user(message) or results_of(message):
        return replace(tally, is_staged=False)
    if not isinstance(message, UserMessage):
        return tally
    are_examples = closes_examples(message) and not tally.prompt_tokens
    return replace(tally, is_staged=True, requests=0 if are_examples else tally.requests)


def _answered(tally: Tally, reply: AssistantMessage) -> Tally:
    usage = reply.usage or Usage()
    is_brought = tally.is_staged and reply.usage is None and reply.finish is None
    return replace(
        tally,
        requests=tally.requests + (not is_brought),
        is_staged=False,
        cost=tally.cost + reply.cost,
        unpriced=tally.unpriced + (usage.prompt > 0 and not reply.cost),
        prompt_tokens=tally.prompt_tokens + usage.prompt,
        cached_tokens=tally.cached_tokens + usage.cache_read,
        models=tally.models if reply.model is None else _last(tally.models, reply.model.id),
        overhead=reply.overhead or tally.overhead,
    )


def _last(models: tuple[str, ...], model: str) -> tuple[str, ...]:
    return (*(one for one in models if one != model), model)
