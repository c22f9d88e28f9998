"""The storage that successive logs of one line share.

A log is a value, yet appending must not copy what is there. So the messages stand in one list that grows, with indices of
what decisions look for; a log remembers how much of it is its own. Only the newest log of a line may write, the others copy
first (`version` tells).
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from infold.core.placing import Placed

FARTHEST_PARTNER = 16
"""Messages that partners are apart at most: a call of the provider's own tool and its result, a request for approval and its
answer. An id that returns later than that is a reference, and must not keep a long session from being folded."""


class Spine:
    """Placed messages in order, where to find what among them, and the calls without a result so far.

    `links` has where each call, and each id that opaque parts share with their partners, was last met.
    """

    def __init__(self, items: Iterable[Placed] = ()) -> None:
        self.items: list[Placed] = []
        self.ids: dict[str, int] = {}
        self.unanswered: set[str] = set()
        self.user_turns: list[int] = []
        self.persons_turns: list[int] = []
        self.prunable: list[int] = []
        self.summaries: list[int] = []
        self.media: list[int] = []
        self.own: list[int] = []
        self.links: dict[str, int] = {}
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
        if placed.is_summary:
            self.summaries.append(index)
        if placed.is_own:
            self.own.append(index)
        if placed.has_media:
            self.media.append(index)
        self._link(placed, index)
        self.version += 1

    def _link(self, placed: Placed, index: int) -> None:
        """Let no cut fall between an opaque part and the part before it that has an id in common with it."""
        for link in placed.links:
            partner = self.links.get(link, index)
            for place in range(partner + 1, index + 1) if index - partner <= FARTHEST_PARTNER else ():
                if self.items[place].cuttable:
                    self.items[place] = replace(self.items[place], cuttable=False)
        self.links.update(dict.fromkeys((*placed.links, *(call.call_id for call in placed.calls)), index))


def within(indices: list[int], length: int) -> Sequence[int]:
    """The indices that lie within a log's own part of the storage."""
    return indices if not indices or indices[-1] < length else indices[: bisect_left(indices, length)]
