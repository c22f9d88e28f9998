"""A compaction whose store, summariser and plugins a test controls."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.events import Event
from infold.core.gauge import Gauge, PlanInputs
from infold.core.judge import Answer
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message
from infold.core.policy import INFOLD, Policy
from infold.core.summary_request import Additions
from infold.observers.bus import Bus
from infold.ports import CompactionContext, Decision
from infold.session.background import BackgroundSummary
from infold.session.compaction import CompactionInput, CompactionRun
from infold.session.settings import resolve_settings
from infold.session.summary import SummaryPlan
from infold.session.writer import LogWriter

from .session_fixture import KEY, HookedStore, Pauses, ScriptedSummariser

__all__ = ["Compacted", "Compactor", "FakeHooks"]


class FakeHooks:
    """Plugins that always say the same, and remember what they are told."""

    def __init__(
        self, decision: Decision | None = None, additions: Additions = Additions(), *, may_continue: bool = True
    ) -> None:
        self.decision = decision
        self.contexts = additions
        self.continues = may_continue
        self.occasions: list[CompactionContext] = []
        self.checkpoints: list[Checkpoint] = []

    def additions(self, occasion: CompactionContext) -> Additions:
        """Return the additions."""
        self.occasions.append(occasion)
        return self.contexts

    def decide(self, _: CompactionContext) -> Decision | None:
        """Return the decision."""
        return self.decision

    def may_continue(self, _: str) -> bool:
        """Return whether a continue message may follow."""
        return self.continues

    def compacted(self, _: str, checkpoint: Checkpoint) -> None:
        """Remember the checkpoint."""
        self.checkpoints.append(checkpoint)


class Compacted(NamedTuple):
    """What a compaction came to."""

    log: Log
    view: tuple[Message, ...]
    gauge: Gauge
    events: tuple[Event, ...]
    wanted: SummaryPlan | None


class Compactor:
    """A session in a store, compacted as often as a test likes."""

    def __init__(self, *answers: Answer | BaseException, hooks: FakeHooks | None = None) -> None:
        self.store = HookedStore()
        self.summariser = ScriptedSummariser(*answers)
        self.background = BackgroundSummary(0.0)
        self.hooks = hooks
        self.events: list[Event] = []
        bus = Bus()
        bus.subscribe(Event, self.events.append)
        self.callbacks = Pauses(bus)

    def add(self, messages: Sequence[Message] | Log) -> None:
        """Store messages, or those of a log."""
        given = [placed.message for placed in messages.live] if isinstance(messages, Log) else messages
        entries: list[Entry] = [MessageEntry(message) for message in given]
        self.store.append_directly(*entries)

    def run(self, inputs: PlanInputs, *, focus: str = "", system: str = "", **settings: Any) -> Compacted:
        """Compact the session as a new process reads it."""
        policy: Policy = inputs.policy
        rendering = Rendering(policy.estimate, policy.stub)
        writer = LogWriter(self.store, KEY, rendering, self.callbacks)
        resolved = replace(resolve_settings(None, 16_000, INFOLD), rendering=rendering, **settings)
        events: list[Event] = []
        try:
            prepared = CompactionRun(
                writer,
                CompactionInput(settings=resolved, plan_inputs=inputs, now_ms=7, focus=focus, system=system),
                ask=self.summariser,
                background=self.background,
                hooks=self.hooks,
                events=events,
            ).run()
        finally:
            writer.unlock()
        return Compacted(writer.log, prepared.view, prepared.gauge, tuple(events), prepared.wanted)
