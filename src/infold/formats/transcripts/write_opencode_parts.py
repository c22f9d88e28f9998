"""The parts of an OpenCode message, as `write_opencode` puts them together: text, reasoning, tools, media, marks of steps."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    ModelRef,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from infold.formats.transcripts.write import arguments_of, file_note

ABORTED = "Tool execution aborted"
"""How OpenCode words that a tool was interrupted; it is read back as that."""

NOBODY = "unknown"
REACHABLE = ("http://", "https://", "data:", "file://")
_NAMED_ERROR = re.compile(
    r"(UnknownError|MessageAbortedError|ContextOverflowError|ContentFilterError): (.*)", re.DOTALL
)


class Told(Struct, frozen=True):
    """What a part needs to know beside itself: the results of the session by call, its messages' ids, and the time reached."""

    results: Mapping[str, ToolResultPart]
    ids: Mapping[str, str]
    reached_ms: int


def user_part(part: Part, told: Told, *, is_users: bool) -> dict[str, Any] | None:
    """A part of what was put to the model; none for what stands elsewhere. What is not the user's own is synthetic."""
    match part:
        case TextPart():
            return _text(part.text, synthetic=part.synthetic or not is_users, ignored=part.ignored)
        case FilePart():
            return _file(part)
        case CompactionPart():
            kept = told.ids.get(part.first_kept_id or "")
            flags = {"overflow": True} if part.overflow else {}
            return {"type": "compaction", "auto": part.auto, **flags, **({"tail_start_id": kept} if kept else {})}
        case _:
            return None


def reply_part(part: Part, told: Told) -> dict[str, Any] | None:  # noqa: PLR0911 - one return for each kind of part
    """A part of a reply, a call with its result; none for what no reply has."""
    match part:
        case TextPart():
            return _text(part.text, synthetic=part.synthetic, ignored=part.ignored)
        case ReasoningPart():
            time = {"start": told.reached_ms, "end": told.reached_ms}
            return {"type": "reasoning", "text": part.text, "time": time, **_metadata(part.provider_data)}
        case ToolCallPart():
            called = {"type": "tool", "callID": part.call_id, "tool": part.tool}
            return {**called, "state": _state(part, told), **_metadata(part.provider_data)}
        case FilePart():
            return _file(part)
        case StepStartPart():
            return {"type": "step-start", **_snapshot(part)}
        case StepFinishPart():
            spent = {"cost": part.cost, "tokens": tokens_of(part.usage)}
            return {"type": "step-finish", "reason": part.reason, **_snapshot(part), **spent}
        case _:
            return None


def model_of(model: ModelRef | None) -> dict[str, str]:
    """Which model, as OpenCode names it."""
    provider, name = (model.provider, model.id) if model else ("", "")
    return {"providerID": provider or NOBODY, "modelID": name or NOBODY}


def tokens_of(usage: Usage | None) -> dict[str, Any]:
    """Usage in OpenCode's words; zeros where none was reported."""
    used = usage or Usage()
    total = {"total": used.total} if used.total is not None else {}
    cache = {"read": used.cache_read, "write": used.cache_write}
    return {**total, "input": used.input, "output": used.output, "reasoning": used.reasoning, "cache": cache}


def error_of(reply: AssistantMessage) -> dict[str, Any]:
    """What went wrong with a reply, under one of OpenCode's names for it; nothing where all went well."""
    if reply.finish == "abort" and not reply.error:
        return {"error": {"name": "MessageAbortedError", "data": {"message": "aborted"}}}
    if not reply.error:
        return {}
    named = _NAMED_ERROR.fullmatch(reply.error)
    name, problem = named.groups() if named else ("UnknownError", reply.error)
    return {"error": {"name": name, "data": {"message": problem}}}


def _state(call: ToolCallPart, told: Told) -> dict[str, Any]:
    """How a call went; one without a result is still running as far as anybody knows."""
    given, result = arguments_of(call), told.results.get(call.call_id)
    if result is None:
        return {"status": "running", "input": given, "time": {"start": told.reached_ms}}
    start = result.started_ms or told.reached_ms
    ended = {"time": {"start": start, "end": max(start, result.finished_ms or 0)}}
    metadata = {} if result.exit_status is None else {"exit": result.exit_status}
    output = "\n".join(piece for piece in (result.output, *map(file_note, result.files)) if piece)
    match result.status:
        case "completed":
            done = {"status": "completed", "input": given, "output": output, "title": call.tool}
            return {**done, "metadata": metadata, **ended}
        case "error":
            return {"status": "error", "input": given, "error": output, "metadata": metadata, **ended}
        case _:
            left = {**metadata, "output": output}
            return {"status": "error", "input": given, "error": ABORTED, "metadata": left, **ended}


def _snapshot(part: StepStartPart | StepFinishPart) -> dict[str, str]:
    return {"snapshot": part.snapshot} if part.snapshot else {}


def _text(text: str, *, synthetic: bool, ignored: bool) -> dict[str, Any]:
    marks = {"synthetic": synthetic, "ignored": ignored}
    return {"type": "text", "text": text, **{name: True for name, is_set in marks.items() if is_set}}


def _file(file: FilePart) -> dict[str, Any]:
    """A medium by its address; where that is not known, what it was."""
    if not file.reference.startswith(REACHABLE):
        return _text(file_note(file), synthetic=True, ignored=False)
    named = {"filename": file.name} if file.name else {}
    return {"type": "file", "mime": file.media_type, **named, "url": file.reference}


def _metadata(provider_data: str) -> dict[str, Any]:
    """Provider data in OpenCode's own shape, by provider; any other is for the provider it came from alone."""
    try:
        found = msgspec.json.decode(provider_data) if provider_data else None
    except (ValueError, RecursionError):
        return {}
    by_provider = isinstance(found, dict) and bool(found) and all(isinstance(value, dict) for value in found.values())
    return {"metadata": found} if by_provider else {}
