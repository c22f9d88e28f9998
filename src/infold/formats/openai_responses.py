"""OpenAI Responses input items.

A model's turn is several items here: neighbours from the model form one message, and so do neighbouring outputs of
tools. Reasoning items are bound to the items after them, so a message with one is signed. Compaction items are
opaque provider data.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from infold.core.ledger import SUMMARY_STATE, TOOL_STATE
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Finish,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    ResultStatus,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    results_of,
)
from infold.core.policy import LARGEST_TOKENS
from infold.formats.codec import (
    GONE,
    NO_OWN_ITEMS,
    Codec,
    Decoded,
    Item,
    MalformedError,
    NewMessage,
    Origins,
    OwnItems,
    Slot,
    arguments_object,
    arguments_text,
    as_dict,
    block_list,
    block_parts,
    content_slots,
    count,
    custom_input,
    decode_item,
    dict_or_empty,
    dicts_in,
    encode_like,
    encode_view,
    error_at,
    finish_named,
    follow_items,
    id_field,
    join_lines,
    json_text,
    opaque_parts,
    opaque_value,
    openai_usage,
    provider_value,
    read_result,
    remaining_text,
    replace_content,
    require_list,
    result_or_text,
    text_field,
    text_of_parts,
    visible_parts,
)
from infold.formats.harness_text import state_of
from infold.formats.media import file_part, has_address, is_image, is_pdf, media_label
from infold.formats.pairing import OpenCall, Pairing
from infold.formats.streams import DeltaKind, Emit, ReplyBuilder, append_text, index_or_none, join_pieces

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
"""Calls the caller has to answer, and the field that holds their arguments."""


TOOL_TYPES = ("mcp_approval_response",)
"""Items from the caller's tools that are not called outputs."""


BLOCK_TYPES = ("input_text", "output_text", "input_image", "input_file")


SUMMARY_TYPES = ("compaction", "compaction_summary", "context_compaction")
"""Summaries that the provider wrote for the client."""


BOUND_TYPES = ("reasoning", *SUMMARY_TYPES)
"""Items whose content only the provider can read."""


SYSTEM_ROLES = ("system", "developer")


OWN_TYPES = ("message", "item_reference", *BOUND_TYPES)
"""Types of blocks and items that no other format has; those of calls and outputs are recognised by their ending."""


class _Input(NamedTuple):
    place: int
    side: Side
    source: object
    item: Item


def looks_like(items: Sequence[object]) -> bool:
    """Return whether an item or block is of a type that only this format has."""
    plains = map(as_dict, items)
    return any(_is_own(item) for item in plains if "type" in item or type(item.get("content")) is not str)


def _is_own(item: Item) -> bool:
    kind, content = item.get("type"), item.get("content")
    if isinstance(content, list | tuple):
        return any(not isinstance(block, str) and as_dict(block).get("type") in BLOCK_TYPES for block in content)
    return kind in OWN_TYPES or (isinstance(kind, str) and kind.endswith(("_call", "_output")))


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Decode input items to core messages; raise `BrokenInput` for an item of a wrong type."""
    require_list(NAME, items)
    pairs = pairing or Pairing()
    messages: list[Message] = []
    sources: list[tuple[object, ...]] = []
    inputs = [_read_input(index, source) for index, source in enumerate(items)]
    for (side, _), run in groupby(inputs, key=_group):
        group, message_id = list(run), MessageId(f"m{first + len(messages)}")
        parts = tuple([part for given in group for part in _decode_parts(given, message_id, pairs)])
        messages.append(_MESSAGES[side](message_id, parts))
        sources.append(tuple([given.source for given in group]))
    return Decoded(NAME, tuple(messages), tuple(sources), dict(pairs.aliases))


def encode(
    view: Sequence[Message],
    decoded: Decoded,
    origins: Origins | None = None,
    own: OwnItems = NO_OWN_ITEMS,
) -> list[object]:
    """Return the view as input items; untouched ones are the caller's own objects."""
    items = encode_view(_CODEC, view, decoded, origins=origins, own=own)
    known = {message.id for message in decoded.messages}
    made = [message for message in view if message.id not in known]
    if not made:
        return items
    answered = {decoded.aliases.get(part.call_id) or part.call_id for message in made for part in results_of(message)}
    matched = _match_outputs(items, decoded)
    moved = list(_order_outputs(matched, answered)) if answered else matched
    if origins is not None:
        origins[:] = follow_items(items, origins, moved)
    return moved


