"""A recorded session as a flat list of events: who said or did what, in order, as decoded text.

Arguments are decoded, never compared in their escaped form; what a harness put into a user's mouth (reminders, rule
files, a vendor's earlier summaries) is kept apart, so that nobody's boilerplate is measured as the user's word.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.messages import (
    AssistantMessage,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
)

Speaker: TypeAlias = Literal["user", "agent", "thought", "call", "result", "harness"]


class Event(Struct, frozen=True, omit_defaults=True):
    """One thing said or done; a result knows the call it answers."""

    sequence: int
    handle: str
    speaker: Speaker
    text: str
    tool: str = ""
    arguments: Mapping[str, object] = {}
    call: "Event | None" = None
    failed: bool = False
    exit_status: int | None = None


def events_of(messages: Iterable[tuple[int, Message]]) -> tuple[Event, ...]:
    """The events of messages, each given with its number in the log."""
    calls: dict[str, Event] = {}
    return tuple(event for sequence, message in messages for event in _events(sequence, message, calls))


def without_summaries(messages: Iterable[Message], summaries: Iterable[str]) -> tuple[Message, ...]:
    """The messages without a vendor's own summaries, which would lend their words to whoever is measured."""
    told = {" ".join(summary.split()) for summary in summaries if summary}
    return tuple(message for message in messages if not _is_summary(message, told))


def _is_summary(message: Message, told: set[str]) -> bool:
    if isinstance(message, AssistantMessage) and message.summary:
        return True
    texts = (part.text for part in message.parts if isinstance(part, TextPart))
    return any(" ".join(text.split()) in told for text in texts)


def _events(sequence: int, message: Message, calls: dict[str, Event]) -> Iterator[Event]:
    for index, part in enumerate(message.parts):
        handle = f"{sequence}.{index}"
        match part:
            case TextPart() if not part.ignored and part.text.strip():
                yield Event(sequence, handle, _speaker(message, part), part.text)
            case ReasoningPart() if part.text.strip():
                yield Event(sequence, handle, "thought", part.text)
            case ToolCallPart():
                calls[part.call_id] = _call(sequence, handle, part)
                yield calls[part.call_id]
            case ToolResultPart():
                yield _result(sequence, handle, part, calls.get(part.call_id))
            case _:
                pass


def _speaker(message: Message, part: TextPart) -> Speaker:
    if isinstance(message, AssistantMessage):
        return "agent"
    return "user" if isinstance(message, UserMessage) and not part.synthetic else "harness"


def _call(sequence: int, handle: str, part: ToolCallPart) -> Event:
    arguments = _decoded(part.arguments)
    text = "\n".join((part.tool, *_values(arguments))) if arguments else f"{part.tool}\n{part.arguments}"
    return Event(sequence, handle, "call", text, part.tool, arguments)


def _result(sequence: int, handle: str, part: ToolResultPart, call: Event | None) -> Event:
    failed = part.status != "completed" or part.exit_status not in (None, 0)
    return Event(
        sequence,
        handle,
        "result",
        part.output,
        part.tool,
        call=call,
        failed=failed,
        exit_status=part.exit_status,
    )


def _decoded(arguments: str) -> Mapping[str, object]:
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _values(value: object) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from (f"{key}: {text}" for text in _values(inner))
        case list():
            for inner in value:
                yield from _values(inner)
        case None:
            pass
        case _:
            yield str(value)
