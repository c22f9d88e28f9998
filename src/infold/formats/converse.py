"""Bedrock's Converse: one item is one message, its content blocks with one field each, which names their kind.

Roles alternate, so in a view that infold changed neighbours of one role are joined. Results must be in the user message after
their calls. Reasoning is signed and sent back untouched. A cache point is a block of its own that clients move on with each
request: it belongs to no part, and is left out only if nothing is left for it to follow. Media are bytes in the SDK, base64 on
the wire.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from infold.core.ledger import TOOL_STATE
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
)
from infold.formats import anthropic
from infold.formats.codec import (
    GONE,
    NO_OWN_ITEMS,
    Codec,
    Decoded,
    Item,
    MalformedError,
    Origins,
    OwnItems,
    Slot,
    arguments_object,
    arguments_text,
    as_dict,
    block_list,
    content_slots,
    count,
    decode_each,
    decode_item,
    dict_or_empty,
    dicts_in,
    encode_like,
    encode_view,
    finish_named,
    has_count,
    id_field,
    join_lines,
    json_text,
    opaque_parts,
    opaque_value,
    provider_value,
    read_result,
    remaining_text,
    replace_content,
    replace_surrogates,
    reported_usage,
    text_field,
    text_parts,
    visible_parts,
    with_user_first,
)
from infold.formats.media import file_part, media_label, parse_data_url
from infold.formats.pairing import Pairing
from infold.formats.streams import Emit, ReplyBuilder, TextPieces, append_text, index_or_none, join_pieces, join_text

NAME = "bedrock-converse"

ROLES = ("user", "assistant", "system")

CACHE_POINT = "cachePoint"

MEDIA = {"image": "image", "video": "video", "audio": "audio", "document": "application"}
"""Blocks with a medium, and how its type begins; the rest of the type is the block's `format`."""

DOCUMENT_TYPES = {"txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html"}
"""Types of documents that are not named after their format."""

BLOCKS = frozenset(
    {
        *("text", "toolUse", "toolResult", "reasoningContent", "citationsContent", "guardContent", "searchResult"),
        *("toolAddition", "toolRemoval", CACHE_POINT, *MEDIA),
    }
)


def looks_like(items: Sequence[object]) -> bool:
    """Return whether all content is blocks without a type, which no other format has."""
    blocks = [_blocks_of(as_dict(item)) for item in items]
    return bool(blocks) and all(blocks) and all(BLOCKS & block.keys() for found in blocks for block in found)


def _blocks_of(item: Item) -> list[Item]:
    content = item.get("content") if item.get("role") in ROLES else None
    blocks = [dict_or_empty(block) for block in content] if isinstance(content, list | tuple) else []
    return [] if any("type" in block for block in blocks) else blocks


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Decode messages to core messages; raise `BrokenInput` for an item of a wrong type."""
    return decode_each(NAME, items, _message, first=first, pairing=pairing)


def encode(
    view: Sequence[Message],
    decoded: Decoded,
    origins: Origins | None = None,
    own: OwnItems = NO_OWN_ITEMS,
) -> list[object]:
    """Return the view as messages; untouched ones are the caller's own objects."""
    items = encode_view(_CODEC, anthropic.place_state(with_user_first(view)), decoded, origins=origins, own=own)
    given = [source for sources in decoded.sources for source in sources]
    is_unchanged = len(items) == len(given) and all(map(is_, items, given)) and all(decoded.sources)
    return items if is_unchanged else alternate(items, origins)


def alternate(items: Sequence[object], origins: Origins | None = None) -> list[object]:
    """Return messages with neighbours of one role joined; of their origins the first is kept."""
    joined: list[Any] = []
    numbers: Origins = []
    for item, number in zip(items, origins or (None,) * len(items), strict=True):
        before = as_dict(joined[-2]) if len(joined) > 1 else {}
        together = _join_items(before, as_dict(joined[-1]), as_dict(item)) if joined else None
        if together is None:
            joined.append(item)
            numbers.append(number)
            continue
        joined[-1] = encode_like(joined[-1], together)
        numbers[-1] = number if numbers[-1] is None else numbers[-1]
    if origins is not None:
        origins[:] = numbers
    return joined


def _join_items(before: Item, first: Item, second: Item) -> Item | None:
    """Join two items of one role: in a user's, results first, in the order of the calls before; in a reply, reasoning first."""
    if first.get("role") != second.get("role"):
        return None
    blocks = [*_as_blocks(first.get("content")), *_as_blocks(second.get("content"))]
    calls = [
        id_field(dict_or_empty(block["toolUse"]), "toolUseId") for block in _blocks_of(before) if "toolUse" in block
    ]
    places = {call_id: place for place, call_id in enumerate(calls)}
    content = _without_leading_points(sorted(blocks, key=lambda block: _place(dict_or_empty(block), places)))
    return {**second, **first, "content": content}


