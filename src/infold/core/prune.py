"""Choose the old tool results, and the large old call arguments, that become stubs.

A pure choice over the live messages: `log.py` hides them, `plan.py` decides when it is worth it.
"""

from collections.abc import Iterator

from msgspec import Struct

from infold.core.entries import Handle, handle_of
from infold.core.log import Log, indices_within
from infold.core.logged_message import LONGEST_KEPT_VALUE, LoggedMessage
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
    for logged, position in _candidates(log, policy):
        tokens = tokens_in(_shown_measure(log, logged, position), rule)
        walked += tokens
        if walked > keep:
            freed += tokens
            targets.append(handle_of(logged.sequence, position))
    return PrunePlan(tuple(targets), freed) if freed > least else NOTHING_TO_PRUNE


def _candidates(log: Log, policy: PrunePolicy) -> Iterator[tuple[LoggedMessage, int]]:
    """Yield what may be hidden, newest first: a message and the position of a part in it."""
    known = log.message_index
    newest = log.length - 1
    if policy.spare_turns:  # up to the message that begins the oldest spared turn
        turns = indices_within(known.persons_turns if policy.genuine_turns else known.user_turns, log.length)
        newest = turns[-policy.spare_turns] if len(turns) >= policy.spare_turns else -1
    summaries = indices_within(known.summaries, log.length)
    oldest = summaries[-1] + 1 if summaries else 0  # finished or not
    for index in reversed(indices_within(known.prunable, newest + 1)):
        logged = known.items[index]
        if index < oldest or logged.sequence < log.checkpoint_sequence:
            return
        hidden = log.altered.get(logged.sequence)
        for position in logged.prunable:
            part = logged.message.parts[position]
            if not isinstance(part, ToolCallPart | ToolResultPart) or part.tool in policy.protected_tools:
                continue
            if isinstance(part, ToolCallPart) and not policy.arguments:
                continue
            if isinstance(part, ToolResultPart) and not (log.rendering.stub or is_worth_stub(part)):
                continue
            if isinstance(part, ToolResultPart) and part.cleared:
                return
            if hidden is not None and any(hiding.clip is None for hiding in hidden.hidden_by.get(position, ())):
                return
            if not log.pins or handle_of(logged.sequence, position) not in log.pins:
                yield logged, position


def is_worth_stub(result: ToolResultPart) -> bool:
    """Return whether a result is so long that infold's own stub, which has its length and its tool, says less than it."""
    return len(result.output) >= LONGEST_KEPT_VALUE or bool(result.files) or result.cleared


def _shown_measure(log: Log, logged: LoggedMessage, position: int) -> int:
    """Return the measure of a part as the view shows it: hiding a clipped part frees only what is left of it."""
    altered = log.altered.get(logged.sequence)
    if altered is None or position not in altered.hidden_by:
        return logged.measures[position]
    return measure_part(altered.message.parts[position], log.rendering.estimate)
