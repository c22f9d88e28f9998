"""Values that arrive in pieces, put together: what the builders of all formats share.

Text is gathered in a list and joined when it is asked for, so that a long reply costs no more per piece than a short one.
A value of a wrong type is passed over, for a stream may hold anything.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from infold.formats.codec import Item

MOST_EVENT_BYTES = 32 * 2**20
"""The largest event that is kept: the one that ends a Responses stream holds the whole reply, pictures included."""


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


_LONE = re.compile(rb"(?:event: (?!error\n)[^\r\n]+\n)?data: (\{[^\r\n]*\})\n\n")
"""An event by itself: an object on one line, under any name but that of an error."""


class SseEvent(Struct, frozen=True):
    """One event: its data, the lines joined, and its name where it has one."""

    data: str
    name: str = ""


class SseReader:
    """Gives each event as soon as its bytes are complete, wherever they were split.

    It never holds more than `most_bytes`: an event with a longer line, or longer lines together, is passed over and
    counted in `dropped`.
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
        """The events that this piece completes."""
        return [event for line in self._ended(piece) for event in self._take(line)]

    def lone(self, piece: bytes) -> bytes | None:
        """The data of a piece that is one event, begun and ended, as most pieces are; nothing for any other, which is to be fed.

        It is told without its name: an object that says what it is needs none.
        """
        is_amid = self._line_bytes or self._lines or self._name or self._is_over or self._is_after_return
        found = None if is_amid or len(piece) > self._most_bytes else _LONE.fullmatch(piece)
        self._is_first = self._is_first and found is None
        return None if found is None else found[1]

    def close(self) -> list[SseEvent]:
        """The last event of a stream that ended without the empty line after it."""
        return self.feed(b"\n\n")

    def _ended(self, piece: bytes) -> Iterator[bytes]:
        """The lines that this piece ends, without their ends; a line feed after a return ends nothing."""
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
            yield from self._told()
        elif field == b"data":
            self._lines.append(value.removeprefix(b" "))
            self._data_bytes += len(line)
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _told(self) -> Iterator[SseEvent]:
        if self._is_over:
            self.dropped += 1
        elif self._lines:
            yield SseEvent(b"\n".join(self._lines).decode("utf-8", "replace"), self._name)
        self._lines, self._name = [], ""
        self._data_bytes, self._is_over = 0, False


DEEPEST = 6
"""Levels of a value that are merged piece by piece; no provider streams anything deeper."""


FIXED = frozenset({"id", "type", "role", "format", "status", "phase"})
"""Fields that come whole: servers repeat them in every piece, so the first one stays."""


Shaped = TypeVar("Shaped")


class Shape(Struct, forbid_unknown_fields=True):
    """An event of exactly these fields: read quickly, for nothing else can be in it."""


class Pieces(list[str]):
    """Text so far."""


class Slots:
    """Entries of a list that grow by their `index`; `begins` says that a piece is not the held entry's but the next one's.

    Some servers give every call the same index, or none, so the index alone does not tell entries apart.
    """

    def __init__(self, begins: Callable[[Item, Item], bool]) -> None:
        self._begins = begins
        self._entries: list[tuple[int, Item]] = []
        self._newest: dict[int, Item] = {}

    def take(self, piece: Item) -> None:
        """Add a piece to its entry."""
        index = index_of(piece.get("index"))
        place = (self._entries[-1][0] if self._entries else 0) if index is None else index
        entry = self._newest.get(place)
        if entry is None or self._begins(entry, piece):
            entry = self._newest[place] = {}
            self._entries.append((place, entry))
        merge(entry, piece)

    def entries(self) -> list[Item]:
        """The entries so far, by index and then in the order they began."""
        return [fields(whole(entry)) for _, entry in sorted(self._entries, key=lambda held: held[0])]


def merge(into: Item, piece: Item, depth: int = DEEPEST) -> None:
    """Add a piece of an object to what came before: text grows, lists extend, all else is replaced."""
    for field, value in piece.items():
        if value is None:
            into.setdefault(field, None)
        elif field in FIXED:
            into[field] = into.get(field) or value
        elif isinstance(value, str):
            grow(into, field, value)
        elif isinstance(value, dict) and depth:
            into[field] = held = fields(into.get(field))
            merge(held, value, depth - 1)
        elif isinstance(value, list):
            into[field] = _extended(into.get(field), value)
        else:
            into[field] = value


def grow(into: Item, field: str, piece: object) -> None:
    """Add a piece of text to a field; a name that is there already is a repetition."""
    if not isinstance(piece, str):
        return
    held = into.get(field)
    if isinstance(held, list) and not isinstance(held, Pieces):
        _append_text(held, piece)
    elif not isinstance(held, Pieces):
        into[field] = Pieces([held, piece] if isinstance(held, str) else [piece])
    elif field != "name" or joined_text(held) != piece:
        held.append(piece)


def _extended(held: object, more: list[Any]) -> list[Any]:
    """A longer list; text that was there becomes its first block, as in a reply of blocks."""
    if isinstance(held, Pieces):
        text = joined_text(held)
        return [{"type": "text", "text": text}, *more] if text else [*more]
    return [*more] if not isinstance(held, list) else _in_place(held, more)


def _in_place(held: list[Any], more: list[Any]) -> list[Any]:
    held += more
    return held


def _append_text(blocks: list[Any], piece: str) -> None:
    last = fields(blocks[-1]) if blocks else {}
    if isinstance(last.get("text"), Pieces):
        last["text"].append(piece)
    elif piece:
        blocks.append({"type": "text", "text": Pieces([piece])})


def whole(value: object, depth: int = DEEPEST + 2) -> object:
    """A value with its pieces of text joined; a new value down to where pieces can be."""
    if isinstance(value, Pieces):
        return joined_text(value)
    if isinstance(value, dict) and depth:
        return {field: whole(inner, depth - 1) for field, inner in value.items()}
    if isinstance(value, list) and depth:
        return [whole(inner, depth - 1) for inner in value]
    return value


def joined_text(pieces: Iterable[str]) -> str:
    """The pieces as one text; halves of a character that were sent apart come together."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_as(decoder: Decoder[Shaped], data: bytes) -> Shaped | None:
    """An event of a shape; nothing where it has another."""
    try:
        return decoder.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def fields(value: object) -> Item:
    """An object's fields; none where there is no object."""
    return value if isinstance(value, dict) else {}


def dicts(value: object) -> list[Item]:
    """The objects in a list; none where there is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def index_of(value: object) -> int | None:
    """A place in a list; nothing where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
