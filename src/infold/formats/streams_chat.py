"""A Chat Completions reply out of the chunks of its stream, with the fields compatible servers add."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.json import Decoder

from infold.formats.items import Item
from infold.formats.streams_pieces import Shape, Slots, dicts, fields, grow, merge, read_as, whole

APART = ("choices", "object", "obfuscation", "error", "type")
"""Fields of a chunk that are not fields of the reply."""


class ChatReply:
    """Gathers the first choice of a reply; the usage is that of the last chunk that has one."""

    def __init__(self) -> None:
        self._fields: Item = {}
        self._choice: Item = {}
        self._message: Item = {}
        self._calls = Slots(_begins_call)
        self._details = Slots(_begins_detail)

    @property
    def is_finished(self) -> bool:
        """Whether the choice says why it ended."""
        return bool(self._choice.get("finish_reason"))

    def take(self, kind: str, event: Item) -> None:
        """Add a chunk; what is none is passed over."""
        del kind
        if not isinstance(event.get("choices"), list) and not fields(event.get("usage")):
            return
        self._fields |= {field: value for field, value in event.items() if field not in APART and value is not None}
        for choice in dicts(event.get("choices")):
            if not choice.get("index"):
                self._take_choice(choice)

    def grow(self, data: bytes) -> bool:
        """Add a chunk that holds a few words, or a piece of a call's arguments, and nothing else; false for any other."""
        chunk = read_as(_CHUNKS, data)
        if chunk is None:
            return False
        delta = chunk.choices[0].delta
        for field in _REPEATED:
            value = getattr(chunk, field)
            if value is not None:
                self._fields[field] = value
        self._choice.setdefault("index", 0)
        if delta.content is not UNSET:
            grow(self._message, "content", delta.content)
        if delta.tool_calls is not UNSET:
            (call,) = delta.tool_calls
            self._calls.take({"index": call.index, "function": {"arguments": call.function.arguments}})
        return True

    def reply(self) -> Item | None:
        """The reply so far; nothing before the first chunk."""
        if not self._fields and not self._choice:
            return None
        choices = [{"finish_reason": None, **self._choice, "message": self._said()}] if self._choice else []
        return {"object": "chat.completion", **self._fields, "choices": fields(whole({"": choices}))[""]}

    def _take_choice(self, choice: Item) -> None:
        self._choice.setdefault("index", 0)
        self._take_delta(fields(choice.get("delta") or choice.get("message")))
        merge(self._choice, {"logprobs": choice["logprobs"]} if fields(choice.get("logprobs")) else {})
        for field, value in choice.items():
            if field not in ("index", "delta", "message", "logprobs") and value is not None:
                self._choice[field] = value

    def _take_delta(self, delta: Item) -> None:
        merge(self._message, {field: value for field, value in delta.items() if field not in _LISTS})
        for call in dicts(delta.get("tool_calls")):
            self._calls.take(call)
        for detail in dicts(delta.get("reasoning_details")):
            self._details.take(detail)

    def _said(self) -> Item:
        message: Item = {"role": "assistant", "content": None, **self._message}
        lists: dict[str, list[Any]] = {
            "reasoning_details": self._details.entries(),
            "tool_calls": [_call(call) for call in self._calls.entries()],
        }
        return message | {field: entries for field, entries in lists.items() if entries}


_LISTS = ("tool_calls", "reasoning_details")


def _begins_call(held: Item, piece: Item) -> bool:
    """Whether a named piece is another call: it has another id, or no index that would say which call it is of."""
    call_id = piece.get("id")
    has_other_id = bool(call_id and held.get("id")) and call_id != held.get("id")
    return bool(_name(piece)) and (has_other_id or "index" not in piece)


def _name(call: Item) -> object:
    return fields(call.get("function")).get("name") or fields(call.get("custom")).get("name")


def _begins_detail(held: Item, piece: Item) -> bool:
    return held.get("type") != piece.get("type", held.get("type"))


def _call(call: Item) -> Item:
    named: Item = {"type": "function"} if "function" in call else {}
    return named | {field: value for field, value in call.items() if field != "index" and value is not None}


# The chunks that make up nearly all of a stream.


class _Arguments(Shape):
    arguments: str


class _Call(Shape):
    index: int
    function: _Arguments


class _Delta(Shape):
    content: str | UnsetType = UNSET
    tool_calls: tuple[_Call] | UnsetType = UNSET


class _Choice(Shape):
    delta: _Delta
    index: Literal[0] = 0
    finish_reason: None = None
    logprobs: None = None


class _Chunk(Shape):
    choices: tuple[_Choice]
    id: str | None = None
    object: Literal["chat.completion.chunk"] | None = None
    created: int | None = None
    model: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: None = None
    obfuscation: str | None = None


_CHUNKS = Decoder(_Chunk)
_REPEATED = ("id", "created", "model", "service_tier", "system_fingerprint")
"""Fields of the reply that every chunk repeats."""
