"""Wire items as callers give them, made plain; and what decoding them yields.

An item is a dict, JSON bytes or an SDK object with `model_dump`. It is only ever read: what the caller gave,
the caller gets back (B25). What an item means is left to the module of its format.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from math import isinf
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from infold.core.messages import Message, MessageId, Part, TextPart
from infold.errors import BrokenInput, kind_of
from infold.formats.injected import OPENINGS, split_injected
from infold.formats.pairing import Pairing

Item: TypeAlias = dict[str, Any]

MOST_DIGITS = 4_000
"""Of a number that is written out in full; Python itself writes no longer ones."""


class Decoded(Struct, frozen=True):
    """Messages with the wire items they came from, position by position.

    `sources` holds the caller's own objects. `aliases` maps a call id of ours to the one on the wire where
    they differ, because a provider repeats or omits ids; empty means that there is none on the wire.
    """

    format: str
    messages: tuple[Message, ...]
    sources: tuple[tuple[object, ...], ...]
    aliases: dict[str, str] = {}


class MalformedError(BrokenInput):
    """An item of a wrong type; a decoder that knows the item's place raises it anew with that place, its `index`."""

    def __init__(self, problem: str, *, remedy: str, name: str = "messages", index: int | None = None) -> None:
        self.problem = problem
        self.remedy = remedy
        self.index = index
        super().__init__(name, problem if index is None else f"item {index}: {problem}", remedy=remedy)


def joined(earlier: Decoded, later: Decoded) -> Decoded:
    """Two stretches of one history as one, for a session that decodes only what is new."""
    return Decoded(
        earlier.format,
        earlier.messages + later.messages,
        earlier.sources + later.sources,
        earlier.aliases | later.aliases,
    )


def decode_each(
    name: str,
    items: Sequence[object],
    read: Callable[[Item, MessageId, Pairing], Message],
    *,
    first: int,
    pairing: Pairing | None,
) -> Decoded:
    """Decode a history in which each item is one message."""
    pairs = pairing or Pairing()
    refuse_text(name, items)
    messages: list[Message] = []
    number = first
    try:
        for number, item in enumerate(items, first):
            wire = item if type(item) is dict else plain(item)
            messages.append(read(wire, MessageId(f"m{number}"), pairs))
    except MalformedError as problem:
        raise refusing(name, number - first, problem) from problem
    return Decoded(name, tuple(messages), tuple([(item,) for item in items]), dict(pairs.aliases))


def refuse_text(name: str, items: object) -> None:
    """Refuse a lone string or dict where a list of items belongs."""
    if not isinstance(items, list | tuple):
        raise BrokenInput(
            name, f"the messages are one {type(items).__name__}, not a list", remedy="give a list of messages"
        )


def refusing(name: str, index: int, problem: MalformedError) -> MalformedError:
    """The error for the item at `index`."""
    return MalformedError(problem.problem, remedy=problem.remedy, name=name, index=index)


def plain(value: object) -> Item:
    """One item or block as a dict; the very dict if it is one."""
    if isinstance(value, dict):
        return value
    if isinstance(value, bytes | bytearray | memoryview | Raw):
        return _parsed(bytes(value))
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return _dumped(dump)
    if isinstance(value, Mapping):
        return dict(value)
    raise MalformedError(f"{kind_of(value)} stands where an object belongs", remedy="give a dict")


