"""D2: when a provider reports an overflow in the midst of a turn, no step of that turn is lost."""

import pytest
from tests.support.provider_rules import problems

from infold.core.policy import PRESETS
from infold.formats.registry import OPENAI_CHAT, WireFormat

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    REQUEST,
    Notetaker,
    compactions,
    each_wire,
    opened,
    pair_faults,
    story,
    told_of,
    written,
)

REFUSAL = "prompt is too long: 213462 tokens > 200000 maximum"
STEPS = 24

each_splitting = pytest.mark.parametrize("name", sorted(set(PRESETS) - {"turn-window"}))
"""`turn-window` keeps its turns whole, so that a turn which alone is too large is told, not folded."""


@each_splitting
def test_d02_every_step_is_kept_or_summarised(name: str) -> None:
    """B7: each call and each result of the running turn is in the next request, or was shown to who summarised it."""
    notes = Notetaker()
    session = opened(name, OPENAI_CHAT, window=200_000, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, story(STEPS)))
    ready = session.recover(REFUSAL)

    assert ready is not None
    assert notes.asked
    for number in range(STEPS):
        for trace in (f"make part{number}\\", f"part {number} is fine."):
            assert trace.rstrip("\\") in told_of(ready) + notes.shown
    assert REQUEST in told_of(ready) + notes.shown


@each_wire
def test_d02_without_a_model_the_steps_stand_in_the_ledger(wire: WireFormat) -> None:
    """B4, B7, B10: folded by code, every command of the turn is told, and the newest steps are there as they were."""
    session = opened("infold", wire, window=200_000)
    session.prepare_new(written(wire, story(STEPS, tokens=2_400)))
    ready = session.recover(REFUSAL)

    assert ready is not None
    assert [event.folded_messages > STEPS for event in compactions(ready.events)] == [True]
    assert [number for number in range(STEPS) if f"make part{number}" not in told_of(ready)] == []
    assert pair_faults(wire.decode(ready.messages).messages) == []
    assert problems(wire, ready.messages) == ()


def test_d02_what_came_before_the_turn_is_not_all_that_is_left() -> None:
    """B7: the request does not begin anew at the user's message: the steps taken since are part of what is sent."""
    session = opened("infold", OPENAI_CHAT, window=200_000)
    session.prepare_new(written(OPENAI_CHAT, story(STEPS)))
    ready = session.recover(REFUSAL)

    assert ready is not None
    assert ready.messages[-1] == written(OPENAI_CHAT, story(STEPS))[-1]
