"""Remember how far a growing history was played, so that the next call of `fit` begins there.

Nothing depends on it but time: a rehearsal carried on gives what one from the beginning gives. A rehearsal is taken out while it
is used, so two callers never share one.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from msgspec import Struct

from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.messages import Message, SessionId
from infold.core.rehearse import Rehearsal, carry_on
from infold.core.stubs import Rendering

__all__ = ["Rehearsals"]


class Rehearsals:
    """The newest rehearsals, by what was played and under which situation."""

    def __init__(self, most: int = 16) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, Rehearsal] = OrderedDict()

    def play(self, history: Sequence[Message], situation: Situation, rendering: Rendering) -> Rehearsal:
        """Play a history, from where the longest known beginning of it ended."""
        chain = _chain(history, (situation, rendering))
        length, rehearsal = self._take(chain) or (0, Rehearsal(Log(SessionId("fit"), rendering)))
        played = carry_on(rehearsal, history[length:], situation)
        self._known[chain[-1]] = played
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return played

    def _take(self, chain: Sequence[Hashable]) -> tuple[int, Rehearsal] | None:
        for length in range(len(chain) - 1, 0, -1):
            rehearsal = self._known.pop(chain[length], None)
            if rehearsal is not None:
                return length, rehearsal
        return None


class _Link(Struct, frozen=True):
    """A history's fingerprint: its length, and a hash over its messages and the situation they are played in."""

    length: int
    digest: int


def _chain(history: Sequence[Message], beginning: Hashable) -> list[Hashable]:
    """The fingerprint of each beginning of a history; a text that was hashed before costs nothing."""
    digest = hash(beginning)
    links: list[Hashable] = [_Link(0, digest)]
    for number, message in enumerate(history, start=1):
        digest = hash((digest, message))
        links.append(_Link(number, digest))
    return links
