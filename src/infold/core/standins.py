"""What a view says of an answer that never came, or that came after its step had closed, and how much room that takes (B12)."""

from collections.abc import Iterable
from functools import lru_cache

from infold.core.messages import MessageId, ToolCallPart, ToolMessage, ToolResultPart
from infold.core.policy import Ruler
from infold.core.tokens import NO_SIZE, Size, measure, measure_message, size_of, token_ruler

INTERRUPTED_TEXT = "[no result: the call was interrupted]"


def interrupted(call: ToolCallPart) -> ToolResultPart:
    """The answer to a call that got none."""
    return ToolResultPart(call.call_id, call.tool, INTERRUPTED_TEXT, status="interrupted")


def late_heading(result: ToolResultPart) -> str:
    """What stands before the text of a result whose call can no longer be answered."""
    return f"[late result of {result.tool or 'a tool'}, call {result.call_id}]\n"


def size_of_interrupted(calls: int, rule: Ruler) -> Size:
    """What the answers to so many calls take that got none."""
    said = calls * _one_interrupted(token_ruler(rule)) if calls else 0
    return Size(material=said, loose=said) if said else NO_SIZE


def size_of_late(results: Iterable[ToolResultPart], rule: Ruler) -> Size:
    """What the headings of late results take."""
    return Size(prose=sum(measure(late_heading(result), token_ruler(rule)) for result in results))


@lru_cache(maxsize=8)
def _one_interrupted(ruler: Ruler) -> int:
    answer = ToolMessage(MessageId(""), (interrupted(ToolCallPart("", "", "")),))
    return size_of(answer, measure_message(answer, ruler)).measure
