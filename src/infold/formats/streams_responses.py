"""A Responses reply out of the events of its stream."""

from typing import Literal

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import asdict

from infold.formats.items import Item
from infold.formats.streams_pieces import Shape, dicts, fields, grow, index_of, read_as, whole

LIFE = frozenset({"response.created", "response.queued", "response.in_progress"})
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
"""Events that hold the response as it is; the latter end it."""


class _Text(Struct, frozen=True):
    """Where a stream's text goes: the field that grows, and the list of blocks it stands in, if it stands in one."""

    item_type: str
    field: str
    blocks: str = ""
    block_type: str = ""


TEXTS = {
    "response.output_text": _Text("message", "text", "content", "output_text"),
    "response.refusal": _Text("message", "refusal", "content", "refusal"),
    "response.reasoning_text": _Text("reasoning", "text", "content", "reasoning_text"),
    "response.reasoning_summary_text": _Text("reasoning", "text", "summary", "summary_text"),
    "response.function_call_arguments": _Text("function_call", "arguments"),
    "response.custom_tool_call_input": _Text("custom_tool_call", "input"),
    "response.mcp_call_arguments": _Text("mcp_call", "arguments"),
    "response.code_interpreter_call_code": _Text("code_interpreter_call", "code"),
}
PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}
INDEXES = {"content": "content_index", "summary": "summary_index"}


class _Output:
    """One item while it is written, its blocks by their index."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.blocks: dict[str, dict[int, Item]] = {}

    def made(self) -> Item:
        """The item so far."""
        lists = {name: [blocks[index] for index in sorted(blocks)] for name, blocks in self.blocks.items()}
        return fields(whole({**self.item, **lists}))


class ResponsesReply:
    """Gathers a response: the last event holds all of it; before that, and where it holds no output, items do."""

    def __init__(self) -> None:
        self._response: Item = {}
        self._outputs: dict[int, _Output] = {}
        self._is_ended = False

    @property
    def is_finished(self) -> bool:
        """Whether the event came that ends a response, well or not."""
        return self._is_ended

    def take(self, kind: str, event: Item) -> None:
        """Add an event; one that adds nothing to a response is passed over."""
        index = index_of(event.get("output_index"))
        stem, _, change = kind.rpartition(".")
        if kind in LIFE or kind in ENDS:
            self._response |= fields(event.get("response"))
            self._is_ended = self._is_ended or kind in ENDS
        elif index is None:
            return
        elif stem == "response.output_item":
            if fields(event.get("item")):
                self._outputs[index] = _Output(event["item"])
        elif stem in PARTS:
            self._take_part(index, PARTS[stem], event)
        elif stem in TEXTS:
            self._take_text(index, TEXTS[stem], event, is_delta=change == "delta")

    def grow(self, data: bytes) -> bool:
        """Add a piece of a text or of a call's arguments; false for any other event."""
        told = read_as(_GROWTHS, data)
        if told is not None:
            self.take(told.type, asdict(told))
        return told is not None

    def reply(self) -> Item | None:
        """The response so far; nothing before its first event."""
        if not self._response and not self._outputs:
            return None
        told = dicts(self._response.get("output")) if self._is_ended else []
        gathered = [self._outputs[index].made() for index in sorted(self._outputs)]
        return {"object": "response", **self._response, "output": told or gathered}

    def _take_part(self, index: int, blocks: str, event: Item) -> None:
        place = index_of(event.get(INDEXES[blocks]))
        output = self._outputs.get(index)
        if output is not None and place is not None and fields(event.get("part")):
            output.blocks.setdefault(blocks, {})[place] = {**event["part"]}

    def _take_text(self, index: int, text: _Text, event: Item, *, is_delta: bool) -> None:
        """A piece of text, or all of it: the event that ends a text mends what was lost of it."""
        output = self._outputs.setdefault(index, _Output(_begun(text, event)))
        holder = _holder(output, text, event)
        if is_delta:
            grow(holder, text.field, event.get("delta"))
        elif isinstance(event.get(text.field), str):
            holder[text.field] = event[text.field]


def _begun(text: _Text, event: Item) -> Item:
    """An item whose beginning was lost."""
    role: Item = {"role": "assistant"} if text.item_type == "message" else {}
    return {"type": text.item_type, "id": event.get("item_id"), **role}


def _holder(output: _Output, text: _Text, event: Item) -> Item:
    if not text.blocks:
        return output.item
    place = index_of(event.get(INDEXES[text.blocks])) or 0
    return output.blocks.setdefault(text.blocks, {}).setdefault(place, {"type": text.block_type})


# The events that make up nearly all of a stream.


class _Growth(Shape):
    type: Literal[
        "response.output_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    ]
    output_index: int
    delta: str
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    sequence_number: int | None = None
    logprobs: object = None
    obfuscation: str | None = None


_GROWTHS = Decoder(_Growth)
