"""A session's window over time: one point for each request, and annotations where infold changed the view.

Entries are replayed into the core's log, oldest first, so that every point is of the view that was sent. Sums are carried from
one request to the next and computed again only where something was hidden or folded: work grows with the entries, not with
entries times view.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Amendment, Clipping, Entry, Pruning, Rejection, Restoration
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import AssistantMessage, Overhead, SessionId, Usage
from infold.errors import LogError
from infold.ports import Store
from infold.reports.contents import ViewSizes, message_sizes, view_sizes
from infold.reports.stored_log import LogSection, NumberedEntry, model_in, rendering_for, reply_in
from infold.reports.text import describe_entry

ReadEarlier: TypeAlias = Callable[[int], Iterable[NumberedEntry]]
"""Returns the entries before a number, newest first."""

AnnotationKind: TypeAlias = Literal["compaction", "pruning", "clipping", "restoration", "rejection", "amendment"]

DEFAULT_RENDERING = Rendering()

HAS_DETAIL: tuple[AnnotationKind, ...] = ("compaction", "pruning", "clipping")
"""Kinds that `entry_detail` describes."""


class Annotation(Struct, frozen=True):
    """A change of the view between two requests; `request` is the number of the request after it."""

    kind: AnnotationKind
    sequence: int
    request: int
    words: str
    created_ms: int | None = None
    is_undone: bool = False


class RequestPoint(Struct, frozen=True):
    """One request: its number in the session, its contents, and its reply with the number of its entry.

    `whole_tokens` is what it would have been with the whole history, nothing hidden and nothing folded; where a timeline starts
    after a fold, what was folded before is not counted.
    """

    number: int
    sequence: int
    contents: Mapping[str, int]
    reply: AssistantMessage
    whole_tokens: int

    @property
    def tokens(self) -> int:
        """The estimated size of the request."""
        return sum(self.contents.values())

    @property
    def reported_tokens(self) -> int | None:
        """The size of the request by the provider's count, or `None` if it was not reported."""
        return (self.reply.usage.prompt or None) if self.reply.usage is not None else None

    @property
    def cached_share(self) -> float | None:
        """The share of the request that came from the provider's cache, or `None` if it was not reported."""
        return cached_share(self.reply.usage)


class Timeline(Struct, frozen=True):
    """The requests of a session and the changes between them; `now` has the contents of the next request.

    `log` is the session after the newest entry, `overhead` the system prompt and tools of the newest request.
    """

    points: tuple[RequestPoint, ...]
    annotations: tuple[Annotation, ...]
    now: Mapping[str, int]
    log: Log
    overhead: Overhead

    @property
    def first(self) -> int:
        """The number of the first request shown, or of the next one if none is."""
        return self.points[0].number if self.points else self.log.calls + 1

    @property
    def annotations_before(self) -> dict[int, list[Annotation]]:
        """The annotations by the number of the request after them."""
        found: dict[int, list[Annotation]] = {}
        for annotation in self.annotations:
            found.setdefault(annotation.request, []).append(annotation)
        return found


def cached_share(usage: Usage | None) -> float | None:
    """Return the share of a request that came from the provider's cache, or `None` if it was not reported."""
    return usage.cache_read / usage.prompt if usage is not None and usage.prompt else None


def read_timeline(store: Store, section: LogSection) -> Timeline:
    """Return the timeline of a section of the log; the view it starts with is read too, and nothing older."""

    def read_earlier(number: int) -> Iterator[NumberedEntry]:
        return store.newest_first(section.key, before=number)

    rendering = rendering_for(model_in(reversed(section.entries)).id)
    return build_timeline(section.key.session_id, section.entries, read_earlier, rendering)


def build_timeline(
    session_id: SessionId,
    entries: Sequence[NumberedEntry],
    read_earlier: ReadEarlier,
    rendering: Rendering = DEFAULT_RENDERING,
) -> Timeline:
    """Return the timeline of entries, given oldest first; `read_earlier` reads the view they start with."""
    start = entries[0][0] if entries else 0
    builder = _Builder(load(session_id, read_earlier(start), rendering), read_earlier)
    for sequence, entry in entries:
        builder.add(sequence, entry)
    return builder.build()


class _Builder:
    """The session so far, and the points and annotations found on the way."""

    def __init__(self, log: Log, read_earlier: ReadEarlier) -> None:
        self._log = log
        self._sizes = self._whole = view_sizes(log)
        self._appended: dict[int, ViewSizes] = {}
        self._overhead = Overhead()
        self._points: list[RequestPoint] = []
        self._annotations: list[Annotation] = []
        self._undone: set[int] = set()
        self._read_earlier = read_earlier
        self._first = log.calls + 1

    def add(self, sequence: int, entry: Entry) -> None:
        """Note one entry and append it to the session."""
        reply = reply_in(entry)
        if reply is not None:
            self._add_point(sequence, reply)
        before = self._log
        self._log = self._append(sequence, entry)
        if isinstance(entry, Restoration):
            self._undone.add(entry.sequence)
        annotation = annotate(sequence, entry, self._log, request=self._next_request)
        if annotation is not None:
            self._annotations.append(annotation)
        if self._log.length == before.length + 1 and self._log.checkpoint_sequence == before.checkpoint_sequence:
            added = self._appended[sequence] = message_sizes(self._log, self._log.live[-1])
            self._sizes, self._whole = self._sizes.plus(added), self._whole.plus(added)
        else:
            self._sizes = view_sizes(self._log)
        if isinstance(entry, Amendment):
            for number in [number for number in self._appended if number >= entry.first]:
                self._whole = self._whole.minus(self._appended.pop(number))

    def build(self) -> Timeline:
        """Return the timeline."""
        annotations = tuple(replace(one, is_undone=one.sequence in self._undone) for one in self._annotations)
        return Timeline(tuple(self._points), annotations, self._contents(), self._log, self._overhead)

    @property
    def _next_request(self) -> int:
        return self._first + len(self._points)

    def _contents(self) -> dict[str, int]:
        return self._sizes.tokens(self._log.calibration, self._overhead)

    def _add_point(self, sequence: int, reply: AssistantMessage) -> None:
        self._overhead = reply.overhead or self._overhead
        whole = sum(self._whole.tokens(self._log.calibration, self._overhead).values())
        self._points.append(RequestPoint(self._next_request, sequence, self._contents(), reply, whole))

    def _append(self, sequence: int, entry: Entry) -> Log:
        """Append one entry; what cannot be appended, such as the undoing of a fold, is loaded again."""
        try:
            return replace(self._log, next_sequence=sequence).append(entry)
        except LogError:
            return load(self._log.session_id, self._read_earlier(sequence + 1), self._log.rendering)


def annotate(sequence: int, entry: Entry, after: Log, *, request: int) -> Annotation | None:
    """Return the annotation of an entry, given the log with it; `None` for entries that do not change the view."""
    kind: AnnotationKind
    match entry:
        case Pruning():
            kind, created_ms = "pruning", entry.pruned_ms
        case Clipping():
            kind, created_ms = "clipping", entry.clipped_ms
        case Restoration():
            kind, created_ms = "restoration", None
        case Rejection():
            kind, created_ms = "rejection", entry.rejected_ms
        case Amendment():
            kind, created_ms = "amendment", None
        case _:  # a checkpoint, or a summary that became one
            if after.checkpoint is None or after.checkpoint_sequence != sequence:
                return None
            entry = after.checkpoint
            kind, created_ms = "compaction", entry.created_ms
    return Annotation(kind, sequence, request, describe_entry(entry), created_ms)
