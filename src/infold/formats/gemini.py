"""Gemini generateContent: `contents` with `parts`, in the REST spelling or that of the Python SDK.

One item is one message. A call or its response may have no id; then a response answers the oldest open call of its
name. Any part may carry a thought's signature, which makes its message signed. Consecutive user items are accepted,
but the responses to one turn's calls must be in one item: there infold's own result joins the caller's.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    Origins,
    OwnItems,
    Slot,
    arguments_object,
    arguments_text,
    as_dict,
    block_list,
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
    remaining_text,
    replace_surrogates,
    reported_usage,
    result_or_text,
    text_field,
    text_parts,
    visible_parts,
    with_user_first,
)
from infold.formats.media import file_part, has_address, media_label, output_with_labels, parse_data_url
from infold.formats.pairing import Pairing, name_key
from infold.formats.streams import Emit, ReplyBuilder, TextPieces, append_text, join_pieces

NAME = "gemini"


PLAIN_RESPONSES = ("output", "result", "content", "error")
"""Fields that are the output itself if they are a response's only field and hold text."""


def looks_like(items: Sequence[object]) -> bool:
    """Return whether these are `contents`: no other format has `parts`."""
    return bool(items) and all("parts" in as_dict(item) for item in items)


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Decode `contents` to core messages; raise `BrokenInput` for an item of a wrong type."""
    return decode_each(NAME, items, _message, first=first, pairing=pairing)


def encode(
    view: Sequence[Message],
    decoded: Decoded,
    origins: Origins | None = None,
    own: OwnItems = NO_OWN_ITEMS,
) -> list[object]:
    """Return the view as `contents`; untouched ones are the caller's own objects."""
    return encode_view(_CODEC, with_user_first(view), decoded, join=_join_items, origins=origins, own=own)


def _join_items(before: Item, first: Item, second: Item) -> Item | None:
    """Join two items that both bring responses, which the API counts by item; in the order of the calls before them."""
    if not (_has_responses(first) and _has_responses(second)):
        return None
    calls = [_field(as_dict(part), "functionCall", "function_call") for part in before.get("parts") or () if part]
    numbered = reversed(list(enumerate(filter(None, calls))))
    places = {key: place for place, call in numbered for key in _keys(as_dict(call))}
    parts = sorted([*first["parts"], *second["parts"]], key=lambda part: _place(part, places))
    return {**second, **first, "parts": parts}


def _place(part: object, places: Mapping[str, int]) -> int:
    """Return the place of a part among the responses of a step; other parts come after them."""
    if _is_not_response(part):
        return len(places) + 1
    keys = _keys(as_dict(_response(as_dict(part))))
    return next((places[key] for key in keys if key in places), len(places))


def _keys(call: Item) -> tuple[str, ...]:
    """Return the keys that identify a call within its step: its id, then its tool's name."""
    wire_id, named = id_field(call, "id"), name_key(text_field(call, "name"))
    return (wire_id, named) if wire_id else (named,)


def _has_responses(item: Item) -> bool:
    return not all(map(_is_not_response, item.get("parts") or ()))


def _is_not_response(part: object) -> bool:
    return isinstance(part, str) or not _response(as_dict(part))


def _message(item: Item, message_id: MessageId, pairing: Pairing) -> Message:
    if "parts" not in item:
        if item != {"role": "model"}:  # a reply without content is written so
            raise MalformedError("it has no parts", remedy="give {'role': …, 'parts': […]}")
        item = {**item, "parts": []}
    pairing.reserve(_answered_ids(item))
    parts = decode_item(_CODEC, item, pairing, message_id)
    role = item.get("role") or "user"
    if role == "model":
        return AssistantMessage(message_id, parts)
    if role == "system":
        return SystemMessage(message_id, parts)
    return ToolMessage(message_id, parts) if _is_all_results(item) else UserMessage(message_id, parts)


def _answered_ids(item: Item) -> Iterator[str]:
    answers = (part for part in block_list(item["parts"], "parts") if not _is_not_response(part))
    return (id_field(as_dict(_response(as_dict(part))), "id") for part in answers)


def _is_all_results(item: Item) -> bool:
    return bool(item["parts"]) and not any(map(_is_not_response, item["parts"]))


def _field(item: Item, camel: str, snake: str) -> Any:
    value = item.get(camel)
    return item.get(snake) if value is None else value


def _response(part: Item) -> Any:
    return _field(part, "functionResponse", "function_response")


def _signature(part: Item) -> Any:
    return _field(part, "thoughtSignature", "thought_signature")


