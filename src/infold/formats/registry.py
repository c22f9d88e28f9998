"""The wire formats by name, and which of them a list of messages is in.

Each format is a module of pure functions; this one binds them. A caller needs only a `WireFormat`: decode what the
provider would be sent, let the engine change the view, encode it back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from infold.core.messages import Finish, Message, Usage
from infold.errors import UnknownFormat
from infold.formats import anthropic, bodies, gemini, openai_chat, openai_responses, rules
from infold.formats.codec import Decoded, Item, MalformedError, refuse_text, refusing
from infold.formats.pairing import Pairing


class Decode(Protocol):
    """Wire items to messages; ids are `m0`, `m1` … from `first` on.

    Give `pairing` to go on where an earlier decoding ended, so that results find calls decoded before.
    """

    def __call__(self, items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded: ...


class EncodeNew(Protocol):
    """A message of infold's own to wire items; `aliases` are those of the `Decoded` it goes with."""

    def __call__(self, message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]: ...


class WireFormat(Struct, frozen=True):
    """All infold knows of one provider's messages.

    `items_field` names the field of a request body that holds the items. `problems` says what the provider would
    refuse. `system_text` and `tools_text` are what a request sends beside its items; `reply_items` are what a reply
    adds to them.
    """

    name: str
    items_field: str
    looks_like: Callable[[Sequence[object]], bool]
    decode: Decode
    encode: Callable[[Sequence[Message], Decoded], list[object]]
    encode_new: EncodeNew
    problems: Callable[[Sequence[object]], tuple[str, ...]]
    system_text: Callable[[object], str]
    tools_text: Callable[[object], str]
    reply_items: Callable[[object], list[object]]
    usage: Callable[[object], Usage | None]
    finish: Callable[[object], Finish | None]


OPENAI_CHAT = WireFormat(
    name=openai_chat.NAME,
    items_field="messages",
    looks_like=openai_chat.looks_like,
    decode=openai_chat.decode,
    encode=openai_chat.encode,
    encode_new=openai_chat.encode_new,
    problems=rules.chat_problems,
    system_text=bodies.chat_system,
    tools_text=bodies.tools_text,
    reply_items=bodies.chat_reply,
    usage=bodies.chat_usage,
    finish=bodies.chat_finish,
)


OPENAI_RESPONSES = WireFormat(
    name=openai_responses.NAME,
    items_field="input",
    looks_like=openai_responses.looks_like,
    decode=openai_responses.decode,
    encode=openai_responses.encode,
    encode_new=openai_responses.encode_new,
    problems=rules.responses_problems,
    system_text=bodies.responses_system,
    tools_text=bodies.tools_text,
    reply_items=bodies.responses_reply,
    usage=bodies.responses_usage,
    finish=bodies.responses_finish,
)


ANTHROPIC_MESSAGES = WireFormat(
    name=anthropic.NAME,
    items_field="messages",
    looks_like=anthropic.looks_like,
    decode=anthropic.decode,
    encode=anthropic.encode,
    encode_new=anthropic.encode_new,
    problems=rules.anthropic_problems,
    system_text=bodies.anthropic_system,
    tools_text=bodies.tools_text,
    reply_items=bodies.anthropic_reply,
    usage=bodies.anthropic_usage,
    finish=bodies.anthropic_finish,
)


GEMINI = WireFormat(
    name=gemini.NAME,
    items_field="contents",
    looks_like=gemini.looks_like,
    decode=gemini.decode,
    encode=gemini.encode,
    encode_new=gemini.encode_new,
    problems=rules.gemini_problems,
    system_text=bodies.gemini_system,
    tools_text=bodies.tools_text,
    reply_items=bodies.gemini_reply,
    usage=bodies.gemini_usage,
    finish=bodies.gemini_finish,
)


FORMATS = (GEMINI, OPENAI_RESPONSES, ANTHROPIC_MESSAGES, OPENAI_CHAT)
"""In the order they are asked: each of the first three knows marks of its own, chat takes what has none."""


def format_named(name: str) -> WireFormat:
    """The format of that name; `UnknownFormat` if there is none."""
    for wire in FORMATS:
        if wire.name == name:
            return wire
    raise UnknownFormat(f"the name {name!r}", tried=_names(), remedy="choose one of these names")


def detect(items: Sequence[object]) -> WireFormat:
    """The format these messages are in.

    Plain text under `user` and `assistant` is the same in three formats and is taken for chat; name the format where
    that matters. `UnknownFormat` if they are in none, `BrokenInput` if they are no messages at all; both name the item.
    """
    refuse_text("messages", items)
    try:
        wire = _found(items)
    except MalformedError:
        _strange(items)  # knows the place, and raises with it
        raise
    if wire is None:
        raise UnknownFormat(_strange(items), tried=_names(), remedy="name the format, or give role and content")
    return wire


def _found(items: Sequence[object]) -> WireFormat | None:
    return next((wire for wire in FORMATS if wire.looks_like(items)), None)


def _strange(items: Sequence[object]) -> str:
    """What of a list is in no format: an item of its own, or all of them together; raises for one that is no object."""
    for index, item in enumerate(items):
        try:
            if _found([item]) is None:
                return f"item {index} of these messages"
        except MalformedError as problem:
            raise refusing("messages", index, problem) from problem
    return "this list of messages, whose items are of different formats,"


def _names() -> tuple[str, ...]:
    return tuple(wire.name for wire in FORMATS)
