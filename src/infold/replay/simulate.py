"""Replay the calls of a session with the requests a policy would have sent, and bill them.

A call costs its cached input, its fresh input and its reply. A summary is an additional call that reads the policy's
whole request and writes a text. Content that a request lacks and the reply needed can be charged as a fetch
(`Refetch`). The recorded replies never change: a replay shows what a policy would have paid for the same work, not
how the work would have gone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from infold.core.judge import record_text
from infold.core.messages import Message, Usage, results_of
from infold.core.policy import Ruler
from infold.core.tokens import measure
from infold.replay.calls import RecordedCall, RecordedRun
from infold.replay.outcome import CallOutcome, PolicyOutcome, Spend
from infold.replay.policies import PolicyRequest, PolicyRunner, PromptContent, ReplaySetup, opening_blocks
from infold.replay.prices import CacheRules, Prompt, PromptCache, Tariff
from infold.replay.scale import CountedMessage, count_tokens

SUMMARY_TOKENS = 2_753
"""The median of 73 recorded summaries; the charge for a summary whose text is unknown."""

Refetch: TypeAlias = Callable[[RecordedCall, Sequence[Message]], int]
"""Returns the tokens of what a reply needed and the request no longer had, for a call and the messages sent."""


class Billing(Struct, frozen=True):
    """How a simulation is billed: prices, cache rules, the window, and the charge for lost content, if any.

    `misses` has, by call number, the tokens that the recorded run's cache served where it should have served all.
    """

    tariff: Tariff
    rules: CacheRules
    window_tokens: int = 0
    misses: Mapping[int, int] = {}
    refetch: Refetch | None = None


def simulate(
    name: str, runner: PolicyRunner, setup: ReplaySetup, billing: Billing, *, label_tokens: int | None = None
) -> PolicyOutcome:
    """Simulate one policy over one session; `label_tokens` is the window to report, if it differs from the actual
    one.
    """
    run = _Simulation(setup, billing)
    for call in setup.recording.calls:
        request = runner.request(call)
        runner.record_reply(call, run.send(call, request))
    return run.outcome(name, billing.window_tokens if label_tokens is None else label_tokens)


class _Simulation:
    """The state and the sums of one simulation."""

    def __init__(self, setup: ReplaySetup, billing: Billing) -> None:
        self.setup = setup
        self.billing = billing
        self.cache = PromptCache(billing.rules)
        self.series: list[CallOutcome] = []
        self.spend = Spend()
        self.uncached_dollars = 0.0
        self.input_tokens = self.read_tokens = self.output_tokens = self.summary_calls = 0
        self.broken_pairs = self.without_opening = self.refetch_tokens = 0
        self._last: Prompt | None = None
        self._answerable = setup.recording.answered
        self._opening = setup.recording.opening_position if setup.recording.opening else None
        if setup.overhead.warm:
            self._warm_up()

    def _warm_up(self) -> None:
        """Cache the system prompt and tools, as if another session had sent them shortly before."""
        first = self.setup.recording.calls[0].sent_ms if self.setup.recording.calls else None
        self.cache.send(Prompt.of([opening_blocks(self.setup)[0]]), sent_ms=first)

    def send(self, call: RecordedCall, request: PolicyRequest) -> Usage:
        """Bill a request and its reply; return the usage that the simulated provider reports."""
        if call.number in self.billing.misses:
            self.cache.forget(self.billing.misses[call.number])
        for content in request.summarised:
            self._summarise(call, content, request.summary_tokens or SUMMARY_TOKENS)
        counted = [self.setup.counter.count(message) for message in request.sent.messages]
        prompt = Prompt.of([*request.sent.opening, *(found.block for found in counted)])
        output = self._output_tokens(call)
        read = self._charge(prompt, output, call)
        self._check(counted, call)
        self._fetch_again(call, request, prompt)
        self.series.append(
            CallOutcome(
                prompt.tokens,
                read,
                output,
                request.compactions,
                request.prunings,
                breaks_prefix=self._last is not None and not prompt.extends(self._last),
                over_window=prompt.tokens > self.billing.window_tokens,
            )
        )
        self._last = prompt
        return self._usage(prompt.tokens, read, output)

    def _charge(self, prompt: Prompt, output: int, call: RecordedCall) -> int:
        read = self.cache.send(prompt, sent_ms=call.sent_ms, answered_ms=call.answered_ms)
        self.spend += self.billing.tariff.bill(prompt.tokens, read, output, cached=self._is_cached(prompt.tokens))
        self._count(prompt.tokens, read, output)
        return read

    def _summarise(self, call: RecordedCall, content: PromptContent, output: int) -> None:
        """Bill a summary of this content, with the same cache."""
        blocks = (self.setup.counter.count(message).block for message in content.messages)
        prompt = Prompt.of([*content.opening, *blocks])
        read = self.cache.send(prompt, sent_ms=call.sent_ms)
        bill = self.billing.tariff.bill(prompt.tokens, read, output, cached=self._is_cached(prompt.tokens))
        self.spend += Spend(summary=bill.dollars)
        self.summary_calls += 1
        self._count(prompt.tokens, read, output)

    def _count(self, prompt: int, read: int, output: int) -> None:
        self.input_tokens += prompt
        self.read_tokens += read
        self.output_tokens += output
        self.uncached_dollars += self.billing.tariff.bill(prompt, 0, output, cached=False).dollars

    def _is_cached(self, prompt_tokens: int) -> bool:
        return self.billing.rules.enabled and prompt_tokens >= self.billing.rules.minimum_tokens

    def _output_tokens(self, call: RecordedCall) -> int:
        """Return the reply's tokens as reported, or as counted if the record was written before the reply was
        complete.
        """
        reply = self.setup.recording.reply_to(call)
        counted = self.setup.counter.scale.tokens(count_tokens(reply, self.setup.counter.ruler))
        usage = reply.usage
        return max(counted, 0 if usage is None else usage.output + usage.reasoning)

    def _check(self, counted: Sequence[CountedMessage], call: RecordedCall) -> None:
        """Count the faults of a request; the user's first request cannot be lost before it is made."""
        called = {call_id for found in counted for call_id in found.call_ids}
        answered = {call_id for found in counted for call_id in found.result_ids}
        self.broken_pairs += len(answered - called) + len((called - answered) & self._answerable)
        if self._opening is not None and self._opening < call.end:
            self.without_opening += not any(found.has_opening for found in counted)

    def _fetch_again(self, call: RecordedCall, request: PolicyRequest, prompt: Prompt) -> None:
        """Bill another call that reads the request and fetches what was lost."""
        lost = self.billing.refetch(call, request.sent.messages) if self.billing.refetch else 0
        if lost <= 0:
            return
        bill = self.billing.tariff.bill(prompt.tokens + lost, prompt.tokens, 0, cached=self._is_cached(prompt.tokens))
        self.refetch_tokens += lost
        self.spend += Spend(refetch=bill.dollars)

    def _usage(self, prompt: int, read: int, output: int) -> Usage:
        fresh = prompt - read
        if self.billing.tariff.bills_writes and self._is_cached(prompt):
            return Usage(cache_read=read, cache_write=fresh, output=output)
        return Usage(input=fresh, cache_read=read, output=output)

    def outcome(self, name: str, window_tokens: int) -> PolicyOutcome:
        """Return the sums."""
        prompts = [call.prompt_tokens for call in self.series]
        return PolicyOutcome(
            policy=name,
            window_tokens=window_tokens,
            calls=len(self.series),
            input_tokens=self.input_tokens,
            read_tokens=self.read_tokens,
            output_tokens=self.output_tokens,
            peak_tokens=max(prompts, default=0),
            prompt_tokens=sum(prompts),
            compactions=sum(call.compactions for call in self.series),
            prunings=sum(call.prunings for call in self.series),
            summary_calls=self.summary_calls,
            prefix_breaks=sum(call.breaks_prefix for call in self.series),
            overruns=sum(call.over_window for call in self.series),
            broken_pairs=self.broken_pairs,
            without_opening=self.without_opening,
            refetch_tokens=self.refetch_tokens,
            spend=self.spend,
            uncached_dollars=self.uncached_dollars,
            series=tuple(self.series),
        )


