"""What readers share: values of any type read safely, usage and models, content blocks, chat messages, marked text."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    ModelRef,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    text_of,
)
from infold.formats.codec import finish_named, inclusive_usage
from infold.formats.harness_text import split_harness_text
from infold.transcripts.record import SessionDraft

PROVIDERS = {"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai",
             "codex": "openai", "gemini": "google", "deepseek": "deepseek", "grok": "xai", "mistral": "mistral"}  # fmt: skip
"""Providers by the beginning of a model's name; used only if the record has none."""


MILLISECONDS_FROM = 100_000_000_000
"""A time above this is in milliseconds, below it in seconds (year 5138 and year 1973)."""


def dig(value: Any, *path: str) -> Any:
    """Return the value found by walking down through objects, or `None`."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


# Each of these reads the value at a path, or the value itself.


def mapping(value: Any, *path: str) -> dict[str, Any]:
    """Return an object, empty if the value is anything else."""
    found = dig(value, *path)
    return found if isinstance(found, dict) else {}


def items(value: Any, *path: str) -> list[Any]:
    """Return a list, empty if the value is anything else."""
    found = dig(value, *path)
    return found if isinstance(found, list) else []


def string(value: Any, *path: str) -> str:
    """Return a string, or the digits of a number; empty if the value is anything else."""
    found = dig(value, *path)
    if isinstance(found, str):
        return found
    return str(found) if isinstance(found, int | float) and not isinstance(found, bool) else ""


def number(value: Any, *path: str) -> float:
    """Return a number of sensible size, else zero; NaN and infinity are zero too."""
    found = dig(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not -(2.0**62) < found < 2.0**62:
        return 0.0
    return float(found)


def integer(value: Any, *path: str) -> int:
    """Return a whole number that is not negative, else zero."""
    return max(0, int(number(value, *path)))


def exit_code(value: Any, *path: str) -> int | None:
    """Return a number that can be a command's exit status, else `None`."""
    found = dig(value, *path)
    is_plausible = isinstance(found, int) and not isinstance(found, bool) and abs(found) < 2**31
    return int(found) if is_plausible else None


def to_json(value: Any) -> str:
    """Return a tool's arguments as JSON text; a string is taken to be JSON already."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode({} if value is None else value).decode()
    except RecursionError:
        return '"nested too deep"'


def time_ms(value: Any, *path: str) -> int | None:
    """Return a time, given as ISO text, seconds or milliseconds, in milliseconds; text without a zone is UTC."""
    found = dig(value, *path)
    if isinstance(found, str):
        try:
            moment = datetime.fromisoformat(found)
        except ValueError:
            return None
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    amount = number(found)
    if not 0 < amount < MILLISECONDS_FROM * 1000:
        return None
    return int(amount if amount > MILLISECONDS_FROM else amount * 1000)


def model_ref(name: Any, provider: Any = "") -> ModelRef | None:
    """Return the model; `provider/model` names are split, known names get their provider."""
    full = string(name)
    if not full:
        return None
    maker, _, rest = full.partition("/")
    if not string(provider) and rest:
        return ModelRef(provider=maker, id=rest)
    known = next((who for start, who in PROVIDERS.items() if full.startswith(start)), "")
    return ModelRef(provider=string(provider) or known, id=full)


def openai_usage(value: Any) -> Usage | None:
    """Return usage whose prompt includes cached tokens and whose output includes reasoning, in the words of any recorder."""
    if not mapping(value):
        return None
    sent = mapping(value.get("prompt_tokens_details") or value.get("input_tokens_details"))
    reasoned = mapping(value.get("completion_tokens_details") or value.get("output_tokens_details"))
    cached = (value.get(key) for key in ("cache_read_input_tokens", "cached_input_tokens", "prompt_cache_hit_tokens"))
    return inclusive_usage(
        prompt=integer(value.get("prompt_tokens", value.get("input_tokens"))),
        completion=integer(value.get("completion_tokens", value.get("output_tokens"))),
        cached=integer(sent.get("cached_tokens") or next(filter(None, cached), 0)),
        written=integer(sent.get("cache_creation_tokens") or value.get("cache_creation_input_tokens")),
        reasoning=integer(reasoned.get("reasoning_tokens") or value.get("reasoning_output_tokens")),
        total=integer(value, "total_tokens"),
    )


def user_parts(said: str, *, synthetic: bool = False) -> tuple[TextPart, ...]:
    """Return text under the user's role, with harness text marked."""
    if synthetic:
        return (TextPart(said, synthetic=True),)
    return tuple(TextPart(piece.text, synthetic=piece.injected) for piece in split_harness_text(said))


IMAGE_TOKENS = 1_600
"""Assumed cost of a medium until its size is known; an upper bound over the providers."""


TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "refusal"})