_PLACEHOLDERS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What the API accepts in place of a signature; clients put it on calls that came without one. It is bound to nothing."""


def _slots(item: Item) -> Iterator[Slot]:
    role = item.get("role") or "user"
    for index, part in enumerate(block_list(item.get("parts"), "parts")):
        yield Slot(("parts", index), role, {"text": part} if isinstance(part, str) else as_dict(part))


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    part = slot.value
    signature = _signature(part)
    signed = (json_text(signature),) if signature and signature not in _PLACEHOLDERS else ()
    if call := _field(part, "functionCall", "function_call"):
        return (_call(as_dict(call), signed, pairing, message_id),)
    if response := _response(part):
        return (_result(as_dict(response), pairing),)
    if part.get("thought") is True:
        return (ReasoningPart(text_field(part, "text"), *signed),)
    mark = (ReasoningPart("", *signed),) if signed else ()
    run = tuple(pairing.code_run(begins=key == "executableCode") for key in _CODE if _field(part, key, _CODE[key]))
    return (*_content_parts(part, *run, is_user=slot.kind == "user"), *mark)


_CODE = {"executableCode": "executable_code", "codeExecutionResult": "code_execution_result"}
"""Code that the provider runs, and its output; older models give neither an id."""


def _content_parts(part: Item, *links: str, is_user: bool) -> tuple[Part, ...]:
    text = part.get("text")
    if isinstance(text, str):
        return text_parts(text, is_user=is_user)
    if medium := _field(part, "inlineData", "inline_data") or _field(part, "fileData", "file_data"):
        return (_medium(as_dict(medium)),)
    return opaque_parts(part, *links)


def _medium(medium: Item) -> FilePart:
    data = medium.get("data")
    return file_part(
        "gemini",
        text_field(medium, "mimeType", "mime_type"),
        data=b64encode(data).decode() if isinstance(data, bytes) else text_field(medium, "data"),
        reference=text_field(medium, "fileUri", "file_uri"),
        name=text_field(medium, "displayName", "display_name"),
    )


def _call(call: Item, signed: tuple[str, ...], pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    tool = text_field(call, "name")
    call_id = pairing.open_call(id_field(call, "id"), tool, message_id)
    return ToolCallPart(call_id, tool, arguments_text(call.get("args")), *signed)


def _result(response: Item, pairing: Pairing) -> Part:
    value = as_dict(response.get("response") or {})
    field = _plain_field(value)
    media = [as_dict(part) for part in block_list(response.get("parts"), "parts of a functionResponse")]
    return result_or_text(
        pairing.take_call_of(id_field(response, "id"), text_field(response, "name")),
        replace_surrogates(value[field]) if field else json_text(value),
        status="error" if "error" in value else "completed",
        files=tuple(
            part for medium in media for part in _content_parts(medium, is_user=False) if isinstance(part, FilePart)
        ),
    )


def _plain_field(value: Item) -> str:
    """Return the one text field that is the whole response; empty if the response is an object."""
    if len(value) != 1:
        return ""
    field, text = next(iter(value.items()))
    return field if field in PLAIN_RESPONSES and isinstance(text, str) else ""


def _replace(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    part = slot.value
    if not any(parts):
        return GONE
    for key in ("functionCall", "function_call"):
        if part.get(key):
            return {**part, key: {**as_dict(part[key]), "args": arguments_object(remaining_text(parts))}}
    for key in ("functionResponse", "function_response"):
        if part.get(key) and isinstance(parts[0], ToolResultPart):
            return {**part, key: _replace_response(as_dict(part[key]), parts[0])}
    return _replace_text(part, parts) if "text" in part or slot.kind != "model" else part


def _as_text(slot: Slot, text: str) -> Item:
    del slot
    return {"text": text}


def _replace_response(response: Item, part: Part | None) -> Item:
    field = _plain_field(as_dict(response.get("response") or {})) or "output"
    copy = {**response, "response": {field: remaining_text((part,))}}
    if isinstance(part, ToolResultPart) and not part.files:
        copy.pop("parts", None)
    return copy


def _replace_text(part: Item, parts: tuple[Part | None, ...]) -> Any:
    """Return a part with other text; a signature goes with the reasoning part that stands for it.

    A user's part of an unknown kind becomes text; a model's never gets here.
    """
    copy = {**part, "text": remaining_text(parts)} if "text" in part else {"text": remaining_text(parts)}
    if part.get("thought") is True:
        return copy
    if not any(isinstance(left, ReasoningPart) for left in parts):
        copy = {key: value for key, value in copy.items() if key not in ("thoughtSignature", "thought_signature")}
    return copy if copy["text"] or _signature(copy) else GONE


def _tidy(item: Item) -> Item | None:
    return item if item.get("parts") else None


# Messages of infold's own.


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Return items for a message of infold's own; instructions travel as a user's, since `contents` has no other role."""
    ids = aliases or {}
    role = "model" if isinstance(message, AssistantMessage) else "user"
    parts = [wire for part in visible_parts(message) for wire in _new_parts(part, ids)]
    return [{"role": role, "parts": parts}] if parts else []


