"""The sessions that requests belong to: opened when one comes, kept open while used, found by what their histories say."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Generic, Protocol, TypeVar

from infold.api.exchanges import Exchange
from infold.core.likeness import chained
from infold.core.log import Log
from infold.engine.finding import better, fork_ids, goes_on
from infold.engine.history import Followed

__all__ = ["Findable", "OpenSessions", "found"]

MOST_OPEN = 256
"""Sessions held open at once; the one used longest ago is let go, and read from its store when it is needed again."""


class Findable(Protocol):
    """What is asked of a session to tell whether a history goes on from it."""

    @property
    def log(self) -> Log:
        """The session as it stands."""
        ...

    def match(self, messages: Sequence[object]) -> Followed | None:
        """How a whole list of messages goes with it."""
        ...


One = TypeVar("One", bound=Findable)


class OpenSessions(Generic[One]):
    """Sessions by their ids, the newest used last; may be used from any thread."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, One] = OrderedDict()
        self._lock = RLock()

    def get(self, session_id: str, make: Callable[[str], One]) -> One:
        """The session of that id, opened if it is not open."""
        with self._lock:
            session = self._open.pop(session_id, None) or make(session_id)
            self._open[session_id] = session
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return session


def found(exchange: Exchange, opened: Callable[[str], One]) -> One:
    """The session that a history goes on from, or a new one under the first free id."""
    best: One | None = None
    match: Followed | None = None
    for session_id in fork_ids(exchange.name):
        session = opened(session_id)
        if session.log.next_sequence == 0:
            return session if best is None else best
        followed = session.match(exchange.asked.items)
        if followed is not None and goes_on(followed) and better(followed, match):
            best, match = session, followed
    return best if best is not None else opened(f"{exchange.name}~{_all_of(exchange)}")


def _all_of(exchange: Exchange) -> str:
    """The fingerprint of a whole history, for one that shares its beginning with too many others."""
    return chained("", exchange.asked.wire.decode(exchange.asked.items).messages)
