"""D9: something of every window is usable, and a session in a small one works."""

import pytest

from infold import Window
from infold.core.budget import budget_for
from infold.core.events import Event
from infold.core.policy import INFOLD
from infold.formats.registry import OPENAI_CHAT

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    REQUEST,
    compactions,
    each_preset,
    opened,
    played,
    story,
    told_of,
)

SIZES = (1_024, 2_048, 4_096, 8_192, 16_384, 32_000, 32_768, 40_000, 128_000, 200_000, 1_000_000, 2_000_000)


@pytest.mark.parametrize("context_tokens", SIZES)
@pytest.mark.parametrize("output", [None, 0.25, 1.0], ids=["untold", "a quarter", "all of it"])
def test_d09_most_of_every_window_is_usable(context_tokens: int, output: float | None) -> None:
    """B11, S1.8: whatever a model says of its longest reply, more than two thirds of its window is there to be filled."""
    longest = None if output is None else int(context_tokens * output)
    budget = budget_for(Window(context_tokens, output_tokens=longest), INFOLD)

    assert 0.7 * context_tokens < budget.usable_tokens < context_tokens
    assert 0 < budget.target_tokens < budget.trigger_tokens < budget.usable_tokens == budget.limit_tokens


@pytest.mark.slow
@pytest.mark.parametrize("window", [2_048, 4_096, 8_192])
def test_d09_a_session_in_a_small_window_works(window: int) -> None:
    """B2, B11: every request fits, the user's words are in each, and few of the steps begin with a compaction."""
    events: list[Event] = []
    session = opened("infold", OPENAI_CHAT, window=window, events=events)
    limit = budget_for(Window(window), INFOLD).limit_tokens
    steps = 0
    for ready in played(session, OPENAI_CHAT, story(80, tokens=window // 24)):
        steps += 1
        assert ready.gauge.upper_tokens <= limit
        assert REQUEST in told_of(ready)

    assert 2 <= len(compactions(events)) <= steps // 5


@each_preset
def test_d09_no_preset_is_at_it_for_ever(name: str) -> None:
    """B9: a document that leaves nothing usable of a small window compacts where it must, and not at every step."""
    events: list[Event] = []
    session = opened(name, OPENAI_CHAT, window=16_384, events=events)
    steps = sum(1 for _ in played(session, OPENAI_CHAT, story(40, tokens=150)))

    assert len(compactions(events)) <= steps // 5
