"""Whether a session was at work when it was compacted, and so should be told to go on (B21).

A session that waits for its user keeps waiting: a finished answer, a question, nothing said at all.
"""

from infold.core.log import Log
from infold.core.messages import AssistantMessage, SystemMessage, calls_of

_BROKEN_OFF = ("tool-calls", "length")
"""How a reply ends that something is to follow."""


def is_under_way(log: Log) -> bool:
    """Whether the newest of what was said awaits the model: a request, a result, a call, or a reply that was cut off."""
    spoken = (placed.message for placed in reversed(log.live) if not placed.is_business)
    newest = next((message for message in spoken if not isinstance(message, SystemMessage)), None)
    if isinstance(newest, AssistantMessage):
        return bool(calls_of(newest)) or newest.finish in _BROKEN_OFF
    return newest is not None
