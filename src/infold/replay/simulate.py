"""Replay the calls of a session with the requests a policy would have sent, and bill them.

A call costs its cached input, its fresh input and its reply. A summary is an additional call that reads the policy's
whole request and writes a text. Content that a request lacks and the reply needed can be charged as a fetch
(`Refetch`). The recorded replies never change: a replay shows what a policy would have paid for the same work, not
how the work would have gone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

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
    window_tokens = billing.window_tokens if label_tokens is None else label_tokens
    run = _Simulation(setup, billing, PolicyOutcome(name, window_tokens))
    for call in setup.recording.calls:
        request = runner.request(call)
        runner.record_reply(call, run.send(call, request))
    return replace(run.total, series=tuple(run.series))


class _Simulation:
    """The state of one simulation; `total` sums up its calls."""

    def __init__(self, setup: ReplaySetup, billing: Billing, total: PolicyOutcome) -> None:
        self.setup = setup
        self.billing = billing
        self.cache = PromptCache(billing.rules)
        self.series: list[CallOutcome] = []
        self.total = total
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
        breaks_prefix = self._last is not None and not prompt.extends(self._last)
        over_window = prompt.tokens > self.billing.window_tokens
        done = (request.compactions, request.prunings)
        self.series.append(CallOutcome(prompt.tokens, read, output, *done, breaks_prefix, over_window))
        self._add(
            calls=1,
            peak_tokens=prompt.tokens,
            prompt_tokens=prompt.tokens,
            compactions=request.compactions,
            prunings=request.prunings,
            prefix_breaks=int(breaks_prefix),
            overruns=int(over_window),
        )
        self._last = prompt
        return self._usage(prompt.tokens, read, output)

    def _add(self, **counted: Any) -> None:
        self.total += PolicyOutcome(self.total.policy, self.total.window_tokens, **counted)

    def _charge(self, prompt: Prompt, output: int, call: RecordedCall) -> int:
        read = self.cache.send(prompt, sent_ms=call.sent_ms, answered_ms=call.answered_ms)
        self._add_cost(prompt.tokens, read, output, self._bill(prompt, read, output))
        return read

    def _summarise(self, call: RecordedCall, content: PromptContent, output: int) -> None:
        """Bill a summary of this content, with the same cache."""
        blocks = (self.setup.counter.count(message).block for message in content.messages)
        prompt = Prompt.of([*content.opening, *blocks])
        read = self.cache.send(prompt, sent_ms=call.sent_ms)
        self._add_cost(prompt.tokens, read, output, Spend(summary=self._bill(prompt, read, output).dollars))
        self._add(summary_calls=1)

    def _bill(self, prompt: Prompt, read: int, output: int) -> Spend:
        return self.billing.tariff.bill(prompt.tokens, read, output, cached=self._is_cached(prompt.tokens))

    def _add_cost(self, prompt: int, read: int, output: int, spend: Spend) -> None:
        uncached = self.billing.tariff.bill(prompt, 0, output, cached=False).dollars
        self._add(input_tokens=prompt, read_tokens=read, output_tokens=output, spend=spend, uncached_dollars=uncached)

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
        broken = len(answered - called) + len((called - answered) & self._answerable)
        is_due = self._opening is not None and self._opening < call.end
        is_lost = is_due and not any(found.has_opening for found in counted)
        self._add(broken_pairs=broken, without_opening=int(is_lost))

    def _fetch_again(self, call: RecordedCall, request: PolicyRequest, prompt: Prompt) -> None:
        """Bill another call that reads the request and fetches what was lost."""
        lost = self.billing.refetch(call, request.sent.messages) if self.billing.refetch else 0
        if lost <= 0:
            return
        bill = self.billing.tariff.bill(prompt.tokens + lost, prompt.tokens, 0, cached=self._is_cached(prompt.tokens))
        self._add(refetch_tokens=lost, spend=Spend(refetch=bill.dollars))

    def _usage(self, prompt: int, read: int, output: int) -> Usage:
        fresh = prompt - read
        if self.billing.tariff.bills_writes and self._is_cached(prompt):
            return Usage(cache_read=read, cache_write=fresh, output=output)
        return Usage(input=fresh, cache_read=read, output=output)


_NAMES = re.compile(
    r"(?<![\w.@+-])(?<![\w.@+-]/)(?:[\w.@+-]++/)+[\w@+-]+\.\w{1,8}\b"  # paths to files
    r"|\b(?:[a-z]+[A-Z]\w{3,}|[A-Z][a-z0-9]+[A-Z]\w{2,}|[A-Za-z]+_\w{4,})\b"  # identifiers of six letters or so
    r"|\b[0-9a-f]{7,40}\b"  # hashes
)


class _ToolOutput(NamedTuple):
    """The place of a tool's output among the messages, and its size."""

    place: int
    tokens: int


def make_refetch(recording: RecordedRun, ruler: Ruler) -> Callable[[RecordedCall, Sequence[Message]], int]:
    """Return a function from a call and a request to the tokens that must be fetched again."""
    needed = _needed_by_call(recording, ruler)

    def lost_tokens(call: RecordedCall, request: Sequence[Message]) -> int:
        wanted = needed.get(call.number)
        if not wanted:
            return 0
        shown = record_text(request)
        return sum(dict(output for name, output in wanted.items() if name not in shown).values())

    return lost_tokens


def _needed_by_call(recording: RecordedRun, ruler: Ruler) -> Mapping[int, Mapping[str, _ToolOutput]]:
    """Return the names that each reply uses, with the tool output in which they last occurred."""
    told: dict[str, _ToolOutput] = {}
    needed: dict[int, dict[str, _ToolOutput]] = {}
    for call in recording.calls:
        for place in range(call.start, call.end):
            for result in results_of(recording.session.messages[place]):
                output = _ToolOutput(place, measure(result.output, ruler))
                told |= dict.fromkeys(_NAMES.findall(result.output), output)
        used = dict.fromkeys(_NAMES.findall(record_text((recording.reply_to(call),))))
        needed[call.number] = {name: told[name] for name in used if name in told}
    return needed
