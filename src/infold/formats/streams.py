"""Streamed replies: from the bytes a provider sends to the body that the same call would have had without streaming.

A relay feeds a builder the bytes it passes on. The builder's `reply()` is a body for `WireFormat.reply_items`, `usage` and
`finish`; `error()` is one for `overflow.recognise`. Nothing a provider may send raises.
"""

from collections.abc import Callable, Iterator
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from infold.formats import anthropic, gemini, openai_chat, openai_responses
from infold.formats.anthropic import AnthropicReply
from infold.formats.codec import Item, MalformedError, cleaned, plain
from infold.formats.gemini import GeminiReader, GeminiReply
from infold.formats.openai_chat import ChatReply
from infold.formats.openai_responses import ENDS, ResponsesReply
from infold.formats.registry import format_named
from infold.formats.sse import SseEvent, SseReader, dicts, fields

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
    anthropic.NAME: lambda: ReplyBuilder(AnthropicReply()),
    gemini.NAME: lambda: ReplyBuilder(GeminiReply(), GeminiReader()),
}


Kind: TypeAlias = Literal["text", "reasoning", "call"]


class Delta(Struct, frozen=True):
    """A piece of what is said, or of the reasoning before it; of a call that begins, the tool's name."""

    kind: Kind
    text: str


Read: TypeAlias = Callable[[Item], Iterator[Delta]]


class Deltas:
    """Reads one stream as its bytes arrive."""

    def __init__(self, read: Read, reader: SseReader | GeminiReader) -> None:
        self._read = read
        self._reader = reader
        self._halves: dict[Kind, str] = {}

    def feed(self, piece: bytes) -> list[Delta]:
        """What the next bytes of the stream say."""
        return self._said(self._reader.feed(piece))

    def close(self) -> list[Delta]:
        """What is left at the end of the stream."""
        return self._said(self._reader.close())

    def _said(self, events: list[SseEvent]) -> list[Delta]:
        told = (delta for event in events for delta in self._read(_told(event)))
        whole = (Delta(delta.kind, self._whole(delta)) for delta in told)
        return [delta for delta in whole if delta.text]

    def _whole(self, delta: Delta) -> str:
        """The text with the half of a character that was sent before it, without one whose other half is still to come."""
        text = self._halves.pop(delta.kind, "") + delta.text
        if text[-1:] and "\ud800" <= text[-1] <= "\udbff":
            self._halves[delta.kind], text = text[-1], text[:-1]
        return text if text.isascii() else cleaned(_joined_halves(text))


def deltas_for(format_name: str) -> Deltas:
    """A reader for a stream of that wire format; `UnknownFormat` if there is none of that name."""
    name = format_named(format_name).name
    return Deltas(_READS[name](), GeminiReader() if name == "gemini" else SseReader())


def _told(event: SseEvent) -> Item:
    try:
        told = plain(event.data.encode())
    except MalformedError:
        return {}
    return told if "type" in told or not event.name else {"type": event.name, **told}


def _joined_halves(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _piece(kind: Kind, value: object) -> Iterator[Delta]:
    if isinstance(value, str) and value:
        yield Delta(kind, value)


# Chat Completions, with the fields compatible servers add.


class _Chat:
    """Knows which calls have begun: servers repeat names, and give several calls one index, or none."""

    def __init__(self) -> None:
        self._begun: dict[object, object] = {}

    def __call__(self, event: Item) -> Iterator[Delta]:
        for choice in dicts(event.get("choices")):
            if not choice.get("index"):
                yield from self._delta(fields(choice.get("delta") or choice.get("message")))

    def _delta(self, delta: Item) -> Iterator[Delta]:
        yield from _piece("reasoning", delta.get("reasoning_content") or delta.get("reasoning"))
        yield from _chat_content(delta.get("content"))
        yield from _piece("text", delta.get("refusal"))
        for call in dicts(delta.get("tool_calls")):
            name = fields(call.get("function")).get("name") or fields(call.get("custom")).get("name")
            if name and self._begins(call.get("index"), call.get("id")):
                yield from _piece("call", name)

    def _begins(self, index: object, call_id: object) -> bool:
        place = index if isinstance(index, int) else None
        if place is None or place not in self._begun:
            self._begun[place] = call_id
            return True
        is_other = bool(call_id and self._begun[place]) and call_id != self._begun[place]
        self._begun[place] = call_id if is_other else self._begun[place]
        return is_other


def _chat_content(content: object) -> Iterator[Delta]:
    """Text, or blocks of it: some servers think in blocks."""
    yield from _piece("text", content)
    for block in dicts(content):
        yield from _piece("text", block.get("text"))
        thinking = block.get("thinking")
        yield from _piece("reasoning", thinking)
        for inner in dicts(thinking):
            yield from _piece("reasoning", inner.get("text"))


# Responses.

_RESPONSES: dict[str, Kind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}


def _responses(event: Item) -> Iterator[Delta]:
    kind = str(event.get("type"))
    if kind in _RESPONSES:
        yield from _piece(_RESPONSES[kind], event.get("delta"))
    item = fields(event.get("item"))
    if kind == "response.output_item.added" and item.get("type") in ("function_call", "custom_tool_call"):
        yield from _piece("call", item.get("name"))


# Messages.


def _anthropic(event: Item) -> Iterator[Delta]:
    delta, block = fields(event.get("delta")), fields(event.get("content_block"))
    match event.get("type"):
        case "content_block_delta":
            yield from _piece("text", delta.get("text"))
            yield from _piece("reasoning", delta.get("thinking"))
        case "content_block_start" if block.get("type") == "tool_use":
            yield from _piece("call", block.get("name"))
        case "content_block_start":
            yield from _piece("text", block.get("text"))
            yield from _piece("reasoning", block.get("thinking"))
        case _:
            pass


# Gemini.


def _gemini(event: Item) -> Iterator[Delta]:
    for candidate in dicts(event.get("candidates")):
        for part in dicts(fields(candidate.get("content")).get("parts")) if not candidate.get("index") else ():
            yield from _piece("reasoning" if part.get("thought") else "text", part.get("text"))
            yield from _piece("call", fields(part.get("functionCall")).get("name"))


_READS: dict[str, Callable[[], Read]] = {
    "openai-chat": _Chat,
    "openai-responses": lambda: _responses,
    "anthropic-messages": lambda: _anthropic,
    "gemini": lambda: _gemini,
}
