"""Decode wire items to messages and encode a view back: untouched messages as their sources, changed ones as patched copies.

A format lists the slots of an item that hold parts and writes a slot. This module finds what changed and copies only the
path to it: fields that a format does not know survive, and the caller's objects are never modified.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, takewhile
from math import isinf
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Finish,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    ResultStatus,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    UserMessage,
)
from infold.core.view import REQUEST_TEXT
from infold.errors import BrokenInput, kind_of
from infold.formats.harness_text import OPENINGS, split_harness_text
from infold.formats.pairing import OpenCall, Pairing

Item: TypeAlias = dict[str, Any]

LISTS, NUMBERS = (list, tuple), (int, float)
"""For `isinstance` where it is called for every message or event: each call would make a new union."""

_PLAIN = (str, *NUMBERS, *LISTS)

NewMessage: TypeAlias = Callable[[MessageId, tuple[Part, ...]], Message]

MOST_DIGITS = 4_000
"""Digits of a number that is written out in full; Python itself writes no longer ones."""


class Decoded(Struct, frozen=True):
    """Messages with the wire items they were decoded from, position by position.

    `sources` holds the caller's own objects. `aliases` maps a call id of ours to the one on the wire where
    they differ, because a provider repeats or omits ids; empty if the wire has no id.
    """

    format: str
    messages: tuple[Message, ...]
    sources: tuple[tuple[object, ...], ...]
    aliases: dict[str, str] = {}


class MalformedError(BrokenInput):
    """An item of a wrong type. A decoder that knows the item's place raises it again with that place as `index`."""

    def __init__(self, problem: str, *, remedy: str, name: str = "messages", index: int | None = None) -> None:
        self.problem = problem
        self.remedy = remedy
        self.index = index
        super().__init__(name, problem if index is None else f"item {index}: {problem}", remedy=remedy)


def join_decoded(earlier: Decoded, later: Decoded) -> Decoded:
    """Join two stretches of one history, for a session that decodes only new items."""
    return Decoded(
        earlier.format,
        earlier.messages + later.messages,
        earlier.sources + later.sources,
        earlier.aliases | later.aliases,
    )


def decode_each(
    name: str,
    items: Sequence[object],
    read: Callable[[Item, MessageId, Pairing], Message],
    *,
    first: int,
    pairing: Pairing | None,
) -> Decoded:
    """Decode a history in which each item is one message."""
    pairs = pairing or Pairing()
    require_list(name, items)
    messages: list[Message] = []
    number = first
    try:
        for number, item in enumerate(items, first):
            wire = item if type(item) is dict else as_dict(item)
            messages.append(read(wire, MessageId(f"m{number}"), pairs))
    except MalformedError as problem:
        raise error_at(name, number - first, problem) from problem
    return Decoded(name, tuple(messages), tuple([(item,) for item in items]), dict(pairs.aliases))


def require_list(name: str, items: object) -> None:
    """Raise `BrokenInput` for a lone string or dict where a list of items belongs."""
    if not isinstance(items, LISTS):
        raise BrokenInput(
            name, f"the messages are one {type(items).__name__}, not a list", remedy="give a list of messages"
        )


def error_at(name: str, index: int, problem: MalformedError) -> MalformedError:
    """Return the error for the item at `index`."""
    return MalformedError(problem.problem, remedy=problem.remedy, name=name, index=index)


