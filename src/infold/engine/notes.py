"""What came of asking for a summary."""

from msgspec import Struct

from infold.core.events import Event
from infold.core.messages import Usage, WorkPath
from infold.core.verdict import Verdict

__all__ = ["Notes"]


class Notes(Struct, frozen=True):
    """A summary that passed the judge, or an empty one with the verdict that says why not; and what it took."""

    text: str = ""
    verdict: Verdict | None = None
    model: str = ""
    usage: Usage | None = None
    path: WorkPath | None = None
    cost: float = 0.0
    duration_ms: int = 0
    events: tuple[Event, ...] = ()
