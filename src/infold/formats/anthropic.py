"""Anthropic Messages: one item is one message, its content a text or blocks.

Tool results must come first in the user message after their calls, in one message: there infold's own result joins the
caller's. Thinking blocks are bound to the conversation they were created in and are sent back untouched.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct

from infold.core.ledger import ALL_BEFORE, DEFINITION, SUMMARY_STATE, TOOL_STATE
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
    is_from_caller,
)
from infold.core.policy import LARGEST_TOKENS
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
    encode_view,
    finish_named,
    has_count,
    id_field,
    json_text,
    opaque_parts,
    opaque_value,
    provider_value,
    read_result,
    remaining_text,
    replace_content,
    reported_usage,
    text_field,
    text_parts,
    user_parts,
    visible_parts,
    with_user_first,
)
from infold.formats.media import file_part, has_address, is_image, is_pdf, media_label, parse_data_url
from infold.formats.pairing import Pairing
from infold.formats.streams import (
    Emit,
    ReplyBuilder,
    TextPieces,
    append_text,
    index_or_none,
    join_pieces,
    join_text,
    merge,
)

NAME = "anthropic-messages"

THINKING = ("thinking", "redacted_thinking")

SEALED = (*THINKING, "compaction")
"""Blocks that are sent back unchanged."""

TOOL_CHANGES = ("tool_addition", "tool_removal")

ROLES = ("user", "assistant", "system")

_NEXT_USER, _SETTINGS = "next_user_message", ("output_config",)
"""How long the text of a system message may hold, and what else such a message may set."""


OWN_BLOCKS = frozenset(
    {
        *("tool_use", "tool_result", "image", "document", "search_result", "server_tool_use", "container_upload"),
        *(*SEALED, *TOOL_CHANGES),
    }
)
"""Blocks that no other format has; all results of server tools end in `_tool_result`."""


def looks_like(items: Sequence[object]) -> bool:
    """Return whether a block is of a kind that only this format has."""
    in_blocks = (item for item in map(as_dict, items) if type(item.get("content")) is not str)
    return any(_is_own(block) for item in in_blocks for block in _blocks_of(item))


def _blocks_of(item: Item) -> Sequence[object]:
    content = item.get("content") if item.get("role") in ROLES else None
    return content if isinstance(content, list | tuple) else ()


def _is_own(block: object) -> bool:
    kind = text_field(as_dict(block), "type") if not isinstance(block, str) else ""
    return kind in OWN_BLOCKS or kind.endswith("_tool_result")


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Decode Messages to core messages; raise `BrokenInput` for an item of a wrong type."""
    return decode_each(NAME, items, _message, first=first, pairing=pairing)


def encode(
    view: Sequence[Message],
    decoded: Decoded,
    origins: Origins | None = None,
    own: OwnItems = NO_OWN_ITEMS,
) -> list[object]:
    """Return the view as Messages; untouched ones are the caller's own objects."""
    return encode_view(_CODEC, place_state(with_user_first(view)), decoded, join=_join_items, origins=origins, own=own)


def place_state(view: Sequence[Message]) -> Sequence[Message]:
    """Return a view of infold's with system messages where the API takes them: between a user's message and a reply, or last.

    One that holds until the next message of the user's role is left out if the caller's next one follows it.
    """
    if SystemMessage not in set(map(type, view)) or all(map(is_from_caller, view)):
        return view
    placed: list[Message] = []
    waiting: list[SystemMessage] = []
    place = 0
    for message in view:
        is_reply = bool(placed) and isinstance(placed[-1], AssistantMessage)
        if isinstance(message, SystemMessage) and not (is_reply and is_from_caller(message)):
            waiting.append(message)
            continue
        if isinstance(message, AssistantMessage) and placed and not is_reply:
            place = len(placed)
            placed += waiting
            waiting = []
        elif is_from_caller(message):
            waiting = [one for one in waiting if not one.until_user]
        placed.append(message)
    if waiting:  # behind the last message, or before the last reply to a user
        place = place if isinstance(view[-1], AssistantMessage) else len(placed)
        placed[place:place] = waiting
    return placed


