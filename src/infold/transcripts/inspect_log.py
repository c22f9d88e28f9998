"""Inspect evaluation logs in JSON: one session per sample.

The messages of a sample are its final state; its events have usage and time (a model event by the id of the message
it made, a tool event by the call). Long texts are stored apart as attachments and are put back.
"""

from typing import Any

from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    SystemMessage,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    text_of,
)
from infold.formats.codec import finish_named, inclusive_usage
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    call_part,
    chat_message,
    dig,
    first_choice,
    integer,
    items,
    mapping,
    model_ref,
    reply_parts,
    result_part,
    string,
    time_ms,
    to_json,
    user_blocks,
)

ATTACHMENT = "attachment://"


def recognises(head: Head) -> bool:
    """Return whether an object has an evaluation and its samples."""
    return isinstance(dig(head.document, "eval"), dict) and "samples" in mapping(head.document)


def read(source: Source) -> list[RecordedSession]:
    """Return one session per sample and epoch."""
    document = mapping(source.document())
    model = dig(document, "eval", "model")
    samples = (mapping(sample) for sample in items(document, "samples"))
    sessions = [_Sample(sample, source.issues).session(model) for sample in samples]
    return [session for session in sessions if session.messages]


class _Sample:
    def __init__(self, sample: dict[str, Any], issues: Issues) -> None:
        name = string(sample, "uuid") or f"{string(sample.get('id'))}-{string(sample.get('epoch'))}"
        self.draft = SessionDraft(name, issues)
        self._messages = [mapping(message) for message in items(sample, "messages")]
        self._attachments = mapping(sample, "attachments")
        events = [mapping(event) for event in items(sample, "events")]
        self._model_events = [event for event in events if event.get("event") == "model"]
        self._made = {string(first_choice(event.get("output")), "message", "id"): event for event in self._model_events}
        self._ran = {string(event, "id"): event for event in events if event.get("event") == "tool"}

    def session(self, model: Any) -> RecordedSession:
        self.draft.model = model_ref(model)
        tools = next((event["tools"] for event in self._model_events if event.get("tools")), None)
        self.draft.tools = to_json(self._restored(tools)) if tools else ""
        for value in self._messages:
            self._take(value)
        return self.draft.session()

    def _take(self, value: dict[str, Any]) -> None:
        name = MessageId(string(value, "id") or self.draft.new_id())
        value = self._restored(value)
        message = self._message(value, name)
        if isinstance(message, SystemMessage) and not self.draft.messages:
            self.draft.system = "\n".join(filter(None, (self.draft.system, text_of(message))))
        elif message is not None:
            self.draft.add(message)

    def _message(self, value: dict[str, Any], name: MessageId) -> Message | None:
        match value.get("role"):
            case "assistant":
                return self._reply(value, name)
            case "tool":
                return ToolMessage(name, (self._result(value),))
            case "user":
                return UserMessage(name, user_blocks(value.get("content"), synthetic=_is_programs(value)))
            case _:
                return chat_message(value, name)

    def _reply(self, value: dict[str, Any], name: MessageId) -> AssistantMessage:
        event = mapping(self._made.get(name))
        return AssistantMessage(
            id=name,
            parts=_reply_parts(value),
            created_ms=time_ms(event, "timestamp"),
            model=model_ref(event.get("model") or value.get("model")),
            usage=_usage(mapping(event, "output", "usage")),
            finish=finish_named(first_choice(event.get("output")).get("stop_reason")),
            error=string(event, "error"),
        )

    def _result(self, value: dict[str, Any]) -> ToolResultPart:
        call_id = string(value, "tool_call_id")
        part = result_part(call_id, value, tool=string(value, "function"))
        event = mapping(self._ran.get(call_id))
        failure = string(value, "error", "message")
        return replace(
            part,
            output=part.output or failure,
            status="error" if failure else part.status,
            started_ms=time_ms(event, "timestamp"),
            finished_ms=time_ms(event, "completed"),
        )

    def _restored(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(ATTACHMENT):
            return self._attachments.get(value.removeprefix(ATTACHMENT), value)
        if isinstance(value, list):
            return [self._restored(item) for item in value]
        if isinstance(value, dict):
            return {key: self._restored(item) for key, item in value.items()}
        return value


def _is_programs(value: dict[str, Any]) -> bool:
    """Return whether an agent's scaffold added the user message, unlike the sample's input and a person's words."""
    return value.get("source") not in (None, "input", "operator")


def _reply_parts(value: dict[str, Any]) -> tuple[Part, ...]:
    calls = [mapping(call) for call in items(value, "tool_calls")]
    made = (call_part(string(call, "id"), string(call, "function"), call.get("arguments")) for call in calls)
    return (*reply_parts(value.get("content")), *made)


def _usage(usage: dict[str, Any]) -> Usage | None:
    """Return usage: output includes reasoning; whether input includes the cache can only be seen from the total."""
    if not usage:
        return None
    sent, output = integer(usage, "input_tokens"), integer(usage, "output_tokens")
    read, written = integer(usage, "input_tokens_cache_read"), integer(usage, "input_tokens_cache_write")
    total = integer(usage, "total_tokens")
    return inclusive_usage(
        prompt=sent if total == sent + output else sent + read + written,
        completion=output,
        cached=read,
        written=written,
        reasoning=integer(usage, "reasoning_tokens"),
        total=total,
    )
