"""Codex rollout files: `session_meta`, `turn_context`, `response_item`, `event_msg`, `compacted`, one a line.

The items of one reply become one message; the `token_count` after it is its usage. A compaction is usually opaque
(encrypted); where an older Codex recorded its text, that text stands as a synthetic user message. Rollouts from
before the envelope (bare items on each line) are read too.
"""

import re
from typing import Any

from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    MessageId,
    ModelRef,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    WorkPath,
)
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    dig,
    items,
    mapping,
    model_ref,
    openai_usage,
    plain_text,
    reasoning_part,
    reply_parts,
    result_part,
    string,
    time_ms,
    to_json,
    user_blocks,
)

ENVELOPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})


ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "local_shell_call"})


CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "mcp_call"})


SERVER_CALLS = frozenset({"web_search_call", "image_generation_call", "file_search_call", "code_interpreter_call"})


EXIT_STATUS = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,9})$", re.MULTILINE)


WRAPPED_STATUS = re.compile(r'"metadata":\{"exit_code":(-?\d{1,9})\b')


PREAMBLE_CHARACTERS = 400
"""How far into an output Codex's own lines about the process reach."""


def recognises(head: Head) -> bool:
    """Return whether lines are in Codex's envelope, or bare response items after a header with instructions."""
    if any(string(value, "type") in ENVELOPES and "payload" in value for value in head.records):
        return True
    bare = [value for value in head.records if string(value, "type") in ITEMS and "message" not in value]
    return bool(bare) and "instructions" in head.records[0]


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of a rollout; a sub-agent's rollout names its parent."""
    reader = _Reader(source.issues)
    for line, value in source.records():
        reader.take(value, line)
    return reader.draft.sessions()


class _Reader:
    def __init__(self, issues: Issues) -> None:
        self.draft = SessionDraft("", issues)
        self._model: ModelRef | None = None
        self._provider = ""
        self._path: WorkPath | None = None
        self._open: int | None = None
        self._unbilled: int | None = None
        self._spent: Any = None
        self._context: int | None = None

    def take(self, value: dict[str, Any], line: int) -> None:
        payload = mapping(value, "payload") if "payload" in value else value
        at = time_ms(value, "timestamp")
        match string(value, "type") if "payload" in value else "response_item":
            case "session_meta":
                self._take_meta(payload)
            case "turn_context":
                self._take_context(payload)
            case "compacted":
                self._take_compaction(payload)
            case "event_msg":
                self._take_event(payload, line)
            case "response_item":
                self._take_item(payload, at, line)
            case other:
                self.draft.issues.skip(f"bookkeeping: {other}", line)

    def _take_meta(self, meta: dict[str, Any]) -> None:
        """Read the first header; a fork repeats the header of the session it was forked from."""
        if self.draft.id:
            return
        self.draft.id = string(meta.get("id") or meta.get("session_id"))
        self.draft.system = string(dig(meta, "base_instructions", "text") or meta.get("instructions"))
        self._provider = string(meta, "model_provider")
        self._set_path(meta)
        spawned = dig(meta, "source", "subagent", "thread_spawn", "parent_thread_id")
        self.draft.parent = string(spawned or meta.get("forked_from_id")) or None

    def _take_context(self, context: dict[str, Any]) -> None:
        self._model = model_ref(context.get("model"), self._provider) or self._model
        self.draft.model = self.draft.model or self._model
        self._set_path(context)

    def _set_path(self, value: dict[str, Any]) -> None:
        cwd = string(value, "cwd")
        roots = items(value, "workspace_roots")
        if cwd:
            self._path = WorkPath(cwd=cwd, root=string(roots[0]) if roots else cwd)

    def _take_compaction(self, payload: dict[str, Any]) -> None:
        summary = string(payload, "message")
        self.draft.add_compaction(summary, tokens_before=self._context)
        self.draft.add_user(user_blocks(summary, synthetic=True))
        self._open = self._unbilled = None

    def _take_event(self, event: dict[str, Any], line: int) -> None:
        kind = string(event, "type")
        if kind == "token_count":
            self._take_usage(mapping(event, "info"))
        elif kind == "turn_aborted":
            self._abort_last()
        elif kind not in ("user_message", "agent_message", "agent_reasoning"):
            self.draft.issues.skip(f"bookkeeping: {kind}", line)

    def _take_usage(self, info: dict[str, Any]) -> None:
        """Add usage to the reply before; a count that repeats the one before it is ignored."""
        total = info.get("total_token_usage")
        usage = openai_usage(info.get("last_token_usage"))
        if usage is None or total == self._spent:
            return
        self._spent = total
        self._context = usage.context
        if self._unbilled is not None:
            self._change(self._unbilled, usage=usage)
            self._unbilled = None

    def _take_item(self, item: dict[str, Any], at: int | None, line: int) -> None:
        kind, role = string(item, "type"), item.get("role")
        if kind == "message" and role in ("user", "developer", "system"):
            self._take_message(item, at)
        elif kind.endswith("_output"):
            self._take_output(item, at)
        elif kind in CALLS or kind in SERVER_CALLS or kind == "reasoning" or role == "assistant":
            self._take_reply(item, at)
        elif kind:
            self.draft.issues.skip(f"bookkeeping: response item {kind}", line)
        elif "instructions" in item:
            self._take_meta(item)

    def _take_message(self, item: dict[str, Any], at: int | None) -> None:
        self._open = None
        if item.get("role") == "user":
            self.draft.add_user(user_blocks(item.get("content")), string(item, "id"), at)
            return
        parts = (TextPart(plain_text(reply_parts(item.get("content")))),)
        self.draft.add(SystemMessage(MessageId(string(item, "id") or self.draft.new_id()), parts, at))

    def _take_output(self, item: dict[str, Any], at: int | None) -> None:
        self._open = None
        self.draft.add_result(_result(item), finished_ms=at)

    def _take_reply(self, item: dict[str, Any], at: int | None) -> None:
        parts = _reply_parts(item, self.draft.new_id("call"))
        self.draft.start_calls(parts, at)
        if self._open is None:
            name = self.draft.new_id()
            self._open = self.draft.add(AssistantMessage(name, (), at, model=self._model, path=self._path))
        self._unbilled = self._open
        self._change(self._open, parts=(*self.draft.messages[self._open].parts, *parts))

    def _abort_last(self) -> None:
        """Mark the reply among the last two messages as aborted."""
        for index in range(len(self.draft.messages) - 1, max(-1, len(self.draft.messages) - 3), -1):
            if isinstance(self.draft.messages[index], AssistantMessage):
                self._change(index, finish="abort")
                return

    def _change(self, index: int, **changes: Any) -> None:
        self.draft.messages[index] = replace(self.draft.messages[index], **changes)


