"""The wire formats by name, and which of them a list of messages is in.

Each format is a module of pure functions; this one binds them. A caller needs only a `WireFormat`: decode what the
provider would be sent, let the engine change the view, encode it back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

from msgspec import Struct

from infold.core.messages import Finish, Message, Usage
from infold.errors import UnknownFormat
from infold.formats import anthropic, converse, gemini, openai_chat, openai_responses
from infold.formats.codec import (
    NO_OWN_ITEMS,
    Decoded,
    Item,
    MalformedError,
    Origins,
    OwnItems,
    dict_or_empty,
    error_at,
    join_lines,
    json_text,
    require_list,
    text_field,
)
from infold.formats.pairing import Pairing
from infold.formats.streams import ReplyBuilder


class Decode(Protocol):
    """Wire items to messages; ids are `m0`, `m1` … from `first` on.

    Give `pairing` to continue an earlier decoding, so that results find calls decoded before.
    """

    def __call__(self, items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded: ...


class Encode(Protocol):
    """A view to wire items, the caller's own objects where nothing changed; `origins` is filled in with their sources."""

    def __call__(
        self,
        view: Sequence[Message],
        decoded: Decoded,
        origins: Origins | None = None,
        own: OwnItems = NO_OWN_ITEMS,
    ) -> list[object]: ...


class EncodeNew(Protocol):
    """A message of infold's own to wire items; `aliases` are those of the `Decoded` it goes with."""

    def __call__(self, message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]: ...


class SummaryFields(Protocol):
    """What a request for a summary says about its answer, given the body of an ordinary request to the same model."""

    def __call__(self, body: Mapping[str, Any], output_tokens: int, *, has_tools: bool) -> Item: ...


class WireFormat(Struct, frozen=True):
    """All infold knows of one provider's wire.

    `items_field` names the field of a request body that holds the items, `system_fields` those that may hold the system
    prompt, `path_endings` how the paths of such requests end. `reply_items` are what a reply adds to the items:
    nothing, if it is empty or `is_reply` says that it is something else.
    """

    name: str
    items_field: str
    system_fields: tuple[str, ...]
    path_endings: tuple[str, ...]
    looks_like: Callable[[Sequence[object]], bool]
    decode: Decode
    encode: Encode
    encode_new: EncodeNew
    reply_items: Callable[[object], list[object]]
    is_reply: Callable[[object], bool]
    usage: Callable[[object], Usage | None]
    finish: Callable[[object], Finish | None]
    new_builder: Callable[[], ReplyBuilder]
    summary_fields: SummaryFields
    with_system: Callable[[str, list[Any]], Item]
    tool_item: Callable[[str, str, Item], Item]
    tool_names: Callable[[Item, str], Iterator[str]]

    def encode_with_sources(
        self, view: Sequence[Message], decoded: Decoded, own: OwnItems = NO_OWN_ITEMS
    ) -> tuple[list[object], tuple[int | None, ...]]:
        """Return a view as items, and for each the number of the decoded item it is or was made from; `None` for infold's own."""
        origins: Origins = []
        return self.encode(view, decoded, origins, own), tuple(origins)

    def system_text(self, body: object) -> str:
        """Return the system prompt that a request sends apart from its items, as text."""
        request = dict_or_empty(body)
        value = next((request[field] for field in self.system_fields if request.get(field)), None)
        if isinstance(value, Mapping):
            value = value.get("parts")
        if isinstance(value, list | tuple):
            return join_lines(text_field(dict_or_empty(block), "text") or json_text(block) for block in value)
        return value if isinstance(value, str) else json_text(value) if value else ""

    def tools_text(self, body: object) -> str:
        """Return the tools a request offers and the shape it wants its answer in, as JSON."""
        request = dict_or_empty(body)
        fields = ("tools", "functions", "response_format", "text", "toolConfig", "tool_config")
        return join_lines(json_text(request[field]) for field in fields if request.get(field))