def _join_items(before: Item, first: Item, second: Item) -> Item | None:
    """Join two system items that last as long, or two user items that both bring results.

    Results must come first, in the order of the calls before them.
    """
    if first.get("role") == second.get("role") == "system":
        return _join_systems(first, second)
    items = [item for item in (first, second) if item.get("role") == "user" and isinstance(item.get("content"), list)]
    if len(items) < 2 or not all(any(not _is_not_result(block) for block in item["content"]) for item in items):
        return None
    call_ids = [
        id_field(block, "id") for block in map(dict_or_empty, _blocks_of(before)) if block.get("type") == "tool_use"
    ]
    places = {call_id: place for place, call_id in enumerate(call_ids)}
    content = sorted([*first["content"], *second["content"]], key=lambda block: _place(block, places))
    return {**second, **first, "content": content}


def _join_systems(first: Item, second: Item) -> Item | None:
    if any(item.get("clear_at") == _NEXT_USER for item in (first, second)):
        return None
    content = [block for item in (first, second) for block in _as_blocks(item.get("content"))]
    return {**first, **second, "content": content}


def _as_blocks(content: object) -> Sequence[object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return block_list(content, "content")


def _place(block: object, places: Mapping[str, int]) -> int:
    """Return the place of a block among the results of a step; other blocks come after them."""
    return (
        len(places) + 1 if _is_not_result(block) else places.get(id_field(as_dict(block), "tool_use_id"), len(places))
    )


def _message(item: Item, message_id: MessageId, pairing: Pairing) -> Message:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str):
        raise MalformedError("it has no role", remedy=f"give a role, one of {', '.join(ROLES)}")
    if role == "user" and type(content) is str:
        return UserMessage(message_id, pairing.harness_text.mark(user_parts(content), message_id, is_user=True))
    if item.get("tool_calls") or item.get("function_call"):
        raise MalformedError(
            "it calls tools as OpenAI's chat messages do, in a list of Anthropic's",
            remedy="give all items in one format",
        )
    parts = decode_item(_CODEC, item, pairing, message_id)
    if role == "assistant":
        return AssistantMessage(message_id, parts)
    if role == "system":
        given = {name: item[name] for name in _SETTINGS if item.get(name)}
        settings = json_text(given) if given else ""
        return SystemMessage(message_id, parts, until_user=item.get("clear_at") == _NEXT_USER, settings=settings)
    is_all_results = isinstance(content, list | tuple) and content and not any(map(_is_not_result, content))
    return ToolMessage(message_id, parts) if is_all_results else UserMessage(message_id, parts)


def _slots(item: Item) -> Iterator[Slot]:
    if item["role"] in ROLES:
        yield from content_slots(item, item["role"])
    else:
        yield Slot((), "opaque", item)


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    block = slot.value
    if isinstance(block, str):
        return text_parts(block, is_user=slot.kind == "user")
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return text_parts(block["text"], is_user=slot.kind == "user")
        case "tool_use":
            return (_call(block, pairing, message_id),)
        case "tool_result":
            return (_result(block, pairing),)
        case _:
            return _other(block)


def _other(block: Item) -> tuple[Part, ...]:
    """Return the parts of a block that is not text, in a message or inside a result."""
    match block.get("type"):
        case "thinking" | "redacted_thinking":
            return (ReasoningPart(text_field(block, "thinking"), json_text(block)),)
        case "image":
            return (_medium(block, "image/*"),)
        case "document":
            return _document(block)
        case "compaction" if block.get("content") or block.get("encrypted_content"):
            return (ReasoningPart(text_field(block, "content"), json_text(block), (SUMMARY_STATE, ALL_BEFORE)),)
        case "tool_addition" | "tool_removal":
            return (_tool_change(block),)
        case _:
            return opaque_parts(block)