_NAMES = re.compile(
    r"(?<![\w.@+-])(?<![\w.@+-]/)(?:[\w.@+-]++/)+[\w@+-]+\.\w{1,8}\b"  # paths to files
    r"|\b(?:[a-z]+[A-Z]\w{3,}|[A-Z][a-z0-9]+[A-Z]\w{2,}|[A-Za-z]+_\w{4,})\b"  # identifiers of six letters or so
    r"|\b[0-9a-f]{7,40}\b"  # hashes
)


class _NeededName(Struct, frozen=True):
    """A name that a reply uses, and the tool output it last occurred in."""

    name: str
    output: int
    tokens: int


def make_refetch(recording: RecordedRun, ruler: Ruler) -> Callable[[RecordedCall, Sequence[Message]], int]:
    """Return a function from a call and a request to the tokens that must be fetched again."""
    needed = _needed_by_call(recording, ruler)

    def lost_tokens(call: RecordedCall, request: Sequence[Message]) -> int:
        wanted = needed.get(call.number, ())
        if not wanted:
            return 0
        shown = record_text(request)
        lost = {one.output: one.tokens for one in wanted if one.name not in shown}
        return sum(lost.values())

    return lost_tokens


def _needed_by_call(recording: RecordedRun, ruler: Ruler) -> Mapping[int, tuple[_NeededName, ...]]:
    told: dict[str, _NeededName] = {}
    needed: dict[int, tuple[_NeededName, ...]] = {}
    for call in recording.calls:
        for place in range(call.start, call.end):
            _note_names(told, place, recording.session.messages[place], ruler)
        used = dict.fromkeys(_NAMES.findall(record_text((recording.reply_to(call),))))
        needed[call.number] = tuple(told[name] for name in used if name in told)
    return needed


def _note_names(told: dict[str, _NeededName], place: int, message: Message, ruler: Ruler) -> None:
    for result in results_of(message):
        tokens = measure(result.output, ruler)
        for name in dict.fromkeys(_NAMES.findall(result.output)):
            told[name] = _NeededName(name, place, tokens)