def _bind(
    module: ModuleType, *, items_field: str, path_endings: tuple[str, ...], system_fields: tuple[str, ...] = ()
) -> WireFormat:
    """Return the format of a module, whose functions have the names of the fields above."""
    functions = {field: getattr(module, field) for field in WireFormat.__struct_fields__ if hasattr(module, field)}
    return WireFormat(module.NAME, items_field, system_fields, path_endings, **functions)


OPENAI_CHAT = _bind(openai_chat, items_field="messages", path_endings=("/chat/completions",))
OPENAI_RESPONSES = _bind(
    openai_responses, items_field="input", path_endings=("/responses",), system_fields=("instructions",)
)
ANTHROPIC_MESSAGES = _bind(
    anthropic, items_field="messages", path_endings=("/messages", *anthropic.CLOUD_PATHS), system_fields=("system",)
)
GEMINI = _bind(
    gemini,
    items_field="contents",
    path_endings=(":generateContent", ":streamGenerateContent"),
    system_fields=("systemInstruction", "system_instruction"),
)

CONVERSE = _bind(converse, items_field="messages", path_endings=converse.PATHS, system_fields=("system",))

FORMATS = (GEMINI, OPENAI_RESPONSES, ANTHROPIC_MESSAGES, OPENAI_CHAT, CONVERSE)
"""In the order of detection: each of the first three recognises marks of its own, chat takes all but content without types."""


def format_named(name: str) -> WireFormat:
    """Return the format of that name, or raise `UnknownFormat`."""
    for wire in FORMATS:
        if wire.name == name:
            return wire
    raise UnknownFormat(f"the name {name!r}", tried=_names(), remedy="choose one of these names")


def edited_positions(items: Sequence[object], sources: Sequence[int | None], given: Sequence[object]) -> frozenset[int]:
    """Return the positions of items that are not the given objects they were made from."""
    numbered = enumerate(sources)
    return frozenset([place for place, n in numbered if n is not None and items[place] is not given[n]])


def builder_for(format_name: str) -> ReplyBuilder:
    """Return a builder for a streamed reply in that format, or raise `UnknownFormat`."""
    return format_named(format_name).new_builder()


def detect(items: Sequence[object]) -> WireFormat:
    """Return the format these messages are in.

    Plain text under `user` and `assistant` is the same in three formats and is taken for chat; name the format where
    that matters. Raise `UnknownFormat` if they are in none of them, `BrokenInput` if they are not messages; both name the
    item.
    """
    require_list("messages", items)
    try:
        wire = _first_match(items)
    except MalformedError:
        _describe_unknown(items)  # finds the item, and raises with its place
        raise
    if wire is None:
        raise UnknownFormat(
            _describe_unknown(items), tried=_names(), remedy="name the format, or give role and content"
        )
    return wire


def is_ambiguous(wire: WireFormat, items: Sequence[object]) -> bool:
    """Return whether messages of that format may turn out to be of another: they were taken for chat, and use no tool."""
    plain = map(dict_or_empty, items or ())
    return wire is OPENAI_CHAT and not any(
        item.get("role") in ("tool", "function") or item.get("tool_calls") for item in plain
    )


def format_of_reply(body: object, assumed: WireFormat) -> WireFormat:
    """Return the format that a reply is in; the assumed one if it can be read so, or in no format."""
    wires = (assumed, *FORMATS)
    holding = (wire for wire in wires if wire.reply_items(body))
    return next(holding, next((wire for wire in wires if wire.is_reply(body)), assumed))


def _first_match(items: Sequence[object]) -> WireFormat | None:
    return next((wire for wire in FORMATS if wire.looks_like(items)), None)


def _describe_unknown(items: Sequence[object]) -> str:
    """Name what is in no format: one item, or all of them together; raise `MalformedError` for one that is not an object."""
    for index, item in enumerate(items):
        try:
            if _first_match([item]) is None:
                return f"item {index} of these messages"
        except MalformedError as problem:
            raise error_at("messages", index, problem) from problem
    return "this list of messages, whose items are of different formats,"


def _names() -> tuple[str, ...]:
    return tuple(wire.name for wire in FORMATS)
