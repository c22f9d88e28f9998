"""Gives a view back on the wire: untouched messages as their sources, altered ones as patched copies.

A format tells which slots of an item hold parts and what to put in a slot. This module finds what changed and
copies only along the way to it: what a format does not know survives, and the caller's objects stay as they are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    Part,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
)
from infold.core.view import REQUEST_TEXT
from infold.formats.items import Decoded, Item, as_came, plain
from infold.formats.pairing import Pairing
from infold.formats.slots import undigested


class Slot(NamedTuple):
    """A place in an item that holds parts: its path (empty: the item itself), its kind, its plain value."""

    path: tuple[str | int, ...]
    kind: str
    value: Any


Joined: TypeAlias = Callable[[Item, Item, Item], Item | None]
"""What the second and the third of three items are as one, or nothing if they stay apart."""

_UNSENT = (StepStartPart, StepFinishPart)
"""Marks of an agent's steps, which are on no wire."""

GONE: Any = object()
"""What a slot is replaced by when none of its parts is left."""


class Codec(Struct, frozen=True):
    """What a format knows about its items.

    `parts` gives a slot the same number of parts whatever the pairing. `replaced` gets what became of each of them
    (nothing: it is gone). `retold` puts text in place of a medium or a result. `tidied` mends an item whose slots
    changed; nothing: leave the item out.
    """

    slots: Callable[[Item], Iterable[Slot]]
    parts: Callable[[Slot, Pairing, MessageId], tuple[Part, ...]]
    replaced: Callable[[Slot, tuple[Part | None, ...]], Any]
    retold: Callable[[Slot, str], Any]
    tidied: Callable[[Item], Item | None]
    new: Callable[[Message, Mapping[str, str]], list[Item]]


def gather(codec: Codec, item: Item, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    """All parts of an item, in the order of its slots, announced texts marked."""
    marked = pairing.announced.marked
    parts: list[Part] = []
    for slot in codec.slots(item):
        parts += marked(codec.parts(slot, pairing, message_id), message_id, is_users=slot.kind == "user")
    return tuple(parts)


def encode_view(
    codec: Codec,
    view: Sequence[Message],
    decoded: Decoded,
    *,
    joined: Joined | None = None,
) -> list[object]:
    """The view on the wire: sources where nothing changed, patched copies, new items for what is infold's.

    `joined` makes one item of two neighbours, or none, given the item before them; it is asked only where one of them is
    infold's own message.
    """
    places = {message.id: place for place, message in enumerate(decoded.messages)}
    items: list[object] = []
    is_own = False
    for message in view:
        place = places.get(message.id)
        was_own, is_own = is_own, place is None
        if place is None:
            encoded: Sequence[object] = _new(codec, message, decoded)
        elif message is decoded.messages[place] or message.parts == decoded.messages[place].parts:
            encoded = decoded.sources[place]
        else:
            encoded = _altered(codec, message, decoded, place)
        if joined is not None and (is_own or was_own):
            encoded = _neighbours(items, encoded, joined)
        items += encoded
    return items


def begun_by_user(view: Sequence[Message]) -> Sequence[Message]:
    """A view for a provider that wants the user to speak first: a summary that opens it is asked for."""
    first = view[0] if view else None
    if not isinstance(first, AssistantMessage) or not first.summary:
        return view
    return (UserMessage(MessageId("request-opening"), (TextPart(REQUEST_TEXT, synthetic=True),)), *view)


def _neighbours(items: list[object], encoded: Sequence[object], joined: Joined) -> Sequence[object]:
    """What is still to be added once the first of these has joined the last of those, where it may."""
    before = plain(items[-2]) if len(items) > 1 else {}
    together = joined(before, plain(items[-1]), plain(encoded[0])) if items and encoded else None
    if together is None:
        return encoded
    items[-1] = as_came(items[-1], together)
    return encoded[1:]


def _new(codec: Codec, message: Message, decoded: Decoded) -> list[object]:
    """Items for a message of infold's own, in the guise that the caller's first item has."""
    source = next((source for sources in decoded.sources[:1] for source in sources), None)
    return [as_came(source, item) for item in codec.new(message, decoded.aliases)]


def _altered(codec: Codec, message: Message, decoded: Decoded, place: int) -> list[object]:
    original = tuple(map(undigested, decoded.messages[place].parts))
    fates = _fates(original, tuple(undigested(part) for part in message.parts if not isinstance(part, _UNSENT)))
    items: list[object] = []
    taken = 0
    for source in decoded.sources[place]:
        item = plain(source)
        edits: dict[tuple[str | int, ...], Any] = {}
        for slot in codec.slots(item):
            end = taken + len(codec.parts(slot, Pairing(), message.id))
            if tuple(fates[taken:end]) != original[taken:end]:
                edits[slot.path] = _changed(codec, slot, original[taken:end], tuple(fates[taken:end]))
            taken = end
        items += _rewritten(codec, source, item, edits)
    extra = tuple([part for part in fates[len(original) :] if part is not None])
    return items + (_new(codec, replace(message, parts=extra), decoded) if extra else [])


def _changed(codec: Codec, slot: Slot, old: tuple[Part, ...], new: tuple[Part | None, ...]) -> Any:
    if isinstance(old[0], FilePart | ToolResultPart) and isinstance(new[0], TextPart):
        return codec.retold(slot, new[0].text)
    return codec.replaced(slot, new)


def _fates(original: tuple[Part, ...], parts: tuple[Part, ...]) -> list[Part | None]:
    """What became of each original part (nothing: it is gone), then the parts that are new."""
    if len(original) == len(parts):
        return [*parts]
    fates: list[Part | None] = []
    at = 0
    left, wanted = Counter(map(type, original)), Counter(map(type, parts))
    for part in original:
        kind = type(part)
        is_kept = at < len(parts) and _is_same(part, parts[at], is_needed=left[kind] <= wanted[kind])
        fates.append(parts[at] if is_kept else None)
        left[kind] -= 1
        wanted[kind] -= is_kept
        at += is_kept
    return [*fates, *parts[at:]]


def _is_same(old: Part, new: Part, *, is_needed: bool) -> bool:
    """Whether one is the other, perhaps altered; without an id, its text tells, or that all left of its kind are wanted."""
    if type(old) is not type(new):
        return False
    if isinstance(old, ToolCallPart | ToolResultPart) and isinstance(new, ToolCallPart | ToolResultPart):
        return old.call_id == new.call_id
    return old == new or is_needed


def _rewritten(codec: Codec, source: object, item: Item, edits: dict[tuple[str | int, ...], Any]) -> list[object]:
    if not edits:
        return [source]
    if () in edits:
        return [] if edits[()] is GONE else [as_came(source, edits[()])]
    edited = _edited(item, edits)
    tidy = codec.tidied(edited)
    return [] if tidy is None else [as_came(source, tidy)]


def _edited(item: Item, edits: dict[tuple[str | int, ...], Any]) -> Item:
    """A copy of the item with these slots changed; shares all else with it."""
    copy = dict(item)
    for key in {path[0] for path in edits}:
        if (key,) in edits:
            copy[str(key)] = edits[(key,)]
        else:
            blocks = [edits.get((key, index), block) for index, block in enumerate(copy[str(key)])]
            copy[str(key)] = [block for block in blocks if block is not GONE]
    return {key: value for key, value in copy.items() if value is not GONE}
