"""The request that each policy would have sent at each recorded call.

A runner returns a request for every call in turn, and then records the reply with the usage that the simulated
provider reports. Presets run on the core itself, as in a session. The deterministic fold stands in for a summariser's
text; `simulate.py` charges the summariser's call.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import ModelEntry, upper_bound
from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.entries import MessageEntry
from infold.core.events import Clipped, Compacted, Pruned
from infold.core.gauge import PlanInputs, Rates
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import (
    AssistantMessage,
    Finish,
    Message,
    SessionId,
    ToolResultPart,
    Usage,
    UserMessage,
    calls_of,
    results_of,
)
from infold.core.policy import INFOLD, MEMORY_SHARES, PRESETS, Policy, PrunePolicy
from infold.core.view import view
from infold.errors import UnknownPreset
from infold.replay.calls import RecordedCall, RecordedRun
from infold.replay.prices import Block
from infold.replay.scale import MessageCounter, RequestOverhead, shrinks_between


class ReplaySetup(Struct, frozen=True):
    """What all policies of one session share: the calls, the provider's way of counting, system prompt and tools.

    `rates` and `lifetime_ms` are what a policy that weighs prices may know about them and the cache.
    """

    recording: RecordedRun
    counter: MessageCounter
    overhead: RequestOverhead
    entry: ModelEntry
    rates: Rates | None = None
    lifetime_ms: int | None = None

    @property
    def preamble(self) -> tuple[Message, ...]:
        """The system messages that open the session and always stay."""
        return self.recording.session.messages[: self.recording.preamble]

    @property
    def constant_tokens(self) -> int:
        """The tokens of every request under any policy, by the provider's count."""
        return self.overhead.tokens + self.counter.tokens(self.preamble)

    @property
    def estimated_constant_tokens(self) -> int:
        """The same as a session would estimate it, since a policy does not know the provider's count."""
        return round(self.constant_tokens / self.counter.scale.factor)


class PromptContent(Struct, frozen=True):
    """The content of a request: blocks before the messages, and the messages."""

    opening: tuple[Block, ...]
    messages: tuple[Message, ...]


class PolicyRequest(Struct, frozen=True):
    """What a policy sends, and what it did before.

    `summarised` has the content that a summariser was shown, once per summary; `summary_tokens` is the summary's
    size, if known.
    """

    sent: PromptContent
    compactions: int = 0
    prunings: int = 0
    summarised: tuple[PromptContent, ...] = ()
    summary_tokens: int | None = None


class PolicyRunner(Protocol):
    """A policy applied to one session."""

    def request(self, call: RecordedCall) -> PolicyRequest:
        """Return the request for a call."""
        ...

    def record_reply(self, call: RecordedCall, usage: Usage) -> None:
        """Record the reply of a call with its simulated usage."""
        ...


def opening_blocks(setup: ReplaySetup) -> tuple[Block, ...]:
    """Return the blocks of system prompt and tools: what other sessions share, and the rest."""
    counter, overhead = setup.counter, setup.overhead
    return (counter.padding("shared", overhead.shared_tokens), counter.padding("own", overhead.own_tokens))


MASK = "[output left out]"


def keep_newest(messages: Sequence[Message], tokens: Sequence[int], room_tokens: int) -> Sequence[Message]:
    """Return the newest messages that fit, from a place where a request may begin; at least the newest step."""
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage | AssistantMessage)]
    total = sum(tokens)
    passed = 0
    first = 0
    for start in starts:
        total -= sum(tokens[passed:start])
        passed = start
        first = start
        if total <= room_tokens:
            break
    return messages[first:]


def mask_results(messages: Sequence[Message], *, keep: int, stubs: dict[int, Message]) -> Sequence[Message]:
    """Mask every tool result except the newest `keep` and those that no reply has seen yet.

    `stubs` caches the masked messages by position.
    """
    masked = list(messages)
    seen = False
    left = keep
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        seen = seen or isinstance(message, AssistantMessage)
        results = len(results_of(message))
        if not results or not seen:
            continue
        if left > 0:
            left -= results
            continue
        if index not in stubs:
            stubs[index] = _mask(message)
        masked[index] = stubs[index]
    return masked


def _mask(message: Message) -> Message:
    parts = (
        replace(part, output=MASK, files=()) if isinstance(part, ToolResultPart) else part for part in message.parts
    )
    return replace(message, parts=tuple(parts))


