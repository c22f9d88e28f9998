"""Values that arrive in pieces, put together: what the builders of all formats share.

Text is gathered in a list and joined when it is asked for, so that a long reply costs no more per piece than a short one.
A value of a wrong type is passed over, for a stream may hold anything.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from infold.formats.items import Item

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