def _reply_parts(item: dict[str, Any], spare_id: str) -> tuple[Part, ...]:
    kind = string(item, "type")
    if kind == "message":
        return reply_parts(item.get("content"))
    if kind == "reasoning":
        return (_reasoning(item),)
    call_id = string(item.get("call_id") or item.get("id")) or spare_id
    tool = string(item, "name") or kind.removesuffix("_call")
    arguments = next((item[key] for key in ("arguments", "input", "action") if item.get(key)), None)
    call = ToolCallPart(call_id, tool, to_json(arguments))
    if kind in SERVER_CALLS:
        return (call, ToolResultPart(call_id, tool, string(item, "result")))
    return (call,)


def _reasoning(item: dict[str, Any]) -> ReasoningPart:
    thought = "\n".join(string(entry, "text") for key in ("summary", "content") for entry in items(item.get(key)))
    secret = {key: item[key] for key in ("id", "encrypted_content") if item.get(key)}
    return reasoning_part(thought, secret if "encrypted_content" in secret else None)


def _result(item: dict[str, Any]) -> ToolResultPart:
    output = item.get("output", item.get("tools"))
    if isinstance(output, dict):
        failed = output.get("success") is False
        return result_part(string(item, "call_id"), {**output, "is_error": failed})
    is_untyped = isinstance(output, list) and not all("type" in mapping(block) for block in output)
    if is_untyped or "tools" in item:
        output = to_json(output)
    part = result_part(string(item, "call_id"), {"content": output})
    return replace(part, exit_status=_exit_status(part.output))


def _exit_status(output: str) -> int | None:
    """Read the status from Codex's preamble, or from JSON around the output as older ones wrote it."""
    found = EXIT_STATUS.search(output[:PREAMBLE_CHARACTERS])
    if found is None and output.startswith("{"):
        found = WRAPPED_STATUS.search(output[-200:])
    return int(found[1]) if found else None
