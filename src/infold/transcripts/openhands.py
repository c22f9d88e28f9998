"""OpenHands: event histories (`output.jsonl` with one run a line, or one list of events) and completion logs.

An action that came from a tool call is that call, its observation the result; actions of one model response are
one message. What is observed without a call (recalled knowledge, a complaint about a malformed call) is put to the
model as text, and stands here as synthetic text.

A completion log (litellm) holds the messages of one request and the response to it. The last request of a run holds its
whole history; only its response has usage.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, MessageId, Part, ToolCallPart, ToolResultPart
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    add_chat_message,
    chat_calls,
    chat_message,
    dig,
    exit_code,
    first_choice,
    items,
    mapping,
    model_ref,
    number,
    reply_parts,
    string,
    time_ms,
    to_json,
    user_blocks,
    with_response,
)

SILENT = frozenset({"recall", "change_agent_state", "null", "condensation"})
"""Actions and observations that the model does not see as such."""


CALLED = frozenset({"run", "run_ipython", "read", "write", "edit", "browse", "browse_interactive", "call_tool_mcp"})
"""Actions that a tool carries out even if the record of the call itself is missing."""


def recognises_lines(head: Head) -> bool:
    """Return whether lines hold an instance, or the issue that was to be resolved, and its history."""
    return any("history" in value and value.keys() & {"instance_id", "instance", "issue"} for value in head.records)


def recognises(head: Head) -> bool:
    """Return whether a list holds events with a source and an action or observation."""
    events = [mapping(event) for event in items(head.document)[:5]]
    return bool(events) and all("source" in event and ("action" in event or "observation" in event) for event in events)


def read_lines(source: Source) -> list[RecordedSession]:
    """Return one session per run."""
    return [
        session
        for line, value in source.records()
        for session in _sessions(value.get("history"), _subject(value) or f"run-{line}", source.issues)
    ]


def _subject(value: Mapping[str, Any]) -> str:
    """Return what a run was about: an instance of a benchmark, or an issue of a repository."""
    issue = mapping(value, "issue")
    numbered = f"{string(issue.get('owner'))}/{string(issue.get('repo'))}#{issue.get('number')}" if issue else ""
    return string(value, "instance_id") or numbered


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of an event list."""
    return _sessions(source.document(), source.name, source.issues)


def _sessions(history: Any, name: str, issues: Issues) -> list[RecordedSession]:
    reader = _Reader(SessionDraft(name, issues))
    for event in items(history):
        for single in event if isinstance(event, list) else (event,):
            reader.take(mapping(single))
    return reader.draft.sessions()


class _Reader:
    def __init__(self, draft: SessionDraft) -> None:
        self.draft = draft
        self._replies: set[str] = set()
        self._calls: dict[str, str] = {}

    def take(self, event: dict[str, Any]) -> None:
        if "observation" in event:
            self._take_observation(event)
        elif event.get("source") == "user" and event.get("action") == "message":
            said = string(dig(event, "args", "content") or event.get("message"))
            self.draft.add_user(user_blocks(said), _name(event), time_ms(event, "timestamp"))
        elif event.get("action") == "system":
            self.draft.system = string(event, "args", "content")
            tools = dig(event, "args", "tools")
            self.draft.tools = to_json(tools) if tools else ""
        elif event.get("source") == "agent" and string(event, "action") not in SILENT:
            self._take_action(event)
        else:
            self.draft.issues.skip(f"bookkeeping: action {string(event.get('action'))}")

    def _take_action(self, event: dict[str, Any]) -> None:
        at = time_ms(event, "timestamp")
        response = mapping(event, "tool_call_metadata", "model_response")
        name = string(response, "id")
        message = mapping(first_choice(response), "message")
        whole = (*reply_parts(message.get("content")), *chat_calls(message))
        parts = whole if response else self._lone_action(event)
        self.draft.start_calls(parts, at)
        if not name or name not in self._replies:
            self._replies.add(name)
            reply = AssistantMessage(MessageId(name or _name(event)), parts, at)
            self.draft.add(with_response(reply, response))

    def _lone_action(self, event: dict[str, Any]) -> tuple[Part, ...]:
        """Return the parts of an action without a record of its call: older runs, and plain messages."""
        args = mapping(event, "args")
        said = string(args.get("thought") or args.get("content") or event.get("message"))
        action = string(event, "action")
        texts = reply_parts(said)
        if action not in CALLED:
            return texts
        call_id = f"action-{string(event.get('id')) or len(self.draft.messages)}"
        self._calls[string(event, "id")] = call_id
        arguments = {key: value for key, value in args.items() if key != "thought"}
        return (*texts, ToolCallPart(call_id, action, to_json(arguments)))

    def _take_observation(self, event: dict[str, Any]) -> None:
        at = time_ms(event, "timestamp")
        call_id = string(event, "tool_call_metadata", "tool_call_id")
        call_id = call_id or self._calls.get(string(event, "cause"), "")
        said = _observed(event)
        if not call_id:
            self.draft.issues.repair("an observation answers no tool call; it is synthetic text")
            self.draft.add_user(user_blocks(said, synthetic=True), _name(event), at)
            return
        status = exit_code(event, "extras", "metadata", "exit_code")
        part = ToolResultPart(
            call_id=call_id,
            tool=string(event, "tool_call_metadata", "function_name"),
            output=said,
            status="error" if event.get("observation") == "error" else "completed",
            exit_status=exit_code(event, "extras", "exit_code") if status is None else status,
        )
        self.draft.add_result(part, _name(event), at)


def _observed(event: dict[str, Any]) -> str:
    """Return the content, and for recalled knowledge the texts that go to the model with it."""
    said = [string(event.get("content") or event.get("message"))]
    extras = mapping(event, "extras")
    said += [string(extras.get(key)) for key in ("repo_instructions", "additional_agent_instructions")]
    said += [string(known, "content") for known in items(extras, "microagent_knowledge")]
    return "\n".join(filter(None, said))


def _name(event: dict[str, Any]) -> str:
    return f"event-{string(event.get('id'))}"


# Completion logs.


def recognises_completion(head: Head) -> bool:
    """Return whether an object has chat messages and a response with choices."""
    return isinstance(dig(head.document, "messages"), list) and isinstance(
        dig(head.document, "response", "choices"), list
    )


def read_completion(source: Source) -> list[RecordedSession]:
    """Return the one session of a log, named after its response."""
    document = mapping(source.document())
    draft = SessionDraft(string(document, "response", "id") or "completion", source.issues)
    tools = dig(document, "kwargs", "tools") or document.get("tools")
    draft.tools = to_json(tools) if tools else ""
    for value in items(document, "messages"):
        add_chat_message(draft, mapping(value))
    _add_response(draft, document)
    return draft.sessions()


def _add_response(draft: SessionDraft, document: dict[str, Any]) -> None:
    response = mapping(document, "response")
    draft.model = model_ref(response.get("model"))
    at = time_ms(document.get("timestamp") or response.get("created"))
    value = {"role": "assistant", **mapping(first_choice(response), "message")}
    reply = chat_message(value, draft.new_id(), created_ms=at)
    if isinstance(reply, AssistantMessage):
        draft.add(with_response(replace(reply, cost=number(document, "cost")), response))
