"""D12: pruning breaks the cached prefix seldom and for much, works inside a long turn, and is not stopped by its own stubs."""

from itertools import pairwise

import pytest
from tests.support.play import play

from infold.core.entries import Clip, Clipping, Handle, Pruning, handle_of
from infold.core.events import Compacted, Event, Pruned
from infold.core.messages import Message
from infold.core.plan import Prune
from infold.core.prune import plan_prune
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import calls, log_of, numbered, replies, result, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    conversation,
    infold_at,
    opened,
    played,
    story,
)

WINDOW = 16_384


@pytest.mark.slow
def test_d12_the_prefix_changes_only_when_much_is_freed() -> None:
    """B16, B29: between prunings each request extends the last, and each pruning frees a tenth of the window or more."""
    inputs = infold_at(WINDOW)
    requests = list(play(log_of(()), conversation(120, reply_tokens=12), inputs))
    broken = [
        later for earlier, later in pairwise(requests) if later.request[: len(earlier.request)] != earlier.request
    ]
    pruned = [event for request in requests for event in request.compaction.events if isinstance(event, Pruned)]

    assert len(pruned) >= 2
    assert len(broken) == sum(bool(request.compaction.steps) for request in requests) <= len(requests) // 8
    assert all(event.freed_tokens > 0.1 * inputs.budget.usable_tokens for event in pruned)


def test_d12_nothing_is_pruned_while_there_is_room() -> None:
    """B16: below the trigger old results stay, however old they are."""
    for request in play(log_of(()), conversation(18, reply_tokens=12), infold_at(WINDOW)):
        assert request.compaction.steps == ()


def test_d12_a_long_turn_is_not_left_to_grow() -> None:
    """B8, B9: inside a single turn of a hundred steps, during which nobody is idle, room is made again and again."""
    session, events = opened("infold", OPENAI_CHAT, window=WINDOW), list[Event]()
    for ready in played(session, OPENAI_CHAT, story(100)):
        events += ready.events

    assert sum(isinstance(event, Pruned | Compacted) for event in events) >= 2


def test_d12_what_was_pruned_before_does_not_keep_the_newer_from_going() -> None:
    """S2.5, S2.10: a second pruning takes what came since the first, and the two have nothing in common."""
    inputs = infold_at(WINDOW)
    pruned = [
        set(step.plan.targets)
        for request in play(log_of(()), conversation(120, reply_tokens=12), inputs)
        for step in request.compaction.steps
        if isinstance(step, Prune)
    ]

    assert len(pruned) >= 2
    assert sum(map(len, pruned)) == len(set().union(*pruned))


def test_d12_a_clipped_part_does_not_end_the_walk() -> None:
    """S2.5: only what was pruned ends it; what was clipped, say for its bytes, does not keep the older results from going."""
    log = log_of(conversation(12, tokens=800))
    policy = infold_at(WINDOW).policy.prune
    whole = plan_prune(log, policy, usable_tokens=8_000)
    newest = max(int(handle.partition(".")[0]) for handle in whole.targets)
    clipped = log.append(Clipping((Clip(Handle(f"{newest}.0"), 100, 100),)))

    assert plan_prune(clipped, policy, usable_tokens=8_000).freed_tokens > 0.5 * whole.freed_tokens > 0


def test_d12_stubs_in_between_never_leave_a_request_too_large() -> None:
    """B8: where old results lie behind a stub, out of pruning's reach, the head is folded instead and the request fits."""
    turns: list[Message] = []
    for number in range(24):
        turns += [user(f"part {number}"), calls("bash"), result(output="all is well here now " * 120), replies("built")]
    log = log_of(numbered(turns))
    middle = next(placed for placed in log.live[60:] if placed.results)
    log = log.append(Pruning((handle_of(middle.sequence, 0),), 500))
    inputs = infold_at(12_000)
    (request,) = play(log, (), inputs)

    assert plan_prune(log, inputs.policy.prune, usable_tokens=inputs.budget.usable_tokens).freed_tokens < 8_000
    assert request.compaction.steps
    assert request.compaction.final.gauge.upper_tokens <= inputs.budget.limit_tokens  # type: ignore[union-attr]