def _parsed(text: bytes) -> Item:
    try:
        value = _loads(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise MalformedError(f"not JSON ({error})", remedy="give the item as the provider sent it") from error
    return plain(value)


def _loads(text: bytes) -> object:
    """Parse JSON; the second parser takes lone surrogates and numbers beyond a double, which the first refuses."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text, parse_float=_float)


def _float(text: str) -> float | Decimal:
    """A number; exact where a double cannot hold it, so that it goes out again as a number."""
    value = float(text)
    try:
        return Decimal(text) if isinf(value) else value
    except ArithmeticError as error:
        raise ValueError("a number beyond all bounds") from error


def _dumped(dump: Callable[..., Any]) -> Item:
    try:
        return plain(dump(mode="json", by_alias=True, exclude_unset=True))
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> MalformedError:
    return MalformedError("nested too deep to be read", remedy="flatten it or leave it out")


def as_came(source: object, item: Item) -> object:
    """An altered item in the guise its source had: bytes stay bytes, `Raw` stays `Raw`, all else is a dict."""
    if isinstance(source, Raw):
        return Raw(json_text(item).encode())
    return json_text(item).encode() if isinstance(source, bytes | bytearray | memoryview) else item


_SURROGATES = re.compile("[\ud800-\udfff]")


def cleaned(text: str) -> str:
    """The text without lone surrogates, which no UTF-8 can hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def _foreign(value: object) -> object:
    if isinstance(value, Decimal):  # for the slow encoder, which has no way to write one; the quick one has its own
        return int(value) if value.adjusted() < MOST_DIGITS else str(value)
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump(mode="json", by_alias=True, exclude_unset=True)


_encode = msgspec.json.Encoder(enc_hook=_foreign, decimal_format="number").encode


def json_text(value: object) -> str:
    """A wire value as JSON text."""
    try:
        return _encode(value).decode()
    except RecursionError:
        raise _too_deep() from None
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
        return _json_text_slowly(value)


def _json_text_slowly(value: object) -> str:
    """For what the quick encoder refuses: lone surrogates and numbers beyond 64 bits."""
    try:
        return cleaned(json.dumps(value, ensure_ascii=False, default=_foreign, separators=(",", ":")))
    except (RecursionError, ValueError):
        raise _too_deep() from None
    except TypeError as error:
        raise MalformedError(f"not JSON ({error})", remedy="use text as the keys of an object") from error


def provider_text(value: object) -> str:
    """A wire value as opaque provider data."""
    return json_text(value)


def listed(value: object, what: str) -> Sequence[Any]:
    """A list of blocks, or nothing where there is none."""
    if isinstance(value, list | tuple):
        return value
    if value is None:
        return ()
    raise MalformedError(f"{what} is {kind_of(value)}", remedy="give text or a list of blocks")


def text_field(item: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that holds text; empty if none does."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and value:
            return cleaned(value)
    return ""


def id_field(item: Mapping[str, Any], *names: str) -> str:
    """The same for ids, which some write as whole numbers."""
    for name in names:
        value = item.get(name)
        found = str(value) if type(value) is int else text_field(item, name)
        if found:
            return found
    return ""


NO_PARTNERS = frozenset({"file_id", "container_id", "response_id", "session_id", "thread_id", "vector_store_id"})
"""Fields with the id of something outside the history, which any number of blocks may share."""


def opaque(value: Item, *links: str) -> tuple[Part, ...]:
    """Return a block that infold has no reading for as an opaque part, linked by the ids it holds to its partners.

    Those are its fields `id` and `…_id`, and the same of the objects in it: `server_tool_use` has in `id` what its result
    has in `tool_use_id`. `links` are for partners that have no id.
    """
    objects = (value, *(plain(inner) for inner in value.values() if isinstance(inner, dict)))
    ids = (id_field(one, name) for one in objects for name in one if _is_partners_id(name))
    return (TextPart(json_text(value), synthetic=True, opaque=True, links=(*filter(None, ids), *links)),)


def _is_partners_id(name: object) -> bool:
    return isinstance(name, str) and (name == "id" or name.endswith(("_id", "Id"))) and name not in NO_PARTNERS


def user_text(text: str) -> tuple[Part, ...]:
    """A user's text, what a harness injected marked as such."""
    if "<" not in text and not text.startswith(OPENINGS):
        return (TextPart(cleaned(text)),)
    return tuple(TextPart(cleaned(piece.text), synthetic=piece.injected) for piece in split_injected(text))


def lines(texts: Iterable[str]) -> str:
    """Several texts as one, line by line."""
    return "\n".join(text for text in texts if text)