def _as_blocks(content: object) -> Sequence[Any]:
    return [{"text": content}] if isinstance(content, str) else block_list(content, "content")


def _place(block: Item, places: Mapping[str, int]) -> int:
    if "reasoningContent" in block:
        return -1
    if "toolResult" not in block:
        return len(places) + 1
    return places.get(id_field(dict_or_empty(block["toolResult"]), "toolUseId"), len(places))


def _without_leading_points(blocks: list[Any]) -> list[Any]:
    """Return blocks without the cache points that follow nothing."""
    first = next((place for place, block in enumerate(blocks) if CACHE_POINT not in dict_or_empty(block)), len(blocks))
    return blocks[first:]


def _message(item: Item, message_id: MessageId, pairing: Pairing) -> Message:
    role = item.get("role")
    if not isinstance(role, str):
        raise MalformedError("it has no role", remedy=f"give a role, one of {', '.join(ROLES)}")
    parts = decode_item(_CODEC, item, pairing, message_id)
    if role == "assistant":
        return AssistantMessage(message_id, parts)
    if role == "system":
        return SystemMessage(message_id, parts)
    blocks = _blocks_of(item)
    is_all_results = any("toolResult" in block for block in blocks) and all(
        "toolResult" in block or CACHE_POINT in block for block in blocks
    )
    return ToolMessage(message_id, parts) if is_all_results else UserMessage(message_id, parts)


def _slots(item: Item) -> Iterator[Slot]:
    if item["role"] in ROLES:
        yield from content_slots(item, item["role"])
    else:
        yield Slot((), "opaque", item)


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    block, is_user = slot.value, slot.kind == "user"
    if CACHE_POINT in block and not isinstance(block, str):
        return ()
    text = block if isinstance(block, str) else None if slot.kind == "opaque" else _text_in(block)
    if text is not None:
        return text_parts(text, is_user=is_user)
    if slot.kind == "opaque":
        return opaque_parts(block)
    call, result = dict_or_empty(block.get("toolUse")), dict_or_empty(block.get("toolResult"))
    if call and "type" not in call:
        tool = text_field(call, "name")
        call_id = pairing.open_call(id_field(call, "toolUseId"), tool, message_id)
        return (ToolCallPart(call_id, tool, arguments_text(call.get("input"))),)
    if result and "type" not in result and slot.kind != "assistant":  # the others are of tools that the provider runs
        return (_result(result, pairing),)
    return _other(block)


def _text_in(block: Item) -> str | None:
    """Return the text of a block: its own, that which is guarded, or that which has citations; `None` for other blocks."""
    guarded = dict_or_empty(dict_or_empty(block.get("guardContent")).get("text")).get("text")
    cited = dict_or_empty(block.get("citationsContent")).get("content")
    text = block.get("text", guarded)
    if isinstance(cited, list | tuple):
        text = "".join(text_field(one, "text") for one in dicts_in(cited))
    return text if isinstance(text, str) else None


def _result(result: Item, pairing: Pairing) -> Part:
    call = pairing.take_call(id_field(result, "toolUseId"))
    status: ResultStatus = "error" if result.get("status") == "error" else "completed"
    return read_result(call, result.get("content"), _other, what="content of a toolResult", status=status)


def _other(block: Item) -> tuple[Part, ...]:
    """Return the parts of a block that is not text, in a message or inside a result."""
    if "json" in block:
        return (TextPart(json_text(block["json"])),)
    if "reasoningContent" in block:
        thought = dict_or_empty(dict_or_empty(block["reasoningContent"]).get("reasoningText"))
        return (ReasoningPart(text_field(thought, "text"), json_text(block)),)
    for holder in (block, dict_or_empty(block.get("guardContent"))):
        kind = next((kind for kind in MEDIA if dict_or_empty(holder.get(kind))), "")
        if kind:
            return (_medium(kind, as_dict(holder[kind])),)
    change = dict_or_empty(block.get("toolAddition") or block.get("toolRemoval"))
    return (_tool_change(block, dict_or_empty(change.get("tool"))),) if change else opaque_parts(block)