def _read_input(index: int, source: object) -> _Input:
    try:
        item = source if type(source) is dict else as_dict(source)
    except MalformedError as problem:
        raise error_at(NAME, index, problem) from problem
    return _Input(index, _side(item), source, item)


def _side(item: Item) -> Side:
    """Return who an item is from; unknown items are taken for the model's."""
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" or (kind is None and role):
        return "system" if role in SYSTEM_ROLES else "assistant" if role == "assistant" else "user"
    if kind in TOOL_TYPES or str(kind).endswith("_output"):
        return "tool"
    return "system" if role in SYSTEM_ROLES else "assistant"


def _group(given: _Input) -> tuple[Side, int]:
    """Return the group of an item: neighbours of the model's or the tools' side are one, each other item is one by itself."""
    return given.side, 0 if given.side in ("assistant", "tool") else given.place


_MESSAGES: dict[Side, NewMessage] = {
    "assistant": AssistantMessage,
    "tool": ToolMessage,
    "system": SystemMessage,
    "user": UserMessage,
}


def _decode_parts(given: _Input, message_id: MessageId, pairing: Pairing) -> tuple[Part, ...]:
    try:
        return decode_item(_CODEC, given.item, pairing, message_id)
    except MalformedError as problem:
        raise error_at(NAME, given.place, problem) from problem


def _slots(item: Item) -> Iterator[Slot]:
    kind, content = item.get("type") or "message", item.get("content")
    if kind != "message":
        yield Slot((), kind, item)
    elif not isinstance(item.get("role"), str):
        raise MalformedError("it has neither a type nor a role", remedy="give an input item or a message with a role")
    elif isinstance(content, str):
        yield Slot(("content",), item["role"], content)
    else:
        yield from content_slots(item, item["role"])


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    if slot.path:
        parts = block_parts(slot.value, _medium, is_user=slot.kind == "user")
        return tuple(map(_with_state, parts)) if slot.kind in SYSTEM_ROLES else parts
    if slot.kind in CALL_TYPES:
        return (_call(slot.value, pairing, message_id),)
    if slot.kind == "reasoning":
        return (_reasoning(slot.value),)
    if slot.kind in SUMMARY_TYPES:
        return (ReasoningPart("", json_text(slot.value), (SUMMARY_STATE,)),)
    if slot.kind == "additional_tools":
        return (_added_tools(slot.value),)
    return (_result(slot.value, pairing),) if slot.kind in _ANSWERS else opaque_parts(slot.value)


def _with_state(part: Part) -> Part:
    """Return a part of a system message with what its text sets."""
    state = state_of(part.text) if isinstance(part, TextPart) and not part.opaque else ()
    return replace(part, state=state) if isinstance(part, TextPart) and state else part


def _added_tools(item: Item) -> TextPart:
    names = [text_field(tool, "name") or json_text(tool) for tool in dicts_in(item.get("tools"))]
    state = tuple(f"{TOOL_STATE}{name}" for name in names) or (TOOL_STATE,)
    return TextPart(json_text(item), synthetic=True, opaque=True, state=state)


_ANSWERS = frozenset(f"{call}_output" for call in CALL_TYPES)


def _reasoning(item: Item) -> ReasoningPart:
    texts = [as_dict(block) for field in ("content", "summary") for block in block_list(item.get(field), field)]
    return ReasoningPart(join_lines(text_field(text, "text") for text in texts), json_text(item))


