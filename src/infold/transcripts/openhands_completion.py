"""OpenHands (litellm) completion logs: the messages of one request, and the response to it.

The last request of a run holds its whole history; only its response has usage.
"""

from typing import Any

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, SystemMessage, text_of
from infold.transcripts.record import Draft, Notes, RecordedSession
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    chat_message,
    dig,
    finish_of,
    items,
    json_text,
    mapping,
    model_ref,
    number,
    openai_usage,
    string,
    time_ms,
)


def recognises(head: Head) -> bool:
    """An object with chat messages and a response that has choices."""
    return isinstance(dig(head.document, "messages"), list) and isinstance(
        dig(head.document, "response", "choices"), list
    )


def read(source: Source, notes: Notes) -> list[RecordedSession]:
    """The one session of a log, named after its response."""
    document = mapping(source.document())
    draft = Draft(string(dig(document, "response", "id")) or "completion", notes)
    tools = dig(document, "kwargs", "tools") or document.get("tools")
    draft.tools = json_text(tools) if tools else ""
    for value in items(document.get("messages")):
        _take(draft, mapping(value), notes)
    _take_response(draft, document)
    return [draft.session()] if draft.messages else []


def _take(draft: Draft, value: dict[str, Any], notes: Notes) -> None:
    message = chat_message(value, draft.new_id())
    if isinstance(message, SystemMessage) and not draft.messages:
        draft.system = text_of(message)
    elif message is not None:
        draft.add(message)
    else:
        notes.skip("a message has no role that is known")


def _take_response(draft: Draft, document: dict[str, Any]) -> None:
    response = mapping(document.get("response"))
    draft.model = model_ref(response.get("model"))
    choice = mapping(next(iter(items(response.get("choices"))), None))
    reply = chat_message({"role": "assistant", **mapping(choice.get("message"))}, draft.new_id())
    if isinstance(reply, AssistantMessage):
        draft.add(
            replace(
                reply,
                created_ms=time_ms(document.get("timestamp") or response.get("created")),
                model=draft.model,
                usage=openai_usage(response.get("usage")),
                cost=number(document.get("cost")),
                finish=finish_of(choice.get("finish_reason")),
            )
        )
