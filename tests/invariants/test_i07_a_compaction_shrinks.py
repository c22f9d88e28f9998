"""I7: what comes out of a compaction is smaller than what went in, with room to spare; what cannot be so is told."""

import pytest
from hypothesis import given
from tests.support.coding_session import coding_session
from tests.support.play import play
from tests.support.strategies import histories, infold_situations

from infold import WindowExceeded, fit
from infold.core.events import Clipped, Compacted, Event, Exceeded, Pruned, SummaryRejected
from infold.core.gauge import PlanInputs
from infold.core.messages import Message
from infold.core.plan import Fits
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import log_of, numbered, replies, user

from .scenes import EXAMPLES, GOOD_NOTES, Notetaker, compactions, infold_at, opened, played, story, told_of, written

LEAST_MARGIN = 0.3
"""How far below the trigger an ordinary compaction ends at least, as a share of it."""


@pytest.mark.slow
@EXAMPLES
@given(histories(max_blocks=30), infold_situations())
def test_i07_every_step_makes_the_request_smaller(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B9: each pruning, clipping and compaction that infold makes of itself leaves less than there was."""
    for request in play(log_of((), policy=inputs.policy), history, inputs):
        for event in request.compaction.events:
            if isinstance(event, Pruned | Clipped | Compacted):
                assert event.tokens_after < event.tokens_before


@pytest.mark.slow
@pytest.mark.parametrize("window", [8_192, 16_384, 32_768, 65_536])
def test_i07_an_ordinary_compaction_ends_far_below_the_trigger(window: int) -> None:
    """B9: in a session whose single results are a small part of the window, each compaction leaves room to work in."""
    inputs = infold_at(window, overhead_tokens=window // 50)
    trigger = inputs.budget.trigger_tokens
    made = 0
    for request in play(log_of(()), coding_session(largest_result_tokens=window // 16), inputs):
        if request.compaction.steps:
            final = request.compaction.final
            assert isinstance(final, Fits)
            assert final.gauge.count_tokens < (1 - LEAST_MARGIN) * trigger
            made += 1

    assert made >= 3


def test_i07_a_summary_that_is_hardly_smaller_is_rejected() -> None:
    """B5, B9: an answer of nearly the size of what it should replace is not used, and the request fits all the same."""
    long = "The parser was ported part by part and each of the parts was built. " * 800
    session, events = opened("infold", OPENAI_CHAT, notes=Notetaker(long)), list[Event]()
    for ready in played(session, OPENAI_CHAT, story(30)):
        events += ready.events

    assert any(isinstance(event, SummaryRejected) and "too-large" in event.faults for event in events)
    assert all(event.tokens_after < event.tokens_before for event in compactions(events))
    assert long[:200] not in told_of(ready)
    assert GOOD_NOTES not in told_of(ready)


def test_i07_a_wish_makes_nothing_larger() -> None:
    """B9, B20: a person's wish to compact a few short messages leaves them as they are rather than make more of them."""
    events: list[Event] = []
    session = opened("infold", OPENAI_CHAT, window=64_000, events=events)
    items = written(OPENAI_CHAT, numbered([user("hi"), replies("hello"), user("ok")]))
    session.prepare_new(items)

    assert len(told_of(session.compact())) <= len("\n".join(map(str, items)))
    assert all(event.tokens_after < event.tokens_before for event in compactions(events))


def test_i07_tools_that_leave_no_room_are_told_and_nothing_is_sent() -> None:
    """B9: where system prompt and tools alone are too much, the error has the numbers and says what to do."""
    tools = [{"name": "chart", "description": "shows depths " * 4_000}]
    events: list[Event] = []
    session = opened("infold", OPENAI_CHAT, window=4_096, events=events)

    with pytest.raises(WindowExceeded, match="shorten the system prompt") as caught:
        session.prepare_new(written(OPENAI_CHAT, story(3)), tools=tools)

    assert caught.value.overhead_tokens > caught.value.usable_tokens
    assert caught.value.floor_tokens == caught.value.overhead_tokens  # nothing is folded, since no fold helps
    assert [type(event) for event in events][-1] is Exceeded
    assert compactions(events) == []


def test_i07_a_tail_that_leaves_no_room_is_told() -> None:
    """B9: where what must stay is more than the window beside its tools, the error says how much it is."""
    items = written(OPENAI_CHAT, story(2, opening="Port it. " * 30))

    with pytest.raises(WindowExceeded) as caught:
        fit(items, window=1_200, system="You are a pilot. " * 160)

    assert caught.value.overhead_tokens < caught.value.usable_tokens < caught.value.floor_tokens
