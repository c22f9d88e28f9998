"""Pins that leave no room."""

import pytest

from infold.core.budget import Window, budget_for
from infold.core.compact import apply_step, compact
from infold.core.entries import Handle, Pin
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.plan import Fits, Stuck, next_step
from infold.core.policy import INFOLD, PRESETS, preset
from infold.core.view import view
from infold.testing.builders import calls, replies, session, user

MOST_STEPS = 20
SITUATION = PlanInputs(INFOLD, budget_for(Window(8_192), INFOLD), 200)


def ended(log: Log, inputs: PlanInputs = SITUATION) -> Fits | Stuck:
    """How compacting ends, within as many steps as any session needs."""
    for _ in range(MOST_STEPS):
        step = next_step(log, inputs)
        if isinstance(step, Fits | Stuck):
            return step
        log = apply_step(log, step, inputs).log
    pytest.fail("no end")


def pinned(words: int, lines: int) -> Log:
    """A session whose first message is pinned, and whose last writes a file of so many lines."""
    write = calls("write", arguments='{"path":"a.py","content":"' + "x = 1 + y\\n" * lines + '"}')
    log = session(user("the contract says so. " * words), replies(), user("write it"), write)
    return log.append(Pin(Handle("0.0")))


def test_a_pin_too_large_for_the_window_is_told() -> None:
    """B9: what is pinned is not shortened, so that nothing helps; the end is `Stuck` with its numbers, not a loop."""
    end = ended(pinned(2_000, 400))

    assert isinstance(end, Stuck)
    assert end.floor_tokens > end.usable_tokens


def test_a_pin_leaves_what_can_still_be_folded() -> None:
    """B9, B20: where a pin leaves no room for the newest step, that is folded too, and the pin stands word for word."""
    done = compact(pinned(700, 1_000), SITUATION)

    assert isinstance(done.final, Fits)
    assert "the contract says so. " * 700 in str(view(done.log, INFOLD.summary)[0])


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"infold", "turn-window"}))
def test_a_pin_too_large_ends_in_a_document_too(name: str) -> None:
    """B9: a continue message is not put at the end for a fold of nothing but the last continue message."""
    policy = preset(name)
    inputs = PlanInputs(policy, budget_for(Window(8_192, output_tokens=1_024), policy), 1_500)
    log = session(user("go"), replies("the contract says so. " * 3_000), policy=policy).append(Pin(Handle("1.0")))

    assert isinstance(ended(log, inputs), Stuck)
