"""OpenAI Responses input items.

A model's turn is several items here: neighbours from the model form one message, and so do neighbouring outputs of
tools. Reasoning items are bound to the items after them, so a message with one is signed. Compaction items are
opaque provider data. What the provider refuses is told by `rules.py`, what it replies by `bodies.py`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    results_of,
)
from infold.formats.items import (
    Decoded,
    Item,
    MalformedError,
    id_field,
    json_text,
    lines,
    listed,
    opaque,
    plain,
    provider_text,
    refuse_text,
    refusing,
    text_field,
)
from infold.formats.openai_responses_blocks import block_parts, replaced_result, result
from infold.formats.openai_responses_new import BOUND_TYPES, answers_in_order, answers_matched
from infold.formats.openai_responses_new import encode_new as encode_new
from infold.formats.pairing import Pairing
from infold.formats.patch import GONE, Codec, Slot, encode_view, gather
from infold.formats.slots import (
    arguments_of,
    left_text,
    parsed_arguments,
    unpacked_input,
)

NAME = "openai-responses"
Side: TypeAlias = Literal["user", "system", "assistant", "tool"]

CALL_TYPES: dict[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
"""Calls the caller has to answer, and the field that says what to do."""
TOOL_TYPES = ("mcp_approval_response",)
"""What comes from the caller's tools without being called an output."""
BLOCK_TYPES = ("input_text", "output_text", "input_image", "input_file")
OWN_TYPES = ("message", "item_reference", *BOUND_TYPES)
"""Types of blocks and items that no other format has; those of calls and outputs are told by their ending."""


class _Given(NamedTuple):
    place: int
    side: Side
    source: object
    item: Item


def looks_like(items: Sequence[object]) -> bool:
    """Whether some item or block is of a type that only this format has."""
    return any(_is_own(plain(item)) for item in items)


def _is_own(item: Item) -> bool:
    kind, content = item.get("type"), item.get("content")
    if isinstance(content, list | tuple):
        return any(not isinstance(block, str) and plain(block).get("type") in BLOCK_TYPES for block in content)
    return kind in OWN_TYPES or (isinstance(kind, str) and kind.endswith(("_call", "_output")))


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Input items as core messages; `BrokenInput` for an item of a wrong type."""
    refuse_text(NAME, items)
    pairs = pairing or Pairing()
    groups = _groups([_given(index, source) for index, source in enumerate(items)])
    messages = tuple([_message(group, MessageId(f"m{number}"), pairs) for number, group in enumerate(groups, first)])
    sources = tuple([tuple([given.source for given in group]) for group in groups])
    return Decoded(NAME, messages, sources, dict(pairs.aliases))


def encode(view: Sequence[Message], decoded: Decoded) -> list[object]:
    """The view as input items; untouched ones are the caller's own objects."""
    items = encode_view(_CODEC, view, decoded)
    known = {message.id for message in decoded.messages}
    own = [message for message in view if message.id not in known]
    if not own:
        return items
    answered = {decoded.aliases.get(part.call_id) or part.call_id for message in own for part in results_of(message)}
    matched = answers_matched(items, decoded)
    return list(answers_in_order(matched, answered)) if answered else matched


def _given(index: int, source: object) -> _Given:
    try:
        item = source if type(source) is dict else plain(source)
    except MalformedError as problem:
        raise refusing(NAME, index, problem) from problem
    return _Given(index, _side(item), source, item)


def _side(item: Item) -> Side:
    """Who an item is from; what infold does not know is taken for the model's."""
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" or (kind is None and role):
        return "system" if role in ("system", "developer") else "assistant" if role == "assistant" else "user"
    if kind in TOOL_TYPES or str(kind).endswith("_output"):
        return "tool"
    return "system" if role in ("system", "developer") else "assistant"


def _groups(given: list[_Given]) -> list[list[_Given]]:
    """Neighbours of the model's or the tools' side together, each other item by itself."""
    groups: list[list[_Given]] = []
    for one in given:
        if groups and one.side in ("assistant", "tool") and groups[-1][0].side == one.side:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _message(group: list[_Given], message_id: MessageId, pairing: Pairing) -> Message:
    parts = tuple([part for given in group for part in _gathered(given, message_id, pairing)])
    match group[0].side:
        case "assistant":
            return AssistantMessage(message_id, parts)
        case "tool":
            return ToolMessage(message_id, parts)
        case "system":
            return SystemMessage(message_id, parts)
        case "user":
            return UserMessage(message_id, parts)


