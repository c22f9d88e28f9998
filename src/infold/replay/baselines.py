"""Simple rules that others are measured against: the newest messages alone, and old tool results masked."""

from collections.abc import Sequence

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, Message, ToolResultPart, UserMessage, results_of

MASK = "[output left out]"


def keep_newest(messages: Sequence[Message], tokens: Sequence[int], room_tokens: int) -> Sequence[Message]:
    """The newest messages within the room, from a place where a request may begin; at least the newest step."""
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage | AssistantMessage)]
    total = sum(tokens)
    passed = 0
    first = 0
    for start in starts:
        total -= sum(tokens[passed:start])
        passed = start
        first = start
        if total <= room_tokens:
            break
    return messages[first:]


def mask_results(messages: Sequence[Message], *, keep: int, stubs: dict[int, Message]) -> Sequence[Message]:
    """Every tool result as a mask but the newest `keep`, and those that no reply has seen yet.

    `stubs` remembers the masked messages by the position they stand at, so that each is made once.
    """
    masked = list(messages)
    seen = False
    left = keep
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        seen = seen or isinstance(message, AssistantMessage)
        results = len(results_of(message))
        if not results or not seen:
            continue
        if left > 0:
            left -= results
            continue
        if index not in stubs:
            stubs[index] = _masked(message)
        masked[index] = stubs[index]
    return masked


def _masked(message: Message) -> Message:
    parts = (
        replace(part, output=MASK, files=()) if isinstance(part, ToolResultPart) else part for part in message.parts
    )
    return replace(message, parts=tuple(parts))
