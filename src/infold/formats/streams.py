"""Streamed replies: from the bytes a provider sends to the body that the same call would have had without streaming.

A relay feeds a builder the bytes it passes on. The builder's `reply()` is a body for `WireFormat.reply_items`, `usage` and
`finish`; `error()` is one for `overflow.recognise`; what `feed` returns can be shown while the reply is being written. Nothing
that a provider may send raises. How a format's events add up is in the module of its provider.
"""

from collections.abc import Callable, Iterable, Set
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from infold.formats.codec import Item, MalformedError, dict_or_empty, parse_object, replace_surrogates
from infold.formats.sse import JsonArrayReader, SseEvent, SseReader

MOST_STREAM_BYTES = 256 * 2**20
"""How much of one stream is read; the longest replies, with an event for each token, take a quarter of it."""

DONE = "[DONE]"
"""The data of the event that ends a chat stream."""

DEEPEST = 6
"""Levels of a value that are merged piece by piece; no provider streams anything deeper."""

WHOLE_FIELDS = frozenset({"id", "type", "role", "format", "status", "phase"})
"""Fields that are never split: servers repeat them in every piece, so the first value stays."""

DeltaKind: TypeAlias = Literal["text", "reasoning", "call"]

Emit: TypeAlias = Callable[[DeltaKind, object], None]
"""Called with each new piece of text, and with the tool's name when a call begins; anything but text is ignored."""


class Delta(Struct, frozen=True):
    """A piece of the reply's text or reasoning; for a call that begins, the tool's name."""

    kind: DeltaKind
    text: str


class StreamedReply(Protocol):
    """Puts one format's events together; `reply` is the body so far, `None` before the first event."""

    @property
    def is_finished(self) -> bool: ...

    def take(self, kind: str, event: Item, emit: Emit) -> None: ...

    def reply(self) -> Item | None: ...


class ReplyBuilder:
    """Puts a streamed reply together, piece by piece, while it is relayed.

    A stream that is cut short gives the reply so far, without a finish reason; half a call and unsigned thinking may be in it,
    which a provider would not accept. Events that cannot be read, are too large or come after the first `most_bytes` are
    counted in `skipped`. `is_over` is set by the event after which the provider sends nothing more (Gemini has none).
    `may_be_array`: the stream may be a JSON array instead of events; its first character decides.
    """

    def __init__(
        self,
        reply: StreamedReply,
        reader: SseReader | None = None,
        *,
        last_events: Set[str] = frozenset(),
        may_be_array: bool = False,
        most_bytes: int = MOST_STREAM_BYTES,
    ) -> None:
        self._reply = reply
        self._reader: SseReader | JsonArrayReader = reader or SseReader()
        self._may_be_array = may_be_array
        self._last_events = last_events
        self._most_bytes = most_bytes
        self._unread = self._read_bytes = 0
        self._error: object | None = None
        self._is_done = self.is_over = False
        self._deltas: list[Delta] = []
        self._halves: dict[DeltaKind, str] = {}

    @property
    def is_finished(self) -> bool:
        """Whether the provider reported the reply as complete; usage may still follow, so feed the stream to its end."""
        return self._is_done or self._reply.is_finished

    @property
    def skipped(self) -> int:
        """How many events were not read."""
        return self._unread + self._reader.dropped

    def feed(self, piece: bytes) -> list[Delta]:
        """Read the next bytes of the stream, split anywhere, and return what they add to the reply."""
        if self._may_be_array and (begun := piece.lstrip()):
            self._may_be_array = False
            self._reader = JsonArrayReader() if begun.startswith(b"[") else self._reader
        return self._take_all(self._reader.feed(piece))

    def close(self) -> list[Delta]:
        """Read the last event of a stream that ended without the empty line after it."""
        return self._take_all(self._reader.close())

    def reply(self) -> Item | None:
        """Return the body so far, as it would be without streaming, or `None` if no part of a reply arrived."""
        return self._reply.reply()

    def error(self) -> object | None:
        """Return the first error the stream reported, for `overflow.recognise(None, …)`, or `None`."""
        return self._error

    def _take_all(self, events: list[SseEvent]) -> list[Delta]:
        for event in events:
            self._take(event)
        deltas, self._deltas = self._deltas, []
        return deltas

    def _take(self, event: SseEvent) -> None:
        data = event.data.encode()
        self._read_bytes += len(data)
        if event.data.strip() == DONE:
            self._is_done = self.is_over = True
            return
        try:
            value = parse_object(data) if self._read_bytes <= self._most_bytes else None
        except MalformedError:
            value = None
        self._unread += value is None
        if "error" in event.data or event.name == "error":
            self._error = self._error or _error_in(event, value)
        if value is not None:
            kind = str(value.get("type") or event.name)
            self.is_over = self.is_over or kind in self._last_events
            self._reply.take(kind, value, self._emit)

    def _emit(self, kind: DeltaKind, text: object) -> None:
        """Add a delta; half of a character waits for its other half, which comes with the next piece."""
        if not isinstance(text, str):
            return
        if self._halves or not text.isascii():
            text = self._halves.pop(kind, "") + text
            if "\ud800" <= text[-1:] <= "\udbff":
                self._halves[kind], text = text[-1], text[:-1]
            text = replace_surrogates(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))
        if text:
            self._deltas.append(Delta(kind, text))


