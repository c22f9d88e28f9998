"""Choose the old tool results, and the large old call arguments, that become stubs.

A pure choice over the live messages: `log.py` hides them, `plan.py` decides when it is worth it.
"""

from collections.abc import Iterator

from msgspec import Struct

from infold.core.entries import Handle, handle_of
from infold.core.log import Log, within
from infold.core.logged_message import Placed
from infold.core.messages import ToolCallPart, ToolResultPart
from infold.core.policy import PrunePolicy
from infold.core.tokens import measure_part, tokens_in


class PrunePlan(Struct, frozen=True):
    """The parts to hide, newest first, and the tokens that frees before stubs are subtracted."""

    targets: tuple[Handle, ...] = ()
    freed_tokens: int = 0


NOTHING_TO_PRUNE = PrunePlan()


def plan_prune(log: Log, policy: PrunePolicy, *, usable_tokens: int, minimum_tokens: int | None = None) -> PrunePlan:
    """Choose what lies beyond the newest `keep` tokens of tool output, if hiding it frees more than the minimum.

    Walks from newest to oldest and spares the last user turns, pinned parts and protected tools; ends at a summary and
    at the first part that is hidden already.
    """
    if not policy.enabled:
        return NOTHING_TO_PRUNE
    keep = policy.keep.of(usable_tokens)
    least = policy.minimum.of(usable_tokens) if minimum_tokens is None else minimum_tokens
    walked = freed = 0
    targets: list[Handle] = []
    rule = log.rendering.estimate
    for placed, position in _candidates(log, policy):
        tokens = tokens_in(_shown_measure(log, placed, position), rule)
        walked += tokens
        if walked > keep:
            freed += tokens
            targets.append(handle_of(placed.sequence, position))
    return PrunePlan(tuple(targets), freed) if freed > least else NOTHING_TO_PRUNE


def _candidates(log: Log, policy: PrunePolicy) -> Iterator[tuple[Placed, int]]:
    """Yield what may be hidden, newest first: a message and the position of a part in it."""
    newest = _newest_touchable(log, policy)
    oldest = _oldest_touchable(log)
    for index in reversed(within(log.spine.prunable, newest + 1)):
        placed = log.spine.items[index]
        if index < oldest or placed.sequence < log.checkpoint_sequence:
            return
        hidden = log.altered.get(placed.sequence)
        for position in placed.prunable:
            part = placed.message.parts[position]
            if not _is_wanted(part, policy):
                continue
            if isinstance(part, ToolResultPart) and part.cleared:
                return
            if hidden is not None and any(hiding.clip is None for hiding in hidden.hidings.get(position, ())):
                return
            if not log.pins or handle_of(placed.sequence, position) not in log.pins:
                yield placed, position


def _shown_measure(log: Log, placed: Placed, position: int) -> int:
    """Return the measure of a part as the view shows it: hiding a clipped part frees only what is left of it."""
    altered = log.altered.get(placed.sequence)
    if altered is None or position not in altered.hidings:
        return placed.measures[position]
    return measure_part(altered.message.parts[position], log.rendering.estimate)


def _is_wanted(part: object, policy: PrunePolicy) -> bool:
    if isinstance(part, ToolCallPart):
        return policy.arguments and part.tool not in policy.protected_tools
    return isinstance(part, ToolResultPart) and part.tool not in policy.protected_tools


def _newest_touchable(log: Log, policy: PrunePolicy) -> int:
    """Return the index of the message that begins the oldest spared turn; -1 if there is none."""
    if policy.spare_turns == 0:
        return log.length - 1
    turns = within(log.spine.persons_turns if policy.genuine_turns else log.spine.user_turns, log.length)
    return turns[-policy.spare_turns] if len(turns) >= policy.spare_turns else -1


def _oldest_touchable(log: Log) -> int:
    """Return the index after the newest summary, finished or not."""
    summaries = within(log.spine.summaries, log.length)
    return summaries[-1] + 1 if summaries else 0
