"""mini-swe-agent trajectories: chat messages, with calls of the tool `bash` or a fenced command in the text.

With the text protocol the one fenced command is the call, and the user message with the return code is its result.
The last message (`exit`) is the submission; the model never sees it.
"""

import re
from typing import Any

from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    text_of,
)
from infold.transcripts.record import RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    chat_message,
    dig,
    exit_code,
    fenced_command,
    items,
    mapping,
    model_ref,
    number,
    string,
    time_ms,
    to_json,
    with_response,
)

RETURN_CODE = re.compile(r"<returncode>(-?\d{1,9})</returncode>")


def recognises(head: Head) -> bool:
    """Return whether an object names the format, or has mini's statistics next to its messages."""
    told = string(head.document, "trajectory_format")
    return told.startswith("mini-swe-agent") or (
        isinstance(dig(head.document, "messages"), list) and isinstance(dig(head.document, "info", "model_stats"), dict)
    )


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of a run."""
    document = mapping(source.document())
    draft = SessionDraft(string(document, "instance_id") or source.name, source.issues)
    draft.model = model_ref(dig(document, "info", "config", "model", "model_name"))
    reader = _Reader(draft)
    for value in items(document, "messages"):
        reader.take(mapping(value))
    return draft.sessions()


class _Reader:
    def __init__(self, draft: SessionDraft) -> None:
        self.draft = draft
        self._asked = ""
        self._replied_ms: int | None = None

    def take(self, value: dict[str, Any]) -> None:
        extra = mapping(value, "extra")
        at = time_ms(extra, "timestamp")
        message = chat_message(value, self.draft.new_id(), created_ms=at)
        if isinstance(message, SystemMessage) and not self.draft.messages:
            self.draft.system = text_of(message)
        elif isinstance(message, AssistantMessage):
            self._take_reply(message, extra)
        elif message is not None:
            self.draft.add(self._answered(message, extra))
        elif value.get("role") == "exit":
            submission = TextPart(string(value, "content"), synthetic=True, ignored=True)
            self.draft.add_user((submission,), created_ms=at)
        else:
            self.draft.issues.skip("a message has no role that is known")

    def _take_reply(self, message: AssistantMessage, extra: dict[str, Any]) -> None:
        self._replied_ms = message.created_ms
        parts = (*message.parts, *self._fenced_call(message))
        reply = replace(message, parts=parts, cost=number(extra, "cost"))
        provider = self.draft.model and self.draft.model.provider
        self.draft.add(with_response(reply, mapping(extra, "response"), provider))

    def _fenced_call(self, message: AssistantMessage) -> tuple[ToolCallPart, ...]:
        command = fenced_command(text_of(message))
        self._asked = ""
        if command is None or calls_of(message):
            return ()
        self._asked = f"{message.id}-bash"
        return (ToolCallPart(self._asked, "bash", to_json({"command": command})),)

    def _answered(self, message: Message, extra: dict[str, Any]) -> Message:
        """Return a tool's message with what is known of its run; a return code in text is the fenced command's result."""
        if isinstance(message, UserMessage) and self._asked and self._is_output(message, extra):
            part = ToolResultPart(self._asked, "bash", text_of(message))
            self._asked = ""
            message = ToolMessage(message.id, (part,), message.created_ms)
        if not isinstance(message, ToolMessage):
            return message
        parts = tuple(
            self._timed(part, message, extra) if isinstance(part, ToolResultPart) else part for part in message.parts
        )
        return replace(message, parts=parts)

    def _is_output(self, message: UserMessage, extra: dict[str, Any]) -> bool:
        said = text_of(message)
        return "returncode" in extra or RETURN_CODE.search(said[:200]) is not None or "<output>" in said[:400]

    def _timed(self, part: ToolResultPart, message: ToolMessage, extra: dict[str, Any]) -> ToolResultPart:
        found = RETURN_CODE.search(part.output[:200])
        told = exit_code(extra, "returncode")
        exit_status = told if told is not None or found is None else int(found[1])
        return replace(
            part,
            tool=part.tool or "bash",
            status="error" if extra.get("exception_info") else part.status,
            exit_status=exit_status,
            started_ms=self._replied_ms,
            finished_ms=message.created_ms,
        )
