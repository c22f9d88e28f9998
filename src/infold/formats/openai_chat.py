"""OpenAI Chat Completions messages, with the fields compatible servers add.

One item is one message. An assistant message has several fields; their order here is reasoning, content, refusal, calls.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Finish,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
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
    arguments_text,
    as_dict,
    block_list,
    block_parts,
    content_slots,
    custom_input,
    decode_each,
    decode_item,
    dict_or_empty,
    dicts_in,
    encode_view,
    finish_named,
    id_field,
    join_lines,
    json_text,
    opaque_parts,
    openai_usage,
    provider_value,
    read_result,
    remaining_text,
    replace_content,
    replace_surrogates,
    result_or_text,
    text_field,
    text_of_parts,
    user_parts,
    visible_parts,
)
from infold.formats.media import (
    file_part,
    has_address,
    is_image,
    is_pdf,
    media_label,
    output_with_labels,
    parse_data_url,
)
from infold.formats.pairing import Pairing, name_key
from infold.formats.streams import Emit, IndexedEntries, ReplyBuilder, join_pieces, merge

NAME = "openai-chat"

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
"""The reasoning of compatible servers; if several hold it, the first has the text."""


def looks_like(items: Sequence[object]) -> bool:
    """Return whether these could be chat messages; plain user and assistant text could be other formats' too.

    If all of their content is blocks without a type, they are Bedrock's.
    """
    plains = [as_dict(item) for item in items]
    is_untyped = all(
        isinstance(blocks, list) and blocks and all(isinstance(block, dict) and "type" not in block for block in blocks)
        for blocks in (item.get("content") for item in plains)
    )
    return not is_untyped and all(map(ROLES.__contains__, [item.get("role") for item in plains]))


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Decode chat messages to core messages; raise `BrokenInput` for an item of a wrong type."""
    return decode_each(NAME, items, _message, first=first, pairing=pairing)


def encode(
    view: Sequence[Message],
    decoded: Decoded,
    origins: Origins | None = None,
    own: OwnItems = NO_OWN_ITEMS,
) -> list[object]:
    """Return the view as chat messages; untouched ones are the caller's own objects."""
    return encode_view(_CODEC, view, decoded, origins=origins, own=own)


def _message(item: Item, message_id: MessageId, pairing: Pairing) -> Message:
    role, content = item.get("role"), item.get("content")
    if role == "user" and type(content) is str:
        return UserMessage(message_id, pairing.harness_text.mark(user_parts(content), message_id, is_user=True))
    if not isinstance(role, str):
        raise MalformedError("it has no role", remedy=f"give a role, one of {', '.join(ROLES)}")
    parts = plain_parts(item, role, pairing, message_id)
    parts = pairing.harness_text.mark(parts, message_id, is_user=False) or decode_item(
        _CODEC, item, pairing, message_id
    )
    return _MESSAGES.get(role, UserMessage)(message_id, parts)


_MESSAGES: dict[str, NewMessage] = {
    "assistant": AssistantMessage,
    "tool": ToolMessage,
    "function": ToolMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
}


def _slots(item: Item) -> Iterator[Slot]:
    role = item["role"]
    if role not in ROLES:
        yield Slot((), "opaque", item)
    elif role in ("tool", "function"):
        yield Slot((), "result", item)
    elif role == "assistant":
        yield from _reply_slots(item)
    else:
        yield from content_slots(item, "user" if role == "user" else "text")


def _reply_slots(item: Item) -> Iterator[Slot]:
    fields = [field for field in REASONING_FIELDS if item.get(field)]
    for field in fields:
        yield Slot((field,), "reasoning" if field == fields[0] else "reasoning-again", item[field])
    yield from content_slots(item, "text")
    if item.get("refusal"):
        yield Slot(("refusal",), "text", item["refusal"])
    for index, call in enumerate(block_list(item.get("tool_calls"), "tool_calls")):
        yield Slot(("tool_calls", index), "call", as_dict(call))
    if item.get("function_call"):
        yield Slot(("function_call",), "legacy-call", as_dict(item["function_call"]))
    if item.get("audio"):
        yield Slot(("audio",), "audio", {"type": "audio", "audio": as_dict(item["audio"])})


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    value = slot.value
    match slot.kind:
        case "call":
            return (_call(value, pairing, message_id),)
        case "legacy-call":
            return (_call({"function": value}, pairing, message_id),)
        case "result":
            return (_result(value, pairing),)
        case "reasoning" | "reasoning-again":
            text = _reasoning_text(value) if slot.kind == "reasoning" else ""
            return (ReasoningPart(text, _signature(value)),)
        case "opaque":
            return opaque_parts(value)
        case _:
            return block_parts(value, _medium, is_user=slot.kind == "user")


