"""Claude Code session files: one JSON object a line, one API reply split over several of them.

Lines of one `message.id` become one message, with their usage counted once. Sub-agents (sidechain lines, and the
progress lines of Task calls) become sessions of their own. What the harness wrote under the user's role is marked.
The stream that `claude -p --output-format stream-json` prints is read too.
"""

import re
from typing import Any

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, MessageId, Part, TextPart, ToolResultPart, Usage, WorkPath
from infold.formats import anthropic
from infold.formats.codec import finish_named
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    dig,
    exit_code,
    integer,
    mapping,
    model_ref,
    plain_text,
    reply_parts,
    string,
    time_ms,
    user_blocks,
)

EXIT_CODE = re.compile(r"Exit code (\d{1,9})\b")


NO_MODEL = "<synthetic>"
"""The model named on replies that Claude Code wrote itself, such as API errors."""


def recognises(head: Head) -> bool:
    """Return whether lines hold a user's or assistant's Anthropic message, or Claude Code's bookkeeping."""
    return any(
        (value.get("type") in ("user", "assistant") and "content" in mapping(value, "message"))
        or ("sessionId" in value and "uuid" in value and "parentUuid" in value)
        or value.get("type") == "file-history-snapshot"
        or (value.get("type") == "summary" and "leafUuid" in value)
        for value in head.records
    )


def read(source: Source) -> list[RecordedSession]:
    """Return the main session first, then its sub-agents."""
    reader = _Reader(source.issues)
    for line, value in source.records():
        reader.take(value, line)
    return reader.sessions()


class _Reader:
    """Passes each line to the session it belongs to."""

    def __init__(self, issues: Issues) -> None:
        self._issues = issues
        self._main = _Thread(SessionDraft("", issues))
        self._agents: dict[str, _Thread] = {}
        self._agent_of_line: dict[str, str] = {}
        self._seen: set[str] = set()

    def take(self, value: dict[str, Any], line: int) -> None:
        self._main.draft.id = self._main.draft.id or string(value.get("sessionId") or value.get("session_id"))
        kind = string(value, "type")
        if kind == "progress" and dig(value, "data", "type") == "agent_progress":
            inner = mapping(value, "data", "message")
            if not self._is_repeated(string(inner, "uuid"), line):
                self._thread(string(value, "data", "agentId")).take(inner)
        elif kind in ("user", "assistant", "attachment") or value.get("subtype") == "compact_boundary":
            self._take_line(value, line)
        else:
            detail = string(value.get("subtype") or dig(value, "data", "type"))
            self._issues.skip(f"bookkeeping: {kind or 'no type'} {detail}".rstrip(), line)

    def _take_line(self, value: dict[str, Any], line: int) -> None:
        own = string(value, "uuid")
        if self._is_repeated(own, line):
            return
        agent = self._agent(value) if value.get("isSidechain") or value.get("parent_tool_use_id") else ""
        self._agent_of_line[own] = agent
        (self._thread(agent) if agent else self._main).take(value)

    def _is_repeated(self, own: str, line: int) -> bool:
        if own and own in self._seen:
            self._issues.skip("a line is repeated", line)
            return True
        self._seen.add(own)
        return False

    def _agent(self, value: dict[str, Any]) -> str:
        """Return the agent of a line: newer lines name it; older ones are a chain whose first line has no parent."""
        parent = string(value, "parentUuid")
        named = string(value.get("agentId") or value.get("parent_tool_use_id"))
        return named or self._agent_of_line.get(parent) or string(value, "uuid")

    def _thread(self, agent: str) -> "_Thread":
        if agent not in self._agents:
            self._agents[agent] = _Thread(SessionDraft(f"agent-{agent}", self._issues))
        return self._agents[agent]

    def sessions(self) -> list[RecordedSession]:
        for thread in self._agents.values():
            thread.draft.parent = self._main.draft.id
        threads = [self._main, *self._agents.values()]
        return [thread.finished() for thread in threads if thread.draft.messages]


