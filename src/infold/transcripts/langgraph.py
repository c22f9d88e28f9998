"""LangGraph thread states: LangChain messages under `values`, or a bare list of such messages.

Messages may stand as they are, as `{type, data}` or as LangChain's constructor records. A message that a summarising
middleware wrote is a compaction.
"""

from typing import Any

from msgspec.structs import replace

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
    Usage,
    UserMessage,
)
from infold.formats.codec import finish_named, inclusive_usage
from infold.transcripts.record import RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    call_part,
    dig,
    integer,
    items,
    mapping,
    model_ref,
    plain_text,
    reply_parts,
    result_part,
    string,
    time_ms,
    user_blocks,
)

KINDS = frozenset({"human", "ai", "AIMessageChunk", "HumanMessageChunk", "tool"})


def recognises(head: Head) -> bool:
    """Return whether an object or list holds LangChain messages."""
    messages = _messages(head.document)
    return bool(messages) and any(string(_flat(message).get("type")) in KINDS for message in messages[:5])


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of a thread."""
    document = source.document()
    state = document[0] if isinstance(document, list) and document else document
    thread = dig(state, "metadata", "thread_id") or dig(state, "checkpoint", "thread_id") or dig(state, "thread_id")
    draft = SessionDraft(string(thread) or source.name, source.issues)
    for message in _messages(document):
        _take(draft, _flat(message))
    return draft.sessions()


def _messages(document: Any) -> list[Any]:
    """Return the messages of a state; a list of states begins with the newest, which holds them all."""
    if isinstance(document, list):
        first = mapping(document[0]) if document else {}
        return _messages(first) if "values" in first else document
    for path in (("values", "messages"), ("channel_values", "messages"), ("messages",)):
        if isinstance(found := dig(document, *path), list):
            return found
    return []


def _flat(message: Any) -> dict[str, Any]:
    """Return the message's fields at one level, with its type in lower case words."""
    value = mapping(message)
    if isinstance(value.get("data"), dict):
        return {**value["data"], "type": value.get("type")}
    if value.get("type") == "constructor":
        names = items(value, "id")
        kind = string(names[-1]) if names else ""
        return {"type": kind.removesuffix("Message").lower(), **mapping(value, "kwargs")}
    return value


def _take(draft: SessionDraft, value: dict[str, Any]) -> None:
    name = MessageId(string(value, "id") or draft.new_id())
    message = _message(value, name)
    if message is None:
        draft.issues.skip(f"bookkeeping: {string(value.get('type'))} message")
    elif isinstance(message, SystemMessage) and not draft.messages:
        draft.system = plain_text(message.parts)
    else:
        if _is_summary(value):
            draft.add_compaction(plain_text(message.parts), first_kept=len(draft.messages))
        draft.add(message)


def _message(value: dict[str, Any], name: MessageId) -> Message | None:
    match string(value, "type").removesuffix("MessageChunk").lower():
        case "human" | "user":
            return UserMessage(name, user_blocks(value.get("content"), synthetic=_is_summary(value)))
        case "ai" | "assistant":
            return _reply(value, name)
        case "tool":
            return _result(value, name)
        case "system" | "developer":
            return SystemMessage(name, (TextPart(plain_text(reply_parts(value.get("content")))),))
        case _:
            return None


def _is_summary(value: dict[str, Any]) -> bool:
    return bool(dig(value, "additional_kwargs", "lc_source") == "summarization")


def _reply(value: dict[str, Any], name: MessageId) -> AssistantMessage:
    metadata = mapping(value, "response_metadata")
    return AssistantMessage(
        id=name,
        parts=_reply_parts(value),
        created_ms=time_ms(value, "created_at"),
        agent=string(value, "name"),
        model=model_ref(metadata.get("model_name") or metadata.get("model"), metadata.get("model_provider")),
        usage=_usage(mapping(value, "usage_metadata")),
        finish=finish_named(metadata.get("finish_reason") or metadata.get("stop_reason")),
    )


def _reply_parts(value: dict[str, Any]) -> tuple[Part, ...]:
    """Return a reply's parts; calls stand in `tool_calls`, and providers may repeat them among the blocks."""
    thought = string(value, "additional_kwargs", "reasoning_content")
    blocks = tuple(part for part in reply_parts(value.get("content")) if not isinstance(part, ToolCallPart))
    calls = [mapping(call) for key in ("tool_calls", "invalid_tool_calls") for call in items(value.get(key))]
    return (
        *((ReasoningPart(thought),) if thought else ()),
        *blocks,
        *(call_part(string(call, "id"), string(call, "name"), call.get("args")) for call in calls),
    )


def _result(value: dict[str, Any], name: MessageId) -> ToolMessage:
    part = result_part(string(value, "tool_call_id"), value)
    return ToolMessage(name, (replace(part, status="error") if value.get("status") == "error" else part,))


def _usage(usage: dict[str, Any]) -> Usage | None:
    """Return usage: LangChain's input includes the cache, its output includes reasoning."""
    if not usage:
        return None
    return inclusive_usage(
        prompt=integer(usage, "input_tokens"),
        completion=integer(usage, "output_tokens"),
        cached=integer(usage, "input_token_details", "cache_read"),
        written=integer(usage, "input_token_details", "cache_creation"),
        reasoning=integer(usage, "output_token_details", "reasoning"),
        total=integer(usage, "total_tokens"),
    )