class RecordedRunner:
    """The recorded policy: the recorded compactions, applied.

    What a compaction left that is not in the record (an opaque summary, files shown again) becomes a block sized by
    the usage of the next call. A prompt that shrank without a recorded reason is treated the same way.
    """

    def __init__(self, setup: ReplaySetup) -> None:
        self._setup = setup
        self._kept: list[Message] = []
        self._opening = opening_blocks(setup)
        self._before: RecordedCall | None = None

    def request(self, call: RecordedCall) -> PolicyRequest:
        """Return the messages in view, after the block that a compaction left."""
        recording = self._setup.recording
        messages, compactions = recording.session.messages, recording.compactions_before(call)
        shrinks = not compactions and self._before is not None and shrinks_between(self._before, call)
        before = PromptContent(self._opening, tuple(self._kept))
        if compactions:
            self._fold(call)
        elif shrinks:
            self._kept = list(messages[call.start : call.end])
        else:
            self._kept += messages[call.start : call.end]
        if compactions or shrinks:
            self._carry(call)
        self._before = call
        return PolicyRequest(
            PromptContent(self._opening, tuple(self._kept)),
            compactions=len(compactions),
            prunings=int(shrinks),
            summarised=(before,) * len(compactions),
            summary_tokens=self._summary_tokens(call),
        )

    def record_reply(self, call: RecordedCall, usage: Usage) -> None:
        """Append the reply as recorded."""
        del usage
        self._kept.append(self._setup.recording.reply_to(call))

    def _fold(self, call: RecordedCall) -> None:
        """Keep the newest compaction's summary, what it kept, and what followed it."""
        recording = self._setup.recording
        messages, newest = recording.session.messages, recording.compactions_before(call)[-1]
        start = newest.position if newest.first_kept is None else min(newest.first_kept, newest.position)
        told = [index for index in range(newest.position, call.end) if index in recording.artefacts]
        kept = [index for index in range(start, call.end) if index not in recording.artefacts]
        self._kept = [messages[index] for index in (*told, *kept)]

    def _carry(self, call: RecordedCall) -> None:
        """Size the unrecorded content by the reported prompt."""
        counter, shared = self._setup.counter, self._setup.overhead.shared_tokens
        carried = self._setup.overhead.own_tokens
        if call.usage is not None:
            carried = max(0, call.usage.prompt - shared - counter.tokens(self._kept))
        self._opening = (counter.padding("shared", shared), counter.padding(f"carried-{call.number}", carried))

    def _summary_tokens(self, call: RecordedCall) -> int | None:
        told = [found.summary for found in self._setup.recording.compactions_before(call) if found.summary]
        if not told:
            return None
        measured = [message for message in self._kept if _is_summary(message, told[-1])]
        return self._setup.counter.tokens(measured) or None


def _is_summary(message: Message, summary: str) -> bool:
    texts = (getattr(part, "text", "") for part in message.parts)
    return not isinstance(message, AssistantMessage) and any(text.strip() == summary.strip() for text in texts)


AS_RECORDED = "as-recorded"

NONE = Policy("none", auto=False, prune=PrunePolicy(enabled=False))
"""Never compacts; sends everything, whatever the window."""

OTHER_MEMORIES = {f"infold-{memory}": INFOLD.with_memory(memory) for memory in MEMORY_SHARES}
"""The default policy with each setting of `memory`."""

MODEL_FREE = frozenset({"infold", NONE.name})
"""Policies that never ask a model for a summary."""

OUTPUT_PART = 4
"""A model of a smaller window has a smaller output limit too, and the documents' presets reserve by it. Of the
catalogue's models of 32k to 128k, half answer in less than an eighth of their window, nine in ten in less than half.
"""

LAST_N_SHARE = 0.8
"""The share of the window that `last-n` fills."""


def make_runner(name: str, setup: ReplaySetup, window_tokens: int) -> PolicyRunner:
    """Return the runner of a policy; raise `UnknownPreset` for an unknown name."""
    check_policies((name,))
    if name == AS_RECORDED:
        return RecordedRunner(setup)
    if name in _BASELINES:
        return BaselineRunner(setup, _BASELINES[name], window_tokens)
    return PresetRunner(setup, PRESETS.get(name) or OTHER_MEMORIES.get(name, NONE), window_tokens)


def check_policies(names: Sequence[str]) -> None:
    """Raise `UnknownPreset` for an unknown name."""
    for name in names:
        if name not in POLICY_NAMES:
            raise UnknownPreset(name, known=POLICY_NAMES)