def _error_in(event: SseEvent, value: Item | None) -> object | None:
    """Return the error that an event reports, as text or as an object, or `None`."""
    if value is None:
        return event.data if event.name == "error" else None
    nested = dict_or_empty(value.get("response")).get("error")
    if nested:
        return {"response": {"error": nested}}
    is_error = event.name == "error" or "error" in (value.get("type"), value.get("object"))
    return value if is_error or value.get("error") else None


# Values that arrive in pieces. Text is gathered in a list and joined on demand, so that a piece of a long reply costs no more
# than a piece of a short one. Values of a wrong type are ignored.


class TextPieces(list[str]):
    """Text so far."""


class IndexedEntries:
    """Entries of a list that grow by their `index`; `is_next` decides that a piece belongs to a new entry, not to the held one.

    Some servers give every call the same index, or none, so the index alone does not identify an entry.
    """

    def __init__(self, is_next: Callable[[Item, Item], bool]) -> None:
        self._is_next = is_next
        self._entries: list[tuple[int, Item]] = []
        self._newest: dict[int, Item] = {}

    def entry_for(self, piece: Item) -> Item:
        """Return the entry that a piece belongs to, a new one if it begins one; merge the piece into it."""
        index = index_or_none(piece.get("index"))
        place = (self._entries[-1][0] if self._entries else 0) if index is None else index
        entry = self._newest.get(place)
        if entry is None or self._is_next(entry, piece):
            entry = self._newest[place] = {}
            self._entries.append((place, entry))
        return entry

    def entries(self) -> list[Item]:
        """Return the entries so far, by index and then in the order they began."""
        return [dict_or_empty(join_pieces(entry)) for _, entry in sorted(self._entries, key=lambda held: held[0])]


def merge(into: Item, piece: Item, depth: int = DEEPEST) -> None:
    """Add a piece of an object: text grows, lists extend, all else is replaced."""
    for field, value in piece.items():
        if value is None:
            into.setdefault(field, None)
        elif field in WHOLE_FIELDS:
            into[field] = into.get(field) or value
        elif isinstance(value, str):
            append_text(into, field, value)
        elif isinstance(value, dict) and depth:
            into[field] = held = dict_or_empty(into.get(field))
            merge(held, value, depth - 1)
        elif isinstance(value, list):
            into[field] = _extend(into.get(field), value)
        else:
            into[field] = value


def append_text(into: Item, field: str, piece: object) -> None:
    """Add a piece of text to a field; a `name` that is there already is a repetition."""
    if not isinstance(piece, str):
        return
    held = into.get(field)
    if isinstance(held, TextPieces):
        if field != "name" or join_text(held) != piece:
            held.append(piece)
    elif isinstance(held, list):
        last = dict_or_empty(held[-1]) if held else {}
        if isinstance(last.get("text"), TextPieces):
            last["text"].append(piece)
        elif piece:
            held.append({"type": "text", "text": TextPieces([piece])})
    else:
        into[field] = TextPieces([held, piece] if isinstance(held, str) else [piece])


def _extend(held: object, more: list[Any]) -> list[Any]:
    """Return a longer list; text so far becomes its first block, as in a reply of blocks."""
    if isinstance(held, TextPieces):
        text = join_text(held)
        return [{"type": "text", "text": text}, *more] if text else [*more]
    if not isinstance(held, list):
        return [*more]
    held += more
    return held


def join_pieces(value: object, depth: int = DEEPEST + 2) -> object:
    """Return a value with its pieces of text joined, new down to where pieces can be."""
    if isinstance(value, TextPieces):
        return join_text(value)
    if isinstance(value, dict) and depth:
        return {field: join_pieces(inner, depth - 1) for field, inner in value.items()}
    if isinstance(value, list) and depth:
        return [join_pieces(inner, depth - 1) for inner in value]
    return value


def join_text(pieces: Iterable[str]) -> str:
    """Join pieces of text; halves of a character that were sent apart come together."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def index_or_none(value: object) -> int | None:
    """Return the value if it is a place in a list."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
