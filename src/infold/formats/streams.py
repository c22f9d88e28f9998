"""Streamed replies: from the bytes a provider sends to the body that the same call would have had without streaming.

A relay feeds a builder the bytes it passes on. The builder's `reply()` is a body for `WireFormat.reply_items`, `usage` and
`finish`; `error()` is one for `overflow.recognise`; what `feed` returns can be shown while the reply is being written. Nothing
that a provider may send raises. How a format's events add up is in the module of its provider.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from infold.formats.codec import Item, MalformedError, dict_or_empty, json_text, parse_object, replace_surrogates

MOST_EVENT_BYTES = 32 * 2**20
"""The largest event that is kept: the one that ends a Responses stream holds the whole reply, pictures included."""


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseEvent(Struct, frozen=True):
    """One event: its data, the lines joined, and its name if it has one."""

    data: str
    name: str = ""


class SseReader:
    """Returns each event as soon as its bytes are complete, split anywhere.

    Holds at most `most_bytes`: an event with a longer line, or longer lines together, is skipped and counted in `dropped`.
    """

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._line = bytearray()
        self._line_bytes = self._data_bytes = 0
        self._lines: list[bytes] = []
        self._name = ""
        self._is_first = True
        self._is_after_return = False
        self._is_over = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that this piece completes."""
        is_amid = self._line_bytes or self._lines or self._name or self._is_over or self._is_after_return
        lone = None if is_amid or len(piece) > self._most_bytes else _lone_event(piece)
        if lone is None:
            return [event for line in self._ended_lines(piece) for event in self._take(line)]
        self._is_first = False
        return [lone]

    def close(self) -> list[SseEvent]:
        """Return the last event of a stream that ended without the empty line after it."""
        return self.feed(b"\n\n")

    def _ended_lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that this piece ends, without their ends; a line feed after a return ends nothing."""
        is_second_half = self._is_after_return and piece.startswith(b"\n")
        self._is_after_return = piece.endswith(b"\r") if piece else self._is_after_return
        for text in piece[is_second_half:].splitlines(keepends=True):
            bare = text.rstrip(b"\r\n")
            self._hold(bare)
            if len(bare) < len(text):
                if self._line or not self._line_bytes:
                    yield bytes(self._line)
                self._line.clear()
                self._line_bytes = 0

    def _hold(self, text: bytes) -> None:
        self._line_bytes += len(text)
        self._is_over = self._is_over or self._line_bytes + self._data_bytes > self._most_bytes
        if self._is_over:
            self._line.clear()
        else:
            self._line += text

    def _take(self, line: bytes) -> Iterator[SseEvent]:
        """Read one line; an empty one ends the event."""
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        field, _, value = line.partition(b":")
        if not line:
            yield from self._end_event()
        elif field == b"data":
            self._lines.append(value.removeprefix(b" "))
            self._data_bytes += len(line)
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _end_event(self) -> Iterator[SseEvent]:
        if self._is_over:
            self.dropped += 1
        elif self._lines:
            yield SseEvent(b"\n".join(self._lines).decode("utf-8", "replace"), self._name)
        self._lines, self._name = [], ""
        self._data_bytes, self._is_over = 0, False


def _lone_event(piece: bytes) -> SseEvent | None:
    """Return the event that is all of a piece, as most pieces of a stream are; `None` for any other piece."""
    lines = piece.split(b"\n", 4)
    if len(lines) not in (3, 4) or lines[-2:] != [b"", b""] or b"\r" in piece:
        return None
    name, data = lines[0] if len(lines) == 4 else b"event: ", lines[-3]
    if not name.startswith(b"event: ") or not data.startswith(b"data: "):
        return None
    return SseEvent(data[6:].decode("utf-8", "replace"), name[7:].decode("utf-8", "replace"))


_MARK, _QUOTED_MARK = re.compile(rb'["{}\[\]]'), re.compile(rb'["\\]')


class JsonArrayReader:
    """Returns each object of a JSON array as soon as its bytes are complete; holds at most `most_bytes`."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._open = bytearray()
        self._is_over = self._is_quoted = False
        self._depth = self._ahead = 0

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the objects that this piece completes."""
        closed: list[SseEvent] = []
        begin, at = 0, self._ahead
        while mark := (_QUOTED_MARK if self._is_quoted else _MARK).search(piece, at):
            at = mark.end()
            match mark[0]:
                case b"\\":
                    at += 1
                case b'"':
                    self._is_quoted = not self._is_quoted
                case b"{" | b"[":
                    self._depth += 1
                    begin = mark.start() if self._depth == 2 else begin
                case _:
                    self._depth = max(0, self._depth - 1)
                    closed += self._end_object(piece[begin:at]) if self._depth == 1 else []
        self._ahead = max(0, at - len(piece))
        if self._depth > 1:
            self._hold(piece[begin:])
        return closed

    def close(self) -> list[SseEvent]:
        """Return nothing: an object that is not closed is dropped."""
        return []

    def _hold(self, text: bytes) -> None:
        self._is_over = self._is_over or len(self._open) + len(text) > self._most_bytes
        if self._is_over:
            self._open.clear()
        else:
            self._open += text

    def _end_object(self, text: bytes) -> list[SseEvent]:
        self._hold(text)
        data, is_over = bytes(self._open), self._is_over
        self._open.clear()
        self._is_over = False
        self.dropped += is_over
        return [] if is_over else [SseEvent(data.decode("utf-8", "replace"))]


MOST_STREAM_BYTES = 256 * 2**20
"""How much of one stream is read; the longest replies, with an event for each token, take a quarter of it."""


DONE = "[DONE]"
"""The data of the event that ends a chat stream."""


DEEPEST = 6
"""Levels of a value that are merged piece by piece; no provider streams anything deeper."""


class FrameReader:
    """Returns each event of Amazon's event stream as soon as its frame is complete.

    A frame has its length, the length of its headers, a checksum of both, the headers, the payload and a checksum of all.
    The payload of Bedrock's `invoke` is an object with an event in base64, that of its Converse is the event, named by a header.
    Checksums are left to the transport. What cannot be read is counted in `dropped`; after a frame of an impossible length
    nothing more is read.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._open = bytearray()
        self._is_broken = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that this piece completes."""
        events: list[SseEvent] = []
        self._open += b"" if self._is_broken else piece
        while len(self._open) >= _PRELUDE:
            size, headers = (int.from_bytes(self._open[at : at + 4]) for at in (0, 4))
            if not _PRELUDE + headers + _CHECKSUM <= size <= MOST_EVENT_BYTES:
                self._is_broken = True
                self.dropped += 1
                self._open.clear()
            elif len(self._open) < size:
                break
            else:
                begin = _PRELUDE + headers
                event = _framed_event(bytes(self._open[_PRELUDE:begin]), bytes(self._open[begin : size - _CHECKSUM]))
                del self._open[:size]
                events += [event] if event else []
                self.dropped += event is None
        return events

    def close(self) -> list[SseEvent]:
        """Return nothing: half a frame is not an event."""
        return []


_PRELUDE, _CHECKSUM = 12, 4
_EVENT_TYPE = re.compile(rb"\x0b:event-type\x07(..)([A-Za-z]*)", re.DOTALL)
"""A header: the length of its name, the name, the type (text), the length of the value, the value."""


def _framed_event(headers: bytes, payload: bytes) -> SseEvent | None:
    """Return the event in a frame, or the exception as an event of Anthropic's; `None` if it cannot be read."""
    try:
        body = parse_object(payload)
    except MalformedError:
        return None
    if b":exception-type" in headers or b":error-code" in headers:
        error = {"type": "api_error", "message": str(body.get("message") or body.get("originalMessage") or "")}
        return SseEvent(json_text({"type": "error", "error": error}), "error")
    named = _EVENT_TYPE.search(headers)
    name = named[2].decode()[: int.from_bytes(named[1])] if named else "chunk"
    if name != "chunk":
        return SseEvent(payload.decode("utf-8", "replace"), name)
    try:
        return SseEvent(b64decode(str(body["bytes"]), validate=True).decode("utf-8", "replace"))
    except (KeyError, ValueError):
        return None


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
    `may_be_array`: the stream may be a JSON array instead of events; its first character decides. It also shows Amazon's
    binary framing, which begins with the high byte of a length.
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
        self._reader: SseReader | JsonArrayReader | FrameReader = reader or SseReader()
        self._may_be_array = may_be_array
        self._is_begun = False
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
        if not self._is_begun and (begun := piece.lstrip()):
            self._is_begun = True
            if begun.startswith(b"\0"):
                self._reader = FrameReader()
            elif self._may_be_array and begun.startswith(b"["):
                self._reader = JsonArrayReader()
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
