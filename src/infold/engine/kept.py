"""A session's log where others may write too: read it again, append what holds whatever they appended, undo a checkpoint."""

from collections.abc import Callable
from random import uniform

from infold.core.entries import Entry, Restoration
from infold.core.log import Log
from infold.engine.call import Flow, append
from infold.engine.effects import Append, Load, Wait
from infold.errors import StoreConflict

__all__ = ["Kept", "MOST_TRIES"]

MOST_TRIES = 500
"""How often a flow begins anew before its conflict is told; another writer cannot be faster for ever."""

PAUSE_SECONDS = 0.002
"""The first pause before beginning anew; it grows and is drawn at random, so that many writers come apart."""

LONGEST_PAUSE = 20
"""How often the first pause the longest one is."""


class Kept:
    """A log in memory and the ways to change it in its store; `is_behind`: a flow broke off, and the store may hold more."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.is_behind = False
        self._lost = (0, 0)

    def begin_anew(self, attempt: int) -> Flow[None]:
        """Read the session again, after a pause where this is not the first attempt."""
        if attempt:
            yield Wait(PAUSE_SECONDS * min(attempt, LONGEST_PAUSE) * uniform(0.5, 1.5))
        log = yield Load()
        assert isinstance(log, Log)
        self._lost = (self.log.next_sequence, log.next_sequence)
        self.log, self.is_behind = log, False

    def insist(self, entries: Callable[[Log], tuple[Entry, ...]]) -> Flow[tuple[Entry, ...]]:
        """Append entries that hold whatever others appended meanwhile, made anew for the log as it then is; gives them."""
        for attempt in range(MOST_TRIES):
            made = entries(self.log)
            try:
                self.log = yield from append(self.log, made)
            except StoreConflict:
                yield from self.begin_anew(attempt)
            else:
                return made
        raise self.conflict()

    def unfold(self, number: int) -> Flow[None]:
        """Undo a checkpoint; where another has done so meanwhile, there is nothing left to do."""
        for attempt in range(MOST_TRIES):
            try:
                yield Append((Restoration(number),), expected=self.log.next_sequence)
            except StoreConflict:
                yield from self.begin_anew(attempt)
                if self.log.checkpoint_sequence != number:
                    return
            else:
                yield from self.begin_anew(0)
                return
        raise self.conflict()

    def conflict(self) -> StoreConflict:
        """What is told when another writer was always faster."""
        expected, actual = self._lost
        return StoreConflict(self.log.session_id, expected=expected, actual=actual)
