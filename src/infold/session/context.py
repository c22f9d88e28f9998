"""Per-request context: the settings, what is sent with the messages, and the elapsed time, as inputs to the plan."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import cost_of
from infold.core.budget import AskedOutput, Budget, Window, budget_for, narrow_window
from infold.core.events import CacheMissed
from infold.core.gauge import PlanInputs, gauge
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Finish,
    Message,
    ModelRef,
    Overhead,
    StepFinishPart,
    StepStartPart,
    Usage,
    WorkPath,
)
from infold.core.plan import Stuck
from infold.errors import PolicyError, WindowExceeded
from infold.formats.codec import ReportedMiss, marked_seconds
from infold.formats.registry import OPENAI_RESPONSES
from infold.session.counting import count_overhead
from infold.session.settings import ResolvedSettings, require_int

HOUR_SECONDS = 3_600

SERVED_SHARE = 0.5
"""The part of a request that its successor must read from the cache for the cache to have served it."""

LEAST_CACHED_TOKENS = 1_024
"""The smallest request that most providers cache."""


class RequestExtras(NamedTuple):
    """What a request sends with its messages: the system prompt, the tools, and the most tokens it asks for in reply.

    `cache_seconds`: how long it asks the provider's cache to keep it; 0 if it does not say. `edited_from_tokens`: it asks the
    provider to shorten the history itself, from that many tokens on.
    """

    system: object = None
    tools: object = None
    output_tokens: int | AskedOutput = 0
    cache_seconds: int = 0
    edited_from_tokens: int | None = None

    @property
    def output(self) -> AskedOutput:
        """What it asks for in reply."""
        given = self.output_tokens
        return given if isinstance(given, AskedOutput) else AskedOutput(given)

    @property
    def offers_tools(self) -> bool:
        """Whether the request offers tools, or does not say: an empty list says that it offers none."""
        return self.tools is None or bool(self.tools)

    def checked(self, messages: object) -> "RequestExtras":
        """Return them with how long the cache keeps the request as it is marked; raise `UsageError` for a wrong number."""
        require_int("edited_from_tokens", self.edited_from_tokens or 0)
        check_output(self.output)
        stated = require_int("cache_seconds", self.cache_seconds)
        return self._replace(cache_seconds=stated or marked_seconds(messages, self.system, self.tools))


NO_EXTRAS = RequestExtras()


def check_output(asked: AskedOutput) -> AskedOutput:
    """Return what a request asks for in reply; raise `UsageError` for a wrong number."""
    require_int("output_tokens", asked.tokens)
    require_int("thinking_tokens", asked.thinking_tokens)
    return asked


class ReplyMetadata(Struct, frozen=True):
    """What an agent knows of a reply and the wire format does not show: agent, model, working directory, marks of its step.

    `finish` is why the reply ended if that was not the model's doing, such as an abort.
    """

    agent: str = ""
    model: ModelRef | None = None
    path: WorkPath | None = None
    parts: tuple[StepStartPart | StepFinishPart, ...] = ()
    finish: Finish | None = None

    def apply(self, reply: Message, log: Log) -> Message:
        """Return the reply with this metadata; its own parts keep their positions, which are their addresses."""
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


class RequestContext:
    """Everything a decision depends on besides the log, as it changes from request to request.

    `extras` is `None` until a request was made in this process. `preamble` are system messages that open the caller's list:
    they are always sent and never part of the log. `sent_output_tokens` is what the newest request asks for in what is sent.
    """

    def __init__(self, settings: ResolvedSettings, now_ms: Callable[[], int]) -> None:
        self.extras: RequestExtras | None = None
        self.preamble: tuple[Message, ...] = ()
        self.sent_output_tokens = 0
        self._settings = settings
        self._now_ms = now_ms
        self._counted: tuple[tuple[Message, ...], object, object, Overhead] | None = None

    def plan_inputs(self, log: Log, *, manual: bool = False) -> PlanInputs:
        """Return the inputs for the next step; `manual`: a person asked for a compaction."""
        settings, budget, policy = self._settings, self._budget(log), self._settings.policy
        edited_from = (self.extras or NO_EXTRAS).edited_from_tokens
        if edited_from:  # the client's own choice comes first, as long as the request fits
            trigger = max(budget.trigger_tokens, min(edited_from, budget.limit_tokens))
            budget = replace(budget, trigger_tokens=trigger)
            if policy.prune.timing == "every-request":
                policy = replace(policy, prune=replace(policy.prune, timing="at-trigger"))
        newest = next(_replies(log), None)
        lifetime = (newest.cache_seconds if newest else 0) or settings.cache_seconds
        answered_ms = newest.created_ms if newest else None
        is_hourly = ((self.extras or NO_EXTRAS).cache_seconds or lifetime) >= HOUR_SECONDS
        return PlanInputs(
            policy,
            budget,
            overhead_tokens=self._overhead_of_next(log).tokens,
            bound=settings.counting.margin,
            wide_bound=settings.counting.wide_margin,
            recovers=settings.recovers,
            window_tokens=self._whole_window(log).limit_tokens,
            summariser=settings.summarises and (manual or not self._is_paused(log)),
            manual=manual,
            rates=None if edited_from else settings.rates_for(hourly=True) if is_hourly else settings.rates,
            # Derived from the log, so that all processes agree.
            is_cold=answered_ms is not None and self._now_ms() - answered_ms > lifetime * 1_000,
            native="never" if edited_from else settings.native,
            native_is_sealed=settings.format == OPENAI_RESPONSES.name,
            edited_from_tokens=edited_from,
            compact_tool=settings.compact_tool,
            offers_tools=(self.extras or NO_EXTRAS).offers_tools,
        )

    def window(self, log: Log) -> Window:
        """Return the window as learned by now, with room for the reply that the request asks for."""
        asked, overhead = (self.extras or NO_EXTRAS).output, self._overhead_of_next(log).tokens
        return asked.narrow(self._whole_window(log), self._settings.policy, overhead)

    def fitting_output(self, log: Log) -> int:
        """Return the most to ask for in reply: what the request asks for, or less if prompt and reply do not both fit."""
        asked = (self.extras or NO_EXTRAS).output
        if not asked.tokens or not self._settings.policy.auto:
            return asked.tokens
        inputs = self.plan_inputs(log)
        return asked.fitting(
            self._whole_window(log).context_tokens,
            expected_tokens=gauge(log, inputs).upper_tokens,
            most_tokens=gauge(log, replace(inputs, recovers=False)).upper_tokens,
        )

    def complete(self, messages: tuple[Message, ...], log: Log) -> tuple[Message, ...]:
        """Return new messages with the time; replies also with their model, their price, and the overhead sent with them."""
        now = self._now_ms()
        return tuple(self._complete_reply(replace(message, created_ms=now), log) for message in messages)

    def _complete_reply(self, message: Message, log: Log) -> Message:
        if not isinstance(message, AssistantMessage) or (message.usage is None and message.finish is None):
            return message  # the caller's own, or a reply that came with its history
        model = self._settings.model
        overhead = None if self.extras is None else self._overhead(self.extras)
        known = (reply.overhead.schemas for reply in _replies(log) if reply.overhead and reply.overhead.schemas)
        if overhead is not None and overhead.schemas and overhead.schemas == next(known, ()):
            overhead = replace(overhead, schemas=())  # an earlier reply of the view has them
        reply = replace(
            message,
            model=message.model or (ModelRef("", model) if model else None),
            overhead=overhead,
            window_tokens=self._settings.window.context_tokens,
            finish="other" if message.finish == "length" and self._reaches_own_limit(message.usage) else message.finish,
        )
        return reply if message.usage is None else self._complete_usage(reply, message.usage)

    def _complete_usage(self, reply: AssistantMessage, usage: Usage) -> AssistantMessage:
        """Return a reply with what follows from its usage: its price, and how long the cache keeps it."""
        model, stated, extras = self._settings.model, self._settings.stated_prices, self.extras or NO_EXTRAS
        is_hourly = 2 * usage.cache_write_hour > usage.cache_write
        usual = HOUR_SECONDS if is_hourly else self._settings.cache_seconds
        return replace(
            reply,
            cost=cost_of(model, usage, stated) if model or stated else 0.0,
            cache_seconds=reply.cache_seconds or extras.cache_seconds or usual,
        )

    def _reaches_own_limit(self, usage: Usage | None) -> bool:
        """Return whether a reply is as long as its request asks for, as sent: compacting makes no room for a longer one.

        Without usage that is known only of a request that was made to ask for less, so that its reply fits the window.
        """
        sent = self.sent_output_tokens
        if usage is None:
            return sent < (self.extras or NO_EXTRAS).output.tokens
        return 0 < sent <= usage.output + usage.reasoning

    def cache_miss(self, log: Log, reply: Message, reported: ReportedMiss | None) -> CacheMissed | None:
        """Return that the cache did not serve the request of this reply, which is not in the log yet, and what that cost.

        `None` if it did, if infold itself changed the request, or if the reason is not known: the provider names none, and
        the session was not idle for longer than the cache keeps a request.
        """
        placed = next((one for one in reversed(log.live) if isinstance(one.message, AssistantMessage)), None)
        earlier = None if placed is None else placed.message
        if placed is None or not isinstance(earlier, AssistantMessage) or not isinstance(reply, AssistantMessage):
            return None
        before, usage = earlier.usage or Usage(), reply.usage
        if usage is None or not (before.cache_read or before.cache_write) or earlier.model != reply.model:
            return None
        is_altered = max(log.altered_at, log.checkpoint_sequence) > placed.sequence
        overhead = reply.overhead.tokens if reply.overhead else 0
        expected = min(before.prompt, usage.prompt, overhead if is_altered else before.prompt)
        lifetime, sent_ms = earlier.cache_seconds or self._settings.cache_seconds, log.live[-1].message.created_ms
        idle_ms = max(0, (sent_ms or 0) - (earlier.created_ms or sent_ms or 0))
        tokens, is_changed = expected - usage.cache_read, reported is not None and reported.is_change
        if reported is not None and is_changed:
            is_missed, tokens = not is_altered, reported.tokens or tokens
        else:
            is_served = usage.cache_read >= SERVED_SHARE * expected or expected < LEAST_CACHED_TOKENS
            is_missed = idle_ms > lifetime * 1_000 and not is_served
        if not is_missed or tokens <= 0:
            return None
        rates = self._settings.rates_for(hourly=lifetime >= HOUR_SECONDS)
        return CacheMissed(
            log.session_id,
            "changed" if is_changed else "expired",
            tokens,
            0.0 if rates.is_assumed else tokens * (rates.fresh - rates.cached) / 1_000_000,
            idle_ms // 1_000,
            lifetime,
            "" if reported is None else reported.reason,
        )

    def _is_paused(self, log: Log) -> bool:
        """Return whether the summariser rests after failures; derived from the log, so that all processes agree."""
        failing = None if log.checkpoint is None else log.checkpoint.failing
        return failing is not None and failing.pauses(self._now_ms())

    def _overhead_of_next(self, log: Log) -> Overhead:
        """Return the overhead of the next request; before the first one in this process, that of the newest reply."""
        if self.extras is not None:
            return self._overhead(self.extras)
        return next((reply.overhead for reply in _replies(log) if reply.overhead is not None), Overhead())

    def _overhead(self, extras: RequestExtras) -> Overhead:
        """Return the tokens of preamble, system prompt and tools, counted only when one of them changed."""
        key = (self.preamble, extras.system, extras.tools)
        if self._counted is None or self._counted[:3] != key:
            self._counted = (*key, count_overhead(*key, self._settings.counting.ruler))
        return self._counted[3]

    def _budget(self, log: Log) -> Budget:
        """Return what may be filled; a reserve or a trigger in tokens that a learned window has no room for gives way."""
        policy, window, learned = self._settings.policy, self.window(log), log.limits.tokens
        if self._states_window:
            policy = replace(policy, window_tokens=None)  # the window has it, with what was learned and asked for
        if learned is not None:  # a stated window may still be too large
            stated, working = policy.window_tokens, policy.working_window_tokens
            policy = replace(
                policy,
                window_tokens=None if stated is None else min(stated, learned),
                working_window_tokens=None if working is None else min(working, learned),
            )
        try:
            return budget_for(window, policy)
        except PolicyError:
            if window == self._settings.window:
                raise
        try:
            return budget_for(window, replace(policy, reserve_tokens=None))
        except PolicyError:
            return budget_for(self._settings.window, self._settings.policy)

    def _whole_window(self, log: Log) -> Window:
        window, stated = self._settings.window, self._settings.policy.window_tokens
        if self._states_window and stated is not None:
            window = Window(stated, output_tokens=window.output_tokens, request_bytes=window.request_bytes)
        return narrow_window(window, log.limits)

    @property
    def _states_window(self) -> bool:
        """Whether the policy states the model's window; a document's preset states how much of it to fill instead."""
        policy = self._settings.policy
        return policy.window_tokens is not None and policy.usable == "scaled-reserve"


def _replies(log: Log) -> Iterator[AssistantMessage]:
    """Yield the replies in the view, newest first."""
    return (placed.message for placed in reversed(log.live) if isinstance(placed.message, AssistantMessage))


def window_exceeded(stuck: Stuck) -> WindowExceeded:
    """Return the error for a view that cannot be made to fit."""
    return WindowExceeded(
        floor_tokens=stuck.floor_tokens, usable_tokens=stuck.usable_tokens, overhead_tokens=stuck.overhead_tokens
    )
