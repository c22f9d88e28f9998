"""A session's window over time: one point for each request, and marks where something was hidden, folded or shown again.

Entries are replayed into the core's own log, oldest first, so that every point is of the view that was sent and no rule is
stated twice. Work grows with the entries, not with entries times view: sums are carried from one request to the next and made
anew only where something was hidden or folded.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Entry, MessageEntry, Restoration
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import AssistantMessage, Overhead, SessionId, Usage
from infold.dashboard.bands import Filling, bands_of, bands_of_log
from infold.dashboard.marks import Mark, mark_of
from infold.errors import LogError

Numbered: TypeAlias = tuple[int, Entry]
Earlier: TypeAlias = Callable[[int], Iterable[Numbered]]
"""Gives the entries before a number, newest first."""

RENDERING = Rendering()
"""How the page measures, whatever a session's own policy is: pictures of two sessions can be compared."""

NO_OVERHEAD = Overhead()


class Point(Struct, frozen=True):
    """One request: its number in the session, its reply's entry, what filled it, and what the provider reported.

    `window_tokens` is the window that it was made for, 0 where nobody has said so.
    """

    number: int
    sequence: int
    filling: Filling
    usage: Usage | None = None
    cost: float = 0.0
    created_ms: int | None = None
    window_tokens: int = 0

    @property
    def reported_tokens(self) -> int | None:
        """What the provider counted of the request."""
        return self.usage.prompt if self.usage is not None and self.usage.prompt else None

    @property
    def cached_share(self) -> float | None:
        """What part of the request came from the provider's cache."""
        return self.usage.cache_read / self.usage.prompt if self.usage is not None and self.usage.prompt else None


class Timeline(Struct, frozen=True):
    """The requests of a session and what was done between them; `now` is the view that would be sent next.

    `log` is the session as it stands after the newest entry, `overhead` what its newest request sent beside the messages.
    """

    points: tuple[Point, ...]
    marks: tuple[Mark, ...]
    now: Filling
    log: Log
    overhead: Overhead

    @property
    def first(self) -> int:
        """The number of the first request shown, or of the next one where none is."""
        return self.points[0].number if self.points else self.log.calls + 1

    @property
    def marks_before(self) -> dict[int, list[Mark]]:
        """What was done before each request, by its number; what was done since the newest is before the next."""
        found: dict[int, list[Mark]] = {}
        for mark in self.marks:
            found.setdefault(mark.request, []).append(mark)
        return found


def timeline(session_id: SessionId, entries: Sequence[Numbered], earlier: Earlier) -> Timeline:
    """What the entries, given oldest first, made of the window; the view they began with is read by `earlier`."""
    start = entries[0][0] if entries else 0
    recorder = _Recorder(load(session_id, earlier(start), RENDERING), earlier)
    for sequence, entry in entries:
        recorder.take(sequence, entry)
    return recorder.timeline()


def is_reply(entry: Entry) -> bool:
    """Whether an entry is a model's answer to a request of the session, and no summary."""
    return reply_of(entry) is not None


def reply_of(entry: Entry) -> AssistantMessage | None:
    """The model's answer to a request of the session, if an entry is one."""
    message = entry.message if isinstance(entry, MessageEntry) else None
    return message if isinstance(message, AssistantMessage) and not message.summary else None


class _Recorder:
    """A scratch pad of `timeline`: the session so far, and what was noted on the way."""

    def __init__(self, log: Log, earlier: Earlier) -> None:
        self.log = log
        self.bands = bands_of_log(log)
        self.overhead = NO_OVERHEAD
        self.points: list[Point] = []
        self.marks: list[Mark] = []
        self.undone: set[int] = set()
        self._earlier = earlier
        self._first = log.calls + 1

    def take(self, sequence: int, entry: Entry) -> None:
        """Note one entry and let the session go on."""
        reply = reply_of(entry)
        if reply is not None:
            self._note_request(sequence, reply)
        before = self.log
        self.log = self._after(sequence, entry)
        if isinstance(entry, Restoration):
            self.undone.add(entry.sequence)
        mark = mark_of(sequence, entry, self.log, request=self._next_request)
        if mark is not None:
            self.marks.append(mark)
        if self.log.length == before.length + 1 and self.log.checkpoint_sequence == before.checkpoint_sequence:
            self.bands = self.bands.plus(bands_of(self.log, self.log.live[-1]))
        else:
            self.bands = bands_of_log(self.log)

    def timeline(self) -> Timeline:
        """What was noted."""
        marks = tuple(replace(mark, is_undone=mark.sequence in self.undone) for mark in self.marks)
        return Timeline(tuple(self.points), marks, self._filling(), self.log, self.overhead)

    @property
    def _next_request(self) -> int:
        return self._first + len(self.points)

    def _filling(self) -> Filling:
        return self.bands.filling(self.log.calibration, self.overhead)

    def _note_request(self, sequence: int, reply: AssistantMessage) -> None:
        self.overhead = reply.overhead or self.overhead
        point = Point(
            self._next_request,
            sequence,
            self._filling(),
            reply.usage,
            reply.cost,
            reply.created_ms,
            reply.window_tokens,
        )
        self.points.append(point)

    def _after(self, sequence: int, entry: Entry) -> Log:
        """The session with one more entry; what cannot be appended, such as the undoing of a fold, is read anew."""
        try:
            return replace(self.log, next_sequence=sequence).append(entry)
        except LogError:
            return load(self.log.session_id, self._earlier(sequence + 1), self.log.rendering)
