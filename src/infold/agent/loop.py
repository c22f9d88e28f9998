"""The loop: prepare, ask, record, run tools, until there is nothing left to do (S5.1 to S5.5).

The session decides what is sent and compacts when it must; a compaction that was left over is carried out first, because
preparing does so. All that was said and done is in the session's log before the next thing happens, so that a step that is
broken off anywhere leaves a session whose next prompt is answered (B13).
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from infold.agent.asking import Listener
from infold.agent.circling import Deed, deeds_of, is_circling
from infold.agent.events import Ended, Ending, Happening, Stepped
from infold.agent.hands import Hands
from infold.api.session import Session
from infold.catalogue import cost_of
from infold.core.events import Compacted
from infold.core.messages import (
    AssistantMessage,
    Finish,
    MessageId,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolMessage,
    Usage,
    UserMessage,
    WorkPath,
    calls_of,
    text_of,
)
from infold.core.summary import Agent, assemble_system
from infold.engine.circumstances import Stamp
from infold.engine.keeper import Ready
from infold.errors import InfoldError, ModelOverflow
from infold.formats.tool_specs import tool_items
from infold.formats.wire import format_named
from infold.ports import Model, ModelRequest

__all__ = ["Bounds", "Loop"]

UNNUMBERED = MessageId("")
"""The id of a message that the session has yet to number."""

MOST_DEEDS = 24
"""How many of the newest calls are looked at for a circle; it takes twelve to see the longest one go round three times."""

CIRCLING = (
    "The last calls are the same ones over and over, with the same answers. Repeating them once more will not help: try "
    "something else, or say what you cannot do."
)
"""What a model is told that goes round in a circle, once; after that it is stopped."""


class Bounds(Struct, frozen=True):
    """How far an agent goes by itself: steps for one prompt, tokens of a reply (0: the model's own limit), and how much of one
    tool result the model is shown at first, as tokens and as a share of the window; the rest can be recalled.

    `pause_seconds` pass before a busy model is asked again, and twice that before the next time.
    """

    steps: int = 250
    output_tokens: int = 0
    result_tokens: int = 8_000
    result_share: float = 0.125
    pause_seconds: float = 1.0


ORDINARY = Bounds()


class Loop:
    """One agent at work on one session."""

    def __init__(
        self,
        session: Session,
        model: Model,
        agent: Agent,
        hands: Hands,
        *,
        tell: Callable[[Happening], None],
        bounds: Bounds = ORDINARY,
    ) -> None:
        self._session = session
        self._model = model
        self._wire = format_named(model.format)
        self._agent = agent
        self._hands = hands
        self._tell = tell
        self._bounds = bounds
        self._listener = Listener(model, tell, pause_seconds=bounds.pause_seconds)
        self._specs = hands.specs if agent.allows_tools else ()
        self._tools = tool_items(model.format, self._specs)
        self._instructions = ""
        self._own = ""
        self._snapshot = ""
        self._deeds: tuple[Deed, ...] = ()
        self._is_warned = False
        self._is_cut_off = False

    def run(self, prompt: str, *, system: str = "") -> Ended:
        """Work on what a person asks until it is done, or until something ends it; an interrupt is an ending too.

        `system` is text for the system prompt of this request alone (S3.3). Raises `ModelError` where the model does not
        answer, `WindowExceeded` where no request can be made to fit, `StoreError` where nothing can be kept.
        """
        self._own = system
        self._session.add((self._message(TextPart(prompt)),))
        return self.go_on()

    def go_on(self) -> Ended:
        """Work on from where the session stands, as after an abort or a crash."""
        self._deeds = deeds_of(placed.message for placed in self._session.log.live)
        self._own = self._asked()
        self._is_warned = self._is_cut_off = False
        steps, ending = 0, None
        try:
            self._snapshot = self._hands.snapshot()  # later steps begin with the tree that the one before ended with
            while ending is None:
                ending = "steps" if steps == self._bounds.steps else self._step(steps + 1)
                steps += ending != "steps"
        except KeyboardInterrupt:
            ending = "aborted"
        ended = Ended(ending, self._session.log.session_id, steps, self._answer())
        self._tell(ended)
        return ended

    # One step.

    def _step(self, number: int) -> Ending | None:
        """Prepare, ask, record, run tools; gives why there is no further step, if there is none."""
        ready = self._prepared()
        if self._is_cut_off and not _compacted(ready):
            return "length"
        try:
            body = self._listener.ask(self._request(ready), self._smaller)
        except BaseException as error:
            self._break_off("error" if isinstance(error, InfoldError) else "abort")
            raise
        reply = self._recorded(body)
        self._tell(Stepped(number, reply.finish, reply.usage, reply.cost, ready.gauge.count_tokens, ready.limit_tokens))
        return self._carry_out(reply) if calls_of(reply) else self._said_all(reply)

    def _prepared(self) -> Ready:
        """The next request; instructions are read anew for each, so that no compaction can make them stale."""
        self._instructions = self._hands.instructions()
        return self._session.prepare_new(
            (), system=self._system(), tools=self._tools, output_tokens=self._bounds.output_tokens
        )

    def _request(self, ready: Ready) -> ModelRequest:
        return ModelRequest(ready.messages, self._system(), self._specs, self._bounds.output_tokens)

    def _smaller(self, overflow: ModelOverflow) -> ModelRequest:
        """The request once more, with less in it; raises what was said where infold does not know it for an overflow."""
        ready = self._session.recover(overflow.refusal)
        if ready is None:
            raise overflow
        return self._request(ready)

    def _system(self) -> str:
        """The agent's prompt, then what holds for this project, then the last user message's own text (S3.3)."""
        return assemble_system(self._agent.system_text, self._instructions, self._own)

    def _asked(self) -> str:
        """What the last user message says for the system prompt; it holds for all its steps, folded or not."""
        users = (placed.message for placed in reversed(self._session.log.live) if not placed.is_business)
        newest = next((message for message in users if isinstance(message, UserMessage)), None)
        return "" if newest is None else newest.system

    def _recorded(self, body: dict[str, Any]) -> AssistantMessage:
        replies = self._wire.decode(self._wire.reply_items(body)).messages
        marks: tuple[StepStartPart | StepFinishPart, ...] = (StepStartPart(self._snapshot),)
        if not any(map(calls_of, replies)):
            usage = self._wire.usage(body)
            cost = cost_of(self._model.ref.id, usage) if usage else 0.0
            marks += (_finish(self._wire.finish(body), self._snapshot, usage, cost),)
        self._session.record(body, self._stamp(marks))
        reply = self._session.log.live[-1].message
        assert isinstance(reply, AssistantMessage)
        return reply

    def _stamp(self, marks: tuple[StepStartPart | StepFinishPart, ...]) -> Stamp:
        root = str(self._hands.workplace.root)
        return Stamp(self._agent.name, self._model.ref, WorkPath(root, root), marks)

    def _break_off(self, why: Finish) -> None:
        """Keep what a reply had said when it was broken off."""
        if self._listener.said.strip():
            marks = (StepStartPart(self._snapshot), StepFinishPart(why, self._snapshot))
            said = AssistantMessage(UNNUMBERED, (TextPart(self._listener.said),), finish=why)
            marked = self._stamp(marks).on(said, self._session.log)
            self._session.add((marked,))

    def _carry_out(self, reply: AssistantMessage) -> Ending | None:
        """Run the tools a reply calls, and keep what they answered, also when they are interrupted."""
        handled = self._hands.run(calls_of(reply), self._tell, self._session.log.rendering)
        self._snapshot = self._hands.snapshot()
        mark = _finish(reply.finish, self._snapshot, reply.usage, reply.cost)
        results = ToolMessage(UNNUMBERED, (*handled.results, mark))
        self._session.add((results,), longest_tokens=self._longest())
        if handled.interrupted:
            raise KeyboardInterrupt
        self._deeds = (*self._deeds, *deeds_of((reply, results)))[-MOST_DEEDS:]
        return self._circled()

    def _said_all(self, reply: AssistantMessage) -> Ending | None:
        """Why a reply that calls nothing is the last one; none where it was cut off, or its step ends in a compaction."""
        if reply.finish == "content-filter":
            return "filtered"
        self._is_cut_off = reply.finish == "length"
        return None if self._is_cut_off or self._overflowed() else "done"

    def _overflowed(self) -> bool:
        """Whether the step filled the window by the provider's own count, and a compaction asks to go on (S5.2, S3.8)."""
        if not self._session.policy.compares_usage or not _compacted(self._prepared()):
            return False
        live = self._session.log.live
        return bool(live) and live[-1].is_users

    def _message(self, said: TextPart) -> UserMessage:
        """Something put to this agent and its model (S3.1)."""
        return UserMessage(UNNUMBERED, (said,), agent=self._agent.name, model=self._model.ref, system=self._own)

    def _circled(self) -> Ending | None:
        """Warn a model that goes round in a circle, and stop one that goes on after that (D14)."""
        if not is_circling(self._deeds):
            return None
        if self._is_warned:
            return "circling"
        self._is_warned = True
        self._session.add((self._message(TextPart(CIRCLING, synthetic=True)),))
        return None

    def _longest(self) -> int:
        window = self._session.window_tokens
        share = int(window * self._bounds.result_share) if window else self._bounds.result_tokens
        return min(self._bounds.result_tokens, share)

    def _answer(self) -> str:
        replies = (placed.message for placed in reversed(self._session.log.live))
        newest = next((message for message in replies if isinstance(message, AssistantMessage)), None)
        return text_of(newest) if newest is not None else ""


def _compacted(ready: Ready) -> bool:
    return any(isinstance(event, Compacted) for event in ready.events)


def _finish(reason: Finish | None, snapshot: str, usage: Usage | None, cost: float) -> StepFinishPart:
    return StepFinishPart(reason or "other", snapshot, usage or Usage(), cost)
