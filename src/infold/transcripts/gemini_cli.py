"""Gemini CLI chat records: one JSON document, or in newer versions one JSON object a line.

A `gemini` message holds text, thoughts and tool calls with their results. Files that the user named with `@` are
pasted in by the program behind the user's own words, which `displayContent` repeats alone.
"""

from typing import Any

from infold.core.messages import (
    AssistantMessage,
    MessageId,
    Part,
    ReasoningPart,
    ResultStatus,
    ToolMessage,
    ToolResultPart,
    Usage,
)
from infold.transcripts.record import RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    call_part,
    dig,
    file_part,
    integer,
    items,
    mapping,
    model_ref,
    reply_parts,
    string,
    time_ms,
    to_json,
    user_blocks,
)

STATUSES: dict[str, ResultStatus] = {"error": "error", "cancelled": "interrupted"}


def recognises(head: Head) -> bool:
    """Return whether an object has a session id and messages of type user or gemini."""
    kinds = {string(message, "type") for message in items(head.document, "messages")[:20]}
    return "sessionId" in mapping(head.document) and bool(kinds & {"user", "gemini", "info"})


def recognises_lines(head: Head) -> bool:
    """Return whether a header line with a project hash precedes one message a line."""
    return len(head.records) > 1 and {"sessionId", "projectHash"} <= head.records[0].keys()


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of a chat record."""
    document = mapping(source.document())
    draft = SessionDraft(string(document, "sessionId"), source.issues)
    for message in items(document, "messages"):
        _take(draft, mapping(message))
    return draft.sessions()


def read_lines(source: Source) -> list[RecordedSession]:
    """Return the session of a file of lines: a message written again replaces the earlier one, a rewind is only noted."""
    session_id = ""
    messages: dict[str, dict[str, Any]] = {}
    for line, value in source.records():
        session_id = session_id or string(value, "sessionId")
        if "type" in value and "id" in value:
            messages[string(value["id"])] = value
        elif "sessionId" not in value:
            source.issues.skip("bookkeeping: " + ", ".join(sorted(value)[:3]), line)
    draft = SessionDraft(session_id, source.issues)
    for message in messages.values():
        _take(draft, message)
    return draft.sessions()


def _take(draft: SessionDraft, message: dict[str, Any]) -> None:
    at = time_ms(message, "timestamp")
    match message.get("type"):
        case "user":
            draft.add_user(_user_parts(message), string(message, "id"), at)
        case "gemini":
            _take_reply(draft, message, at)
        case other:
            draft.issues.skip(f"bookkeeping: {other} message, shown to the user only")


def _user_parts(message: dict[str, Any]) -> tuple[Part, ...]:
    content = message.get("content")
    pieces = [content] if isinstance(content, str) else items(content)
    pasted = bool(message.get("displayContent"))
    return tuple(
        part for index, piece in enumerate(pieces) for part in _user_part(piece, synthetic=pasted and index > 0)
    )


def _user_part(piece: Any, *, synthetic: bool) -> tuple[Part, ...]:
    if isinstance(dig(piece, "inlineData"), dict):
        return (file_part({**piece["inlineData"], "type": "file"}),)
    return user_blocks(piece if isinstance(piece, str) else string(piece, "text"), synthetic=synthetic)


def _take_reply(draft: SessionDraft, message: dict[str, Any], at: int | None) -> None:
    calls = [mapping(call) for call in items(message, "toolCalls")]
    name = MessageId(string(message, "id") or draft.new_id())
    draft.add(
        AssistantMessage(
            id=name,
            parts=(
                *map(_thought, items(message, "thoughts")),
                *_said(message.get("content")),
                *(call_part(string(call, "id"), string(call, "name"), call.get("args")) for call in calls),
            ),
            created_ms=at,
            model=model_ref(message.get("model"), "google"),
            usage=_usage(mapping(message, "tokens")),
        )
    )
    answers = tuple(_result(call, at) for call in calls if "result" in call or "resultDisplay" in call)
    if answers:
        draft.add(ToolMessage(MessageId(f"{name}-results"), answers, answers[-1].finished_ms))


def _said(content: Any) -> tuple[Part, ...]:
    return reply_parts(content if isinstance(content, str) else [string(piece, "text") for piece in items(content)])


def _thought(thought: Any) -> ReasoningPart:
    return ReasoningPart("\n".join(filter(None, (string(thought, "subject"), string(thought, "description")))))


def _result(call: dict[str, Any], started_ms: int | None) -> ToolResultPart:
    responses = [mapping(entry, "functionResponse", "response") for entry in items(call, "result")]
    return ToolResultPart(
        call_id=string(call, "id"),
        tool=string(call, "name"),
        output="\n".join(_output(response) for response in responses if response) or string(call, "resultDisplay"),
        status=STATUSES.get(string(call, "status"), "completed"),
        started_ms=started_ms,
        finished_ms=time_ms(call, "timestamp"),
        files=tuple(
            file_part({**entry["inlineData"], "type": "file"})
            for entry in items(call, "result")
            if isinstance(dig(entry, "inlineData"), dict)
        ),
    )


def _output(response: dict[str, Any]) -> str:
    said = response.get("output", response.get("error"))
    return said if isinstance(said, str) else to_json(response)


def _usage(tokens: dict[str, Any]) -> Usage | None:
    """Return usage: Gemini counts cached tokens as part of the input, and thoughts apart from the output."""
    if not tokens:
        return None
    cached = integer(tokens, "cached")
    return Usage(
        input=max(0, integer(tokens, "input") - cached) + integer(tokens, "tool"),
        output=integer(tokens, "output"),
        reasoning=integer(tokens, "thoughts"),
        cache_read=cached,
        total=integer(tokens, "total") or None,
    )
