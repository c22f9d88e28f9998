"""A summary prepared before it is needed: whether to begin one, and whether it may still be used (B18).

Decisions only; who writes it meanwhile, a thread or a task, is `background.py`'s affair.
"""

from msgspec import Struct
from msgspec.structs import replace

from infold.core.cut import Cut, kept_size
from infold.core.entries import Handle
from infold.core.events import Event, PreparationDiscarded, PreparedAhead
from infold.core.gauge import Situation, scaled_tokens
from infold.core.log import Log
from infold.core.messages import AssistantMessage, SessionId
from infold.core.plan import Summarise, next_step
from infold.core.policy import Policy
from infold.core.tokens import NO_SIZE, Size, measure, token_ruler
from infold.engine.notes import Notes

EARLIEST_SHARE, LATEST_SHARE = 0.8, 0.95
"""The part of the trigger at which a summary is begun at the earliest, and at which it is begun in any case."""

SUMMARY_MS = 5_000
"""How long a summary is expected to take where none was written yet; document 002 has 2 to 5 s."""

RECENT_CALLS = 8
"""The newest calls that tell how fast a session grows."""

ROOMY_SHARE = 0.9
"""A cut prepared earlier is used as it is if the view then is below this part of the trigger; else the cut moves on."""


class Mark(Struct, frozen=True):
    """What a summary was made from: the checkpoint before it, the pins, the policy, and the number of its head's last message."""

    checkpoint_sequence: int
    pins: frozenset[Handle]
    policy: Policy
    last: int


class Preparation(Struct, frozen=True):
    """Notes on a head, or the failure to write any, and what they were made from.

    `is_left`: they were made when needed, and another writer was faster.
    """

    mark: Mark
    notes: Notes
    is_left: bool = False


def step_ahead(log: Log, situation: Situation) -> Summarise | None:
    """The summary that will soon be needed, if the view is near enough to its trigger to begin it now."""
    budget = situation.budget
    earliest, latest = (int(budget.trigger_tokens * share) for share in (EARLIEST_SHARE, LATEST_SHARE))
    begin = min(max(budget.trigger_tokens - _growth_meanwhile(log), earliest), latest)
    soon = replace(situation, budget=replace(budget, trigger_tokens=begin))
    step = next_step(log, soon)
    return step if isinstance(step, Summarise) and step.cut.index else None


def _growth_meanwhile(log: Log) -> int:
    """By how many tokens the view is expected to grow while a summary is written, at the pace of the newest calls.

    One call more than fits in that time, since the summary is fetched with the call after. Replies that arrived with a history
    tell no pace.
    """
    times: list[int] = []
    size = NO_SIZE
    for placed in reversed(log.live):
        size = size.plus(log.size_of(placed))
        message = placed.message
        if isinstance(message, AssistantMessage) and message.finish is not None:
            times.append(message.created_ms or 0)
        if len(times) > RECENT_CALLS:
            break
    if len(times) < 2:
        return 0
    took = (0 if log.checkpoint is None else log.checkpoint.duration_ms) or SUMMARY_MS
    pause = max(0, times[0] - times[-1]) // (len(times) - 1) or took
    return log.calibration.apply(size) * (took // pause + 2) // len(times)


def mark_of(log: Log, step: Summarise, policy: Policy) -> Mark:
    """What a summary of this step's head is made from."""
    last = log.live[step.cut.index - 1].sequence if step.cut.index else log.checkpoint_sequence
    return Mark(log.checkpoint_sequence, log.pins, policy, last)


def told_of(notes: Notes, session_id: SessionId) -> tuple[Event, ...]:
    """What observers are told of notes written ahead; such as the judge rejected are paid for and of no use (B22)."""
    if notes.text:
        return (PreparedAhead(session_id, notes.cost, notes.duration_ms),)
    return (*notes.events, PreparationDiscarded(session_id, "there was no summary to accept", notes.cost))


def written_ahead(log: Log, step: Summarise, policy: Policy, notes: Notes) -> Preparation:
    """Return notes as they wait until they are needed: a failure too, so that the summariser is not asked for this head again.

    What a failure cost has been told by then.
    """
    if not notes.text:
        notes = replace(notes, cost=0.0, duration_ms=0, usage=None, events=())
    return Preparation(mark_of(log, step, policy), notes)


def is_valid(preparation: Preparation, log: Log, policy: Policy) -> bool:
    """Whether nothing changed that the notes depend on: the folded head, the pins and the policy."""
    mark = preparation.mark
    same = mark.checkpoint_sequence == log.checkpoint_sequence and mark.pins == log.pins and mark.policy == policy
    return same and log.index_of(mark.last) is not None


def cut_with(preparation: Preparation, step: Summarise, log: Log, situation: Situation) -> Cut:
    """Where to cut with these notes: where they end if that leaves room enough, else where the step has it.

    What lies between the two is then told by the ledger alone.
    """
    last = log.index_of(preparation.mark.last)
    index = 0 if last is None else last + 1
    if not 0 < index < step.cut.index or not log.live[index].cuttable:
        return step.cut
    tail = kept_size(log, Cut(index, None))
    ruler = token_ruler(log.rendering.estimate)
    said = Size(prose=situation.overhead_tokens + step.budget_tokens + measure(preparation.notes.text, ruler))
    after = scaled_tokens(tail.plus(said), log, situation)
    return Cut.at(log, index) if after <= ROOMY_SHARE * situation.budget.trigger_tokens else step.cut