def _new_parts(part: Part, ids: Mapping[str, str]) -> list[Item]:
    match part:
        case TextPart() if (block := opaque_value(part)) and "type" not in block:
            return [block]
        case TextPart():
            return [{"text": part.text}] if part.text else []
        case ToolCallPart():
            call = _with_id({"name": part.tool, "args": arguments_object(part.arguments)}, part.call_id, ids)
            signature = provider_value(part)
            signed = {"thoughtSignature": signature} if isinstance(signature, str) else {}
            return [{"functionCall": call, **signed}]
        case ToolResultPart():
            field = "output" if part.status == "completed" else "error"
            response = {"name": part.tool, "response": {field: output_with_labels(part)}}
            return [{"functionResponse": _with_id(response, part.call_id, ids)}]
        case FilePart():
            return [_new_medium(part)]
        case _:
            return []


def _with_id(body: Item, call_id: str, ids: Mapping[str, str]) -> Item:
    wire_id = ids.get(call_id, call_id)
    return {"id": wire_id, **body} if wire_id else body


def _new_medium(part: FilePart) -> Item:
    found = parse_data_url(part.reference)
    if found is not None:
        return {"inlineData": {"mimeType": part.media_type, "data": found.data}}
    if has_address(part) or part.reference.startswith("gs://"):
        return {"fileData": {"mimeType": part.media_type, "fileUri": part.reference}}
    return {"text": media_label(part)}


_CODEC = Codec(slots=_slots, parts=_parts, replace=_replace, as_text=_as_text, tidy=_tidy, encode_new=encode_new)


# Requests.


def summary_fields(body: Mapping[str, Any], output_tokens: int, *, has_tools: bool) -> Item:
    """Return what a request for a summary says about its answer: at most so long, and no calls."""
    del body
    no_calls = {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}
    return {"generationConfig": {"maxOutputTokens": output_tokens}, **(no_calls if has_tools else {})}


def with_system(system: str, items: list[Any]) -> Item:
    """Return the fields of a request with this system prompt and these messages."""
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": items}


def tool_item(name: str, description: str, parameters: Item) -> Item:
    """Return one tool as an entry of `functionDeclarations`."""
    return {"name": name, "description": description, "parameters": _dialect_schema(parameters)}