def _gathered(given: _Given, message_id: MessageId, pairing: Pairing) -> tuple[Part, ...]:
    try:
        return gather(_CODEC, given.item, pairing, message_id)
    except MalformedError as problem:
        raise refusing(NAME, given.place, problem) from problem


def _slots(item: Item) -> Iterator[Slot]:
    kind, content = item.get("type") or "message", item.get("content")
    if kind != "message":
        yield Slot((), kind, item)
    elif not isinstance(item.get("role"), str):
        raise MalformedError("it has neither a type nor a role", remedy="give an input item or a message with a role")
    elif isinstance(content, str):
        yield Slot(("content",), item["role"], content)
    else:
        for index, block in enumerate(listed(content, "content")):
            yield Slot(("content", index), item["role"], block if isinstance(block, str) else plain(block))


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    if slot.path:
        return block_parts(slot.value, is_user=slot.kind == "user")
    if slot.kind in CALL_TYPES:
        return (_call(slot.value, pairing, message_id),)
    if slot.kind == "reasoning":
        return (_reasoning(slot.value),)
    if slot.kind in BOUND_TYPES:
        return (TextPart(COMPACTED_TEXT, synthetic=True), _reasoning(slot.value))
    return (result(slot.value, pairing),) if slot.kind in _ANSWERS else opaque(slot.value)


COMPACTED_TEXT = "[earlier messages, compacted by the provider]"
"""Stands beside a compaction item's sealed content, so that its message is never taken for an empty one."""

_ANSWERS = frozenset(f"{call}_output" for call in CALL_TYPES)


def _reasoning(item: Item) -> ReasoningPart:
    texts = [plain(block) for field in ("content", "summary") for block in listed(item.get(field), field)]
    return ReasoningPart(lines(text_field(text, "text") for text in texts), provider_text(item))


def _call(item: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    kind = item["type"]
    field = CALL_TYPES[kind]
    value = item.get(field, item.get("actions"))  # a newer computer tool asks for several at once
    tool = text_field(item, "name") or kind.removesuffix("_call")
    arguments = json_text({"input": value}) if field == "input" else arguments_of(value)
    return ToolCallPart(pairing.call(id_field(item, "call_id", "id"), tool, message_id), tool, arguments)


def _replaced(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    if not any(parts):
        return GONE
    if slot.path:
        return _replaced_text(slot, left_text(parts))
    if slot.kind in CALL_TYPES:
        return _replaced_call(slot.value, parts[0])
    if slot.kind not in _ANSWERS:
        return slot.value
    is_orphan = isinstance(parts[0], TextPart)
    return _retold(slot, left_text(parts)) if is_orphan else replaced_result(slot.value, parts[0])


def _retold(slot: Slot, text: str) -> Item:
    """Text for a medium or a result; a result in words is a message of its own."""
    return {"type": "input_text", "text": text} if slot.path else {"role": "user", "content": text}


def _replaced_text(slot: Slot, text: str) -> Any:
    """Text with other text; a user's block that infold has no reading for becomes text, a model's stays whole."""
    value = slot.value
    if not text:
        return GONE
    if isinstance(value, str):
        return text
    if "refusal" in value:
        return {**value, "refusal": text}
    is_unread = "text" not in value and slot.kind != "assistant"
    return _retold(slot, text) if is_unread else {**value, "text": text} if "text" in value else value


def _replaced_call(item: Item, part: Part | None) -> Item:
    field, text = CALL_TYPES[item["type"]], left_text((part,))
    if field == "arguments":
        return {**item, field: text}
    return {**item, field: unpacked_input(part) if field == "input" else parsed_arguments(text)}


def _tidied(item: Item) -> Item | None:
    return item if item.get("content") else None


_CODEC = Codec(slots=_slots, parts=_parts, replaced=_replaced, retold=_retold, tidied=_tidied, new=encode_new)
