"""Remember how far a growing history was played, so that the next call of `fit` begins there.

Nothing depends on it but time: a rehearsal carried on gives what one from the beginning gives. A rehearsal is taken out while it
is used, so two callers never share one.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from msgspec import Struct

from infold.core.compact import Rehearsal, carry_on
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, SessionId


class _Played(Struct, frozen=True):
    """A history under a situation, and its rehearsal: a fingerprint finds it, only equality makes it the one wanted."""

    history: tuple[Message, ...]
    conditions: tuple[Situation, Rendering]
    rehearsal: Rehearsal


class Rehearsals:
    """The newest rehearsals, by what was played and under which situation."""

    def __init__(self, most: int = 16) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, _Played] = OrderedDict()

    def play(self, history: tuple[Message, ...], situation: Situation, rendering: Rendering) -> Rehearsal:
        """Play a history, from where the longest known beginning of it ended."""
        conditions = (situation, rendering)
        chain = _chain(history, conditions)
        known = self._take(chain, history, conditions)
        begun = Rehearsal(Log(SessionId("fit"), rendering)) if known is None else known.rehearsal
        played = carry_on(begun, history[len(begun.sequences) :], situation)
        self._known[chain[-1]] = _Played(history, conditions, played)
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return played

    def _take(
        self, chain: Sequence[Hashable], history: tuple[Message, ...], conditions: tuple[Situation, Rendering]
    ) -> _Played | None:
        for length in range(len(chain) - 1, 0, -1):
            known = self._known.pop(chain[length], None)
            if known is not None and known.history == history[:length] and known.conditions == conditions:
                return known
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
