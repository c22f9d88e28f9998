"""Choose the first message to keep: what is folded and what stays verbatim.

Decides where a cut falls by the policy's tail rule, only at legal places. What replaces the head is written by
`checkpoint_text.py` or a model.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from infold.core.extract import arguments_of, command_of, is_failure, todos_after
from infold.core.ledger import defined_tools, sets_any
from infold.core.log import Log, size_of_state
from infold.core.logged_message import LoggedMessage
from infold.core.messages import AssistantMessage, ToolCallPart, ToolResultPart
from infold.core.phrases import RUN_COUNTS, RUN_FAILS, TESTS
from infold.core.policy import TailPolicy
from infold.core.tokens import Size, tokens_in, total_size


class Cut(Struct, frozen=True):
    """Where live messages divide: those before `index` are the head, the others the tail."""

    index: int
    first_kept: int | None

    @staticmethod
    def at(log: Log, index: int) -> "Cut":
        """Return the cut before the live message at that index; past the last one, everything is head."""
        return Cut(index, log.live[index].sequence if index < len(log.live) else None)


Sizer = Callable[[LoggedMessage], int]


class Room(Struct, frozen=True):
    """How large a tail may be: within `tokens`, or one step more, up to `most_tokens`, if it would be below the
    minimum."""

    tokens: int
    least_tokens: int = 0
    most_tokens: int = 0


def choose_cut(log: Log, tail: TailPolicy, room: Room, *, sizer: Sizer | None = None) -> Cut | None:
    """Return where to cut by this tail rule, or `None` if there is nothing to fold.

    `sizer` measures a live message against the room; by default with the session's own estimate.
    """
    live = log.live
    if not live:
        return None
    if tail.rule == "none":
        return Cut(len(live), None)
    if tail.rule == "turns":
        starts = turn_starts(live)
        index = starts[-tail.turns] if len(starts) >= tail.turns else 0
    else:
        own = sizer or (lambda logged: tokens_in(log.measured_of(logged), log.rendering.estimate))
        index = _within_tokens(log, tail, room, own)
    # A policy by turns may summarise an earlier summary again.
    has_old_summary = log.checkpoint is not None and bool(log.checkpoint.text) and live[0].cuttable
    if index > 0 or (tail.recut and has_old_summary):
        return Cut.at(log, index)
    return Cut(len(live), None) if tail.whole_head else None


def cut_before(log: Log, sequence: int) -> Cut | None:
    """Return the cut before the message of that number or the nearest earlier legal one; `None` if nothing would be
    folded."""
    indices = (index for index in range(len(log.live) - 1, 0, -1) if log.live[index].sequence <= sequence)
    return next((Cut.at(log, index) for index in indices if log.live[index].cuttable), None)


def native_cut(log: Log, cut: Cut) -> Cut | None:
    """Return the cut nearest to this one behind which thinking stays valid if the provider summarises the head.

    The head is then what an earlier request held: it ends before a reply, and includes the note of an earlier summary.
    """
    live = log.live
    earliest = log.checkpoint_sequence if log.native else -1

    def is_legal(index: int) -> bool:
        first, last = live[index], live[index - 1]
        is_reply = isinstance(first.message, AssistantMessage) and not isinstance(last.message, AssistantMessage)
        is_cut = is_reply and not last.is_business and first.cuttable and first.sequence > earliest
        return is_cut and not needs_definition(log, index)

    indices = (*range(min(cut.index, log.length - 1), 0, -1), *range(cut.index + 1, log.length))
    return next((Cut.at(log, index) for index in indices if is_legal(index)), None)


def needs_definition(log: Log, index: int) -> bool:
    """Return whether the tail from this index on changes a tool that a message before it defines.

    A summary of the provider's own may leave such a definition out, and nothing may come between the two.
    """
    tail = [logged.message for logged in log.live[index:] if logged.has_state]
    if not tail:
        return False
    carried = () if log.checkpoint is None else log.checkpoint.state
    head = (logged.message for logged in log.live[:index] if logged.has_state)
    return sets_any(tail, defined_tools((*carried, *head)))


def newest_turns_within(log: Log, cut: Cut, *, tail_tokens: int, measured_of: Sizer) -> Cut:
    """Return the cut that keeps the newest whole turns after `cut` that fit, at least the last one (*takeLastTurns*).

    If no turn begins after it, the cut is inside the last turn and stays.
    """
    chosen = end = len(log.live)
    measured = 0
    for start in reversed(turn_starts(log.live)):
        measured += sum(measured_of(logged) for logged in log.live[start:end])
        if start < cut.index or (chosen < len(log.live) and tokens_in(measured, log.rendering.estimate) > tail_tokens):
            break
        chosen = end = start
    return cut if chosen == len(log.live) else Cut.at(log, chosen)


def turn_starts(live: Sequence[LoggedMessage]) -> list[int]:
    """Return the indices at which a user turn begins (*splitByTurns*); a compaction request does not begin one."""
    return [index for index, logged in enumerate(live) if logged.cuttable and logged.is_users]


def _within_tokens(log: Log, tail: TailPolicy, room: Room, sizer: Sizer) -> int:
    """Return the earliest legal start of a tail within the room.

    If even the shortest tail is too large, a policy that never folds everything keeps that one; 0 if there is no legal
    start.
    """
    live = log.live
    total = chosen = kept = 0
    begun: list[tuple[int, int]] = []  # persons' requests, newest first, with the size of a tail from each
    starts = turn_starts(live) if tail.turns else []
    first = starts[-tail.turns] if tail.turns and len(starts) >= tail.turns else 0
    for index in range(len(live) - 1, first - 1, -1):
        logged = live[index]
        if logged.is_business:
            continue
        total += sizer(logged)
        allowed = room.tokens if kept >= room.least_tokens else max(room.tokens, room.most_tokens)
        if total > allowed and (chosen or tail.whole_head):
            break
        if logged.cuttable and (tail.split_turns or logged.is_users):
            chosen, kept = index, total
            begun += [(index, total)] if logged.is_persons else []
    whole = [index for index, size in begun if size >= max(tail.task_share * kept, room.least_tokens)]
    return whole[-1] if whole and tail.task_share else chosen


def has_ended_task(log: Log) -> bool:
    """Return whether a task ended with the newest step: a person asks for the next thing, a commit was made, tests passed or
    the last todo was closed."""
    results: dict[str, ToolResultPart] = {}
    for logged in reversed(log.live):
        if logged.is_persons:
            return logged is not log.live[0] and not results
        results.update((part.call_id, part) for part in logged.results)
        if isinstance(logged.message, AssistantMessage):
            return any(call.call_id in results and _ends_task(call, results[call.call_id]) for call in logged.calls)
    return False


_COMMITS = re.compile(r"\bgit\b[^|;&]{0,80}\bcommit\b")


def _ends_task(call: ToolCallPart, result: ToolResultPart) -> bool:
    arguments = arguments_of(call)
    command, said = command_of(call, arguments), result.output[-2_000:]
    if is_failure(result, command):
        return False
    if command:
        is_green = TESTS.search(command) and RUN_COUNTS.search(said) and not RUN_FAILS.search(said)
        return bool(is_green or _COMMITS.search(command))
    todos = todos_after((), call, arguments, "")
    return bool(todos) and all(fact.status in ("completed", "done", "cancelled") for fact in todos)


def head_size(log: Log, cut: Cut) -> Size:
    """Return the size of what a cut folds, as shown, including the text of the last fold but not the state it carried."""
    last = log.checkpoint_size.minus(size_of_state(log.state, log.rendering))
    return log.size.minus(total_size(map(log.size_of, log.live[cut.index :]))).plus(last)


def kept_size(log: Log, cut: Cut) -> Size:
    """Return the size of what a cut keeps once the head is folded, including calls that its first message closed."""
    kept = log.live[cut.index :]
    size = total_size(map(log.size_after_fold, kept))
    return size.minus(kept[0].added_size) if kept else size