def _medium(kind: str, medium: Item) -> Part:
    """Return a medium; a document whose source is text is that text."""
    source = dict_or_empty(medium.get("source"))
    form, name, data = text_field(medium, "format"), text_field(medium, "name"), source.get("bytes")
    written = join_lines(text_field(one, "text") for one in (source, *dicts_in(source.get("content"))))
    if written:
        return TextPart(written, synthetic=True, document=name)
    return file_part(
        "anthropic",
        DOCUMENT_TYPES.get(form) or f"{MEDIA[kind]}/{form or '*'}",
        data=b64encode(data).decode() if isinstance(data, bytes | bytearray) else text_field(source, "bytes"),
        reference=text_field(dict_or_empty(source.get("s3Location")), "uri"),
        name=name,
    )


def _tool_change(block: Item, tool: Item) -> TextPart:
    server, name = text_field(tool, "serverName"), text_field(tool, "name")
    key = f"{TOOL_STATE}{f'{server}/{name}' if server else name or json_text(tool)}"
    return TextPart(json_text(block), synthetic=True, opaque=True, state=(key,))


def _replace(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    block, text = slot.value, remaining_text(parts)
    if not any(parts):
        return GONE
    if isinstance(block, str):
        return text if text.strip() else GONE
    if "toolUse" in block:
        return {**block, "toolUse": {**as_dict(block["toolUse"]), "input": arguments_object(text)}}
    if "toolResult" in block and isinstance(parts[0], ToolResultPart):
        result = as_dict(block["toolResult"])
        content = replace_content(result.get("content"), parts[0], _other, text_type="")
        return {**block, "toolResult": {**result, "content": content}}
    if not text.strip():
        return GONE
    return _replace_text(slot, text)


def _replace_text(slot: Slot, text: str) -> Any:
    """Return a block with other text. A user's block of another kind becomes text; a model's stays whole."""
    block = slot.value
    guarded, document = dict_or_empty(block.get("guardContent")), dict_or_empty(block.get("document"))
    if dict_or_empty(guarded.get("text")):
        return {**block, "guardContent": {**guarded, "text": {**as_dict(guarded["text"]), "text": text}}}
    if document:
        return {**block, "document": {**document, "source": {"text": text}}}
    if "text" in block:
        return {**block, "text": text}
    is_whole = slot.kind not in ("user", "opaque") and "citationsContent" not in block
    return block if is_whole else _as_text(slot, text)


def _as_text(slot: Slot, text: str) -> Item:
    return {"text": text} if slot.path else {"role": "user", "content": [{"text": text}]}


def _tidy(item: Item) -> Item | None:
    """Leave out an item without content, and cache points that follow nothing; put results first."""
    content = _without_leading_points(list(_as_blocks(item.get("content"))))
    if item.get("role") == "user":
        content.sort(key=lambda block: "toolResult" not in dict_or_empty(block))
    return {**item, "content": content} if content else None


# Messages of infold's own.


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Return items for a message of infold's own: results first, as the API wants them."""
    ids = aliases or {}
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    blocks = [block for part in visible_parts(message) for block in _new_blocks(part, ids)]
    if role == "user":
        blocks.sort(key=lambda block: "toolResult" not in block)
    if isinstance(message, SystemMessage):
        role = "system"
    return [{"role": role, "content": blocks}] if blocks else []


def _new_blocks(part: Part, ids: Mapping[str, str]) -> list[Item]:
    match part:
        case TextPart():
            block = opaque_value(part)
            return [block] if BLOCKS & block.keys() else [{"text": part.text}] if part.text.strip() else []
        case ToolCallPart():
            call = {"toolUseId": ids.get(part.call_id) or part.call_id, "name": part.tool}
            return [{"toolUse": {**call, "input": arguments_object(part.arguments)}}]
        case ToolResultPart():
            text = [{"text": part.output}] if part.output.strip() else []
            result: Item = {"toolUseId": ids.get(part.call_id) or part.call_id}
            result["content"] = [*text, *map(_new_medium, part.files)]
            return [{"toolResult": result if part.status == "completed" else {**result, "status": "error"}}]
        case FilePart():
            return [_new_medium(part)]
        case ReasoningPart():
            value = provider_value(part)
            return [value] if isinstance(value, dict) and "reasoningContent" in value else []
        case _:
            return []


def _new_medium(part: FilePart) -> Item:
    found, (kind, _, form) = parse_data_url(part.reference), part.media_type.partition("/")
    location = {"s3Location": {"uri": part.reference}} if part.reference.startswith("s3://") else None
    source: Item | None = location if found is None else {"bytes": found.data}
    if source is None or form == "*":
        return {"text": media_label(part)}
    if kind in ("image", "video", "audio"):
        return {kind: {"format": form, "source": source}}
    named = next((name for name, media_type in DOCUMENT_TYPES.items() if media_type == part.media_type), form)
    return {"document": {"format": named, "name": part.name or "document", "source": source}}


_CODEC = Codec(slots=_slots, parts=_parts, replace=_replace, as_text=_as_text, tidy=_tidy, encode_new=encode_new)


# Requests.


PATHS = ("/converse", "/converse-stream")

PROMPT = ":prompt/"
"""Part of the name of a prompt that Bedrock stores, in place of a model's: what it holds comes before the messages."""

ADDITIONAL = "additionalModelRequestFields"
"""The field with what only one provider's models know; for Claude, fields of Anthropic's own requests."""


def tools_in(body: Mapping[str, Any]) -> object:
    """Return the tools of a request."""
    return dict_or_empty(body.get("toolConfig")).get("tools")


def claude_fields(body: Mapping[str, Any]) -> Item:
    """Return what a request says about thinking, betas and edits of the history, as one of Anthropic's own says it."""
    fields = dict_or_empty(body.get(ADDITIONAL))
    if not fields.get("context_management"):
        return fields
    blocks = (block for item in dicts_in(body.get("messages")) for block in _blocks_of(item))
    calls = [{"type": "tool_use"} for block in blocks if "toolUse" in block]
    return {**fields, "messages": [{"role": "assistant", "content": calls}]}


def summary_fields(body: Mapping[str, Any], output_tokens: int, *, has_tools: bool) -> Item:
    """Return what a request for a summary says about its answer: at most so long. Calls cannot be forbidden."""
    fields = dict_or_empty(body.get(ADDITIONAL))
    betas = {ADDITIONAL: {"anthropic_beta": fields["anthropic_beta"]}} if "anthropic_beta" in fields else {}
    tools = {"toolConfig": {"tools": tools_in(body)}} if has_tools else {}
    return {"inferenceConfig": {"maxTokens": output_tokens}, **tools, **betas}


def shared_fields(body: Mapping[str, Any], fields: Item) -> Item:
    """Return the fields of a summary that is to read a request's messages from the cache.

    They are cached for one way of thinking and one effort, so that these stay as they were; with a budget for thinking, of which
    the answer's length is a part, the length stays too.
    """
    kept = {**fields, **({ADDITIONAL: body[ADDITIONAL]} if ADDITIONAL in body else {})}
    if "budget_tokens" in dict_or_empty(claude_fields(body).get("thinking")) and "inferenceConfig" in body:
        kept["inferenceConfig"] = body["inferenceConfig"]
    effort = dict_or_empty(body.get("outputConfig")).get("effort")
    return kept if effort is None else {**kept, "outputConfig": {"effort": effort}}


def without_reasoning(items: Sequence[object]) -> list[object]:
    """Return messages without reasoning, which may be bound to their own system prompt; one left empty is left out."""
    return [kept for item in items if (kept := _without_reasoning(item)) is not None]


def _without_reasoning(item: object) -> object | None:
    blocks = _blocks_of(dict_or_empty(item))
    kept = [block for block in blocks if "reasoningContent" not in block]
    if len(kept) == len(blocks):
        return item
    return {**as_dict(item), "content": kept} if any(CACHE_POINT not in block for block in kept) else None


def with_system(system: str, items: list[Any]) -> Item:
    """Return the fields of a request with this system prompt and these messages."""
    return {"system": [{"text": system}], "messages": items}


def tool_item(name: str, description: str, parameters: Item) -> Item:
    """Return one tool as an entry of `toolConfig.tools`."""
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": parameters}}}


def tool_names(tool: Item, recall: str) -> Iterator[str]:
    """Yield a tool's name."""
    del recall
    yield text_field(dict_or_empty(tool.get("toolSpec") or tool.get("systemTool")), "name")


# Replies.


def reply_items(body: object) -> list[object]:
    """Return the items a reply adds to the history."""
    message = dict_or_empty(dict_or_empty(dict_or_empty(body).get("output")).get("message"))
    return [message] if message.get("content") else []


def is_reply(body: object) -> bool:
    """Return whether a body is a reply of this format, be it an empty one."""
    return isinstance(dict_or_empty(body).get("output"), Mapping)


def usage(body: object) -> Usage | None:
    """Return the usage of a reply, whose input excludes the cache; in a stream, its last event has it."""
    reported = reported_usage(body, "usage")
    if not has_count(reported, "inputTokens", "outputTokens"):
        return None
    hourly = (entry for entry in dicts_in(reported.get("cacheDetails")) if entry.get("ttl") == "1h")
    return Usage(
        input=count(reported, "inputTokens"),
        output=count(reported, "outputTokens"),
        cache_read=count(reported, "cacheReadInputTokens"),
        cache_write=count(reported, "cacheWriteInputTokens"),
        cache_write_hour=sum(count(entry, "inputTokens") for entry in hourly),
    )


def finish(body: object) -> Finish | None:
    """Return why a reply ended."""
    return finish_named(dict_or_empty(body).get("stopReason"))


# Streams.


class ConverseReply:
    """Gathers the blocks of a message; the event that stops it has the reason, the last one has the usage.

    A call's input arrives as pieces of JSON text. If they are not an object, the text goes into the field `arguments` of one,
    since the API takes only objects.
    """

    def __init__(self) -> None:
        self._fields: Item = {}
        self._role = "assistant"
        self._blocks: dict[int, Item] = {}
        self._is_begun = False

    @property
    def is_finished(self) -> bool:
        """Whether the message has a stop reason."""
        return bool(self._fields.get("stopReason"))

    def take(self, kind: str, event: Item, emit: Emit) -> None:
        """Add an event; one that adds nothing to a message is ignored."""
        index = index_or_none(event.get("contentBlockIndex"))
        match kind:
            case "messageStart":
                self._is_begun = True
                self._role = text_field(event, "role") or self._role
            case "contentBlockStart" if index is not None:
                self._blocks[index] = {
                    name: {**dict_or_empty(inner)} for name, inner in _fields(event, "start").items()
                }
                emit("call", dict_or_empty(self._blocks[index].get("toolUse")).get("name"))
            case "contentBlockDelta" if index is not None:
                self._take_delta(self._blocks.setdefault(index, {}), _fields(event, "delta"), emit)
            case "messageStop" | "metadata":
                self._fields |= {name: value for name, value in event.items() if name != "p"}  # only fills the frame
            case _:
                pass

    def reply(self) -> Item | None:
        """Return the reply so far, `None` before its first event."""
        if not self._is_begun and not self._blocks and not self._fields:
            return None
        content = [block for index in sorted(self._blocks) if (block := _complete(self._blocks[index]))]
        return {"output": {"message": {"role": self._role, "content": content}}, **self._fields}

    def _take_delta(self, block: Item, delta: Item, emit: Emit) -> None:
        thought, call = dict_or_empty(delta.get("reasoningContent")), dict_or_empty(delta.get("toolUse"))
        if "text" in delta:
            append_text(block, "text", delta["text"])
            emit("text", delta["text"])
        elif call:
            append_text(block.setdefault("toolUse", {}), "input", call.get("input"))
        elif thought:
            held = block.setdefault("reasoningContent", {})
            append_text(held, "text", thought.get("text"))
            held |= {name: thought[name] for name in ("signature", "redactedContent") if thought.get(name)}
            emit("reasoning", thought.get("text"))
        elif dict_or_empty(delta.get("citation")):
            block.setdefault("citations", []).append(delta["citation"])
        elif isinstance(delta.get("toolResult"), list):
            block.setdefault("toolResult", {}).setdefault("content", []).extend(delta["toolResult"])
        elif dict_or_empty(delta.get("image")):
            block.setdefault("image", {}).update(delta["image"])


def _fields(event: Item, name: str) -> Item:
    return dict_or_empty(event.get(name))


def _complete(held: Item) -> Item:
    """Return a block as a reply without streaming has it; empty if nothing came of it."""
    block = dict_or_empty(join_pieces({name: value for name, value in held.items() if name != "toolUse"}))
    if "toolUse" in held:
        pieces = held["toolUse"].get("input")
        return {
            "toolUse": {**held["toolUse"], "input": _input(join_text(pieces) if isinstance(pieces, TextPieces) else "")}
        }
    if "citations" in block:
        cited = {"content": [{"text": block.get("text", "")}], "citations": block["citations"]}
        return {"citationsContent": cited}
    thought = dict_or_empty(block.get("reasoningContent"))
    if thought and "redactedContent" not in thought:
        signed = {"signature": thought["signature"]} if "signature" in thought else {}
        return {"reasoningContent": {"reasoningText": {"text": thought.get("text", ""), **signed}}}
    if thought:
        return {"reasoningContent": {"redactedContent": thought["redactedContent"]}}
    return block


def _input(text: str) -> Item:
    if not text.strip():
        return {}
    try:
        return as_dict(text.encode())
    except (MalformedError, UnicodeEncodeError):
        return {"arguments": replace_surrogates(text)}


def new_builder() -> ReplyBuilder:
    """Return a builder for one streamed reply."""
    return ReplyBuilder(ConverseReply(), last_events={"metadata"})
