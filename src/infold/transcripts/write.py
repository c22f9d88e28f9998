"""Recorded sessions as OpenAI chat messages, Anthropic messages or markdown.

The output is valid for the provider: each call is followed by its result at once, wherever the record had it,
and a call without a result gets one that says so. Reasoning, step marks and provider data are left out,
since only their own provider may see them again; media are named, as their bytes are not kept.
"""

import re
from collections.abc import Iterator
from typing import Any, assert_never

import msgspec

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
    text_of,
)
from infold.transcripts.record import RecordedSession

NO_RESULT = "(no result was recorded: the run was interrupted or ended before the tool answered)"


NO_OUTPUT = "(no output)"


BEGINNING = "(the record begins with the assistant)"


VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Call ids that both providers accept."""


def to_openai_chat(session: RecordedSession) -> list[dict[str, Any]]:
    """Return the session as messages for OpenAI's chat API."""
    answers = _Answers(session)
    system = [{"role": "system", "content": session.system}] if session.system else []
    return [*system, *(entry for message in session.messages for entry in _openai(message, answers))]


def to_anthropic(session: RecordedSession) -> dict[str, Any]:
    """Return the session as `system` and `messages` for Anthropic's API: roles take turns, the user begins."""
    answers = _Answers(session)
    messages: list[dict[str, Any]] = []
    for role, blocks in (turn for message in session.messages for turn in _anthropic(message, answers)):
        if not messages and role == "assistant":
            messages.append({"role": "user", "content": [_text_block(BEGINNING)]})
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return {"system": session.system, "messages": messages}


def to_markdown(session: RecordedSession) -> str:
    """Return the session for people: one heading per message, tools in fences, and each compaction in its place."""
    title = [f"# {session.title}", f"Session {session.id}"] if session.title else [f"# Session {session.id}"]
    system = ["## System", session.system] if session.system else []
    folds = {fold.position: fold for fold in session.compactions if fold.summary}
    body: list[str] = []
    for position in range(len(session.messages) + 1):
        at = session.messages[position : position + 2]
        if position in folds and not any(folds[position].summary in text_of(message) for message in at):
            body += ["## Compaction", folds[position].summary]
        body += [line for message in at[:1] for line in _markdown(message)]
    return "\n\n".join([*title, *system, *body]) + "\n"


class _Answers:
    """The results of a session by call, and ids that providers accept."""

    def __init__(self, session: RecordedSession) -> None:
        self._results = {part.call_id: part for message in session.messages for part in results_of(message)}
        calls = [call.call_id for message in session.messages for call in calls_of(message)]
        self._ids = {
            call_id: call_id if VALID_ID.fullmatch(call_id) else f"call_{position}_infold"
            for position, call_id in enumerate(calls)
        }

    def id(self, call: ToolCallPart) -> str:
        return self._ids[call.call_id]

    def output(self, call: ToolCallPart) -> str:
        result = self._results.get(call.call_id)
        return NO_RESULT if result is None else _output(result)

    def failed(self, call: ToolCallPart) -> bool:
        result = self._results.get(call.call_id)
        return result is None or result.status != "completed"


def _openai(message: Message, answers: _Answers) -> Iterator[dict[str, Any]]:
    said = _said(message.parts)
    calls = calls_of(message)
    match message:
        case SystemMessage():
            yield {"role": "system", "content": said}
        case UserMessage():
            if said:
                yield {"role": "user", "content": said}
        case AssistantMessage():
            if calls:
                yield {"role": "assistant", "content": said or None, "tool_calls": _openai_calls(calls, answers)}
            elif said:
                yield {"role": "assistant", "content": said}
            for call in calls:
                yield {"role": "tool", "tool_call_id": answers.id(call), "content": answers.output(call)}
        case ToolMessage():
            return
        case _:
            assert_never(message)


def _openai_calls(calls: tuple[ToolCallPart, ...], answers: _Answers) -> list[dict[str, Any]]:
    return [
        {
            "id": answers.id(call),
            "type": "function",
            "function": {"name": _tool_name(call), "arguments": call.arguments or "{}"},
        }
        for call in calls
    ]


def _anthropic(message: Message, answers: _Answers) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield turns of a role and its blocks; instructions in the middle have no role of their own there."""
    said = _said(message.parts)
    texts = [_text_block(said)] if said.strip() else []
    match message:
        case SystemMessage() | UserMessage():
            if texts:
                yield "user", texts
        case AssistantMessage():
            calls = calls_of(message)
            uses = [{"id": answers.id(call), "name": _tool_name(call), "input": arguments_of(call)} for call in calls]
            blocks = texts + [{"type": "tool_use", **use} for use in uses]
            if blocks:
                yield "assistant", blocks
            if calls:
                yield "user", [_tool_result(call, answers) for call in calls]
        case ToolMessage():
            return
        case _:
            assert_never(message)


def _text_block(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def _tool_result(call: ToolCallPart, answers: _Answers) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": answers.id(call), "content": answers.output(call)}
    return {**block, "is_error": True} if answers.failed(call) else block


def arguments_of(call: ToolCallPart) -> dict[str, Any]:
    """Return the arguments as an object; any other text is kept whole under one key."""
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": call.arguments}


def _tool_name(call: ToolCallPart) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", call.tool)[:64] or "unknown"


def _said(parts: tuple[Part, ...]) -> str:
    """Return the text a model would read of a message's own parts."""
    pieces = [part.text for part in parts if isinstance(part, TextPart) and not part.ignored]
    pieces += [file_note(part) for part in parts if isinstance(part, FilePart)]
    return "\n".join(piece for piece in pieces if piece.strip())


def _output(result: ToolResultPart) -> str:
    notes = [file_note(file) for file in result.files]
    return "\n".join(piece for piece in (result.output, *notes) if piece) or NO_OUTPUT


def file_note(file: FilePart) -> str:
    """Return a label for a medium whose bytes are not kept."""
    name = f" {file.name}" if file.name else ""
    return f"[{file.media_type}{name}, {file.byte_size:,} bytes, not kept]"


def _markdown(message: Message) -> Iterator[str]:
    headings = {SystemMessage: "System", UserMessage: "User", AssistantMessage: "Assistant", ToolMessage: "Tool"}
    heading = headings[type(message)]
    if isinstance(message, UserMessage) and all(getattr(part, "synthetic", False) for part in message.parts):
        heading = "Harness"
    if isinstance(message, AssistantMessage) and message.summary:
        heading = "Summary"
    yield f"## {heading}"
    said = _said(message.parts)
    if said:
        yield said
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            yield f"Call `{part.tool}` ({part.call_id})\n\n{_fenced(part.arguments)}"
        elif isinstance(part, ToolResultPart):
            yield f"Result of `{part.tool}` ({part.call_id}, {part.status})\n\n{_fenced(_output(part))}"


def _fenced(body: str) -> str:
    """Return the body in a fence that none of its lines can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", body)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{body}\n{fence}"
