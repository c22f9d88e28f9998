"""What a request is made in: the terms, what is sent beside the messages, and the time that has passed."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import cost_of
from infold.core.budget import Budget, Window, budget_for, narrowed
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Finish,
    Message,
    ModelRef,
    Overhead,
    StepFinishPart,
    StepStartPart,
    WorkPath,
)
from infold.engine.terms import Terms, overhead_of
from infold.errors import PolicyError

COLD_MS = 300_000
"""After five minutes without a request providers have let their cache go, and acting costs nothing extra."""


class Beside(NamedTuple):
    """What a request is sent with: its system prompt, its tools, and the tokens it asks to be answered with at most."""

    system: object = None
    tools: object = None
    output_tokens: int = 0


NOTHING_BESIDE = Beside()


class Stamp(Struct, frozen=True):
    """What an agent knows of a reply and no wire tells: who answered, where it stood, and the marks of its step (S3.6, S6.1).

    `finish` is why the reply ended, where that was not the model's doing, such as an abort.
    """

    agent: str = ""
    model: ModelRef | None = None
    path: WorkPath | None = None
    parts: tuple[StepStartPart | StepFinishPart, ...] = ()
    finish: Finish | None = None

    def on(self, reply: Message, log: Log) -> Message:
        """A reply with these marks; its own parts keep their places, by which they are addressed."""
        if not isinstance(reply, AssistantMessage):
            return reply
        users = (placed.message.id for placed in reversed(log.live) if placed.is_users and not placed.results)
        return replace(
            reply,
            parts=(*reply.parts, *self.parts),
            agent=self.agent,
            mode=self.agent,
            model=self.model or reply.model,
            path=self.path,
            parent_id=next(users, None),
            finish=self.finish or reply.finish,
        )


class Circumstances:
    """Everything beside the log that a decision depends on, as it changes from request to request.

    `preamble` are system messages that open the caller's list: they are always sent and never part of the log.
    """

    def __init__(self, terms: Terms, now_ms: Callable[[], int]) -> None:
        self._beside: Beside | None = None
        self.preamble: tuple[Message, ...] = ()
        self._terms = terms
        self._now_ms = now_ms
        self._weighed: tuple[tuple[Message, ...], object, object, Overhead] | None = None

    @property
    def beside(self) -> Beside:
        """What the newest request was sent with; nothing where none was made in this process."""
        return NOTHING_BESIDE if self._beside is None else self._beside

    @beside.setter
    def beside(self, beside: Beside) -> None:
        self._beside = beside

    def situation(self, log: Log, *, manual: bool = False) -> Situation:
        """What the next step is decided by."""
        terms = self._terms
        return Situation(
            terms.policy,
            self._budget(log),
            overhead_tokens=self._overhead_of_next(log).tokens,
            bound=terms.counting.margin,
            wide_bound=terms.counting.wide_margin,
            recovers=terms.recovers,
            window_tokens=self._whole_window(log).limit_tokens,
            summariser=terms.summarises and (manual or not self._is_paused(log)),
            manual=manual,
            rates=terms.rates,
            is_cold=self._is_cold(log),
        )

    def _is_paused(self, log: Log) -> bool:
        """Return whether the summariser is left alone after failures; the log tells, so that all processes agree."""
        failing = None if log.checkpoint is None else log.checkpoint.failing
        return failing is not None and failing.pauses(self._now_ms())

    def _is_cold(self, log: Log) -> bool:
        """Whether the newest reply is so old that the provider's cache has gone; the log tells, so that all processes agree."""
        newest = next(_replies(log), None)
        return newest is not None and newest.created_ms is not None and self._now_ms() - newest.created_ms > COLD_MS

    def _overhead_of_next(self, log: Log) -> Overhead:
        """What the next request sends beside its messages; where nobody said so in this process, what the newest reply kept."""
        if self._beside is not None:
            return self._overhead()
        return next((reply.overhead for reply in _replies(log) if reply.overhead is not None), Overhead())

    def _overhead(self) -> Overhead:
        """What is sent beside the messages, weighed anew only when it changed."""
        preamble = self.preamble
        system, tools, _ = self.beside
        if self._weighed is None or self._weighed[:3] != (preamble, system, tools):
            weight = overhead_of(preamble, system, tools, self._terms.counting.ruler)
            self._weighed = (preamble, system, tools, weight)
        return self._weighed[3]

    def stamped(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Messages with the moment they came; replies with their model, their price, and what was sent beside them."""
        now = self._now_ms()
        return tuple(self._priced(replace(message, created_ms=now)) for message in messages)

    def _priced(self, message: Message) -> Message:
        if not isinstance(message, AssistantMessage) or message.usage is None:
            return message
        model = self._terms.model
        known = ModelRef("", model) if model else None
        return replace(
            message,
            model=message.model or known,
            cost=cost_of(model, message.usage),
            overhead=None if self._beside is None else self._overhead(),
            window_tokens=self._terms.window.context_tokens,
            finish="other" if self._is_own_limit(message) else message.finish,
        )

    def _is_own_limit(self, reply: AssistantMessage) -> bool:
        """Whether a reply ended at the length the caller asked for, and not for want of room, which compacting would help."""
        most, usage = self.beside.output_tokens, reply.usage
        return reply.finish == "length" and usage is not None and 0 < most <= usage.output + usage.reasoning

    def _budget(self, log: Log) -> Budget:
        """What may be filled; a reserve or a trigger in tokens that a learned window has no room for gives way to it."""
        policy, window, learned = self._terms.policy, self.window(log), log.limits.tokens
        if self._has_own_window:
            policy = replace(policy, window_tokens=None)  # it is in the window, with what was learned and asked for
        if policy.window_tokens is not None and learned is not None:  # a window that was set may still be too large
            policy = replace(policy, window_tokens=min(policy.window_tokens, learned))
        try:
            return budget_for(window, policy)
        except PolicyError:
            if window == self._terms.window:
                raise
        try:
            return budget_for(window, replace(policy, reserve_tokens=None))
        except PolicyError:
            return budget_for(self._terms.window, self._terms.policy)

    def window(self, log: Log) -> Window:
        """The window as it is known by now, less what the request asks to be answered with."""
        window, asked = self._whole_window(log), self.beside.output_tokens
        if not 0 < asked < window.context_tokens:
            return window
        most = window.context_tokens - asked
        return replace(window, input_tokens=min(window.limit_tokens, most))

    def _whole_window(self, log: Log) -> Window:
        """The window as it is known by now."""
        window, stated = self._terms.window, self._terms.policy.window_tokens
        if self._has_own_window and stated is not None:
            window = Window(stated, output_tokens=window.output_tokens, request_bytes=window.request_bytes)
        return narrowed(window, log.limits)

    @property
    def _has_own_window(self) -> bool:
        """Whether the policy states the model's window; a document states what it fills, which is another thing (S1.7)."""
        policy = self._terms.policy
        return policy.window_tokens is not None and policy.usable == "scaled-reserve"


def _replies(log: Log) -> Iterator[AssistantMessage]:
    """The replies in the view, the newest first."""
    return (placed.message for placed in reversed(log.live) if isinstance(placed.message, AssistantMessage))