class _Thread:
    """The lines of one session, in order."""

    def __init__(self, draft: SessionDraft) -> None:
        self.draft = draft
        self._replies: dict[str, int] = {}
        self._boundary: dict[str, Any] | None = None

    def take(self, value: dict[str, Any]) -> None:
        match value.get("type"):
            case "assistant":
                self._take_reply(value)
            case "user":
                self._take_user(value)
            case "attachment":
                self._take_attachment(value)
            case _:
                self._end_boundary()
                self._boundary = mapping(value, "compactMetadata")

    def finished(self) -> RecordedSession:
        self._end_boundary()
        return self.draft.session()

    def _take_reply(self, value: dict[str, Any]) -> None:
        reply = _reply(value)
        self.draft.start_calls(reply.parts, reply.created_ms)
        earlier = self._replies.get(reply.id)
        if earlier is None:
            self._replies[reply.id] = self.draft.add(reply)
        else:
            self._merge(earlier, reply)

    def _merge(self, index: int, later: AssistantMessage) -> None:
        first = self.draft.messages[index]
        assert isinstance(first, AssistantMessage)
        more = tuple(part for part in later.parts if part not in first.parts)
        self.draft.messages[index] = replace(
            first,
            parts=(*first.parts, *more),
            usage=_fuller(first.usage, later.usage),
            finish=later.finish or first.finish,
        )

    def _take_user(self, value: dict[str, Any]) -> None:
        summarised = bool(value.get("isCompactSummary"))
        content = dig(value, "message", "content")
        synthetic = summarised or bool(value.get("isMeta"))
        parts = tuple(self._completed(part, value) for part in user_blocks(content, synthetic=synthetic))
        if summarised:
            self._compact(plain_text(parts))
        self.draft.add_user(parts, string(value, "uuid"), time_ms(value, "timestamp"))

    def _completed(self, part: Part, value: dict[str, Any]) -> Part:
        if not isinstance(part, ToolResultPart):
            return part
        told = mapping(value, "toolUseResult")
        stopped = told.get("interrupted") is True or part.output.startswith("[Request interrupted")
        return replace(
            part,
            status="interrupted" if stopped else part.status,
            exit_status=_exit_status(part, told),
            started_ms=self.draft.started_ms.get(part.call_id),
            finished_ms=time_ms(value, "timestamp"),
        )

    def _take_attachment(self, value: dict[str, Any]) -> None:
        """Add what is sent along with a message: a prompt typed meanwhile is the user's, the rest the harness's."""
        attachment = mapping(value, "attachment")
        queued = attachment.get("type") == "queued_command"
        content = attachment.get("prompt") if queued else attachment.get("content")
        parts = user_blocks(content, synthetic=not queued) if isinstance(content, str | list) else ()
        self.draft.add_user(parts, string(value, "uuid"), time_ms(value, "timestamp"))

    def _end_boundary(self) -> None:
        if self._boundary is not None:
            self._compact("")

    def _compact(self, summary: str) -> None:
        metadata, self._boundary = self._boundary or {}, None
        self.draft.add_compaction(
            summary, tokens_before=integer(metadata, "preTokens") or None, first_kept=len(self.draft.messages)
        )


def _reply(value: dict[str, Any]) -> AssistantMessage:
    message = mapping(value, "message")
    failed = bool(value.get("isApiErrorMessage")) or message.get("model") == NO_MODEL
    parts = reply_parts(message.get("content"))
    cwd = string(value, "cwd")
    return AssistantMessage(
        id=MessageId(string(message.get("id") or value.get("uuid"))),
        parts=tuple(replace(p, synthetic=True) if failed and isinstance(p, TextPart) else p for p in parts),
        created_ms=time_ms(value, "timestamp"),
        model=None if failed else model_ref(message.get("model"), "anthropic"),
        path=WorkPath(cwd=cwd, root=cwd) if cwd else None,
        usage=None if failed else anthropic.usage(message),
        finish=finish_named(message.get("stop_reason")),
        error=plain_text(parts) if value.get("isApiErrorMessage") else "",
    )


def _fuller(first: Usage | None, later: Usage | None) -> Usage | None:
    """Return the usage of the line written last: output grows while a reply is streamed."""
    if first is None or later is None:
        return first or later
    return later if later.output >= first.output else first


def _exit_status(part: ToolResultPart, told: dict[str, Any]) -> int | None:
    """Return the recorded status; a command without one succeeded."""
    if (code := exit_code(told, "exitCode")) is not None:
        return code
    found = EXIT_CODE.match(part.output)
    if part.status == "error":
        return int(found[1]) if found else None
    unfinished = told.get("interrupted") or told.get("backgroundTaskId") or told.get("returnCodeInterpretation")
    return 0 if "stdout" in told and not unfinished else None