_DIALECT = frozenset(
    {
        *("type", "description", "properties", "required", "items", "enum", "anyOf", "nullable", "default"),
        *("minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "propertyOrdering"),
    }
)
"""Gemini's subset of OpenAPI's schemas, without `additionalProperties` and without a null type."""


def _dialect_schema(schema: Mapping[str, Any]) -> Item:
    kept = {key: value for key, value in schema.items() if key in _DIALECT}
    if "properties" in kept:
        kept["properties"] = {name: _dialect_schema(inner) for name, inner in kept["properties"].items()}
    if isinstance(kept.get("items"), dict):
        kept["items"] = _dialect_schema(kept["items"])
    if isinstance(kept.get("type"), list | tuple):
        kept |= _any_of([{"type": kind} for kind in kept.pop("type")])
    if "anyOf" in kept:
        kept |= _any_of(kept.pop("anyOf"))
    return kept | ({"enum": [schema["const"]]} if isinstance(schema.get("const"), str) else {})


def _any_of(schemas: Iterable[Mapping[str, Any]]) -> Item:
    """Return a choice of schemas; a null among them makes the rest nullable, and a choice of one is that one."""
    given = [*schemas]
    real = [_dialect_schema(schema) for schema in given if schema.get("type") != "null"]
    nullable: Item = {"nullable": True} if len(real) < len(given) else {}
    return {**(real[0] if len(real) == 1 else {"anyOf": real}), **nullable}


def tool_names(tool: Item, recall: str) -> Iterator[str]:
    """Yield the names of the functions that an entry of a request's `tools` declares."""
    del recall
    for function in dicts_in(tool.get("functionDeclarations") or tool.get("function_declarations")):
        yield text_field(function, "name")


# Replies.


def reply_items(body: object) -> list[object]:
    """Return the items a reply adds to the history."""
    content = _candidate(body).get("content")
    return [content] if dict_or_empty(content).get("parts") else []


def is_reply(body: object) -> bool:
    """Return whether a body is a reply of this format, be it an empty one: a prompt that is blocked has no candidates."""
    return not dict_or_empty(body).keys().isdisjoint(("candidates", "promptFeedback", "prompt_feedback"))


def _candidate(body: object) -> Item:
    return next(iter(dicts_in(dict_or_empty(body).get("candidates"))), {})


def usage(body: object) -> Usage | None:
    """Return the usage of a reply: the prompt includes the cache, thoughts are counted apart from the candidates."""
    reported = reported_usage(body, "usageMetadata", "usage_metadata")
    counts = {key.replace("_", "").lower(): value for key, value in reported.items()}
    if not has_count(counts, "prompttokencount", "candidatestokencount", "totaltokencount"):
        return None
    cached = count(counts, "cachedcontenttokencount")
    return Usage(
        input=max(0, count(counts, "prompttokencount") + count(counts, "tooluseprompttokencount") - cached),
        output=count(counts, "candidatestokencount"),
        reasoning=count(counts, "thoughtstokencount"),
        cache_read=cached,
        total=count(counts, "totaltokencount") or None,
    )


def finish(body: object) -> Finish | None:
    """Return why a candidate ended; one that calls a function ends with STOP all the same."""
    candidate = _candidate(body)
    reason = finish_named(candidate.get("finishReason") or candidate.get("finish_reason"))
    parts = dicts_in(dict_or_empty(candidate.get("content")).get("parts"))
    has_calls = any({"functionCall", "function_call"} & part.keys() for part in parts)
    return "tool-calls" if reason == "stop" and has_calls else reason


# Streams.


MARKS = frozenset({"candidates", "usageMetadata", "promptFeedback"})
"""Fields of which a piece of a reply has at least one."""


class GeminiReply:
    """Gathers the first candidate of a reply.

    Neighbouring texts become one, as in a reply that is not streamed. A part with a signature stays by itself, since the API
    wants it back in its place.
    """

    def __init__(self) -> None:
        self._fields: Item = {}
        self._candidate: Item = {}
        self._content: Item = {}
        self._parts: list[Item] = []

    @property
    def is_finished(self) -> bool:
        """Whether the candidate has a finish reason."""
        return bool(self._candidate.get("finishReason"))

    def take(self, kind: str, event: Item, emit: Emit) -> None:
        """Add a piece of a reply; anything else is ignored."""
        del kind
        if not MARKS & event.keys():
            return
        counts = dict_or_empty(self._fields.get("usageMetadata")) | dict_or_empty(event.get("usageMetadata"))
        self._fields |= {field: value for field, value in event.items() if field not in ("candidates", "error")}
        self._fields |= {"usageMetadata": counts} if counts else {}
        for candidate in dicts_in(event.get("candidates")):
            if not candidate.get("index"):
                self._take_candidate(candidate, emit)

    def reply(self) -> Item | None:
        """Return the reply so far, `None` before its first piece."""
        if not self._fields and not self._candidate:
            return None
        content = {"role": "model", **self._content, "parts": join_pieces(self._parts)}
        candidates = [{**self._candidate, "content": content}] if self._candidate else []
        return {**self._fields, "candidates": candidates}

    def _take_candidate(self, candidate: Item, emit: Emit) -> None:
        content = dict_or_empty(candidate.get("content"))
        fields = {field: value for field, value in candidate.items() if field != "content" and value is not None}
        self._candidate |= {"index": 0} | fields
        self._content |= {field: value for field, value in content.items() if field != "parts"}
        for part in dicts_in(content.get("parts")):
            emit("reasoning" if part.get("thought") else "text", part.get("text"))
            emit("call", dict_or_empty(part.get("functionCall")).get("name"))
            last = self._parts[-1] if self._parts else {}
            is_more = _is_plain_text(part) and _is_plain_text(last)
            if is_more and bool(part.get("thought")) == bool(last.get("thought")):
                append_text(last, "text", part["text"])
            elif part:
                self._parts.append({**part})


def _is_plain_text(part: Item) -> bool:
    return isinstance(part.get("text"), str | TextPieces) and part.keys() <= {"text", "thought"}


def new_builder() -> ReplyBuilder:
    """Return a builder for one streamed reply."""
    return ReplyBuilder(GeminiReply(), may_be_array=True)
