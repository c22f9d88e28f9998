"""Each policy as the request it would have sent at each recorded call.

A player is told of every call in turn and answers with a request; then it hears the recorded reply, with the usage that the
simulated provider reports for that request. Presets are played by the core itself, as a session would live them. What a
summariser would have written is stood for by the deterministic fold; the call it takes is charged by `simulate.py`.
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
from infold.core.gauge import Rates, Situation
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
from infold.core.policy import PRESETS, Policy, PrunePolicy
from infold.core.view import view
from infold.errors import UnknownPreset
from infold.replay.calls import RecordedCall, RecordedRun
from infold.replay.prices import Block
from infold.replay.scale import MessageCounter, RequestOverhead, shrinks_between


class ReplaySetup(Struct, frozen=True):
    """What every policy of one session meets: the calls, the provider's way of counting, what is sent beside them.

    `rates` and `lifetime_ms` are what a policy that weighs prices may know of them and of the cache.
    """

    recording: RecordedRun
    weigher: MessageCounter
    overhead: RequestOverhead
    entry: ModelEntry
    rates: Rates | None = None
    lifetime_ms: int | None = None

    @property
    def preamble(self) -> tuple[Message, ...]:
        """System messages that open the session and always stay."""
        return self.recording.session.messages[: self.recording.preamble]

    @property
    def constant_tokens(self) -> int:
        """What every request holds, whatever the policy, by the provider's count."""
        return self.overhead.tokens + self.weigher.tokens(self.preamble)

    @property
    def estimated_constant_tokens(self) -> int:
        """The same as a session would estimate it before any report: a policy is not told the provider's count."""
        return round(self.constant_tokens / self.weigher.scale.factor)


class PromptContent(Struct, frozen=True):
    """What a request is made of: blocks that stand before the messages, and the messages."""

    opening: tuple[Block, ...]
    messages: tuple[Message, ...]


class PolicyRequest(Struct, frozen=True):
    """What a policy sends, and what it did before.

    `summarised`: what a summariser was shown, once for each summary it wrote; `summary_tokens`: their size, if known.
    """

    sent: PromptContent
    compactions: int = 0
    prunings: int = 0
    summarised: tuple[PromptContent, ...] = ()
    summary_tokens: int | None = None


class PolicyRunner(Protocol):
    """A policy at work on one session."""

    def request(self, call: RecordedCall) -> PolicyRequest:
        """What it sends."""
        ...

    def hear(self, call: RecordedCall, usage: Usage) -> None:
        """The reply came, at this usage."""
        ...


def opening_blocks(stage: ReplaySetup) -> tuple[Block, ...]:
    """The system prompt and the tools, in the part other sessions share and the part that is this one's."""
    weigher, overhead = stage.weigher, stage.overhead
    return (weigher.padding("shared", overhead.shared_tokens), weigher.padding("own", overhead.own_tokens))


MASK = "[output left out]"


def keep_newest(messages: Sequence[Message], tokens: Sequence[int], room_tokens: int) -> Sequence[Message]:
    """The newest messages within the room, from a place where a request may begin; at least the newest step."""
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
    """Every tool result as a mask but the newest `keep`, and those that no reply has seen yet.

    `stubs` remembers the masked messages by the position they stand at, so that each is made once.
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
    """The policy that was really at work: the recorded compactions, applied.

    What a compaction left that is not in the record (an opaque summary, files shown again) is a block of its own, sized by
    the usage of the first call after it. A prompt that shrank without a recorded reason is taken in the same way.
    """

    def __init__(self, stage: ReplaySetup) -> None:
        self._stage = stage
        self._kept: list[Message] = []
        self._opening = opening_blocks(stage)
        self._before: RecordedCall | None = None

    def request(self, call: RecordedCall) -> PolicyRequest:
        """The messages that stood, behind whatever a compaction left."""
        recording = self._stage.recording
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

    def hear(self, call: RecordedCall, usage: Usage) -> None:
        """The reply stands as it was recorded."""
        del usage
        self._kept.append(self._stage.recording.reply_to(call))

    def _fold(self, call: RecordedCall) -> None:
        """The newest compaction's summary first, then what it kept, then what came after it."""
        recording = self._stage.recording
        messages, newest = recording.session.messages, recording.compactions_before(call)[-1]
        start = newest.position if newest.first_kept is None else min(newest.first_kept, newest.position)
        told = [index for index in range(newest.position, call.end) if index in recording.artefacts]
        kept = [index for index in range(start, call.end) if index not in recording.artefacts]
        self._kept = [messages[index] for index in (*told, *kept)]

    def _carry(self, call: RecordedCall) -> None:
        """Size what the record does not show by the prompt that was reported."""
        weigher, shared = self._stage.weigher, self._stage.overhead.shared_tokens
        carried = self._stage.overhead.own_tokens
        if call.usage is not None:
            carried = max(0, call.usage.prompt - shared - weigher.tokens(self._kept))
        self._opening = (weigher.padding("shared", shared), weigher.padding(f"carried-{call.number}", carried))

    def _summary_tokens(self, call: RecordedCall) -> int | None:
        told = [found.summary for found in self._stage.recording.compactions_before(call) if found.summary]
        if not told:
            return None
        measured = [message for message in self._kept if _is_summary(message, told[-1])]
        return self._stage.weigher.tokens(measured) or None


def _is_summary(message: Message, summary: str) -> bool:
    texts = (getattr(part, "text", "") for part in message.parts)
    return not isinstance(message, AssistantMessage) and any(text.strip() == summary.strip() for text in texts)


AS_RECORDED = "as-recorded"