def as_dict(value: object) -> Item:
    """Return one item or block as a dict; a dict is returned as it is."""
    if isinstance(value, dict):
        return value
    if isinstance(value, bytes | bytearray | memoryview | Raw):
        return parse_object(bytes(value))
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return _dump_object(dump)
    if isinstance(value, Mapping):
        return dict(value)
    raise MalformedError(f"{kind_of(value)} stands where an object belongs", remedy="give a dict")


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def parse_object(text: bytes) -> Item:
    """Return JSON as an object; raise `MalformedError` for any other value or text."""
    try:
        return _decode_object(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _parse_object_slowly(text)


def _parse_object_slowly(text: bytes) -> Item:
    """Parse what the fast parser refuses: lone surrogates and numbers beyond a double."""
    try:
        value = json.loads(text, parse_float=_float)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise MalformedError(f"not JSON ({error})", remedy="give the item as the provider sent it") from error
    return as_dict(value)


def _float(text: str) -> float | Decimal:
    """Return a number, exact where a double cannot hold it, so that it is written as a number again."""
    value = float(text)
    try:
        return Decimal(text) if isinf(value) else value
    except ArithmeticError as error:
        raise ValueError("a number beyond all bounds") from error


def _dump_object(dump: Callable[..., Any]) -> Item:
    try:
        return as_dict(dump(mode="json", by_alias=True, exclude_unset=True))
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> MalformedError:
    return MalformedError("nested too deep to be read", remedy="flatten it or leave it out")


_ENCODED = (bytes, bytearray, memoryview, Raw)


def encode_like(source: object, item: Item) -> object:
    """Return a changed item in the type of its source: bytes stay bytes, `Raw` stays `Raw`, anything else is a dict."""
    if isinstance(source, Raw):
        return Raw(json_text(item).encode())
    return json_text(item).encode() if isinstance(source, _ENCODED) else item


_SURROGATES = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced, which UTF-8 cannot encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def _encode_other(value: object) -> object:
    if isinstance(value, Decimal):  # for the slow encoder, which has no way to write one; the quick one has its own
        return int(value) if value.adjusted() < MOST_DIGITS else str(value)
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump(mode="json", by_alias=True, exclude_unset=True)


_encode = msgspec.json.Encoder(enc_hook=_encode_other, decimal_format="number").encode


def json_text(value: object) -> str:
    """Return a wire value as JSON text."""
    try:
        return _encode(value).decode()
    except RecursionError:
        raise _too_deep() from None
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
        return _json_text_slowly(value)


def _json_text_slowly(value: object) -> str:
    """Encode what the fast encoder refuses: lone surrogates and numbers beyond 64 bits."""
    try:
        return replace_surrogates(json.dumps(value, ensure_ascii=False, default=_encode_other, separators=(",", ":")))
    except (RecursionError, ValueError):
        raise _too_deep() from None
    except TypeError as error:
        raise MalformedError(f"not JSON ({error})", remedy="use text as the keys of an object") from error


def dict_or_empty(value: object) -> Item:
    """Return an object, given in any form that `plain` takes; empty if the value is anything else."""
    if isinstance(value, dict):
        return value
    try:
        return {} if value is None or isinstance(value, _PLAIN) else as_dict(value)
    except MalformedError:
        return {}


def dicts_in(value: object) -> list[Item]:
    """Return the objects of a list; empty if the value is not a list."""
    if not isinstance(value, LISTS):
        return []
    return [
        one if isinstance(one, dict) else found
        for one in value
        if isinstance(one, dict) or (found := dict_or_empty(one))
    ]


def block_list(value: object, what: str) -> Sequence[Any]:
    """Return a list of blocks, empty for `None`; raise `MalformedError` for anything else."""
    if isinstance(value, LISTS):
        return value
    if value is None:
        return ()
    raise MalformedError(f"{what} is {kind_of(value)}", remedy="give text or a list of blocks")


def text_field(item: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that holds text, else an empty string."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and value:
            return replace_surrogates(value)
    return ""


def id_field(item: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that holds an id; some write ids as whole numbers."""
    for name in names:
        value = item.get(name)
        found = str(value) if type(value) is int else text_field(item, name)
        if found:
            return found
    return ""


NO_PARTNERS = frozenset({"file_id", "container_id", "response_id", "session_id", "thread_id", "vector_store_id"})
"""Fields with the id of something outside the history, which any number of blocks may share."""


def opaque_parts(value: Item, *links: str) -> tuple[Part, ...]:
    """Return a block that infold has no reading for as an opaque part, linked by the ids it holds to its partners.

    Those are its fields `id` and `…_id`, and the same of the objects in it: `server_tool_use` has in `id` what its result
    has in `tool_use_id`. `links` are for partners that have no id.
    """
    objects = (value, *(as_dict(inner) for inner in value.values() if isinstance(inner, dict)))
    ids = (id_field(one, name) for one in objects for name in one if _is_partners_id(name))
    return (TextPart(json_text(value), synthetic=True, opaque=True, links=(*filter(None, ids), *links)),)


def _is_partners_id(name: object) -> bool:
    return isinstance(name, str) and (name == "id" or name.endswith(("_id", "Id"))) and name not in NO_PARTNERS


def user_parts(text: str) -> tuple[Part, ...]:
    """Return a user's text as parts; text that a harness injected is marked synthetic."""
    if "<" not in text and not text.startswith(OPENINGS):
        return (TextPart(replace_surrogates(text)),)
    return tuple(
        TextPart(replace_surrogates(piece.text), synthetic=piece.injected, state=piece.state)
        for piece in split_harness_text(text)
    )


def text_parts(text: str, *, is_user: bool) -> tuple[Part, ...]:
    """Return a text of any role as parts."""
    return user_parts(text) if is_user else (TextPart(replace_surrogates(text)),)


ReadBlock: TypeAlias = Callable[[Item], tuple[Part, ...]]
"""Reads a block that holds no text of its own: a medium, or what only the provider can read."""


def block_parts(block: object, other: ReadBlock, *, is_user: bool = False) -> tuple[Part, ...]:
    """Return the parts of a block of content: its text, else what `other` reads in it."""
    value = block if isinstance(block, str) else as_dict(block)
    text = value if isinstance(value, str) else value.get("text", value.get("refusal"))
    return text_parts(text, is_user=is_user) if isinstance(text, str) else other(as_dict(value))


def join_lines(texts: Iterable[str]) -> str:
    """Join texts line by line, without empty ones."""
    return "\n".join([text for text in texts if text])


def arguments_text(value: object) -> str:
    """Return a call's arguments as the model wrote them, or as JSON if the wire has them parsed."""
    if isinstance(value, str):
        return replace_surrogates(value)
    return "{}" if value is None else json_text(value)


def arguments_object(arguments: str) -> Item:
    """Return arguments as an object; any other value is wrapped in one."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def custom_input(part: Part | None) -> str:
    """Return the free text of a custom tool's call, which our arguments hold in the field `input`."""
    value = arguments_object(remaining_text((part,))).get("input", "")
    return value if isinstance(value, str) else json_text(value)


def count(usage: Mapping[str, Any], field: str) -> int:
    """Return a number of tokens; 0 if the field is missing or cannot be one, since usage is never worth an error."""
    value = usage.get(field)
    is_count = isinstance(value, NUMBERS) and not isinstance(value, bool) and 0 <= value < 1e12
    return int(value) if is_count and value is not None else 0


def reported_usage(body: object, *fields: str) -> Item:
    """Return the usage object of a reply, or of a stream event that carries one; empty if there is none."""
    reply = dict_or_empty(body)
    holders = (reply, dict_or_empty(reply.get("message")), dict_or_empty(reply.get("response")))
    usages = (dict_or_empty(holder.get(field)) for field in fields for holder in holders)
    return next(filter(None, usages), {})


def has_count(usage: Mapping[str, Any], *fields: str) -> bool:
    """Return whether one of these fields is a number."""
    return any(isinstance(usage.get(field), NUMBERS) and usage[field] >= 0 for field in fields)


def inclusive_usage(*, prompt: int, completion: int, cached: int, written: int, reasoning: int, total: int) -> Usage:
    """Return usage whose prompt includes cached tokens and whose completion includes reasoning, each token in one field."""
    return Usage(
        input=max(0, prompt - cached - written),
        output=max(0, completion - reasoning),
        reasoning=reasoning,
        cache_read=cached,
        cache_write=written,
        total=total or None,
    )


def openai_usage(body: object, prompt: str, completion: str) -> Usage | None:
    """Return the usage of a reply of OpenAI's, `None` if it has none; the names are those of its fields, without `_tokens`."""
    reported = reported_usage(body, "usage")
    if not has_count(reported, f"{prompt}_tokens", f"{completion}_tokens", "total_tokens"):
        return None
    details = dict_or_empty(reported.get(f"{prompt}_tokens_details"))
    return inclusive_usage(
        prompt=count(reported, f"{prompt}_tokens"),
        completion=count(reported, f"{completion}_tokens"),
        cached=count(details, "cached_tokens") or count(reported, "prompt_cache_hit_tokens"),
        written=count(details, "cache_write_tokens"),
        reasoning=count(dict_or_empty(reported.get(f"{completion}_tokens_details")), "reasoning_tokens"),
        total=count(reported, "total_tokens"),
    )


# The provider's cache: how long it keeps a request, and why it did not serve one.

MARK_SECONDS = 300
"""How long Anthropic keeps what a mark without a lifetime covers."""

IN_MEMORY_SECONDS = 600
"""OpenAI drops a cache in memory after 5 to 10 minutes without a request."""

_LIFETIME = re.compile(r"(\d{1,5})([smhd])")
_REASON = re.compile(r"[a-z_]{1,60}")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MARK_DEPTH = 3
"""Marks stand on messages and tools, on their blocks, and on the blocks of a result."""


class ReportedMiss(NamedTuple):
    """Why a provider's cache did not serve a request, by the provider's own words: the reason, and the tokens concerned."""

    reason: str
    tokens: int

    @property
    def is_change(self) -> bool:
        """Whether something changed before the new messages; otherwise the provider knows no reason."""
        return self.reason.endswith(("_changed", "_compacted"))


def marked_seconds(messages: object, *others: object) -> int:
    """Return the longest lifetime that cache marks in messages ask for, or else those in what is sent before them.

    `others` are system prompt and tools; their marks cover no message. 0 without any mark.
    """
    for place in (messages, *others):
        longest, levels = 0, [place] if isinstance(place, LISTS) else []
        for _ in range(_MARK_DEPTH):
            blocks = [block for level in levels for block in level if type(block) is dict or isinstance(block, dict)]
            marked = [block for block in blocks if "cache_control" in block or "cachePoint" in block]
            marks = (block.get("cache_control", block.get("cachePoint")) for block in marked)
            lifetimes = (_seconds(mark.get("ttl")) or MARK_SECONDS for mark in marks if isinstance(mark, dict))
            longest = max((longest, *lifetimes))
            contents = [block["content"] for block in blocks if "content" in block]
            levels = [content for content in contents if type(content) is not str and isinstance(content, LISTS)]
            if not levels:
                break
        if longest:
            return longest
    return 0


def stated_cache_seconds(body: object) -> int:
    """Return the cache's lifetime that OpenAI's fields state, in a request or in a reply of Responses; 0 if none does.

    `prompt_cache_options` has the least lifetime, the older `prompt_cache_retention` the greatest.
    """
    fields = dict_or_empty(body)
    retention = fields.get("prompt_cache_retention")
    stated = _seconds(dict_or_empty(fields.get("prompt_cache_options")).get("ttl")) or _seconds(retention)
    return IN_MEMORY_SECONDS if not stated and retention in ("in_memory", "in-memory") else stated


def reported_miss(body: object) -> ReportedMiss | None:
    """Return why a reply says that the cache did not serve its request; `None` if it says nothing."""
    fields = dict_or_empty(body)
    found = dict_or_empty(dict_or_empty(fields.get("diagnostics")).get("cache_miss_reason"))
    if found:
        return ReportedMiss(_word(found.get("type")), count(found, "cache_missed_input_tokens"))
    found = dict_or_empty(fields.get("prompt_cache_diagnostics"))
    if not found or found.get("type") == "cache_hit":
        return None
    return ReportedMiss(_word(found.get("reason") or found.get("type")), count(found, "cache_missed_tokens"))


def _word(reason: object) -> str:
    return reason if isinstance(reason, str) and _REASON.fullmatch(reason) else "other"


def _seconds(lifetime: object) -> int:
    """Return a lifetime such as `5m` or `24h` in seconds; 0 for anything else."""
    found = _LIFETIME.fullmatch(lifetime) if isinstance(lifetime, str) else None
    return int(found[1]) * _UNIT_SECONDS[found[2]] if found else 0


_FINISHES: dict[str, Finish] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "completed"), "stop"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use", "tool-calls", "tooluse", "tool_call"), "tool-calls"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "length"),
    "model_context_window_exceeded": "length",
    **dict.fromkeys(("content_filter", "content-filter", "refusal", "safety", "image_safety"), "content-filter"),
    **dict.fromkeys(("content_filtered", "guardrail_intervened"), "content-filter"),
    **dict.fromkeys(("recitation", "blocklist", "prohibited_content", "spii", "language"), "content-filter"),
    **dict.fromkeys(("failed", "error", "malformed_function_call", "unexpected_tool_call"), "error"),
    **dict.fromkeys(("malformed_model_output", "malformed_tool_use"), "error"),
    **dict.fromkeys(("cancelled", "aborted", "abort"), "abort"),
}
"""Why a reply ended, in the words of providers and of recorded sessions, in lower case."""


def finish_named(reason: object) -> Finish | None:
    """Return why a reply ended; `None` if no reason is given."""
    return _FINISHES.get(reason.lower(), "other") if isinstance(reason, str) and reason else None


def result_or_text(
    call: OpenCall | None,
    output: str,
    *,
    status: ResultStatus = "completed",
    exit_status: int | None = None,
    files: tuple[FilePart, ...] = (),
) -> Part:
    """Return a result for the call it answers; without a call it becomes text, since the log takes no orphans."""
    if call is None:
        return TextPart(output, synthetic=True)
    return ToolResultPart(call.call_id, call.tool, output, status, exit_status, files=files)


def text_of_parts(parts: Iterable[Part]) -> str:
    """Return the text of these parts, line by line."""
    return join_lines([part.text for part in parts if isinstance(part, TextPart)])


def remaining_text(parts: Iterable[Part | None]) -> str:
    """Return the text left of a slot, in whichever field the part has it."""
    return "".join(_text(part) for part in parts if part is not None)


def _text(part: Part) -> str:
    if isinstance(part, ToolCallPart):
        return part.arguments
    if isinstance(part, ToolResultPart):
        return part.output
    return part.text if isinstance(part, TextPart | ReasoningPart) else ""


def read_result(
    call: OpenCall | None,
    content: object,
    other: ReadBlock,
    *,
    what: str = "content",
    status: ResultStatus = "completed",
) -> Part:
    """Return the result that a call got, from its content: a text or blocks."""
    blocks = () if isinstance(content, str) else block_list(content, what)
    parts = [part for block in blocks for part in block_parts(block, other)]
    output = replace_surrogates(content) if isinstance(content, str) else text_of_parts(parts)
    return result_or_text(
        call, output, status=status, files=tuple(part for part in parts if isinstance(part, FilePart))
    )


def replace_content(content: object, part: Part | None, other: ReadBlock, *, text_type: str) -> object:
    """Return a result's content with its text replaced; media stay if the part still has them.

    The new text takes the other fields of the first text block (a cache mark).
    """
    text = remaining_text((part,))
    if not isinstance(content, LISTS):
        return text
    result = without_digests(part) if isinstance(part, ToolResultPart) else None
    kept = result.files if isinstance(result, ToolResultPart) else ()
    texts = (as_dict(block) for block in content if not isinstance(block, str) and "text" in as_dict(block))
    new = {**next(texts, {"type": text_type} if text_type else {}), "text": text}
    return [
        *([new] if text else []),
        *(block for block in content if any(without_digests(found) in kept for found in block_parts(block, other))),
    ]


def without_digests(part: Part) -> Part:
    """Return a part without the digests of its media, which a log has only if it stores them."""
    match part:
        case FilePart() if part.digest:
            return replace(part, digest="")
        case ToolResultPart() if any(file.digest for file in part.files):
            return replace(part, files=tuple(replace(file, digest="") for file in part.files))
        case _:
            return part


def visible_parts(message: Message) -> tuple[Part, ...]:
    """Return the parts of a message that a model may see."""
    return tuple([part for part in message.parts if not (isinstance(part, TextPart) and part.ignored)])


def opaque_value(part: Part) -> Item:
    """Return an opaque part's block as its provider sent it; empty for any other part, and for an unknown item with a role."""
    if not isinstance(part, TextPart) or not part.opaque:
        return {}
    try:
        value = msgspec.json.decode(part.text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) and ("role" not in value or part.state) else {}


def provider_value(part: ReasoningPart | ToolCallPart) -> Any:
    """Return a part's provider data parsed, `None` if it is missing or cannot be parsed."""
    try:
        return msgspec.json.decode(part.provider_data) if part.provider_data else None
    except msgspec.DecodeError:
        return None


class Slot(NamedTuple):
    """A place in an item that holds parts: its path (empty for the item itself), its kind, its plain value."""

    path: tuple[str | int, ...]
    kind: str
    value: Any


JoinItems: TypeAlias = Callable[[Item, Item, Item], Item | None]
"""Joins the second and the third of three items into one; `None` keeps them apart."""


Origins: TypeAlias = list[int | None]
"""For each item of a request the number of the caller's item it was made from; `None` for infold's own."""


class ChangedItems(NamedTuple):
    """The items of a message that the view shows changed: what they were made from, and the number of each one's source among
    those of the message."""

    message: Message
    sources: Sequence[object]
    items: Sequence[object]
    offsets: Sequence[int | None]


class OwnItems(NamedTuple):
    """Messages of infold's own that stand together in each view until the next fold, and their items, none of which join.

    `changed` remembers the items of changed messages, by the identity of the message; `None`: nothing is remembered.
    """

    messages: tuple[Message, ...] = ()
    items: Sequence[Item] = ()
    changed: dict[int, ChangedItems] | None = None

    def place_in(self, view: Sequence[Message]) -> int:
        """Return where a view has these messages; its length if it does not."""
        first = self.messages[0] if self.messages else None
        place = next((place for place, message in enumerate(view) if message is first), len(view))
        return place if tuple(view[place : place + len(self.messages)]) == self.messages else len(view)

    def copied(self) -> "OwnItems":
        """Return them with items that a caller may change."""
        return self._replace(items=[_copied(item) for item in self.items], changed=None)


NO_OWN_ITEMS = OwnItems()


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied(inner) if type(inner) in _NESTED else inner for key, inner in value.items()}
    return [_copied(inner) if type(inner) in _NESTED else inner for inner in value]