def _call(item: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    kind = item["type"]
    field = CALL_TYPES[kind]
    value = item.get(field, item.get("actions"))  # a newer computer tool asks for several at once
    tool = text_field(item, "name") or kind.removesuffix("_call")
    arguments = json_text({"input": value}) if field == "input" else arguments_text(value)
    return ToolCallPart(pairing.open_call(id_field(item, "call_id", "id"), tool, message_id), tool, arguments)


def _replace(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    if not any(parts):
        return GONE
    if slot.path:
        return _replace_text(slot, remaining_text(parts))
    if slot.kind in CALL_TYPES:
        return _replace_call(slot.value, parts[0])
    if slot.kind not in _ANSWERS:
        return slot.value
    is_orphan = isinstance(parts[0], TextPart)
    return _as_text(slot, remaining_text(parts)) if is_orphan else _replace_result(slot.value, parts[0])


def _as_text(slot: Slot, text: str) -> Item:
    """Return text for a medium or a result; a result as text is a message of its own."""
    return {"type": "input_text", "text": text} if slot.path else {"role": "user", "content": text}


def _replace_text(slot: Slot, text: str) -> Any:
    """Return text with other text; a user's block of an unknown kind becomes text, a model's stays whole."""
    value = slot.value
    if not text:
        return GONE
    if isinstance(value, str):
        return text
    if "refusal" in value:
        return {**value, "refusal": text}
    is_unread = "text" not in value and slot.kind != "assistant"
    return _as_text(slot, text) if is_unread else {**value, "text": text} if "text" in value else value


def _replace_call(item: Item, part: Part | None) -> Item:
    field, text = CALL_TYPES[item["type"]], remaining_text((part,))
    if field == "arguments":
        return {**item, field: text}
    return {**item, field: custom_input(part) if field == "input" else arguments_object(text)}


def _tidy(item: Item) -> Item | None:
    return item if item.get("content") else None


def _result(item: Item, pairing: Pairing) -> Part:
    """Return a tool's result, from any kind of output."""
    call = pairing.take_call(id_field(item, "call_id"), id_field(item, "id"))
    output = item.get("output")
    if item["type"] == "shell_call_output":
        return _shell_result(block_list(output, "output"), call)
    content = [output] if isinstance(output, dict) else output
    status: ResultStatus = "error" if item.get("status") == "failed" else "completed"
    return read_result(call, content, _medium, what="output", status=status)


def _shell_result(runs: Sequence[object], call: OpenCall | None) -> Part:
    """Return the output of several commands; the last exit status is the result's."""
    printed = [as_dict(run) for run in runs]
    codes = [as_dict(run.get("outcome") or {}).get("exit_code") for run in printed]
    code = codes[-1] if codes and isinstance(codes[-1], int) else None
    output = join_lines(text_field(run, stream) for run in printed for stream in ("stdout", "stderr"))
    return result_or_text(call, output, exit_status=code)


def _medium(block: Item) -> tuple[Part, ...]:
    reference = text_field(block, "image_url", "file_data", "file_url", "file_id")
    match block.get("type"):
        case "input_image" | "computer_screenshot":
            detail = text_field(block, "detail")
            return (file_part("openai", "image/*", reference=reference, detail=detail),)
        case "input_file":
            name = text_field(block, "filename")
            return (file_part("openai", "application/pdf", reference=reference, name=name),)
        case "input_audio":
            sound = as_dict(block.get("input_audio") or {})
            kind = f"audio/{text_field(sound, 'format') or 'wav'}"
            return (file_part("openai", kind, data=text_field(sound, "data")),)
        case _:
            return opaque_parts(block)


def _replace_result(item: Item, part: Part | None) -> Item:
    """Return an output item with other text, and without media that the part no longer has."""
    output = item.get("output")
    if item["type"] == "shell_call_output":
        last = as_dict(output[-1]) if output else {"outcome": {"type": "exit", "exit_code": 0}}
        return {**item, "output": [{**last, "stdout": remaining_text((part,)), "stderr": ""}]}
    if isinstance(output, dict):
        return item if isinstance(part, ToolResultPart) and part.files else {**item, "output": _blank(output)}
    return {**item, "output": replace_content(output, part, _medium, text_type="input_text")}


def _blank(screenshot: Item) -> Item:
    """Return a blank screenshot: a computer's output has to be an image, so the smallest replaces one that was pruned."""
    return {**{key: value for key, value in screenshot.items() if key != "file_id"}, "image_url": BLANK_IMAGE}


BLANK_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)


# Messages of infold's own.


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Return items for a message of infold's own: one for each call and result, one for all text.

    In a reply each run of text is an item, and all are in order: an item of reasoning is bound to the one after it.
    """
    ids = aliases or {}
    parts = visible_parts(message)
    if isinstance(message, AssistantMessage):
        runs = groupby(parts, key=lambda part: isinstance(part, TextPart) and not _is_item(opaque_value(part)))
        return [item for is_text, run in runs for item in (_said(run) if is_text else _items_of(run, ids))]
    told = tuple(part for part in parts if not _is_item(opaque_value(part)))
    content = _with_media(text_of_parts(told), [part for part in told if isinstance(part, FilePart)])
    role = "system" if isinstance(message, SystemMessage) else "user"
    return [*_items_of(parts, ids), *([{"role": role, "content": content}] if content else [])]


def _said(parts: Iterable[Part]) -> list[Item]:
    text = text_of_parts(parts)
    return [{"role": "assistant", "content": text}] if text else []


def _items_of(parts: Iterable[Part], ids: Mapping[str, str]) -> list[Item]:
    return [item for part in parts for item in _new_items(part, ids)]


def _new_items(part: Part, ids: Mapping[str, str]) -> list[Item]:
    match part:
        case ToolCallPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [{"type": "function_call", "call_id": call_id, "name": part.tool, "arguments": part.arguments}]
        case ToolResultPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [
                {"type": "function_call_output", "call_id": call_id, "output": _with_media(part.output, part.files)}
            ]
        case ReasoningPart():
            value = provider_value(part)
            return [value] if isinstance(value, dict) and value.get("type") in BOUND_TYPES else []
        case _:
            value = opaque_value(part)
            return [value] if _is_item(value) else []


def _is_item(value: Item) -> bool:
    """Return whether an opaque block is an item of its own; blocks inside a message have types with other prefixes."""
    return "type" in value and not str(value["type"]).startswith(("input_", "output_"))


def _with_media(text: str, files: Sequence[FilePart]) -> str | list[Item]:
    """Return text alone as text; media whose bytes or address are available make a list of blocks."""
    media = {place: block for place, file in enumerate(files) if (block := _new_medium(file)) is not None}
    text = join_lines([text, *(media_label(file) for place, file in enumerate(files) if place not in media)])
    return [*([{"type": "input_text", "text": text}] if text else []), *media.values()] if media else text


def _new_medium(file: FilePart) -> Item | None:
    if is_image(file) or has_address(file):
        return {"type": "input_image", "detail": "auto", "image_url": file.reference}
    if is_pdf(file):
        return {"type": "input_file", "filename": file.name or "attached.pdf", "file_data": file.reference}
    return None


# Each kind of call wants its own kind of output; a new result knows only the call's id.


def _match_outputs(items: list[object], decoded: Decoded) -> list[object]:
    """Return the items with each of infold's own results as the kind of output that its call wants."""
    theirs = {id(source) for sources in decoded.sources for source in sources}
    plains = [as_dict(item) for item in items]
    kinds = {id_field(item, "call_id"): text_field(item, "type") for item in plains if _is_other_call(item)}
    return [
        given if id(given) in theirs or output is item else encode_like(given, output)
        for given, item in zip(items, plains, strict=True)
        for output in (_matching_output(item, kinds),)
    ]


def _order_outputs(items: Iterable[object], own: Set[str]) -> Iterator[object]:
    """Yield the items with neighbouring outputs in the order of their calls, if one of them is infold's own."""
    calls: dict[str, int] = {}
    for is_output, run in groupby(items, key=_is_output):
        together = list(run)
        answered = [id_field(as_dict(item), "call_id", "id") for item in together]
        if not is_output:
            calls |= {call_id: len(calls) + place for place, call_id in enumerate(answered)}
        elif not own.isdisjoint(answered):
            together.sort(key=lambda item: calls.get(id_field(as_dict(item), "call_id", "id"), len(calls)))
        yield from together


def _is_output(item: object) -> bool:
    return text_field(as_dict(item), "type").endswith("_output")


def _is_other_call(item: Item) -> bool:
    kind = text_field(item, "type")
    return kind.endswith("_call") and kind != "function_call" and "call_id" in item


def _matching_output(item: Item, kinds: Mapping[str, str]) -> Item:
    kind = kinds.get(id_field(item, "call_id"))
    if kind is None or item.get("type") != "function_call_output":
        return item
    call_id, output = item["call_id"], _text_of(item["output"])
    match kind:
        case "shell_call":
            run = {"stdout": output, "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
            return {"type": "shell_call_output", "call_id": call_id, "output": [run]}
        case "apply_patch_call":
            return {"type": "apply_patch_call_output", "call_id": call_id, "status": "failed", "output": output}
        case "computer_call":
            screenshot = {"type": "computer_screenshot", "image_url": BLANK_IMAGE}
            return {"type": "computer_call_output", "call_id": call_id, "output": screenshot}
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": call_id, "output": output}
        case _:
            return {"type": f"{kind}_output", "call_id": call_id, "output": output}


def _text_of(output: str | list[Item]) -> str:
    """Return an output as text, for calls whose output takes no media."""
    return output if isinstance(output, str) else join_lines(text_field(block, "text") for block in output)


_CODEC = Codec(slots=_slots, parts=_parts, replace=_replace, as_text=_as_text, tidy=_tidy, encode_new=encode_new)


# Requests.


_COMPACTED_WITH = (
    "model",
    "instructions",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
)
"""Fields of a request that the endpoint for compaction takes too."""


def native_body(body: Mapping[str, Any], items: Sequence[object]) -> Item:
    """Return the request by which the provider compacts these first items of an ordinary request."""
    return {**{field: body[field] for field in _COMPACTED_WITH if field in body}, "input": list(items)}


def native_messages(body: object) -> tuple[Message, ...]:
    """Return the messages by which the provider compacted a history, which only it can read; empty if it did not."""
    items = dicts_in(dict_or_empty(body).get("output"))
    is_compacted = any(item.get("type") == "compaction" and item.get("encrypted_content") for item in items)
    return decode(items).messages if is_compacted else ()


def summary_fields(body: Mapping[str, Any], output_tokens: int, *, has_tools: bool) -> Item:
    """Return what a request for a summary says about its answer: at most so long, not stored, and no calls."""
    field = "max_tokens" if "max_tokens" in body else "max_output_tokens"
    return {field: output_tokens, "store": False, **({"tool_choice": "none"} if has_tools else {})}


def with_system(system: str, items: list[Any]) -> Item:
    """Return the fields of a request with this system prompt and these messages."""
    return {"instructions": system, "input": items}


def tool_item(name: str, description: str, parameters: Item) -> Item:
    """Return one tool as an entry of a request's `tools`; strict where the schema allows it, which the provider would try."""
    tool = {"type": "function", "name": name, "description": description, "parameters": parameters}
    return {**tool, "strict": _is_closed(parameters)}


_STRICT = frozenset({"type", "description", "properties", "required", "additionalProperties", "items", "enum", "anyOf"})
"""What a strict schema may use; in one every object is closed and every property required."""


def _is_closed(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _STRICT:
        return False
    properties = schema.get("properties") or {}
    is_object = "properties" in schema or schema.get("type") == "object"
    if is_object and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != {*properties}
    ):
        return False
    inner = [*properties.values(), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return all(map(_is_closed, inner))


def tool_names(tool: Item, recall: str) -> Iterator[str]:
    """Yield a tool's name, those of a namespace, and for an MCP server that the provider calls, the name of `recall` there."""
    yield text_field(tool, "name")
    for inner in dicts_in(tool.get("tools")):
        yield f"{text_field(tool, 'name')}__{text_field(inner, 'name')}"
    allowed = tool.get("allowed_tools")
    names = allowed.get("tool_names") if isinstance(allowed, Mapping) else allowed
    if tool.get("type") == "mcp" and (not isinstance(names, list | tuple) or recall in names):
        yield f"{text_field(tool, 'server_label')}__{recall}"


# Replies.


def reply_items(body: object) -> list[object]:
    """Return the items a reply adds to the history."""
    output = dict_or_empty(body).get("output")
    return [*output] if isinstance(output, list | tuple) else []


def is_reply(body: object) -> bool:
    """Return whether a body is a reply of this format, be it an empty one."""
    return isinstance(dict_or_empty(body).get("output"), list | tuple)


def edited_from(body: Mapping[str, Any]) -> int | None:
    """Return the tokens from which on the provider compacts the history; `None` if `context_management` asks for more.

    The provider's own threshold is not documented: without one in the request, only the window counts.
    """
    given = body["context_management"]
    entries = dicts_in(given)
    is_known = isinstance(given, list | tuple) and all(entry.get("type") == "compaction" for entry in entries)
    if not is_known or len(entries) < len(given):
        return None
    return max((count(entry, "compact_threshold") or LARGEST_TOKENS for entry in entries), default=0)


def usage(body: object) -> Usage | None:
    """Return the usage of a reply: input and output include what their details list apart."""
    return openai_usage(body, "input", "output")


def finish(body: object) -> Finish | None:
    """Return why a response ended: its status, unless its output or details say more."""
    reply = dict_or_empty(body)
    reply = dict_or_empty(reply.get("response")) or reply
    status = reply.get("status")
    if status == "incomplete":
        return finish_named(dict_or_empty(reply.get("incomplete_details")).get("reason")) or "other"
    if status != "completed":
        return None if status in (None, "queued", "in_progress") else finish_named(status)
    has_calls = any(str(item.get("type")) in CALL_TYPES for item in dicts_in(reply.get("output")))
    return "tool-calls" if has_calls else "stop"


# Streams.


LIFE = frozenset({"response.created", "response.queued", "response.in_progress"})
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
"""Events that hold the response as it is; the latter end it."""


class _Text(NamedTuple):
    """Where a stream's text goes: the field that grows, the list of blocks it is in, if any, and the kind of delta it is."""

    item_type: str
    field: str
    blocks: str = ""
    block_type: str = ""
    delta: DeltaKind | None = None


TEXTS = {
    "response.output_text": _Text("message", "text", "content", "output_text", "text"),
    "response.refusal": _Text("message", "refusal", "content", "refusal", "text"),
    "response.reasoning_text": _Text("reasoning", "text", "content", "reasoning_text", "reasoning"),
    "response.reasoning_summary_text": _Text("reasoning", "text", "summary", "summary_text", "reasoning"),
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

    def gathered(self) -> Item:
        """Return the item so far."""
        lists = {name: [blocks[index] for index in sorted(blocks)] for name, blocks in self.blocks.items()}
        return dict_or_empty(join_pieces({**self.item, **lists}))


class ResponsesReply:
    """Gathers a response: the last event holds all of it; before that, and where its output is empty, items do."""

    def __init__(self) -> None:
        self._response: Item = {}
        self._outputs: dict[int, _Output] = {}
        self.is_finished = False

    def take(self, kind: str, event: Item, emit: Emit) -> None:
        """Add an event; one that adds nothing to a response is ignored."""
        index = index_or_none(event.get("output_index"))
        stem, _, change = kind.rpartition(".")
        if kind in LIFE or kind in ENDS:
            self._response |= dict_or_empty(event.get("response"))
            self.is_finished = self.is_finished or kind in ENDS
        elif index is None:
            return
        elif stem == "response.output_item":
            if item := dict_or_empty(event.get("item")):
                self._outputs[index] = _Output(item)
            if change == "added" and item.get("type") in ("function_call", "custom_tool_call"):
                emit("call", item.get("name"))
        elif stem in PARTS:
            self._take_part(index, PARTS[stem], event)
        elif stem in TEXTS:
            self._take_text(index, TEXTS[stem], event, emit if change == "delta" else None)

    def reply(self) -> Item | None:
        """Return the response so far, `None` before its first event."""
        if not self._response and not self._outputs:
            return None
        complete = dicts_in(self._response.get("output")) if self.is_finished else []
        gathered = [self._outputs[index].gathered() for index in sorted(self._outputs)]
        return {"object": "response", **self._response, "output": complete or gathered}

    def _take_part(self, index: int, blocks: str, event: Item) -> None:
        place = index_or_none(event.get(INDEXES[blocks]))
        output, part = self._outputs.get(index), dict_or_empty(event.get("part"))
        if output is not None and place is not None and part:
            output.blocks.setdefault(blocks, {})[place] = {**part}

    def _take_text(self, index: int, text: _Text, event: Item, emit: Emit | None) -> None:
        """Add a piece of text, or set all of it: the event that ends a text repairs what was lost of it."""
        holder = self._holder(index, text, event)
        if emit is not None:
            append_text(holder, text.field, event.get("delta"))
            if text.delta is not None:
                emit(text.delta, event.get("delta"))
        elif isinstance(event.get(text.field), str):
            holder[text.field] = event[text.field]

    def _holder(self, index: int, text: _Text, event: Item) -> Item:
        """Return the object whose text grows; an item or block whose first event was lost begins here."""
        role: Item = {"role": "assistant"} if text.item_type == "message" else {}
        begun: Item = {"type": text.item_type, "id": event.get("item_id"), **role}
        output = self._outputs.setdefault(index, _Output(begun))
        if not text.blocks:
            return output.item
        place = index_or_none(event.get(INDEXES[text.blocks])) or 0
        return output.blocks.setdefault(text.blocks, {}).setdefault(place, {"type": text.block_type})


def new_builder() -> ReplyBuilder:
    """Return a builder for one streamed reply."""
    return ReplyBuilder(ResponsesReply(), last_events=ENDS)