NONE = Policy("none", auto=False, prune=PrunePolicy(enabled=False))
"""Never compacts; sends everything, whatever the window."""


MODEL_FREE = frozenset({"infold", NONE.name})
"""Policies that never ask a model for a summary."""


OUTPUT_PART = 4
"""A model of a smaller window has a shorter longest reply too, and the documents' presets reserve by it. Of the catalogue's
models of 32k to 128k, half answer in less than an eighth of their window, nine in ten in less than half."""


LAST_N_SHARE = 0.8
"""What part of the window `last-n` fills."""


def make_runner(name: str, stage: ReplaySetup, window_tokens: int) -> PolicyRunner:
    """The player of that name; raises `UnknownPreset` with the names there are."""
    check_policies((name,))
    if name == AS_RECORDED:
        return RecordedRunner(stage)
    if name in _BASELINES:
        return BaselineRunner(stage, _BASELINES[name], window_tokens)
    return PresetRunner(stage, PRESETS.get(name, NONE), window_tokens)


def check_policies(names: Sequence[str]) -> None:
    """Raises `UnknownPreset` for a name that no policy has."""
    for name in names:
        if name not in POLICY_NAMES:
            raise UnknownPreset(name, known=POLICY_NAMES)


class PresetRunner:
    """A preset of the core over a log of its own."""

    def __init__(self, stage: ReplaySetup, policy: Policy, window_tokens: int) -> None:
        self._stage = stage
        self._summarises = policy.name not in MODEL_FREE
        self._policy = replace(policy, summary=replace(policy.summary, fallback="fold"))
        self._log = Log(SessionId("replay"), Rendering(policy.estimate, policy.stub))
        self._opening = opening_blocks(stage)
        self._situation = Situation(
            self._policy,
            budget_for(_window(stage.entry, window_tokens), self._policy),
            overhead_tokens=stage.estimated_constant_tokens,
            bound=upper_bound(stage.entry.family),
            rates=stage.rates,
        )
        self._answered_ms: int | None = None

    def request(self, call: RecordedCall) -> PolicyRequest:
        """Append what was said, compact as a session would have, and show the view."""
        self._log = self._log.extend(MessageEntry(message) for message in self._stage.recording.added_before(call))
        before = self._log
        situation = replace(self._situation, is_cold=self._is_cold(call))
        compaction = compact(before, situation, now_ms=call.sent_ms)
        self._log = compaction.log
        folds = sum(isinstance(event, Compacted) for event in compaction.events)
        return PolicyRequest(
            self._held(self._log),
            compactions=folds,
            prunings=sum(isinstance(event, Pruned | Clipped) for event in compaction.events),
            summarised=(self._held(before),) * folds if folds and self._summarises else (),
        )

    def hear(self, call: RecordedCall, usage: Usage) -> None:
        """Append the reply with the simulated usage in place of the recorded one."""
        reply = self._stage.recording.reply_to(call)
        finish: Finish = reply.finish or ("tool-calls" if calls_of(reply) else "stop")
        self._log = self._log.append(MessageEntry(replace(reply, usage=usage, finish=finish)))
        self._answered_ms = call.answered_ms

    def _is_cold(self, call: RecordedCall) -> bool:
        """Whether the pause since the last reply was longer than the cache lives."""
        lifetime = self._stage.lifetime_ms
        if lifetime is None or call.sent_ms is None or self._answered_ms is None:
            return False
        return call.sent_ms - self._answered_ms > lifetime

    def _held(self, log: Log) -> PromptContent:
        return PromptContent(self._opening, (*self._stage.preamble, *view(log, self._policy.summary)))


class BaselineRunner:
    """A rule without memory: the same function of the whole history before each call."""

    def __init__(self, stage: ReplaySetup, rule: "Rule", window_tokens: int) -> None:
        self._stage = stage
        self._rule = rule
        self._window_tokens = window_tokens or stage.entry.context_tokens
        self._history: list[Message] = []
        self._opening = opening_blocks(stage)
        self._stubs: dict[int, Message] = {}

    def request(self, call: RecordedCall) -> PolicyRequest:
        """What the rule leaves of the history."""
        self._history += self._stage.recording.added_before(call)
        return PolicyRequest(PromptContent(self._opening, (*self._stage.preamble, *self._rule(self))))

    def hear(self, call: RecordedCall, usage: Usage) -> None:
        """Append the reply."""
        del usage
        self._history.append(self._stage.recording.reply_to(call))

    def masked(self, keep: int) -> Sequence[Message]:
        """The history with all but the newest results masked."""
        return mask_results(self._history, keep=keep, stubs=self._stubs)

    def newest(self) -> Sequence[Message]:
        """The newest messages that fill the window's share."""
        room = int(self._window_tokens * LAST_N_SHARE) - self._stage.constant_tokens
        return keep_newest(self._history, [self._stage.weigher.weigh(m).block.tokens for m in self._history], room)


Rule = Callable[[BaselineRunner], Sequence[Message]]


_BASELINES: dict[str, Rule] = {
    "last-n": BaselineRunner.newest,
    "mask-all": lambda player: player.masked(0),
    "mask-keep-10": lambda player: player.masked(10),
}


POLICY_NAMES = (*PRESETS, "none", AS_RECORDED, *_BASELINES)


def _window(entry: ModelEntry, window_tokens: int) -> Window:
    """The model's own window, or one of the size asked for that leaves a quarter for the longest reply at most."""
    if window_tokens == 0:
        return Window(entry.context_tokens, entry.input_tokens, entry.output_tokens)
    return Window(window_tokens, output_tokens=min(entry.output_tokens or window_tokens, window_tokens // OUTPUT_PART))
