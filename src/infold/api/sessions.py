"""The sessions that requests belong to: opened when one comes, kept open while used, found by what their histories say."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, Protocol, TypeVar

from infold.api.exchanges import Exchange
from infold.core.log import Log
from infold.engine.finding import FORK_MARK, Match, better, fork_ids, goes_on, held_against, is_certain

MOST_OPEN = 256
"""Sessions held open at once; the one used longest ago is let go, and read from its store when it is needed again."""


class Findable(Protocol):
    """What is asked of a session to tell whether a history goes on from it."""

    @property
    def log(self) -> Log:
        """The session as it stands."""
        ...


One = TypeVar("One", bound=Findable)


class OpenSessions(Generic[One]):
    """Open sessions by what tells them apart, the newest used last; may be used from any thread.

    One that is let go may still be in use: what it does then reaches the store, where the next to open it finds it (B14).
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: OrderedDict[Hashable, One] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], One]) -> One:
        """The session under that key, opened if it is not; nobody waits while another's is being read."""
        with self._lock:
            session = self._open.get(key)
        made = make() if session is None else session
        with self._lock:
            session = self._open.setdefault(key, made)
            self._open.move_to_end(key)
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return session

    def let_go(self, session: One) -> None:
        """Hold this one open no longer."""
        with self._lock:
            for key in [key for key, one in self._open.items() if one is session]:
                del self._open[key]

    def let_go_named(self, name: str) -> None:
        """Hold none open any longer that a history of that name may be kept in."""
        with self._lock:
            for key in [key for key, one in self._open.items() if _is_named(one.log.session_id, name)]:
                del self._open[key]

    def all(self) -> tuple[One, ...]:
        """The sessions that are open."""
        with self._lock:
            return tuple(self._open.values())


def _is_named(session_id: str, name: str) -> bool:
    return session_id == name or session_id.startswith(f"{name}{FORK_MARK}")


def found(exchange: Exchange, name: str, opened: Callable[[str], One]) -> One:
    """The session of that name which a history goes on from, or a new one under the first free id."""
    best: One | None = None
    match: Match | None = None
    for session_id in fork_ids(name, exchange.brought):
        session = opened(session_id)
        log = session.log
        if log.next_sequence == 0:
            break
        one = held_against(exchange.brought, log)
        if one is not None and is_certain(one):
            return session
        if one is not None and goes_on(one) and better(one, match):
            best, match = session, one
    return session if best is None else best
