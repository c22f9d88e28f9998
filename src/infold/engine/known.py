"""What a session has already of what a caller brings once more."""

import re
from collections.abc import Sequence

from infold.core.entries import Checkpoint
from infold.core.log import Log
from infold.core.logged_message import Placed
from infold.core.messages import (
    AssistantMessage,
    Message,
    ReasoningPart,
    calls_of,
    chained,
    has_ids,
    likeness,
    outlined,
    results_of,
    text_of,
)

_REPEATED = re.compile(r"#\d+$")


def begins_with_the_fold(messages: Sequence[Message], checkpoint: Checkpoint) -> bool:
    """Whether a whole history begins with what was folded, be it that old results were cleared from it since."""
    head = messages[: checkpoint.folded]
    if len(head) < checkpoint.folded:
        return False
    return chained("", head) == checkpoint.fingerprint or (has_ids(head) and outlined("", head) == checkpoint.outline)


def settled(messages: Sequence[Message], live: Sequence[Placed], same: int) -> int:
    """How many messages of a history a session has, of those that say the same.

    Calls that are still open count only under the ids they have there, for their results name them; so do the results that
    such a step has already.
    """
    index = next((index for index in range(same - 1, -1, -1) if calls_of(messages[index])), None)
    if index is None:
        return same
    answered = {result.call_id for later in messages[index + 1 : same] for result in results_of(later)}
    if all(call.call_id in answered for call in calls_of(messages[index])):
        return same
    step = range(index, same)
    return next((place for place in step if _wire_ids(messages[place]) != _wire_ids(live[place].message)), same)


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


def is_rewritten(recorded: Message, brought: Message) -> bool:
    """Whether a client brings a recorded reply in words of its own: some send reasoning back as text.

    It makes the same calls; where it makes none, it contains what the reply said or thought.
    """
    if not isinstance(recorded, AssistantMessage) or not isinstance(brought, AssistantMessage):
        return False
    if calls_of(recorded) or calls_of(brought):
        return _wire_ids(recorded) == _wire_ids(brought)
    thought = (part.text for part in recorded.parts if isinstance(part, ReasoningPart))
    said = [" ".join(text.split()) for text in (text_of(recorded), *thought)]
    return any(text and text in " ".join(text_of(brought).split()) for text in said)


def _wire_ids(message: Message) -> list[str]:
    """The ids of a message's calls and results as the provider gave them; one that is met a second time is numbered."""
    called, answered = calls_of(message), results_of(message)
    ids = (*(call.call_id for call in called), *(result.call_id for result in answered))
    return [_REPEATED.sub("", call_id) for call_id in ids]
