"""Content blocks, in the dialects of Anthropic, OpenAI, LangChain and their users, as core parts.

One table for all: the block types do not collide, and recorded sessions mix them. Text under the user's role is
searched for what a harness put there; a block of a type not known is kept as JSON text marked synthetic.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.json import encode

from infold.core.messages import FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from infold.formats.transcripts.values import integer, items, json_text, mapping, string, user_parts

IMAGE_TOKENS = 1_600
"""What a medium is taken to cost until its size is known; an upper bound over the providers."""
TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "refusal"})
CALL_TYPES = frozenset({"tool_use", "toolCall", "tool_call", "server_tool_use", "mcp_tool_use"})
MEDIA_TYPES = frozenset(
    {"image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio", "video"}
)


def reply_parts(content: Any) -> tuple[Part, ...]:
    """What a model wrote: a string or blocks."""
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    return tuple(part for block in items(content) for part in _part(block, said=_as_is))


def read_blocks(content: Any, *, synthetic: bool = False) -> tuple[Part, ...]:
    """What stands under the user's role: a string or blocks; all of it a program's if `synthetic`."""

    def said(written: str) -> tuple[TextPart, ...]:
        return user_parts(written, synthetic=synthetic) if written else ()

    if isinstance(content, str):
        return said(content)
    return tuple(part for block in items(content) for part in _part(block, said=said))


def _as_is(written: str) -> tuple[TextPart, ...]:
    return (TextPart(written),) if written else ()


def _part(block: Any, *, said: Any) -> Iterator[Part]:
    if isinstance(block, str):
        yield from said(block)
        return
    kind = string(mapping(block).get("type"))
    if kind in TEXT_TYPES or (not kind and "text" in mapping(block)):
        yield from said(string(block.get("text") or block.get("refusal")))
    elif kind in ("thinking", "reasoning", "redacted_thinking"):
        yield _reasoning(block)
    elif kind in CALL_TYPES:
        yield _call(block)
    elif kind == "tool_result" or kind.endswith("_tool_result"):
        yield result_part(string(block.get("tool_use_id")), block)
    elif kind in MEDIA_TYPES:
        yield file_part(block)
    elif block:
        yield TextPart(json_text(block), synthetic=True)


def reasoning_part(thought: str, secret: Any = None) -> ReasoningPart:
    """A thought; `secret` is what its provider wants back, kept as JSON."""
    return ReasoningPart(thought, provider_data=encode(secret).decode()) if secret else ReasoningPart(thought)


def call_part(call_id: str, tool: str, arguments: Any, secret: Any = None) -> ToolCallPart:
    """A call; `secret` as for a thought."""
    written = json_text(arguments)
    if not secret:
        return ToolCallPart(call_id, tool, written)
    return ToolCallPart(call_id, tool, written, provider_data=encode(secret).decode())


def _reasoning(block: dict[str, Any]) -> ReasoningPart:
    thought = string(block.get("thinking") or block.get("reasoning") or block.get("text"))
    summary = "\n".join(string(mapping(item).get("text")) for item in items(block.get("summary")))
    kept = ("signature", "thinkingSignature", "data", "encrypted_content", "redacted")
    secret = {key: block[key] for key in kept if block.get(key)}
    return reasoning_part(thought or summary, secret)


def _call(block: dict[str, Any]) -> ToolCallPart:
    arguments = next((block[key] for key in ("input", "arguments", "args") if block.get(key) is not None), None)
    signature = block.get("thoughtSignature")
    secret = {"thoughtSignature": signature} if signature else None
    return call_part(string(block.get("id")), string(block.get("name")), arguments, secret)


def result_part(call_id: str, block: dict[str, Any], *, tool: str = "") -> ToolResultPart:
    """A tool's answer whose `content` is a string or blocks; media become files beside the text."""
    content = block.get("content")
    parts = read_blocks(content) if not isinstance(content, dict) else (TextPart(json_text(content)),)
    return ToolResultPart(
        call_id=call_id,
        tool=tool or string(block.get("name")),
        output=content if isinstance(content, str) else plain_text(parts),
        status="error" if block.get("is_error") or block.get("isError") else "completed",
        files=tuple(part for part in parts if isinstance(part, FilePart)),
    )


def plain_text(parts: tuple[Part, ...]) -> str:
    """The texts of the parts, one after the other."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def file_part(block: dict[str, Any]) -> FilePart:
    """A medium by its type, name and size; its bytes are not kept."""
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
        byte_size=len(encoded) * 3 // 4 or integer(block.get("size")),
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
    kind = string(block.get("type")).removeprefix("input_").removesuffix("_url")
    return told or ("application/octet-stream" if kind in ("file", "document", "") else f"{kind}/*")