CALL_TYPES = frozenset({"tool_use", "toolCall", "tool_call", "server_tool_use", "mcp_tool_use"})


MEDIA_TYPES = frozenset(
    {"image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio", "video"}
)


def reply_parts(content: Any) -> tuple[Part, ...]:
    """Return what a model wrote: a string or blocks."""
    blocks = [content] if isinstance(content, str) else items(content)
    return tuple(part for block in blocks for part in _part(block, said=lambda text: (TextPart(text),)))


def user_blocks(content: Any, *, synthetic: bool = False) -> tuple[Part, ...]:
    """Return what stands under the user's role, a string or blocks; all of it synthetic if a program wrote it."""
    blocks = [content] if isinstance(content, str) else items(content)
    return tuple(part for block in blocks for part in _part(block, said=partial(user_parts, synthetic=synthetic)))


def _part(block: Any, *, said: Callable[[str], tuple[TextPart, ...]]) -> Iterator[Part]:
    kind = string(block, "type")
    if isinstance(block, str) or kind in TEXT_TYPES or (not kind and "text" in mapping(block)):
        text = block if isinstance(block, str) else string(block.get("text") or block.get("refusal"))
        yield from said(text) if text else ()
    elif kind in ("thinking", "reasoning", "redacted_thinking"):
        yield _reasoning(block)
    elif kind in CALL_TYPES:
        yield _call(block)
    elif kind == "tool_result" or kind.endswith("_tool_result"):
        yield result_part(string(block, "tool_use_id"), block)
    elif kind in MEDIA_TYPES:
        yield file_part(block)
    elif block:
        yield TextPart(to_json(block), synthetic=True)


def reasoning_part(thought: str, secret: Any = None) -> ReasoningPart:
    """Return a thought; `secret` is data for its provider, kept as JSON."""
    return ReasoningPart(thought, provider_data=msgspec.json.encode(secret).decode() if secret else "")


def call_part(call_id: str, tool: str, arguments: Any, secret: Any = None) -> ToolCallPart:
    """Return a call; `secret` is data for its provider, kept as JSON."""
    data = msgspec.json.encode(secret).decode() if secret else ""
    return ToolCallPart(call_id, tool, to_json(arguments), provider_data=data)


def _reasoning(block: dict[str, Any]) -> ReasoningPart:
    thought = string(block.get("thinking") or block.get("reasoning") or block.get("text"))
    summary = "\n".join(string(item, "text") for item in items(block, "summary"))
    kept = ("signature", "thinkingSignature", "data", "encrypted_content", "redacted")
    secret = {key: block[key] for key in kept if block.get(key)}
    return reasoning_part(thought or summary, secret)


def _call(block: dict[str, Any]) -> ToolCallPart:
    arguments = next((block[key] for key in ("input", "arguments", "args") if block.get(key) is not None), None)
    signature = block.get("thoughtSignature")
    secret = {"thoughtSignature": signature} if signature else None
    return call_part(string(block, "id"), string(block, "name"), arguments, secret)


def result_part(call_id: str, block: dict[str, Any], *, tool: str = "") -> ToolResultPart:
    """Return a tool's result whose `content` is a string or blocks; media become files."""
    content = block.get("content")
    parts = user_blocks(content) if not isinstance(content, dict) else (TextPart(to_json(content)),)
    return ToolResultPart(
        call_id=call_id,
        tool=tool or string(block, "name"),
        output=content if isinstance(content, str) else plain_text(parts),
        status="error" if block.get("is_error") or block.get("isError") else "completed",
        files=tuple(part for part in parts if isinstance(part, FilePart)),
    )


