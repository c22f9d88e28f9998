"""Recorded sessions as OpenAI chat messages, Anthropic messages or markdown.

The output is valid for the provider: each call is followed by its result at once, wherever the record had it,
and a call without a result gets one that says so. Reasoning, step marks and provider data are left out,
since only their own provider may see them again; media are named, as their bytes are not kept.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple, assert_never

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
    messages: list[dict[str, Any]] = [{"role": "system", "content": session.system}] if session.system else []
    for role, said, calls in _turns(session):
        if calls:
            messages.append({"role": role, "content": said or None, "tool_calls": [*map(_function_call, calls)]})
        elif said or role == "system":
            messages.append({"role": role, "content": said})
        messages += ({"role": "tool", "tool_call_id": call.id, "content": call.output} for call in calls)
    return messages


def to_anthropic(session: RecordedSession) -> dict[str, Any]:
    """Return the session as `system` and `messages` for Anthropic's API: roles take turns, the user begins.

    Instructions in the middle have no role of their own there, and are the user's.
    """
    messages: list[dict[str, Any]] = []
    for role, said, calls in _turns(session):
        blocks: list[dict[str, Any]] = [{"type": "text", "text": said}] if said.strip() else []
        blocks += (
            {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call.part)} for call in calls
        )
        _add_blocks(messages, "user" if role == "system" else role, blocks)
        _add_blocks(messages, "user", [*map(_tool_result, calls)])
    return {"system": session.system, "messages": messages}


def _function_call(call: "_AnsweredCall") -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.part.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _tool_result(call: "_AnsweredCall") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call.id, "content": call.output}
    return {**block, "is_error": True} if call.failed else block


def _add_blocks(messages: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    """Add blocks to the role's turn if it is the last one, else as a turn; the first turn is the user's."""
    if not blocks:
        return
    if not messages and role == "assistant":
        messages.append({"role": "user", "content": [{"type": "text", "text": BEGINNING}]})
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": blocks})


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


class _AnsweredCall(NamedTuple):
    """A call under an id and a name that providers accept, with its answer."""

    part: ToolCallPart
    id: str
    name: str
    output: str
    failed: bool


class _Turn(NamedTuple):
    """What a model would read of a message; results stand with their calls."""

    role: str
    said: str
    calls: tuple[_AnsweredCall, ...]


def _turns(session: RecordedSession) -> Iterator[_Turn]:
    """Yield what a provider is sent of each message but those of tools."""
    results = {part.call_id: part for message in session.messages for part in results_of(message)}
    numbers = count()
    for message in session.messages:
        calls = tuple(_answered(call, next(numbers), results.get(call.call_id)) for call in calls_of(message))
        said = _said(message.parts)
        match message:
            case SystemMessage():
                yield _Turn("system", said, ())
            case UserMessage():
                yield _Turn("user", said, ())
            case AssistantMessage():
                yield _Turn("assistant", said, calls)
            case ToolMessage():
                continue
            case _:
                assert_never(message)


def _answered(call: ToolCallPart, number: int, result: ToolResultPart | None) -> _AnsweredCall:
    return _AnsweredCall(
        call,
        id=call.call_id if VALID_ID.fullmatch(call.call_id) else f"call_{number}_infold",
        name=re.sub(r"[^A-Za-z0-9_-]", "_", call.tool)[:64] or "unknown",
        output=NO_RESULT if result is None else _output(result),
        failed=result is None or result.status != "completed",
    )


def arguments_of(call: ToolCallPart) -> dict[str, Any]:
    """Return the arguments as an object; any other text is kept whole under one key."""
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": call.arguments}


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
