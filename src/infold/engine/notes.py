"""What came of asking for a summary."""

from msgspec import Struct

from infold.core.entries import Verdict
from infold.core.events import Event
from infold.core.messages import Usage, WorkPath


class Notes(Struct, frozen=True):
    """A summary that passed the judge, or an empty one with the verdict that says why not; and what it took.

    `is_asked`: a model was asked for it, now or ahead of need. `wait_seconds`: how long a provider that refused asks to wait.
    `flattened`: the model was shown a flattened text, where the policy wants messages.
    """

    text: str = ""
    verdict: Verdict | None = None
    model: str = ""
    usage: Usage | None = None
    path: WorkPath | None = None
    cost: float = 0.0
    duration_ms: int = 0
    events: tuple[Event, ...] = ()
    is_asked: bool = False
    wait_seconds: float = 0.0
    flattened: bool = False

    @property
    def is_failure(self) -> bool:
        """Whether a model was asked, and gave nothing that can be used."""
        return self.is_asked and not self.text
