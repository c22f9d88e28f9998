"""A Messages reply out of the events of its stream."""

from typing import Literal

from msgspec.json import Decoder
from msgspec.structs import asdict

from infold.formats.items import Item, MalformedError, plain
from infold.formats.streams_pieces import (
    Pieces,
    Shape,
    fields,
    grow,
    index_of,
    joined_text,
    merge,
    read_as,
    whole,
)

TEXTS = {"text_delta": "text", "thinking_delta": "thinking"}
"""Deltas of text, and the field that grows; it is the type of its block too."""


class AnthropicReply:
    """Gathers the blocks of a message, and its usage from where it begins and ends.

    A call's input comes as pieces of JSON text. Where they make no object, because the stream was cut short or the model
    erred, the text stands in the field `arguments` of one, for the API takes only objects.
    """

    def __init__(self) -> None:
        self._message: Item = {}
        self._blocks: dict[int, Item] = {}
        self._inputs: dict[int, Pieces] = {}
        self._is_stopped = False

    @property
    def is_finished(self) -> bool:
        """Whether the message says why it ended, or its end was told."""
        return self._is_stopped or bool(self._message.get("stop_reason"))

    def take(self, kind: str, event: Item) -> None:
        """Add an event; one that adds nothing to a message is passed over."""
        index = index_of(event.get("index"))
        match kind:
            case "message_start":
                self._message |= fields(event.get("message"))
            case "content_block_start" if index is not None and fields(event.get("content_block")):
                self._blocks[index] = {**event["content_block"]}
            case "content_block_delta" if index is not None:
                self._take_delta(index, fields(event.get("delta")))
            case "message_delta":
                self._take_end(event)
            case "message_stop":
                self._is_stopped = True
            case _:
                pass

    def grow(self, data: bytes) -> bool:
        """Add a piece of a text, of thinking or of a call's input; false for any other event."""
        told = read_as(_GROWTHS, data)
        if told is not None:
            self._take_delta(told.index, asdict(told.delta))
        return told is not None

    def reply(self) -> Item | None:
        """The message so far; nothing before its first event."""
        if not self._message and not self._blocks:
            return None
        content = [self._block(index) for index in sorted(self._blocks)]
        return {"type": "message", "role": "assistant", "stop_reason": None, **self._message, "content": content}

    def _take_delta(self, index: int, delta: Item) -> None:
        kind = str(delta.get("type"))
        if kind in TEXTS:
            self._blocks.setdefault(index, {"type": TEXTS[kind]})
        block = self._blocks.get(index)
        if block is None:
            return
        match kind:
            case "text_delta" | "thinking_delta":
                grow(block, TEXTS[kind], delta.get(TEXTS[kind]))
            case "input_json_delta" if isinstance(delta.get("partial_json"), str):
                self._inputs.setdefault(index, Pieces()).append(delta["partial_json"])
            case "citations_delta" if fields(delta.get("citation")):
                merge(block, {"citations": [delta["citation"]]})
            case "signature_delta" | "compaction_delta":
                block |= {field: value for field, value in delta.items() if field != "type"}
            case _:
                pass

    def _take_end(self, event: Item) -> None:
        """What ends a message: counts are totals, and what is left out here was told at the beginning."""
        beside = {field: value for field, value in event.items() if field not in ("type", "delta", "usage")}
        told = beside | fields(event.get("delta"))
        self._message |= {field: value for field, value in told.items() if value is not None}
        counts = {field: value for field, value in fields(event.get("usage")).items() if value is not None}
        self._message["usage"] = fields(self._message.get("usage")) | counts

    def _block(self, index: int) -> Item:
        block = fields(whole(self._blocks[index]))
        text = joined_text(self._inputs.get(index, ()))
        return {**block, "input": _object(text)} if text.strip() else block


def _object(text: str) -> Item:
    try:
        return plain(text.encode())
    except MalformedError:
        return {"arguments": text}


# The events that make up nearly all of a stream.


class _Delta(Shape):
    type: Literal["text_delta", "thinking_delta", "input_json_delta"]
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _Growth(Shape):
    type: Literal["content_block_delta"]
    index: int
    delta: _Delta


_GROWTHS = Decoder(_Growth)
