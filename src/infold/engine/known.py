"""What a session has already of what a caller brings once more."""

import re
from collections.abc import Sequence

from infold.core.likeness import likeness
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, calls_of

__all__ = ["ends_with", "is_known"]

_REPEATED = re.compile(r"#\d+$")


def ends_with(log: Log, likenesses: Sequence[str]) -> bool:
    """Whether the newest messages of the caller say this."""
    newest = [placed.message for placed in log.live if not placed.is_own][-len(likenesses) :] if likenesses else []
    return bool(newest) and [likeness(message) for message in newest] == list(likenesses)


def is_known(log: Log, replies: Sequence[Message]) -> bool:
    """Whether the caller's own list brought this reply already, before it was recorded."""
    newest = log.live[-1].message if log.live else None
    if not replies or not isinstance(newest, AssistantMessage):
        return False
    return likeness(newest) == likeness(replies[-1]) and _wire_ids(newest) == _wire_ids(replies[-1])


def _wire_ids(message: Message) -> list[str]:
    """The ids of a message's calls as the provider gave them; one that is met a second time is numbered."""
    return [_REPEATED.sub("", call.call_id) for call in calls_of(message)]
