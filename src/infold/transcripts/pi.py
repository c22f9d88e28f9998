"""pi session files: a header line, then entries; usage and cost stand on every reply.

A compaction entry names the first entry it kept, by index in old files and by id in new ones; its summary stands
as a synthetic user message where pi puts it. A command the user ran is a call with the agent `user`. Entries form
a tree; they are read in file order.
"""

from typing import Any

from infold.core.messages import AssistantMessage, MessageId, TextPart, ToolCallPart, ToolResultPart, Usage, WorkPath
from infold.formats.codec import finish_named
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    exit_code,
    integer,
    mapping,
    model_ref,
    number,
    reply_parts,
    result_part,
    string,
    time_ms,
    to_json,
    user_blocks,
)

ROLES = frozenset({"user", "assistant", "toolResult", "bashExecution"})


def recognises(head: Head) -> bool:
    """Return whether there is a session header with a folder, or messages in pi's roles without a payload."""
    return any(
        (value.get("type") == "session" and "cwd" in value and "id" in value)
        or (value.get("type") == "message" and string(value, "message", "role") in ROLES and "payload" not in value)
        for value in head.records
    )


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of a file."""
    reader = _Reader(source.issues)
    for line, value in source.records():
        reader.take(value, line)
    return reader.draft.sessions()


class _Reader:
    def __init__(self, issues: Issues) -> None:
        self.draft = SessionDraft("", issues)
        self._path: WorkPath | None = None
        self._index_of_entry: list[int] = []
        self._index_of_id: dict[str, int] = {}

    def take(self, entry: dict[str, Any], line: int) -> None:
        self._index_of_entry.append(len(self.draft.messages))
        self._index_of_id[string(entry, "id")] = len(self.draft.messages)
        name = string(entry, "id") or f"entry-{line}"
        match entry.get("type"):
            case "session":
                self._take_header(entry)
            case "message":
                self._take_message(mapping(entry, "message"), name, entry)
            case "compaction":
                self._take_compaction(entry, name)
            case "branch_summary":
                self.draft.add_user((TextPart(string(entry, "summary"), synthetic=True),), name)
            case "custom_message":
                self.draft.add_user(user_blocks(entry.get("content"), synthetic=True), name)
            case other:
                self.draft.issues.skip(f"bookkeeping: {other}", line)

    def _take_header(self, entry: dict[str, Any]) -> None:
        self.draft.id = self.draft.id or string(entry, "id")
        self.draft.model = model_ref(entry.get("modelId"), entry.get("provider"))
        cwd = string(entry, "cwd")
        self._path = WorkPath(cwd=cwd, root=cwd) if cwd else None

    def _take_message(self, message: dict[str, Any], name: str, entry: dict[str, Any]) -> None:
        at = time_ms(message, "timestamp") or time_ms(entry, "timestamp")
        match message.get("role"):
            case "user":
                self.draft.add_user(user_blocks(message.get("content")), name, at)
            case "assistant":
                self._take_reply(message, name, at)
                # A reply's own time is when it began; its entry's is when it ended and its calls were run.
                self.draft.start_calls(self.draft.messages[-1].parts, time_ms(entry, "timestamp") or at)
            case "toolResult":
                self._take_result(message, name, at)
            case "bashExecution":
                self._take_command(message, name, at)
            case _:
                content = message.get("content") or message.get("summary")
                self.draft.add_user(user_blocks(content, synthetic=True), name, at)

    def _take_reply(self, message: dict[str, Any], name: str, at: int | None) -> None:
        self.draft.add(
            AssistantMessage(
                id=MessageId(name),
                parts=reply_parts(message.get("content")),
                created_ms=at,
                model=model_ref(message.get("model"), message.get("provider")),
                path=self._path,
                usage=_usage(mapping(message, "usage")),
                cost=number(message, "usage", "cost", "total"),
                finish=finish_named(message.get("stopReason")),
                error=string(message, "errorMessage"),
            )
        )

    def _take_result(self, message: dict[str, Any], name: str, at: int | None) -> None:
        part = result_part(string(message, "toolCallId"), message, tool=string(message, "toolName"))
        self.draft.add_result(part, name, at)

    def _take_command(self, message: dict[str, Any], name: str, at: int | None) -> None:
        call = ToolCallPart(f"{name}-bash", "bash", to_json({"command": message.get("command")}))
        self.draft.add(AssistantMessage(MessageId(name), (call,), at, agent="user"))
        part = ToolResultPart(
            call.call_id,
            "bash",
            string(message, "output"),
            status="interrupted" if message.get("cancelled") else "completed",
            exit_status=exit_code(message, "exitCode"),
        )
        self.draft.add_result(part, f"{name}-result", at)

    def _take_compaction(self, entry: dict[str, Any], name: str) -> None:
        summary = string(entry, "summary")
        self.draft.add_compaction(
            summary, tokens_before=integer(entry, "tokensBefore") or None, first_kept=self._first_kept(entry)
        )
        self.draft.add_user((TextPart(summary, synthetic=True),), name, time_ms(entry, "timestamp"))

    def _first_kept(self, entry: dict[str, Any]) -> int | None:
        index = entry.get("firstKeptEntryIndex")
        if isinstance(index, int) and 0 <= index < len(self._index_of_entry):
            return self._index_of_entry[index]
        return self._index_of_id.get(string(entry, "firstKeptEntryId") or "none")


def _usage(usage: dict[str, Any]) -> Usage | None:
    if not usage:
        return None
    return Usage(
        input=integer(usage, "input"),
        output=integer(usage, "output"),
        cache_read=integer(usage, "cacheRead"),
        cache_write=integer(usage, "cacheWrite"),
        total=integer(usage, "totalTokens") or None,
    )