def _tool_change(block: Item) -> TextPart:
    """Return a change of the tools; a definition is needed by later references to it."""
    tool = dict_or_empty(block.get("tool"))
    definition = dict_or_empty(tool.get("definition"))
    server, name = (
        text_field(definition or tool, "server_name", "mcp_server_name"),
        text_field(definition or tool, "name"),
    )
    key = f"{TOOL_STATE}{f'{server}/{name}' if server else name or json_text(tool)}"
    unmarked = {name: value for name, value in block.items() if name != "cache_control"}
    state = (key, f"{key}{DEFINITION}") if definition else (key,)
    return TextPart(json_text(unmarked), synthetic=True, opaque=True, state=state)


def _call(block: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    tool = text_field(block, "name")
    call_id = pairing.open_call(id_field(block, "id"), tool, message_id)
    return ToolCallPart(call_id, tool, arguments_text(block.get("input")))


def _result(block: Item, pairing: Pairing) -> Part:
    call = pairing.take_call(id_field(block, "tool_use_id"))
    status: ResultStatus = "error" if block.get("is_error") is True else "completed"
    return read_result(call, block.get("content"), _other, what="content of a tool_result", status=status)


def _medium(block: Item, media_type: str) -> FilePart:
    source = as_dict(block.get("source") or {})
    return file_part(
        "anthropic",
        text_field(source, "media_type") or media_type,
        data=text_field(source, "data"),
        reference=text_field(source, "url", "file_id"),
        name=text_field(block, "title"),
    )


def _document(block: Item) -> tuple[Part, ...]:
    """Return a document as a medium, or as text if its source is text."""
    source = as_dict(block.get("source") or {})
    if source.get("type") == "text":
        return (TextPart(text_field(source, "data"), synthetic=True, document=text_field(block, "title")),)
    if source.get("type") == "content":
        return opaque_parts(block)
    return (_medium(block, "application/pdf"),)


def _replace(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    block, text = slot.value, remaining_text(parts)
    if not any(parts):
        return GONE
    if isinstance(block, str):
        return text or GONE
    match block.get("type"):
        case "tool_use":
            return {**block, "input": arguments_object(text)}
        case "tool_result" if isinstance(parts[0], ToolResultPart):
            content = replace_content(block.get("content"), parts[0], _other, text_type="text")
            return {**block, "content": content}
        case _:
            return _replace_text(slot, text)


def _as_text(slot: Slot, text: str) -> Item:
    return {"type": "text", "text": text} if slot.path else {"role": "user", "content": text}


def _replace_text(slot: Slot, text: str) -> Any:
    """Return a text or text document with other text; the API refuses empty text.

    A user's block of an unknown kind becomes text; a model's stays whole, since others may depend on it.
    """
    block = slot.value
    source = block.get("source")
    if block.get("type") == "document" and isinstance(source, dict) and source.get("type") == "text":
        return {**block, "source": {**source, "data": text}}
    if not text.strip():
        return GONE
    if block.get("type") == "text":
        return {**block, "text": text}
    is_whole = slot.kind == "assistant" or block.get("type") in (*SEALED, *TOOL_CHANGES)
    return block if is_whole else _as_text(slot, text)


def _tidy(item: Item) -> Item | None:
    """Leave out an item without content; put results first, since one may have become text."""
    content = item.get("content")
    if not content or isinstance(content, str) or item.get("role") != "user":
        return item if content else None
    return {**item, "content": sorted(content, key=_is_not_result)}


def _is_not_result(block: object) -> bool:
    return isinstance(block, str) or as_dict(block).get("type") != "tool_result"


# Messages of infold's own.


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Return items for a message of infold's own: results first, as the API wants them."""
    ids = aliases or {}
    parts = visible_parts(message)
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    blocks = [block for part in parts for block in _new_blocks(part, ids)]
    if not isinstance(message, AssistantMessage):
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    if isinstance(message, SystemMessage):
        return _new_system(message, blocks)
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return [{"role": role, "content": blocks[0]["text"]}]
    return [{"role": role, "content": blocks}] if blocks else []


def _new_system(message: SystemMessage, blocks: list[Item]) -> list[Item]:
    settings = arguments_object(message.settings) if message.settings else {}
    if not blocks and not settings:
        return []
    is_text = len(blocks) == 1 and isinstance(blocks[0].get("text"), str)
    item: Item = {"role": "system", "content": blocks[0]["text"] if is_text else blocks, **settings}
    return [{**item, "clear_at": _NEXT_USER} if message.until_user and blocks else item]


def _new_blocks(part: Part, ids: Mapping[str, str]) -> list[Item]:
    match part:
        case TextPart():
            block, text = opaque_value(part), {"type": "text", "text": part.text}
            return [block] if "type" in block else [text] if part.text.strip() else []
        case ToolCallPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [{"type": "tool_use", "id": call_id, "name": part.tool, "input": arguments_object(part.arguments)}]
        case ToolResultPart():
            return [_new_result(part, ids)]
        case FilePart():
            return [_new_medium(part)]
        case ReasoningPart():
            value = provider_value(part)
            return [value] if isinstance(value, dict) and value.get("type") in SEALED else []
        case _:
            return []


def _new_result(part: ToolResultPart, ids: Mapping[str, str]) -> Item:
    call_id = ids.get(part.call_id) or part.call_id
    media = [_new_medium(file) for file in part.files]
    content = [*([{"type": "text", "text": part.output}] if part.output.strip() else []), *media]
    block: Item = {"type": "tool_result", "tool_use_id": call_id, "content": content if media else part.output}
    return block if part.status == "completed" else {**block, "is_error": True}


def _new_medium(part: FilePart) -> Item:
    found = parse_data_url(part.reference)
    source: Item = {"type": "url", "url": part.reference}
    if found is not None:
        source = {"type": "base64", "media_type": found.media_type, "data": found.data}
    if is_image(part):
        return {"type": "image", "source": source}
    if is_pdf(part) or (has_address(part) and part.media_type == "application/pdf"):
        return {"type": "document", "source": source, **({"title": part.name} if part.name and found else {})}
    return {"type": "text", "text": media_label(part)}


_CODEC = Codec(slots=_slots, parts=_parts, replace=_replace, as_text=_as_text, tidy=_tidy, encode_new=encode_new)


# Requests.


CLOUD_PATHS = ("/invoke", "/invoke-with-response-stream", ":rawPredict", ":streamRawPredict")
"""How the paths of Bedrock and Vertex end. They take requests for other models too; Anthropic's have `anthropic_version`."""

HELD_FIELDS = ("thread", "compaction")
"""Fields of a request whose history the provider keeps, or is to compact."""

_EDITS = {"clear_thinking_": 0, "clear_tool_uses_": 100_000, "compact_": 150_000}
"""Beginnings of the names of context edits, after which a date follows, and the tokens from which on each applies by default;
thinking is cleared from the first."""

_LARGER_BETA, _LARGER_TOKENS = "context-1m-", 1_000_000
"""Prefix of the beta by which some models have a larger window, and the size of that window."""


def edited_from(body: Mapping[str, Any]) -> int | None:
    """Return the tokens from which on `context_management` edits more than thinking; `None` if it has an unknown edit.

    The last of several edits counts. 0 if it clears thinking only, as Claude Code asks with each request.
    """
    given = body["context_management"]
    edits = (given.get("edits") or ()) if isinstance(given, Mapping) else None
    if not isinstance(edits, list | tuple):
        return None
    is_more = any(not str(dict_or_empty(edit).get("type")).startswith("clear_thinking_") for edit in edits)
    items = body["messages"] if is_more else ()
    blocks = (dict_or_empty(block) for item in items for block in _blocks_of(dict_or_empty(item)))
    kinds = Counter(str(block.get("type")) for block in blocks)
    starts = [_edit_start(edit, kinds) if isinstance(edit, Mapping) else None for edit in edits]
    known = [start for start in starts if start is not None]
    return max(known, default=0) if len(known) == len(starts) else None


def _edit_start(edit: Mapping[str, Any], kinds: Mapping[str, int]) -> int | None:
    """Return the tokens from which on an edit applies, given how many blocks of each kind the history has.

    If it waits for a number of tool calls, that is all tokens or next to none. `None` if the edit is not known, or if the
    provider has compacted already: it ignores everything before its block.
    """
    name = next((name for name in _EDITS if str(edit.get("type")).startswith(name)), None)
    if name is None or (name == "compact_" and kinds.get("compaction")):
        return None
    trigger = dict_or_empty(edit.get("trigger"))
    if trigger.get("type") == "tool_uses":
        return LARGEST_TOKENS if kinds.get("tool_use", 0) <= count(trigger, "value") else 1
    return _EDITS[name] and (count(trigger, "value") or _EDITS[name])


def requested_window(body: Mapping[str, Any], headers: Mapping[str, str]) -> int | None:
    """Return the window that a request asks for by a beta, in a header or in the body; `None` for the model's usual one."""
    named = body.get("anthropic_beta")
    betas = [*headers.get("anthropic-beta", "").split(","), *(named if isinstance(named, list) else ())]
    return _LARGER_TOKENS if any(str(beta).strip().startswith(_LARGER_BETA) for beta in betas) else None


def drops_thinking(body: Mapping[str, Any]) -> bool:
    """Return whether the provider is to drop thinking that is bound to another conversation, in place of refusing it."""
    thinking = body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, Mapping) else None
    return isinstance(binding, Mapping) and binding.get("prefix_mismatch_behavior") == "drop_block"


LEAST_TOOLS_DEFERRED = 10
"""With fewer tools than this, searching for one costs more than all of their definitions."""

LEAST_TOOLS_LOADED = 3
"""Tools that are always loaded: those that were called, else the first of the request."""

TOOL_SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
_TOOL_SEARCH_TYPE = "tool_search_tool_"


class DeferredTools(Struct, frozen=True):
    """The `tools` of a request with some of them left to the provider's tool search, and those that are still loaded."""

    tools: tuple[object, ...]
    loaded: tuple[object, ...]


def defer_tools(body: Mapping[str, Any], called: Set[str]) -> DeferredTools | None:
    """Leave the tools that were never called to the provider's tool search; `None` if the request is better sent as it is.

    That is the case if it has few tools, already searches for tools itself, or is for a model without the search. The same
    tools stay loaded for as long as the history grows: only those can be called without being found by a search first, and
    what was found so stays deferred.
    """
    tools, items = body.get("tools"), body.get("messages")
    if not isinstance(tools, list) or not isinstance(items, list) or not _searches_tools(str(body.get("model"))):
        return None
    if any(not isinstance(tool, dict) or _is_search(tool) for tool in tools):
        return None
    choice = body.get("tool_choice")
    kept = (called - _found_tools(items)) | {choice.get("name") if isinstance(choice, Mapping) else None}
    deferred = [place for place, tool in enumerate(tools) if tool.get("name") not in kept and _is_deferrable(tool)]
    late = set(deferred[max(0, LEAST_TOOLS_LOADED - (len(tools) - len(deferred))) :])
    if len(tools) < LEAST_TOOLS_DEFERRED or not late:
        return None
    marked = ({**tool, "defer_loading": True} if place in late else tool for place, tool in enumerate(tools))
    loaded = (tool for place, tool in enumerate(tools) if place not in late)
    return DeferredTools((TOOL_SEARCH, *marked), (TOOL_SEARCH, *loaded))


def _searches_tools(model: str) -> bool:
    """Return whether a model has the tool search: Claude from 4.5 on."""
    family = re.search(r"claude-(?:[a-z]+-)?(\d+)(?:[.-](\d)(?!\d))?", model.lower())
    return family is not None and (int(family[1]), int(family[2] or 0)) >= (4, 5)


def _is_search(tool: Mapping[str, Any]) -> bool:
    return "defer_loading" in tool or str(tool.get("type")).startswith(_TOOL_SEARCH_TYPE)


def _is_deferrable(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool is the client's own, and no cache mark needs it to be loaded."""
    return tool.get("type", "custom") == "custom" and "cache_control" not in tool and bool(tool.get("name"))


def _found_tools(value: object) -> set[str]:
    """Return the tools that searches in a history have found."""
    if isinstance(value, list):
        return set().union(*map(_found_tools, value))
    if not isinstance(value, Mapping):
        return set()
    if value.get("type") == "tool_reference":
        return {str(value.get("tool_name"))}
    nested = (value.get(field) for field in ("content", "tool_references"))
    return set().union(*(_found_tools(one) for one in nested if isinstance(one, list | Mapping)))


def thinking_fields(body: Mapping[str, Any]) -> Item:
    """Return the fields for a summary that shares a request's messages: how their thinking is checked, and what is cleared.

    No thinking if the request has a budget for it, which may be larger than the summary. A summary is not itself compacted.
    """
    thinking = body.get("thinking")
    thinks = isinstance(thinking, Mapping) and "budget_tokens" not in thinking
    edits = dict_or_empty(body.get("context_management")).get("edits")
    cleared = ("clear_tool_uses_", "clear_thinking_") if thinks else ("clear_tool_uses_",)
    kept = [edit for edit in dicts_in(edits) if str(edit.get("type")).startswith(cleared)]
    fields = {"thinking": thinking} if thinks else {}
    return {**fields, "context_management": {"edits": kept}} if kept else fields


def without_thinking(items: Sequence[object]) -> list[object]:
    """Return messages without thinking, which may be bound to their own system prompt; one left empty is left out."""
    return [kept for item in items if (kept := _without_thinking(item)) is not None]


def _without_thinking(item: object) -> object | None:
    content = item.get("content") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(content, list | tuple):
        return item
    kept = [block for block in content if not (isinstance(block, Mapping) and block.get("type") in THINKING)]
    if len(kept) == len(content):
        return item
    return {**item, "content": kept} if kept else None


COMPACTION_BETA = "compact-2026-09-04"
"""The beta of compaction on demand, for the request that asks for it and for all that hold its block."""


def native_body(body: Mapping[str, Any], items: Sequence[object], instructions: str, output_tokens: int) -> Item:
    """Return the request by which the provider compacts these first messages of an ordinary request."""
    asked = {"type": "summarize", "instructions": instructions}
    return {**body, "messages": list(items), "max_tokens": output_tokens, "compaction": asked}


def native_messages(body: object) -> tuple[tuple[Message, ...], str]:
    """Return the message by which the provider compacted a history, and its text; empty if it did not."""
    reply = dict_or_empty(body)
    blocks = [block for block in dicts_in(reply.get("content")) if block.get("type") == "compaction"]
    text = blocks[0].get("content") if len(blocks) == 1 and reply.get("stop_reason") == "compaction" else None
    if not isinstance(text, str) or not text.strip():
        return (), ""
    return decode([{"role": "assistant", "content": blocks}]).messages, text


def summary_fields(body: Mapping[str, Any], output_tokens: int, *, has_tools: bool) -> Item:
    """Return what a request for a summary says about its answer: at most so long, and no calls."""
    del body
    return {"max_tokens": output_tokens, **({"tool_choice": {"type": "none"}} if has_tools else {})}


def shared_fields(body: Mapping[str, Any], fields: Item) -> Item:
    """Return the fields of a summary that is to read a request's messages from the cache.

    They are cached for one choice of tools, one way of thinking and one effort, so that these stay as they were; a call that
    is made all the same is rejected. A choice that forces a call is replaced. With a budget for thinking, the answer may be as
    long as the request's own, of which the budget is a part.
    """
    kept = {**fields, **thinking_fields(body)}
    if dict_or_empty(body.get("tool_choice")).get("type") in (None, "auto", "none"):
        kept = {name: value for name, value in kept.items() if name != "tool_choice"}
        kept |= {"tool_choice": body["tool_choice"]} if "tool_choice" in body else {}
    if "budget_tokens" in dict_or_empty(body.get("thinking")) and "max_tokens" in body:
        kept |= {"thinking": body["thinking"], "max_tokens": body["max_tokens"]}
    effort = dict_or_empty(body.get("output_config")).get("effort")
    return kept if effort is None else {**kept, "output_config": {"effort": effort}}


def with_system(system: str, items: list[Any]) -> Item:
    """Return the fields of a request with this system prompt and these messages."""
    return {"system": system, "messages": items}


def tool_item(name: str, description: str, parameters: Item) -> Item:
    """Return one tool as an entry of a request's `tools`."""
    return {"name": name, "description": description, "input_schema": parameters}


def tool_names(tool: Item, recall: str) -> Iterator[str]:
    """Yield a tool's name; for an MCP server that the provider calls, the name that `recall` would have there."""
    yield text_field(tool, "name")
    if tool.get("type") == "mcp_toolset":
        yield f"{text_field(tool, 'mcp_server_name')}__{recall}"


# Replies.


def reply_items(body: object) -> list[object]:
    """Return the items a reply adds to the history."""
    content = dict_or_empty(body).get("content")
    return [{"role": "assistant", "content": content}] if content else []


def is_reply(body: object) -> bool:
    """Return whether a body is a reply of this format, be it an empty one."""
    return isinstance(dict_or_empty(body).get("content"), list | tuple | str)


def usage(body: object) -> Usage | None:
    """Return the usage of a reply, whose input already excludes the cache.

    After server tools a reply has several iterations; the last one is what stands in the window, so its sum is the total. An
    iteration that compacts is not in the reported counts.
    """
    reported = reported_usage(body, "usage")
    if not has_count(reported, "input_tokens", "output_tokens"):
        return None
    thinking = count(dict_or_empty(reported.get("output_tokens_details")), "thinking_tokens")
    return Usage(
        input=count(reported, "input_tokens"),
        output=max(0, count(reported, "output_tokens") - thinking),
        reasoning=thinking,
        cache_read=count(reported, "cache_read_input_tokens"),
        cache_write=count(reported, "cache_creation_input_tokens"),
        total=_last_iteration(reported.get("iterations")),
        cleared=_cleared(body),
        compaction=compaction_usage(body),
        cache_write_hour=count(dict_or_empty(reported.get("cache_creation")), "ephemeral_1h_input_tokens"),
    )


def _last_iteration(iterations: object) -> int | None:
    sampled = [entry for entry in dicts_in(iterations) if entry.get("type", "message") == "message"]
    fields = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    return sum(count(sampled[-1], field) for field in fields) or None if sampled else None


def _cleared(body: object) -> int:
    applied = dict_or_empty(dict_or_empty(body).get("context_management")).get("applied_edits")
    return sum(count(edit, "cleared_input_tokens") for edit in dicts_in(applied))


def compaction_usage(body: object) -> Usage | None:
    """Return what the provider's own compactions took in a reply, which its usual counts leave out."""
    used: Usage | None = None
    for entry in dicts_in(reported_usage(body, "usage").get("iterations")):
        if entry.get("type") == "compaction" and (one := usage({"usage": {**entry, "iterations": None}})) is not None:
            used = one.plus(used)
    return used


def finish(body: object) -> Finish | None:
    """Return why a reply ended; in a stream the delta has the reason."""
    reply = dict_or_empty(body)
    return finish_named(reply.get("stop_reason") or dict_or_empty(reply.get("delta")).get("stop_reason"))


# Streams.


TEXTS = {"text_delta": "text", "thinking_delta": "thinking"}
"""Deltas of text, and the field that grows; it is the type of its block too."""


class AnthropicReply:
    """Gathers the blocks of a message, and its usage from its first and last events.

    A call's input arrives as pieces of JSON text. If they are not an object, because the stream was cut short or the model
    erred, the text goes into the field `arguments` of one, since the API takes only objects.
    """

    def __init__(self) -> None:
        self._message: Item = {}
        self._blocks: dict[int, Item] = {}
        self._inputs: dict[int, TextPieces] = {}
        self._is_stopped = False

    @property
    def is_finished(self) -> bool:
        """Whether the message has a stop reason, or its last event came."""
        return self._is_stopped or bool(self._message.get("stop_reason"))

    def take(self, kind: str, event: Item, emit: Emit) -> None:
        """Add an event; one that adds nothing to a message is ignored."""
        index = index_or_none(event.get("index"))
        match kind:
            case "message_start":
                self._message |= dict_or_empty(event.get("message"))
            case "content_block_start" if index is not None and (block := dict_or_empty(event.get("content_block"))):
                self._blocks[index] = {**block}
                if block.get("type") == "tool_use":
                    emit("call", block.get("name"))
                else:
                    emit("text", block.get("text"))
                    emit("reasoning", block.get("thinking"))
            case "content_block_delta" if index is not None:
                self._take_delta(index, dict_or_empty(event.get("delta")), emit)
            case "message_delta":
                self._take_end(event)
            case "message_stop":
                self._is_stopped = True
            case _:
                pass

    def reply(self) -> Item | None:
        """Return the message so far, `None` before its first event."""
        if not self._message and not self._blocks:
            return None
        content = [self._block(index) for index in sorted(self._blocks)]
        return {"type": "message", "role": "assistant", "stop_reason": None, **self._message, "content": content}

    def _take_delta(self, index: int, delta: Item, emit: Emit) -> None:
        kind = str(delta.get("type"))
        if field := TEXTS.get(kind):
            append_text(self._blocks.setdefault(index, {"type": field}), field, delta.get(field))
            emit("text" if field == "text" else "reasoning", delta.get(field))
            return
        block = self._blocks.get(index)
        if block is None:
            return
        match kind:
            case "input_json_delta" if isinstance(delta.get("partial_json"), str):
                self._inputs.setdefault(index, TextPieces()).append(delta["partial_json"])
            case "citations_delta" if dict_or_empty(delta.get("citation")):
                merge(block, {"citations": [delta["citation"]]})
            case "signature_delta" | "compaction_delta":
                block |= {field: value for field, value in delta.items() if field != "type"}
            case _:
                pass

    def _take_end(self, event: Item) -> None:
        """Add what ends a message: counts are totals, and fields left out here keep their first value."""
        others = {field: value for field, value in event.items() if field not in ("type", "delta", "usage")}
        ended = others | dict_or_empty(event.get("delta"))
        self._message |= {field: value for field, value in ended.items() if value is not None}
        counts = {field: value for field, value in dict_or_empty(event.get("usage")).items() if value is not None}
        self._message["usage"] = dict_or_empty(self._message.get("usage")) | counts

    def _block(self, index: int) -> Item:
        block = dict_or_empty(join_pieces(self._blocks[index]))
        text = join_text(self._inputs.get(index, ()))
        if not text.strip():
            return block
        try:
            return {**block, "input": as_dict(text.encode())}
        except MalformedError:
            return {**block, "input": {"arguments": text}}


def new_builder() -> ReplyBuilder:
    """Return a builder for one streamed reply."""
    return ReplyBuilder(AnthropicReply(), last_events={"message_stop"})
