"""Know a history again: a fingerprint of what was said, called and answered, and of nothing else.

Callers bring the same history again and again with other marks on it: cache marks move, reasoning is left out, reminders come
and go, arguments are written anew. None of that makes it another history. Neither do old results that a caller has cleared to
save room, once they are folded, if the ids of the calls tell that it is the same one. Blocks that infold has no reading for count
by their JSON, and reasoning counts where a message holds nothing else: two such messages are equal only if they say the same.
"""

import hashlib
import re
from collections.abc import Iterable

import msgspec

from infold.core.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
)

OWN_IDS = ("compact-", "continue-", "checkpoint-", "request-", "summary-", "interrupted-")
"""How the ids of messages begin that infold made; no caller's message has one."""

_SEPARATOR = b"\x1e"
_FIELD = b"\x1f"

_NUMBERED = re.compile(r"[a-z_.:-]*\d{1,5}(\.\d+)?(#\d+)?")
"""Ids that count the calls of a history, as some servers and infold itself give them: every history has the same."""

_REPEATED = re.compile(r"#\d+$")


def is_callers(message: Message) -> bool:
    """Whether a message came from the caller, and will be in the history the caller brings next time."""
    return not message.id.startswith(OWN_IDS)


def likeness(message: Message) -> str:
    """What a message says, as a short fingerprint; equal for messages that differ in marks alone.

    Where nothing in a message counts, its reasoning does: it is all the message has.
    """
    pieces = tuple(filter(None, map(_piece, message.parts)))
    return _joined(message, pieces or map(_sealed, message.parts))


def chained(earlier: str, messages: Iterable[Message]) -> str:
    """The fingerprint of a history: of what came before, then of these messages in their order."""
    for message in messages:
        earlier = _hashed(f"{earlier}{likeness(message)}".encode())
    return earlier


def outlined(earlier: str, messages: Iterable[Message]) -> str:
    """The fingerprint of a history from which old results and media may have been cleared: several agents put a few words there.

    What such a result says does not count, but the id of its call does. Agents that do the same at the same time, or each day,
    get other results for the same calls, and no other id tells them apart.
    """
    for message in messages:
        outline = _joined(message, map(_outlined, message.parts))
        earlier = _hashed(f"{earlier}{outline}".encode())
    return earlier


def has_ids(messages: Iterable[Message]) -> bool:
    """Whether a call of theirs has an id that no other history has."""
    return any(_own_id(call.call_id) for message in messages for call in calls_of(message))


def _joined(message: Message, pieces: Iterable[bytes]) -> str:
    return _hashed(_SEPARATOR.join((_role(message), *filter(None, pieces))))


def _hashed(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _role(message: Message) -> bytes:
    """Results come from the user at one provider and from a tool at another."""
    return b"user" if isinstance(message, UserMessage | ToolMessage) else type(message).__name__.encode()


def _piece(part: Part) -> bytes:
    match part:
        case TextPart(opaque=True):
            return b"opaque" + _FIELD + _unmarked(part.text)
        case TextPart():
            return b"" if part.synthetic or part.ignored else _encoded(part.text.strip())
        case ToolCallPart():
            return b"call" + _FIELD + _encoded(part.tool) + _FIELD + _canonical(part.arguments)
        case ToolResultPart():
            return b"result" + _FIELD + _encoded(part.output.strip())
        case FilePart():
            return b"file" + _FIELD + _encoded(f"{part.media_type} {part.byte_size} {part.reference}")
        case _:
            return b""


def _outlined(part: Part) -> bytes:
    match part:
        case ToolCallPart():
            return _piece(part) + _FIELD + _own_id(part.call_id)
        case ToolResultPart():
            own = _own_id(part.call_id)
            return b"result" + _FIELD + own if own else _piece(part)
        case FilePart() | TextPart(opaque=True):
            return b""
        case _:
            return _piece(part)


def _sealed(part: Part) -> bytes:
    """A reasoning part by its provider data, or by its text where it has none."""
    if not isinstance(part, ReasoningPart):
        return b""
    return b"reasoning" + _FIELD + _encoded(part.provider_data or part.text)


def _unmarked(text: str) -> bytes:
    """An opaque block in one order and spacing, without cache marks, which move, and without fields that say nothing."""
    try:
        value = msgspec.json.decode(_encoded(text), type=dict[str, object])
        kept = {name: field for name, field in value.items() if name != "cache_control" and field is not None}
        return msgspec.json.encode(kept, order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _encoded(text)


def _own_id(call_id: str) -> bytes:
    """An id as the provider gave it; nothing where it may be another history's too. One met a second time is numbered."""
    return b"" if _NUMBERED.fullmatch(call_id) else _encoded(_REPEATED.sub("", call_id))


def _canonical(arguments: str) -> bytes:
    """Arguments in one order and spacing; as they stand where they are no JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(_encoded(arguments)), order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _encoded(arguments)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