def plain_text(parts: tuple[Part, ...]) -> str:
    """Join the texts of the parts."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def file_part(block: dict[str, Any]) -> FilePart:
    """Return a medium by its type, name and size; its bytes are not kept."""
    inner = mapping(block.get("source") or block.get("image_url") or block.get("file"))
    where = _location(block, inner)
    encoded = string(inner.get("data") or block.get("data") or inner.get("file_data"))
    if where.startswith("data:"):
        where, _, encoded = where.partition(",")
    return FilePart(
        media_type=_media_type(block, inner, where),
        tokens=IMAGE_TOKENS,
        name=string(block.get("filename") or block.get("title") or inner.get("filename")),
        reference="" if where.startswith("data:") else where,
        byte_size=len(encoded) * 3 // 4 or integer(block, "size"),
    )


def _location(block: dict[str, Any], inner: dict[str, Any]) -> str:
    for value in (block.get("image_url"), block.get("image"), inner.get("url"), block.get("url"), inner.get("file_id")):
        if isinstance(value, str) and value:
            return value
    return ""


def _media_type(block: dict[str, Any], inner: dict[str, Any], where: str) -> str:
    if where.startswith("data:"):
        return where[5:].split(";")[0] or "application/octet-stream"
    keys = ("media_type", "mediaType", "mimeType", "mime_type", "mime")
    told = next((string(source[key]) for source in (inner, block) for key in keys if source.get(key)), "")
    kind = string(block, "type").removeprefix("input_").removesuffix("_url")
    return told or ("application/octet-stream" if kind in ("file", "document", "") else f"{kind}/*")


def chat_message(value: dict[str, Any], message_id: str, *, created_ms: int | None = None) -> Message | None:
    """Return one chat message as a core message, `None` if its role is unknown."""
    name = MessageId(message_id)
    match value.get("role"):
        case "system" | "developer":
            return SystemMessage(name, (TextPart(plain_text(reply_parts(value.get("content")))),), created_ms)
        case "user" | "human":
            return UserMessage(name, user_blocks(value.get("content")), created_ms)
        case "assistant" | "ai":
            parts = (*_thoughts(value), *reply_parts(value.get("content")), *chat_calls(value))
            return AssistantMessage(name, parts, created_ms)
        case "tool" | "function":
            return ToolMessage(name, (_result(value),), created_ms)
        case _:
            return None


def add_chat_message(draft: SessionDraft, value: dict[str, Any], *, created_ms: int | None = None) -> None:
    """Add a chat message to a session; a system message before all others is the session's system prompt."""
    message = chat_message(value, draft.new_id(), created_ms=created_ms)
    if message is None:
        draft.issues.skip("a message has no role that is known")
    elif isinstance(message, SystemMessage) and not draft.messages:
        draft.system = text_of(message)
    else:
        draft.add(message)


def first_choice(response: Any) -> dict[str, Any]:
    """Return the first choice of a chat reply."""
    return mapping(next(iter(items(response, "choices")), None))


def with_response(reply: AssistantMessage, response: dict[str, Any], provider: Any = "") -> AssistantMessage:
    """Return a reply with the model, usage and finish reason of the provider's chat response."""
    return replace(
        reply,
        model=model_ref(response.get("model"), provider),
        usage=openai_usage(response.get("usage")),
        finish=finish_named(first_choice(response).get("finish_reason")),
    )


def _thoughts(value: dict[str, Any]) -> tuple[Part, ...]:
    blocks = reply_parts(value.get("thinking_blocks"))
    thought = string(value.get("reasoning_content") or value.get("reasoning"))
    return blocks or ((ReasoningPart(thought),) if thought else ())


def chat_calls(value: dict[str, Any]) -> tuple[ToolCallPart, ...]:
    """Return the calls of an assistant message, including the old single `function_call`."""
    legacy = mapping(value, "function_call")
    if legacy:
        return (call_part(_legacy_id(legacy), string(legacy, "name"), legacy.get("arguments")),)
    return tuple(_chat_call(mapping(call)) for call in items(value, "tool_calls"))


def _chat_call(call: dict[str, Any]) -> ToolCallPart:
    function = mapping(call, "function") or call
    arguments = function.get("arguments", function.get("args"))
    signature = mapping(call, "provider_specific_fields")
    return call_part(string(call, "id"), string(function, "name"), arguments, signature)


def _result(value: dict[str, Any]) -> Part:
    if value.get("role") == "function":
        return result_part(_legacy_id(value), value)
    found = result_part(string(value.get("tool_call_id") or value.get("id")), value)
    return replace(found, status="error") if value.get("error") is True else found


def _legacy_id(value: dict[str, Any]) -> str:
    return f"function-{string(value.get('name'))}"


COMMAND_FENCE = re.compile(r"^```(?:bash|sh|shell|mswea_bash_command)[ \t]*\n", re.MULTILINE)


class MarkedText(NamedTuple):
    """A piece of text; `inside` if it stood between the marks, which are not part of it."""

    text: str
    inside: bool


def split_marked(text: str, opening: str, closing: str) -> Iterator[MarkedText]:
    """Yield the text's pieces in order, inside and outside of the marks; an unclosed mark is plain text.

    Plain searches in place of lazy regular expressions, which would take quadratic time on hostile text.
    """
    done = 0
    while (start := text.find(opening, done)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        yield MarkedText(text[done:start], inside=False)
        yield MarkedText(text[start + len(opening) : end], inside=True)
        done = end + len(closing)
    yield MarkedText(text[done:], inside=False)


def strip_marked(text: str, opening: str, closing: str) -> str:
    """Return the text without its marked stretches and their marks."""
    return "".join(piece.text for piece in split_marked(text, opening, closing) if not piece.inside)


def fenced_command(text: str) -> str | None:
    """Return the first fenced shell command, if its fence is closed."""
    found = COMMAND_FENCE.search(text)
    if found is None:
        return None
    end = text.find("\n```", found.end() - 1)
    return text[found.end() : end] if end >= found.end() else None
