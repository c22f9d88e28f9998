"""Recognise a compaction carried out by messages: a request, and a finished summary that answers it (S4.1, S4.2).

That is how OpenCode's sessions record one, and how they are read. Everything is decided by metadata, never by text (B26).
"""

from typing import TypeGuard

from infold.core.entries import Checkpoint
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    Message,
    MessageId,
    UserMessage,
    is_compaction_request,
    text_of,
)
from infold.core.spine import Spine


def is_finished_summary(message: Message) -> TypeGuard[AssistantMessage]:
    """Whether this is a summary that was written to its end; a failed or unfinished one is no boundary."""
    return (
        isinstance(message, AssistantMessage)
        and message.summary
        and message.finish not in (None, "error")
        and not message.error
    )


def request_answered_by(message: Message, spine: Spine) -> UserMessage | None:
    """The request that a finished summary answers, if the session holds it."""
    if not is_finished_summary(message) or message.parent_id is None:
        return None
    index = spine.ids.get(message.parent_id)
    parent = None if index is None else spine.items[index].message
    return parent if isinstance(parent, UserMessage) and is_compaction_request(parent) else None


def adopted_checkpoint(request: UserMessage, summary: Message, spine: Spine) -> Checkpoint:
    """The checkpoint that a request and its summary amount to."""
    assert isinstance(summary, AssistantMessage)
    return Checkpoint(
        text=text_of(summary),
        narrative=text_of(summary),
        first_kept=_first_kept(tail_start_id(request) or request.id, spine),
        reason="import",
        request=request,
        summary=summary,
        created_ms=summary.created_ms,
    )


def tail_start_id(request: UserMessage) -> MessageId | None:
    """Where the tail begins that a request asked to keep, if it asked for one."""
    return next((part.first_kept_id for part in request.parts if isinstance(part, CompactionPart)), None)


def _first_kept(wanted: MessageId, spine: Spine) -> int | None:
    """Where a foreign compaction's tail begins: as it says, or at the nearest legal cut after that.

    Without a tail that is what was said while the summary was being written.
    """
    index = spine.ids.get(wanted)
    if index is None:
        return None
    return next((placed.sequence for placed in spine.items[index:] if placed.cuttable), None)
