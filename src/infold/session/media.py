"""The bytes of media between a caller's items, the store and the next request.

The log has media by what is known of them and by a digest. Decides which bytes are kept under it, and puts them back into
messages that are sent from the log alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from infold.core.events import MediaNotStored
from infold.core.messages import FilePart, Message, MessageId, Part, SessionId, ToolResultPart
from infold.formats.codec import as_dict
from infold.formats.media import data_url, media_bytes


class Medium(Struct, frozen=True):
    """A medium as it was sent: its type, its name if it had one, and its bytes."""

    media_type: str
    name: str
    data: bytes


class TakenMedia(Struct, frozen=True):
    """Messages as the log is to have them, the bytes to keep for them, and what could not be kept."""

    messages: tuple[Message, ...]
    media: Mapping[str, bytes] = {}
    events: tuple[MediaNotStored, ...] = ()


def take_media(
    messages: tuple[Message, ...],
    sources_of: Callable[[MessageId], Sequence[object]],
    *,
    session_id: SessionId,
    limit_bytes: int,
) -> TakenMedia:
    """Take the bytes of new messages from their wire items, each medium up to that size; a larger one is named in an event.

    A medium whose bytes are not kept has no digest in the log.
    """
    files = [file for message in messages for file in _files(message) if file.digest]
    if not files:
        return TakenMedia(messages)
    wanted = {file.digest for file in files if file.byte_size <= limit_bytes}
    items = chain.from_iterable(sources_of(message.id) for message in messages if digests_in((message,)) & wanted)
    media: dict[str, bytes] = {}
    for item in items:
        media |= media_bytes(as_dict(item), wanted)
    lost = {file.digest for file in files} - media.keys()
    too_large = {file.digest: file for file in files if file.byte_size > limit_bytes > 0}
    return TakenMedia(
        tuple(_altered(message, lambda file: _forgotten(file, lost)) for message in messages) if lost else messages,
        media,
        tuple(
            MediaNotStored(session_id, file.media_type, file.name, file.byte_size, limit_bytes)
            for file in too_large.values()
        ),
    )


def digests_in(messages: Sequence[Message]) -> set[str]:
    """Return the digests of all media in these messages."""
    return {file.digest for message in messages for file in _files(message) if file.digest}


def with_media(message: Message, media: Mapping[str, bytes]) -> Message:
    """Return a message whose media hold their bytes, as `data:` addresses, as far as these are at hand."""
    if digests_in((message,)).isdisjoint(media):
        return message
    return _altered(message, lambda file: _addressed(file, media))


def with_stored_media(
    view: tuple[Message, ...], alone: Sequence[Message], read: Callable[[Sequence[str]], Mapping[str, bytes]]
) -> tuple[Message, ...]:
    """Return a view in which the messages that are sent from the log alone have the bytes of their media."""
    digests = digests_in(alone)
    if not digests:
        return view
    media = read(tuple(sorted(digests)))
    filled = {message.id: with_media(message, media) for message in alone}
    return tuple(filled.get(message.id, message) for message in view)


def _addressed(file: FilePart, media: Mapping[str, bytes]) -> FilePart:
    data = media.get(file.digest)
    return file if data is None else replace(file, reference=data_url(file.media_type, data))


def _forgotten(file: FilePart, lost: set[str]) -> FilePart:
    return replace(file, digest="") if file.digest in lost else file


def files_of(part: Part) -> tuple[FilePart, ...]:
    """Return the media of a part: itself, or those of a tool's result."""
    if isinstance(part, FilePart):
        return (part,)
    return part.files if isinstance(part, ToolResultPart) else ()


def _files(message: Message) -> Iterator[FilePart]:
    return (file for part in message.parts for file in files_of(part))


def _altered(message: Message, change: Callable[[FilePart], FilePart]) -> Message:
    return replace(message, parts=tuple(_changed(part, change) for part in message.parts))


def _changed(part: Part, change: Callable[[FilePart], FilePart]) -> Part:
    if isinstance(part, FilePart):
        return change(part)
    if isinstance(part, ToolResultPart) and part.files:
        return replace(part, files=tuple(map(change, part.files)))
    return part
