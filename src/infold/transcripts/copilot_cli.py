"""Copilot CLI event logs: one event a line, with a type, an id and a `data` object.

What the user typed is `content`; what the model got is `transformedContent`, in which the program's additions are
marked. Events that name a parent tool call belong to a sub-agent and become a session of their own.
"""

from typing import Any

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, MessageId, ModelRef, Part, ToolResultPart, Usage, WorkPath
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    call_part,
    dig,
    file_part,
    integer,
    items,
    mapping,
    model_ref,
    openai_usage,
    reasoning_part,
    reply_parts,
    string,
    time_ms,
    to_json,
    user_blocks,
    user_parts,
)


def recognises(head: Head) -> bool:
    """Return whether there are events of Copilot's own types, each with its data."""
    kinds = {string(value, "type") for value in head.records if isinstance(value.get("data"), dict)}
    return bool(kinds & {"session.start", "user.message", "assistant.message", "tool.execution_start"})


def read(source: Source) -> list[RecordedSession]:
    """Return the main session first, then its sub-agents."""
    reader = _Reader(source.issues)
    for line, value in source.records():
        reader.take(value, line)
    drafts = [reader.main, *reader.agents.values()]
    return [draft.session() for draft in drafts if draft.messages]


class _Reader:
    def __init__(self, issues: Issues) -> None:
        self.main = SessionDraft("", issues)
        self.agents: dict[str, SessionDraft] = {}
        self._model: ModelRef | None = None
        self._path: WorkPath | None = None
        self._tools: dict[str, str] = {}

    def take(self, event: dict[str, Any], line: int) -> None:
        data = mapping(event, "data")
        at = time_ms(event, "timestamp")
        draft = self._draft(string(data, "parentToolCallId"))
        match event.get("type"):
            case "session.start" | "session.resume":
                self._take_start(data)
            case "session.model_change":
                self._model = model_ref(data.get("newModel")) or self._model
            case "system.message":
                draft.system = draft.system or string(data, "content")
            case "user.message":
                draft.add_user(_user_parts(data), string(event, "id"), at)
            case "system.notification" | "skill.invoked":
                draft.add_user(user_blocks(string(data, "content"), synthetic=True), string(event, "id"), at)
            case "assistant.message":
                self._take_reply(draft, event, data)
            case "assistant.usage":
                _take_usage(draft, data)
            case "tool.execution_start":
                self._take_start_of_tool(data, at)
            case "tool.execution_complete":
                self._take_result(draft, event, data)
            case "session.compaction_complete":
                _take_compaction(draft, data)
            case "abort":
                _change_last_reply(draft, finish="abort")
            case other:
                self.main.issues.skip(f"bookkeeping: {other}", line)

    def _draft(self, parent_call: str) -> SessionDraft:
        if not parent_call:
            return self.main
        if parent_call not in self.agents:
            agent = SessionDraft(f"agent-{parent_call}", self.main.issues, parent=self.main.id)
            agent.started_ms = self.main.started_ms
            self.agents[parent_call] = agent
        return self.agents[parent_call]

    def _take_start(self, data: dict[str, Any]) -> None:
        self.main.id = self.main.id or string(data, "sessionId")
        self._model = model_ref(data.get("selectedModel")) or self._model
        cwd = string(data, "context", "cwd")
        if cwd:
            self._path = WorkPath(cwd=cwd, root=string(data, "context", "gitRoot") or cwd)

    def _take_reply(self, draft: SessionDraft, event: dict[str, Any], data: dict[str, Any]) -> None:
        output = integer(data, "outputTokens")
        draft.add(
            AssistantMessage(
                id=MessageId(string(data.get("messageId") or event.get("id")) or draft.new_id()),
                parts=_reply_parts(data),
                created_ms=time_ms(event, "timestamp"),
                model=model_ref(data.get("model")) or self._model,
                path=self._path,
                usage=Usage(output=output) if output else None,
            )
        )

    def _take_start_of_tool(self, data: dict[str, Any], at: int | None) -> None:
        call_id = string(data, "toolCallId")
        self.main.started_ms[call_id] = at
        self._tools[call_id] = string(data, "toolName")

    def _take_result(self, draft: SessionDraft, event: dict[str, Any], data: dict[str, Any]) -> None:
        call_id = string(data, "toolCallId")
        failed = data.get("success") is False
        said = dig(data, "error", "message") if failed else dig(data, "result", "content")
        part = ToolResultPart(
            call_id=call_id,
            tool=self._tools.get(call_id, ""),
            output=said if isinstance(said, str) else to_json(data.get("error") or data.get("result")),
            status="error" if failed else "completed",
        )
        draft.add_result(part, string(event, "id"), time_ms(event, "timestamp"))


def _user_parts(data: dict[str, Any]) -> tuple[Part, ...]:
    """Return the user's words as typed, and around them what the program added for the model."""
    typed, sent = string(data, "content"), string(data, "transformedContent")
    files = tuple(file_part({**mapping(file), "type": "file"}) for file in items(data, "attachments"))
    before, found, after = sent.partition(typed) if typed else ("", "", sent)
    if not found:
        return (*user_parts(typed or sent), *files)
    head, tail = (user_blocks(piece, synthetic=True) if piece.strip() else () for piece in (before, after))
    return (*head, *user_parts(typed), *tail, *files)


def _reply_parts(data: dict[str, Any]) -> tuple[Part, ...]:
    thought = string(data, "reasoningText")
    secret = {key: data[key] for key in ("reasoningOpaque", "encryptedContent") if data.get(key)}
    calls = (mapping(call) for call in items(data, "toolRequests"))
    return (
        *((reasoning_part(thought, secret),) if thought or secret else ()),
        *reply_parts(string(data, "content")),
        *(call_part(string(call, "toolCallId"), string(call, "name"), call.get("arguments")) for call in calls),
    )


def _take_usage(draft: SessionDraft, data: dict[str, Any]) -> None:
    told = {
        "prompt_tokens": data.get("inputTokens"),
        "completion_tokens": data.get("outputTokens"),
        "cache_read_input_tokens": data.get("cacheReadTokens"),
        "cache_creation_input_tokens": data.get("cacheWriteTokens"),
    }
    _change_last_reply(draft, usage=openai_usage(told))


def _take_compaction(draft: SessionDraft, data: dict[str, Any]) -> None:
    if data.get("success") is False:
        return
    summary = string(data, "summaryContent")
    draft.add_compaction(summary, tokens_before=integer(data, "preCompactionTokens") or None)
    draft.add_user(user_blocks(summary, synthetic=True))


def _change_last_reply(draft: SessionDraft, **changes: Any) -> None:
    for index in range(len(draft.messages) - 1, -1, -1):
        if isinstance(draft.messages[index], AssistantMessage):
            draft.messages[index] = replace(draft.messages[index], **changes)
            return