_NESTED = (dict, list)


class _Sourced(NamedTuple):
    """Items of a request, and for each the number of the item it was made from."""

    items: Sequence[object]
    numbers: Sequence[int | None]


_UNSENT = (StepStartPart, StepFinishPart)
"""Marks of an agent's steps, which no wire carries."""


GONE: Any = object()
"""Replaces a slot none of whose parts is left."""


class Codec(Struct, frozen=True):
    """How a format reads and writes its items.

    `parts` returns the same number of parts for a slot, whatever the pairing. `replace` gets each part as it is now, `None` if
    it was removed. `as_text` puts text in place of a medium or a result. `tidy` repairs an item whose slots changed; `None`
    leaves it out.
    """

    slots: Callable[[Item], Iterable[Slot]]
    parts: Callable[[Slot, Pairing, MessageId], tuple[Part, ...]]
    replace: Callable[[Slot, tuple[Part | None, ...]], Any]
    as_text: Callable[[Slot, str], Any]
    tidy: Callable[[Item], Item | None]
    encode_new: Callable[[Message, Mapping[str, str]], list[Item]]


def content_slots(item: Item, kind: str) -> Iterator[Slot]:
    """Yield the slots of an item's `content`, a text or blocks; empty text is a slot only for a user."""
    content = item.get("content")
    if isinstance(content, str):
        if content or kind == "user":
            yield Slot(("content",), kind, content)
        return
    for index, block in enumerate(block_list(content, "content")):
        yield Slot(("content", index), kind, block if isinstance(block, str) else as_dict(block))


