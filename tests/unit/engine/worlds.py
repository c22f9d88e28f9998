"""A world for flows: a store in memory, a summariser that answers from a list, and a memory of everything."""

from collections.abc import Sequence

from infold.core.entries import Entry
from infold.core.events import Event
from infold.core.judge import Answer, Told
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import SessionId, Usage
from infold.core.policy import INFOLD, Policy
from infold.core.summary_request import SummaryRequest
from infold.engine.ahead import Preparation
from infold.engine.drive import AsyncWorld, World
from infold.engine.effects import Guidance
from infold.errors import ModelError
from infold.ports import FullStore, Occasion, SessionKey
from infold.stores.memory import MemoryStore

__all__ = ["GOOD", "KEY", "Scripted"]

GOOD = "The parser was ported part by part with make; each part built without errors."
KEY = SessionKey("", SessionId("s"))


class Scripted:
    """A world whose summariser answers from a list, and which remembers everything."""

    def __init__(
        self, *answers: Answer | ModelError, store: FullStore | None = None, guidance: Guidance | None = None
    ) -> None:
        self.answers = list(answers)
        self.asked: list[SummaryRequest] = []
        self.events: list[Event] = []
        self.heard: list[object] = []
        self.waits: list[float] = []
        self.ahead: Preparation | None = None
        self.store = store or MemoryStore()
        self.guidance = guidance or Guidance()

    @property
    def entries(self) -> list[Entry]:
        """All that is stored, oldest first."""
        return [entry for _, entry in self.store.newest_first(KEY)][::-1]

    def world(self) -> World:
        """What the sync driver needs."""
        return World(
            append=self.append,
            load=self.reread,
            hold=lambda: self.store.hold(KEY),
            publish=self.events.append,
            consult=self.consult,
            announce=self.heard.append,
            ask=self.ask,
            fetch=self.fetch,
            wait=self.waits.append,
        )

    def async_world(self) -> AsyncWorld:
        """What the async driver needs."""

        async def ask(request: SummaryRequest) -> Told:
            return self.ask(request)

        async def fetch(wait: bool) -> Preparation | None:
            return self.fetch(wait)

        async def wait(seconds: float) -> None:
            self.waits.append(seconds)

        return AsyncWorld(
            append=self.append,
            load=self.reread,
            hold=lambda: self.store.hold(KEY),
            publish=self.events.append,
            consult=self.consult,
            announce=self.heard.append,
            ask=ask,
            fetch=fetch,
            wait=wait,
        )

    def append(self, entries: Sequence[Entry], expected: int) -> int:
        """Store them if they are expected."""
        return self.store.append(KEY, entries, expected=expected)

    def ask(self, request: SummaryRequest) -> Told:
        """The next answer of the list, and a good one after the last."""
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else Answer(GOOD)
        if isinstance(answer, ModelError):
            raise answer
        return Told(answer, model="scripted", usage=Usage(input=10, output=5), cost=0.25, duration_ms=40)

    def fetch(self, wait: bool) -> Preparation | None:  # noqa: ARG002 - nothing is ever still being written here
        """What was prepared ahead, once."""
        ahead, self.ahead = self.ahead, None
        return ahead

    def consult(self, occasion: Occasion) -> Guidance:
        """What plugins say."""
        self.heard.append(occasion)
        return self.guidance

    def reread(self, policy: Policy = INFOLD) -> Log:
        """The session as a new process would read it."""
        return load(KEY.session_id, self.store.newest_first(KEY), Rendering(policy.estimate, policy.stub))