class PresetRunner:
    """A preset of the core, on a log of its own."""

    def __init__(self, setup: ReplaySetup, policy: Policy, window_tokens: int) -> None:
        self._setup = setup
        self._summarises = policy.name not in MODEL_FREE
        self._policy = replace(policy, summary=replace(policy.summary, fallback="fold"))
        self._log = Log(SessionId("replay"), Rendering(policy.estimate, policy.stub))
        self._opening = opening_blocks(setup)
        self._situation = PlanInputs(
            self._policy,
            budget_for(_window(setup.entry, window_tokens), self._policy),
            overhead_tokens=setup.estimated_constant_tokens,
            bound=upper_bound(setup.entry.family),
            rates=setup.rates,
        )
        self._answered_ms: int | None = None

    def request(self, call: RecordedCall) -> PolicyRequest:
        """Append the new messages, compact as a session would, and return the view."""
        self._log = self._log.extend(MessageEntry(message) for message in self._setup.recording.added_before(call))
        before = self._log
        inputs = replace(self._situation, is_cold=self._is_cold(call))
        compaction = compact(before, inputs, now_ms=call.sent_ms)
        self._log = compaction.log
        folds = sum(isinstance(event, Compacted) for event in compaction.events)
        return PolicyRequest(
            self._content(self._log),
            compactions=folds,
            prunings=sum(isinstance(event, Pruned | Clipped) for event in compaction.events),
            summarised=(self._content(before),) * folds if folds and self._summarises else (),
        )

    def record_reply(self, call: RecordedCall, usage: Usage) -> None:
        """Append the reply with the simulated usage."""
        reply = self._setup.recording.reply_to(call)
        finish: Finish = reply.finish or ("tool-calls" if calls_of(reply) else "stop")
        self._log = self._log.append(MessageEntry(replace(reply, usage=usage, finish=finish)))
        self._answered_ms = call.answered_ms

    def _is_cold(self, call: RecordedCall) -> bool:
        """Return whether the pause since the last reply was longer than the cache's lifetime."""
        lifetime = self._setup.lifetime_ms
        if lifetime is None or call.sent_ms is None or self._answered_ms is None:
            return False
        return call.sent_ms - self._answered_ms > lifetime

    def _content(self, log: Log) -> PromptContent:
        return PromptContent(self._opening, (*self._setup.preamble, *view(log, self._policy.summary)))


class BaselineRunner:
    """A stateless rule: a function of the whole history before each call."""

    def __init__(self, setup: ReplaySetup, rule: "Rule", window_tokens: int) -> None:
        self._setup = setup
        self._rule = rule
        self._window_tokens = window_tokens or setup.entry.context_tokens
        self._history: list[Message] = []
        self._opening = opening_blocks(setup)
        self._stubs: dict[int, Message] = {}

    def request(self, call: RecordedCall) -> PolicyRequest:
        """Return what the rule leaves of the history."""
        self._history += self._setup.recording.added_before(call)
        return PolicyRequest(PromptContent(self._opening, (*self._setup.preamble, *self._rule(self))))

    def record_reply(self, call: RecordedCall, usage: Usage) -> None:
        """Append the reply."""
        del usage
        self._history.append(self._setup.recording.reply_to(call))

    def masked(self, keep: int) -> Sequence[Message]:
        """Return the history with all but the newest results masked."""
        return mask_results(self._history, keep=keep, stubs=self._stubs)

    def newest(self) -> Sequence[Message]:
        """Return the newest messages that fill the window's share."""
        room = int(self._window_tokens * LAST_N_SHARE) - self._setup.constant_tokens
        return keep_newest(self._history, [self._setup.counter.count(m).block.tokens for m in self._history], room)


Rule = Callable[[BaselineRunner], Sequence[Message]]

_BASELINES: dict[str, Rule] = {
    "last-n": BaselineRunner.newest,
    "mask-all": lambda runner: runner.masked(0),
    "mask-keep-10": lambda runner: runner.masked(10),
}

POLICY_NAMES = (*PRESETS, *OTHER_MEMORIES, "none", AS_RECORDED, *_BASELINES)


def _window(entry: ModelEntry, window_tokens: int) -> Window:
    """Return the model's own window, or one of that size that leaves at most a quarter for the reply."""
    if window_tokens == 0:
        return Window(entry.context_tokens, entry.input_tokens, entry.output_tokens)
    return Window(window_tokens, output_tokens=min(entry.output_tokens or window_tokens, window_tokens // OUTPUT_PART))