def _medium(block: Item) -> tuple[Part, ...]:
    inner = block.get(str(block.get("type")))
    if not isinstance(inner, dict):
        return opaque_parts(block)
    match block["type"]:
        case "image_url":
            url, detail = text_field(inner, "url"), text_field(inner, "detail")
            return (file_part("openai", "image/*", reference=url, detail=detail),)
        case "input_audio":
            kind = f"audio/{text_field(inner, 'format') or 'wav'}"
            return (file_part("openai", kind, data=text_field(inner, "data")),)
        case "audio":
            return (file_part("openai", "audio/wav", reference=text_field(inner, "id")),)
        case "file":
            reference = text_field(inner, "file_data", "file_id")
            name = text_field(inner, "filename")
            return (file_part("openai", "application/pdf", reference=reference, name=name),)
        case _:
            return opaque_parts(block)


def _reasoning_text(value: object) -> str:
    if isinstance(value, str):
        return replace_surrogates(value)
    return join_lines(text_field(as_dict(detail), "text", "summary") for detail in block_list(value, "reasoning"))


def _signature(value: object) -> str:
    """Return provider data if the wire has any: reasoning in blocks may be signed or encrypted."""
    return json_text(value) if value and not isinstance(value, str) else ""


def _call(call: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    body = as_dict(call.get("function") or call.get("custom") or {})
    name = text_field(body, "name")
    arguments = json_text({"input": body["input"]}) if "input" in body else arguments_text(body.get("arguments"))
    call_id = pairing.open_call(id_field(call, "id"), name, message_id)
    return ToolCallPart(call_id, name, arguments, _signature(call.get("extra_content")))


def _result(item: Item, pairing: Pairing) -> Part:
    call = pairing.take_call(id_field(item, "tool_call_id") or name_key(text_field(item, "name")))
    return read_result(call, item.get("content"), _medium)


def _replace(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    if not any(parts):
        return GONE
    match slot.kind:
        case "call":
            return _replace_call(slot.value, parts[0])
        case "legacy-call":
            return {**slot.value, "arguments": remaining_text(parts)}
        case "result":
            return _replace_result(slot, parts[0])
        case "audio":
            return slot.value["audio"]
        case _:
            return _replace_text(slot, remaining_text(parts))


def _as_text(slot: Slot, text: str) -> Any:
    """Return text for a medium or a result; a result as text becomes the user's."""
    if not slot.path:
        return {"role": "user", "content": text}
    return GONE if slot.kind == "audio" else {"type": "text", "text": text}


def _replace_call(call: Item, part: Part | None) -> Item:
    if "custom" in call:
        return {**call, "custom": {**as_dict(call["custom"]), "input": custom_input(part)}}
    return {**call, "function": {**as_dict(call["function"]), "arguments": remaining_text((part,))}}


def _replace_result(slot: Slot, part: Part | None) -> Item:
    """Return a result with other text; one without a call can only be text."""
    if isinstance(part, TextPart):
        return {"role": "user", "content": part.text}
    content = replace_content(slot.value.get("content"), part, _medium, text_type="text")
    return {**slot.value, "content": content}


def _replace_text(slot: Slot, text: str) -> Any:
    """Return a text slot with other text.

    A user's block of an unknown kind becomes text; a model's stays whole, since others may depend on it.
    """
    value = slot.value
    if not text:
        return GONE
    if isinstance(value, str):
        return text
    if "refusal" in value:
        return {**value, "refusal": text}
    if "text" in value:
        return {**value, "text": text}
    return _as_text(slot, text) if slot.kind in ("opaque", "user") else value


def _tidy(item: Item) -> Item | None:
    """Repair an item that lost slots: a reply may lack content if it has calls, no message may lack both."""
    copy = {key: value for key, value in item.items() if key != "tool_calls" or value}
    if copy.get("content") or copy.get("refusal"):
        return copy
    if "tool_calls" in copy or "function_call" in copy or "audio" in copy:
        return {**copy, "content": None}
    return None


def plain_parts(item: Item, role: str, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    """Return the parts of an item in the plainest shape of its role, as most are; empty for any other, which slots read."""
    content = item.get("content")
    if role == "tool":
        call_id = item.get("tool_call_id")
        if type(content) is not str or type(call_id) is not str or not call_id:
            return ()
        return (result_or_text(pairing.take_call(replace_surrogates(call_id)), replace_surrogates(content)),)
    if role == "assistant" and "tool_calls" in item:
        return _plain_calls(item, content, pairing, message_id)
    is_plain = type(content) is str and content and len(item) == 2 and role in ROLES[:4]
    return (TextPart(replace_surrogates(content)),) if is_plain and isinstance(content, str) else ()


def _plain_calls(item: Item, content: object, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    calls = item["tool_calls"]
    if len(item) != 2 + ("content" in item) or type(calls) is not list or not all(map(_is_plain_call, calls)):
        return ()
    parts: list[Part] = [TextPart(replace_surrogates(content))] if type(content) is str and content else []
    if content and not parts:
        return ()
    for call in calls:
        function = call["function"]
        name = replace_surrogates(function["name"])
        call_id = pairing.open_call(replace_surrogates(call["id"]), name, message_id)
        parts.append(ToolCallPart(call_id, name, replace_surrogates(function["arguments"])))
    return tuple(parts)


def _is_plain_call(call: object) -> bool:
    if type(call) is not dict or len(call) != 3 or type(call.get("id")) is not str or "type" not in call:
        return False
    function = call.get("function")
    if type(function) is not dict or len(function) != 2 or type(function.get("name")) is not str:
        return False
    return type(function.get("arguments")) is str


# Messages of infold's own.


_SOUND = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
"""The audio types that a request may hold, and their names there."""


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Return items for a message of infold's own; several results make several items."""
    ids = aliases or {}
    parts = visible_parts(message)
    if isinstance(message, AssistantMessage):
        return _new_reply(parts, ids)
    results = [_new_result(part, ids) for part in parts if isinstance(part, ToolResultPart)]
    files = [part for part in parts if isinstance(part, FilePart)]
    media = {place: block for place, file in enumerate(files) if (block := _new_medium(file)) is not None}
    labels = [media_label(file) for place, file in enumerate(files) if place not in media]
    text = join_lines([text_of_parts(parts), *labels])
    content = [{"type": "text", "text": text or "Attached:"}, *media.values()] if media else text
    role = "system" if isinstance(message, SystemMessage) else "user"
    return [*results, *([{"role": role, "content": content}] if content else [])]


def _new_reply(parts: tuple[Part, ...], ids: Mapping[str, str]) -> list[Item]:
    calls = [_new_call(part, ids) for part in parts if isinstance(part, ToolCallPart)]
    text = text_of_parts(parts)
    if not calls:
        return [{"role": "assistant", "content": text}] if text else []
    return [{"role": "assistant", "content": text or None, "tool_calls": calls}]


def _new_call(part: ToolCallPart, ids: Mapping[str, str]) -> Item:
    body = {"name": part.tool, "arguments": part.arguments}
    call = {"id": ids.get(part.call_id) or part.call_id, "type": "function", "function": body}
    signature = provider_value(part)
    return {**call, "extra_content": signature} if isinstance(signature, dict) else call


def _new_result(part: ToolResultPart, ids: Mapping[str, str]) -> Item:
    wire_id, output = ids.get(part.call_id, part.call_id), output_with_labels(part)
    if not wire_id:
        return {"role": "function", "name": part.tool, "content": output}
    return {"role": "tool", "tool_call_id": wire_id, "content": output}


def _new_medium(file: FilePart) -> Item | None:
    if is_image(file) or has_address(file):
        return {"type": "image_url", "image_url": {"url": file.reference}}
    if is_pdf(file):
        return {"type": "file", "file": {"filename": file.name or "attached.pdf", "file_data": file.reference}}
    found = parse_data_url(file.reference)
    sound = _SOUND.get(file.media_type)
    if found is None or sound is None:
        return None
    return {"type": "input_audio", "input_audio": {"data": found.data, "format": sound}}


_CODEC = Codec(slots=_slots, parts=_parts, replace=_replace, as_text=_as_text, tidy=_tidy, encode_new=encode_new)


# Requests.


def summary_fields(body: Mapping[str, Any], output_tokens: int, *, has_tools: bool) -> Item:
    """Return what a request for a summary says about its answer: at most so long, and no calls."""
    field = "max_tokens" if "max_tokens" in body else "max_completion_tokens"  # older servers know only the first
    return {field: output_tokens, **({"tool_choice": "none"} if has_tools else {})}


def with_system(system: str, items: list[Any]) -> Item:
    """Return the fields of a request with this system prompt and these messages."""
    return {"messages": [{"role": "system", "content": system}, *items]}


def tool_item(name: str, description: str, parameters: Item) -> Item:
    """Return one tool as an entry of a request's `tools`."""
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def tool_names(tool: Item, recall: str) -> Iterator[str]:
    """Yield the name of a tool."""
    del recall
    yield text_field(dict_or_empty(tool.get("function")), "name")
    yield text_field(tool, "name")


# Replies.


def reply_items(body: object) -> list[object]:
    """Return the items a reply adds to the history; one that holds no more than a role adds none."""
    message = _choice(body).get("message")
    is_empty = not any(value for name, value in dict_or_empty(message).items() if name != "role")
    return [] if is_empty else [message]


def is_reply(body: object) -> bool:
    """Return whether a body is a reply of this format, be it an empty one."""
    return isinstance(dict_or_empty(body).get("choices"), list | tuple)


def _choice(body: object) -> Item:
    return next(iter(dicts_in(dict_or_empty(body).get("choices"))), {})


def usage(body: object) -> Usage | None:
    """Return the usage of a reply: prompt and completion include what their details list apart."""
    return openai_usage(body, "prompt", "completion")


def finish(body: object) -> Finish | None:
    """Return why a reply ended, `None` while it has not."""
    return finish_named(_choice(body).get("finish_reason"))


# Streams.


APART = frozenset({"choices", "object", "obfuscation", "error", "type"})
"""Fields of a chunk that are not fields of the reply."""

LISTS = frozenset({"tool_calls", "reasoning_details"})
"""Fields of a delta whose entries grow by their index."""


class ChatReply:
    """Gathers the first choice of a reply; the usage is that of the last chunk that has one."""

    def __init__(self) -> None:
        self._fields: Item = {}
        self._choice: Item = {}
        self._message: Item = {}
        self._calls = IndexedEntries(_is_next_call)
        self._details = IndexedEntries(lambda held, piece: held.get("type") != piece.get("type", held.get("type")))

    @property
    def is_finished(self) -> bool:
        """Whether the choice has a finish reason."""
        return bool(self._choice.get("finish_reason"))

    def take(self, kind: str, event: Item, emit: Emit) -> None:
        """Add a chunk; anything else is ignored."""
        del kind
        choices = event.get("choices")
        if not isinstance(choices, list) and not dict_or_empty(event.get("usage")):
            return
        for field, value in event.items():
            if value is not None and field not in APART:
                self._fields[field] = value
        for choice in dicts_in(choices):
            if not choice.get("index"):
                self._take_choice(choice, emit)

    def reply(self) -> Item | None:
        """Return the reply so far, `None` before the first chunk."""
        if not self._fields and not self._choice:
            return None
        choices = [{"finish_reason": None, **self._choice, "message": self._gathered()}] if self._choice else []
        return {"object": "chat.completion", **self._fields, "choices": dict_or_empty(join_pieces({"": choices}))[""]}

    def _take_choice(self, choice: Item, emit: Emit) -> None:
        self._choice.setdefault("index", 0)
        self._take_delta(dict_or_empty(choice.get("delta") or choice.get("message")), emit)
        for field, value in choice.items():
            if value is None or field in ("index", "delta", "message"):
                continue
            if field != "logprobs":
                self._choice[field] = value
            elif dict_or_empty(value):
                merge(self._choice, {field: value})

    def _take_delta(self, delta: Item, emit: Emit) -> None:
        has_lists = not LISTS.isdisjoint(delta)
        merge(self._message, {field: delta[field] for field in delta if field not in LISTS} if has_lists else delta)
        if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
            emit("reasoning", reasoning)
        if content := delta.get("content"):
            _emit_content(content, emit)
        if refusal := delta.get("refusal"):
            emit("text", refusal)
        if not has_lists:
            return
        for call in dicts_in(delta.get("tool_calls")):
            entry = self._calls.entry_for(call)
            if not _call_name(entry):
                emit("call", _call_name(call))
            merge(entry, call)
        for detail in dicts_in(delta.get("reasoning_details")):
            merge(self._details.entry_for(detail), detail)

    def _gathered(self) -> Item:
        message: Item = {"role": "assistant", "content": None, **self._message}
        lists: dict[str, list[Any]] = {
            "reasoning_details": self._details.entries(),
            "tool_calls": [_complete_call(call) for call in self._calls.entries()],
        }
        return message | {field: entries for field, entries in lists.items() if entries}


def _emit_content(content: object, emit: Emit) -> None:
    """Emit text, or blocks of it: some servers send their thinking as blocks."""
    if isinstance(content, str):
        emit("text", content)
        return
    for block in dicts_in(content):
        emit("text", block.get("text"))
        thinking = block.get("thinking")
        emit("reasoning", thinking)
        for inner in dicts_in(thinking):
            emit("reasoning", inner.get("text"))


def _is_next_call(held: Item, piece: Item) -> bool:
    """Return whether a named piece is another call: it has another id, or no index to identify its call."""
    call_id = piece.get("id")
    has_other_id = bool(call_id and held.get("id")) and call_id != held.get("id")
    return bool(_call_name(piece)) and (has_other_id or "index" not in piece)


def _call_name(call: Item) -> object:
    return dict_or_empty(call.get("function")).get("name") or dict_or_empty(call.get("custom")).get("name")


def _complete_call(call: Item) -> Item:
    kind: Item = {"type": "function"} if "function" in call else {}
    return kind | {field: value for field, value in call.items() if field != "index" and value is not None}


def new_builder() -> ReplyBuilder:
    """Return a builder for one streamed reply."""
    return ReplyBuilder(ChatReply())