def decode_item(codec: Codec, item: Item, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    """Return all parts of an item, in the order of its slots, with harness text marked."""
    marked = pairing.harness_text.mark
    parts: list[Part] = []
    for slot in codec.slots(item):
        parts += marked(codec.parts(slot, pairing, message_id), message_id, is_user=slot.kind == "user")
    return tuple(parts)


def encode_view(
    codec: Codec,
    view: Sequence[Message],
    decoded: Decoded,
    *,
    join: JoinItems | None = None,
    origins: Origins | None = None,
    own: OwnItems = NO_OWN_ITEMS,
) -> list[object]:
    """Return the view as wire items: sources where nothing changed, patched copies, new items for infold's own messages.

    `join` may join two neighbours, given the item before them; it is called only if one of them is infold's own message.
    `origins` is filled in with the sources of the items. `own` was written before.
    """
    written = _WrittenItems(codec, decoded, join, own.changed)
    place = len(view) if isinstance(_first_source(decoded), _ENCODED) else own.place_in(view)
    if place < len(view):
        written.write_all(view[:place])
        written.add_own(own.items)
        view = view[place + len(own.messages) :]
    written.write_all(view)
    if origins is not None:
        origins[:] = written.numbers
    return written.items


def follow_items(items: Sequence[object], origins: Origins, moved: Sequence[object]) -> Origins:
    """Return the origins of items that were moved; an item that is not among those before has none."""
    numbers: dict[int, list[int]] = {}
    for item, number in zip(items, origins, strict=True):
        if number is not None:
            numbers.setdefault(id(item), []).append(number)
    found = (numbers.get(id(item)) for item in moved)
    return [left.pop(0) if left else None for left in found]


class _WrittenItems:
    """The items of a view, and for each the number of the caller's item it was made from, while they are written."""

    def __init__(
        self, codec: Codec, decoded: Decoded, join: JoinItems | None, changed: dict[int, ChangedItems] | None
    ) -> None:
        self._changed = changed
        self.items: list[object] = []
        self.numbers: Origins = []
        self._codec = codec
        self._decoded = decoded
        self._join = join
        self._places = {message.id: place for place, message in enumerate(decoded.messages)}
        self._starts = list(accumulate(map(len, decoded.sources), initial=0))
        self._ends_with_own = False

    def write_all(self, messages: Sequence[Message]) -> None:
        """Add the items of messages; where these are the newest decoded ones, their sources at once."""
        decoded = self._decoded
        own = len(list(takewhile(lambda message: message.id not in self._places, messages)))
        count = len(messages) - own
        sources = decoded.sources[len(decoded.sources) - count :]
        is_newest = bool(sources) and bool(sources[0]) and tuple(messages[own:]) == decoded.messages[-count:]
        for message in messages[:own] if is_newest else messages:
            self.write(message)
        if is_newest:
            items = [source for found in sources for source in found]
            self._add_sources(items, range(self._starts[-1] - len(items), self._starts[-1]))

    def write(self, message: Message) -> None:
        """Add the items of a message."""
        place, decoded = self._places.get(message.id), self._decoded
        if place is None:
            self.add_own(_encode_new(self._codec, message, decoded))
            return
        first = self._starts[place]
        items: Sequence[object]
        numbers: Sequence[int | None]
        if message is decoded.messages[place] or message.parts == decoded.messages[place].parts:
            items = decoded.sources[place]
            numbers = range(first, first + len(items))
        else:
            changed = self._changed_items(message, place)
            items = changed.items
            numbers = [None if offset is None else first + offset for offset in changed.offsets]
        self._add_sources(items, numbers)

    def _changed_items(self, message: Message, place: int) -> ChangedItems:
        """Return the items of a changed message, written once for all requests."""
        known = None if self._changed is None else self._changed.get(id(message))
        sources = self._decoded.sources[place]
        if known is not None and known.message is message and _has_same_items(known.sources, sources):
            return known
        items, offsets = _encode_changed(self._codec, message, self._decoded, place)
        written = ChangedItems(message, sources, items, offsets)
        if self._changed is not None:
            self._changed[id(message)] = written
        return written

    def _add_sources(self, items: Sequence[object], numbers: Sequence[int | None]) -> None:
        self._add(items, numbers, joins=self._ends_with_own)
        self._ends_with_own = False

    def add_own(self, items: Sequence[object]) -> None:
        """Add the items of infold's own messages."""
        self._add(items, (None,) * len(items), joins=True)
        self._ends_with_own = True

    def _add(self, items: Sequence[object], numbers: Sequence[int | None], *, joins: bool) -> None:
        is_joined = joins and self._join is not None and self._join_first(items, numbers, self._join)
        self.items += items[1:] if is_joined else items
        self.numbers += numbers[1:] if is_joined else numbers

    def _join_first(self, new: Sequence[object], numbers: Sequence[int | None], join: JoinItems) -> bool:
        """Join the first of new items with the last one, which takes its place, if `join` does."""
        items = self.items
        before = as_dict(items[-2]) if len(items) > 1 else {}
        together = join(before, as_dict(items[-1]), as_dict(new[0])) if items and new else None
        if together is None:
            return False
        items[-1] = encode_like(items[-1], together)
        self.numbers[-1] = numbers[0] if self.numbers[-1] is None else self.numbers[-1]
        return True


def _has_same_items(one: Sequence[object], other: Sequence[object]) -> bool:
    """Return whether two sequences hold the very same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def with_user_first(view: Sequence[Message]) -> Sequence[Message]:
    """Return a view for a provider that wants a user message first: a summary at its start gets a request before it."""
    first = view[0] if view else None
    if not isinstance(first, AssistantMessage) or not first.summary:
        return view
    return (UserMessage(MessageId("request-opening"), (TextPart(REQUEST_TEXT, synthetic=True),)), *view)


def _encode_new(codec: Codec, message: Message, decoded: Decoded) -> list[object]:
    """Return items for a message of infold's own, in the type of the caller's first item."""
    source = _first_source(decoded)
    return [encode_like(source, item) for item in codec.encode_new(message, decoded.aliases)]


def _first_source(decoded: Decoded) -> object:
    return decoded.sources[0][0] if decoded.sources and decoded.sources[0] else None


def _encode_changed(codec: Codec, message: Message, decoded: Decoded, place: int) -> _Sourced:
    """Return the items of a changed message, and for each the number of its source among those of the message."""
    original = tuple(map(without_digests, decoded.messages[place].parts))
    fates = _match_parts(
        original, tuple(without_digests(part) for part in message.parts if not isinstance(part, _UNSENT))
    )
    items: list[object] = []
    numbers: list[int | None] = []
    taken = 0
    for number, source in enumerate(decoded.sources[place]):
        item = as_dict(source)
        edits: dict[tuple[str | int, ...], Any] = {}
        for slot in codec.slots(item):
            end = taken + len(codec.parts(slot, Pairing(), message.id))
            if tuple(fates[taken:end]) != original[taken:end]:
                edits[slot.path] = _replace_slot(codec, slot, original[taken:end], tuple(fates[taken:end]))
            taken = end
        edited = _apply_edits(codec, source, item, edits)
        items += edited
        numbers += (number,) * len(edited)
    extra = tuple([part for part in fates[len(original) :] if part is not None])
    new = _encode_new(codec, replace(message, parts=extra), decoded) if extra else []
    return _Sourced([*items, *new], [*numbers, *(None,) * len(new)])


def _replace_slot(codec: Codec, slot: Slot, old: tuple[Part, ...], new: tuple[Part | None, ...]) -> Any:
    if isinstance(old[0], FilePart | ToolResultPart) and isinstance(new[0], TextPart):
        return codec.as_text(slot, new[0].text)
    return codec.replace(slot, new)


def _match_parts(original: tuple[Part, ...], parts: tuple[Part, ...]) -> list[Part | None]:
    """Return each original part as it is now (`None` if it was removed), then the parts that are new."""
    if len(original) == len(parts):
        return [*parts]
    fates: list[Part | None] = []
    at = 0
    left, wanted = Counter(map(type, original)), Counter(map(type, parts))
    for part in original:
        kind = type(part)
        is_kept = at < len(parts) and _is_same(part, parts[at], is_needed=left[kind] <= wanted[kind])
        fates.append(parts[at] if is_kept else None)
        left[kind] -= 1
        wanted[kind] -= is_kept
        at += is_kept
    return [*fates, *parts[at:]]


def _is_same(old: Part, new: Part, *, is_needed: bool) -> bool:
    """Return whether one part is the other, perhaps changed. Parts without an id match by equality, or if all left are needed."""
    if type(old) is not type(new):
        return False
    if isinstance(old, ToolCallPart | ToolResultPart) and isinstance(new, ToolCallPart | ToolResultPart):
        return old.call_id == new.call_id
    return old == new or is_needed


def _apply_edits(codec: Codec, source: object, item: Item, edits: dict[tuple[str | int, ...], Any]) -> list[object]:
    if not edits:
        return [source]
    if () in edits:
        return [] if edits[()] is GONE else [encode_like(source, edits[()])]
    edited = _edited_copy(item, edits)
    tidy = codec.tidy(edited)
    return [] if tidy is None else [encode_like(source, tidy)]


def _edited_copy(item: Item, edits: dict[tuple[str | int, ...], Any]) -> Item:
    """Return a copy of the item with these slots changed, which shares all else with it."""
    copy = dict(item)
    for key in {path[0] for path in edits}:
        if (key,) in edits:
            copy[str(key)] = edits[(key,)]
        else:
            blocks = [edits.get((key, index), block) for index, block in enumerate(copy[str(key)])]
            copy[str(key)] = [block for block in blocks if block is not GONE]
    return {key: value for key, value in copy.items() if value is not GONE}
