"""What a streamed reply says while it is being said: text, reasoning and the calls it begins, piece by piece.

For whoever shows a reply as it arrives; the whole body is the affair of `streams.py`, which is fed the same bytes. Nothing a
provider may send raises: what cannot be read says nothing.
"""

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from infold.formats.items import Item, MalformedError, cleaned, plain
from infold.formats.streams_gemini import GeminiReader
from infold.formats.streams_pieces import dicts, fields
from infold.formats.streams_sse import SseEvent, SseReader
from infold.formats.wire import format_named

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
