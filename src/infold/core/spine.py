"""The storage that successive logs of one line share.

A log is a value, yet appending must not copy what is there. So the messages stand in one list that grows, with indices of
what decisions look for; a log remembers how much of it is its own. Only the newest log of a line may write, the others copy
first (`version` tells).
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from infold.core.placing import Placed

__all__ = ["Spine", "within"]


class Spine:
    """Placed messages in order, where to find what among them, and the calls that nobody answered yet."""

    def __init__(self, items: Iterable[Placed] = ()) -> None:
        self.items: list[Placed] = []
        self.ids: dict[str, int] = {}
        self.unanswered: set[str] = set()
        self.user_turns: list[int] = []
        self.persons_turns: list[int] = []
        self.prunable: list[int] = []
        self.business: list[int] = []
        self.media: list[int] = []
        self.own: list[int] = []
        self.version = 0
        for placed in items:
            self.add(placed)

    def add(self, placed: Placed) -> None:
        """Put one more message at the end."""
        index = len(self.items)
        self.items.append(placed)
        self.ids[placed.message.id] = index
        self.unanswered.difference_update(result.call_id for result in placed.results)
        self.unanswered.update(call.call_id for call in placed.calls)
        if placed.is_users:
            self.user_turns.append(index)
        if placed.is_persons:
            self.persons_turns.append(index)
        if placed.prunable:
            self.prunable.append(index)
        if placed.is_business:
            self.business.append(index)
        if placed.is_own:
            self.own.append(index)
        if placed.has_media:
            self.media.append(index)
        self.version += 1


def within(indices: list[int], length: int) -> Sequence[int]:
    """The indices that lie within a log's own part of the storage."""
    return indices if not indices or indices[-1] < length else indices[: bisect_left(indices, length)]
