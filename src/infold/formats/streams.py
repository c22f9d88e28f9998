"""Streamed replies: from the bytes a provider sends to the body that the same call would have had without streaming.

A relay feeds a builder the bytes it passes on. The builder's `reply()` is a body for `WireFormat.reply_items`, `usage` and
`finish`; `error()` is one for `overflow.recognise`. Nothing a provider may send raises.
"""

from collections.abc import Callable
from typing import Protocol

from infold.formats import anthropic_messages, gemini, openai_chat, openai_responses
from infold.formats.items import Item, MalformedError, plain
from infold.formats.streams_anthropic import AnthropicReply
from infold.formats.streams_chat import ChatReply
from infold.formats.streams_gemini import GeminiReader, GeminiReply
from infold.formats.streams_pieces import fields
from infold.formats.streams_responses import ENDS, ResponsesReply
from infold.formats.streams_sse import SseEvent, SseReader
from infold.formats.wire import format_named

MOST_STREAM_BYTES = 256 * 2**20
"""How much of one stream is read: the longest replies, a token an event, have a quarter of it."""

DONE = b"[DONE]"
"""The data of the event that ends a chat stream."""

LAST_EVENTS = frozenset({"message_stop", *ENDS})
"""The kinds of event after which other streams say nothing more; Gemini's have none such."""


class Reader(Protocol):
    """Finds the events in the bytes of a stream."""

    @property
    def dropped(self) -> int:
        """How many events were too large."""
        ...

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The events that this piece completes."""
        ...

    def lone(self, piece: bytes) -> bytes | None:
        """The data of a piece that is one event by itself; nothing for any other, which is to be fed."""
        ...

    def close(self) -> list[SseEvent]:
        """What is left at the end of the stream."""
        ...


class Gathering(Protocol):
    """Puts one format's events together."""

    @property
    def is_finished(self) -> bool:
        """Whether the reply is complete."""
        ...

    def take(self, kind: str, event: Item) -> None:
        """Add an event."""
        ...

    def grow(self, data: bytes) -> bool:
        """Add an event that only makes the reply longer, as `take` would, but quickly; false for any other."""
        ...

    def reply(self) -> Item | None:
        """The body so far."""
        ...


class ReplyBuilder:
    """Puts a streamed reply together, piece by piece, while somebody else relays it.

    A stream that is cut short gives what there was, without a reason to have ended; half a call and unsigned thinking may be
    in it, which a provider would not take back. What cannot be read, is too large or comes after the first `most_bytes` is
    passed over and counted in `skipped`. `is_over` once the event came after which nothing more is said.
    """

    def __init__(
        self, gathering: Gathering, reader: Reader | None = None, *, most_bytes: int = MOST_STREAM_BYTES
    ) -> None:
        self._gathering = gathering
        self._most_bytes = most_bytes
        self._reader = SseReader() if reader is None else reader
        self._unread = self._read_bytes = 0
        self._error: object | None = None
        self._is_done = self.is_over = False

    @property
    def is_finished(self) -> bool:
        """Whether the provider said that the reply is complete; its usage may still follow, so feed on to the end."""
        return self._is_done or self._gathering.is_finished

    @property
    def skipped(self) -> int:
        """How many events were not read."""
        return self._unread + self._reader.dropped

    def feed(self, piece: bytes) -> None:
        """Read the next bytes of the stream, split wherever they may be."""
        data = self._reader.lone(piece)
        if data is not None and self._read_bytes + len(data) <= self._most_bytes and self._gathering.grow(data):
            self._read_bytes += len(data)
            return
        for event in self._reader.feed(piece):
            self._take(event)

    def close(self) -> None:
        """Read the last event of a stream that ended without the empty line after it."""
        for event in self._reader.close():
            self._take(event)

    def reply(self) -> Item | None:
        """The body so far, as it would be without streaming; nothing if no part of a reply came."""
        return self._gathering.reply()

    def error(self) -> object | None:
        """The first error the stream reported, for `overflow.recognise(None, …)`; nothing if it reported none."""
        return self._error

    def _take(self, event: SseEvent) -> None:
        data = event.data.encode()
        self._read_bytes += len(data)
        if data.strip() == DONE:
            self._is_done = self.is_over = True
            return
        try:
            told = plain(data) if self._read_bytes <= self._most_bytes else None
        except MalformedError:
            told = None
        self._unread += told is None
        self._error = self._error or _error_in(event, told)
        if told is not None:
            kind = str(told.get("type") or event.name)
            self.is_over = self.is_over or kind in LAST_EVENTS
            self._gathering.take(kind, told)


def _error_in(event: SseEvent, told: Item | None) -> object | None:
    """What an event reports as an error, in words or as an object; nothing if it reports none."""
    if told is None:
        return event.data if event.name == "error" else None
    nested = fields(told.get("response")).get("error")
    if nested:
        return {"response": {"error": nested}}
    is_error = event.name == "error" or "error" in (told.get("type"), told.get("object"))
    return told if is_error or told.get("error") else None


def builder_for(format_name: str) -> ReplyBuilder:
    """A builder for a stream of that wire format; `UnknownFormat` if there is none of that name."""
    return _BUILDERS[format_named(format_name).name]()


_BUILDERS: dict[str, Callable[[], ReplyBuilder]] = {
    openai_chat.NAME: lambda: ReplyBuilder(ChatReply()),
    openai_responses.NAME: lambda: ReplyBuilder(ResponsesReply()),
    anthropic_messages.NAME: lambda: ReplyBuilder(AnthropicReply()),
    gemini.NAME: lambda: ReplyBuilder(GeminiReply(), GeminiReader()),
}
