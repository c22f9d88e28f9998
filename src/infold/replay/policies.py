"""Each policy as the request it would have sent at each recorded call.

A player is told of every call in turn and answers with a request; then it hears the recorded reply, with the usage that the
simulated provider reports for that request. Presets are played by the core itself, as a session would live them. What a
summariser would have written is stood for by the deterministic fold; the call it takes is charged by `simulate.py`.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from infold.catalogue import ModelEntry, upper_bound
from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.entries import MessageEntry
from infold.core.events import Clipped, Compacted, Pruned
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Finish, Message, SessionId, Usage, calls_of
from infold.core.policy import PRESETS, Policy, PrunePolicy
from infold.core.view import view
from infold.errors import UnknownPreset
from infold.replay.baselines import keep_newest, mask_results
from infold.replay.calls import Call
from infold.replay.recorded import RecordedPlayer
from infold.replay.stage import Held, Player, Request, Stage, opening_blocks

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


def player_for(name: str, stage: Stage, window_tokens: int) -> Player:
    """The player of that name; raises `UnknownPreset` with the names there are."""
    check_policies((name,))
    if name == AS_RECORDED:
        return RecordedPlayer(stage)
    if name in _BASELINES:
        return BaselinePlayer(stage, _BASELINES[name], window_tokens)
    return PresetPlayer(stage, PRESETS.get(name, NONE), window_tokens)


def check_policies(names: Sequence[str]) -> None:
    """Raises `UnknownPreset` for a name that no policy has."""
    for name in names:
        if name not in POLICY_NAMES:
            raise UnknownPreset(name, known=POLICY_NAMES)


class PresetPlayer:
    """A preset of the core over a log of its own."""

    def __init__(self, stage: Stage, policy: Policy, window_tokens: int) -> None:
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

    def request(self, call: Call) -> Request:
        """Append what was said, compact as a session would have, and show the view."""
        self._log = self._log.extend(MessageEntry(message) for message in self._stage.recording.added_before(call))
        before = self._log
        situation = replace(self._situation, is_cold=self._is_cold(call))
        compaction = compact(before, situation, now_ms=call.sent_ms)
        self._log = compaction.log
        folds = sum(isinstance(event, Compacted) for event in compaction.events)
        return Request(
            self._held(self._log),
            compactions=folds,
            prunings=sum(isinstance(event, Pruned | Clipped) for event in compaction.events),
            summarised=(self._held(before),) * folds if folds and self._summarises else (),
        )

    def hear(self, call: Call, usage: Usage) -> None:
        """Append the reply with the simulated usage in place of the recorded one."""
        reply = self._stage.recording.reply_to(call)
        finish: Finish = reply.finish or ("tool-calls" if calls_of(reply) else "stop")
        self._log = self._log.append(MessageEntry(replace(reply, usage=usage, finish=finish)))
        self._answered_ms = call.answered_ms

    def _is_cold(self, call: Call) -> bool:
        """Whether the pause since the last reply was longer than the cache lives."""
        lifetime = self._stage.lifetime_ms
        if lifetime is None or call.sent_ms is None or self._answered_ms is None:
            return False
        return call.sent_ms - self._answered_ms > lifetime

    def _held(self, log: Log) -> Held:
        return Held(self._opening, (*self._stage.preamble, *view(log, self._policy.summary)))


class BaselinePlayer:
    """A rule without memory: the same function of the whole history before each call."""

    def __init__(self, stage: Stage, rule: "Rule", window_tokens: int) -> None:
        self._stage = stage
        self._rule = rule
        self._window_tokens = window_tokens or stage.entry.context_tokens
        self._history: list[Message] = []
        self._opening = opening_blocks(stage)
        self._stubs: dict[int, Message] = {}

    def request(self, call: Call) -> Request:
        """What the rule leaves of the history."""
        self._history += self._stage.recording.added_before(call)
        return Request(Held(self._opening, (*self._stage.preamble, *self._rule(self))))

    def hear(self, call: Call, usage: Usage) -> None:
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


Rule = Callable[[BaselinePlayer], Sequence[Message]]

_BASELINES: dict[str, Rule] = {
    "last-n": BaselinePlayer.newest,
    "mask-all": lambda player: player.masked(0),
    "mask-keep-10": lambda player: player.masked(10),
}
POLICY_NAMES = (*PRESETS, "none", AS_RECORDED, *_BASELINES)


def _window(entry: ModelEntry, window_tokens: int) -> Window:
    """The model's own window, or one of the size asked for that leaves a quarter for the longest reply at most."""
    if window_tokens == 0:
        return Window(entry.context_tokens, entry.input_tokens, entry.output_tokens)
    return Window(window_tokens, output_tokens=min(entry.output_tokens or window_tokens, window_tokens // OUTPUT_PART))
