"""I8: usage from before a compaction starts no second one, and runs that do not help are few and end in a clear stop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import histories, situations

from infold import Session
from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.entries import MessageEntry
from infold.core.events import Event
from infold.core.gauge import PlanInputs
from infold.core.messages import Message, Usage
from infold.core.plan import Fits
from infold.core.policy import INFOLD, preset
from infold.errors import WindowExceeded
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import log_of, numbered, replies, user

from .scenes import EXAMPLES, Notetaker, compactions, each_preset, opened, requests_of, story, written

WINDOW = Window(200_000, output_tokens=32_000)


def full(name: str) -> tuple[PlanInputs, tuple[Message, ...]]:
    """A preset, and a session of some turns whose last reply reported a full window."""
    policy = preset(name)
    turns = [draft for _ in range(20) for draft in (user("go on"), replies("It is built, and all is well. " * 1_000))]
    heavy = replies("and so on", usage=Usage(input=195_000, output=1_000))
    return PlanInputs(policy, budget_for(WINDOW, policy)), numbered([*turns, user("more"), heavy])


@each_preset
def test_i08_old_usage_triggers_once(name: str) -> None:
    """B9, S5.1: a report that fills the window is answered by one compaction; asked again, there is nothing to do."""
    inputs, history = full(name)
    first = compact(log_of(history, policy=inputs.policy), inputs)
    again = compact(first.log, inputs)

    assert len(compactions(first.events)) == 1
    assert first.log.baseline is None
    assert (again.steps, again.events) == ((), ())


@each_preset
def test_i08_a_reply_with_room_keeps_the_peace(name: str) -> None:
    """B9: once a newer reply reports a small window, what an older one had reported counts no more."""
    inputs, history = full(name)
    log = compact(log_of(history, policy=inputs.policy), inputs).log
    for message in numbered([user("go on"), replies("fine", usage=Usage(input=9_000, output=50))], prefix="n"):
        log = log.append(MessageEntry(message))
        assert compact(log, inputs).steps == ()


@pytest.mark.slow
@EXAMPLES
@given(histories(), situations(), st.booleans())
def test_i08_nothing_new_means_nothing_to_do(
    history: tuple[Message, ...], inputs: PlanInputs, reports_usage: bool
) -> None:
    """B9: in every preset, with reports and without, a log that was compacted is left alone until something is said."""
    inputs = replace(inputs, reports_usage=reports_usage)
    once = compact(log_of(history, policy=inputs.policy), inputs)

    assert compact(once.log, inputs).steps == ()


def test_i08_a_run_that_would_not_help_is_not_made() -> None:
    """B9: where system prompt and tools alone reach the trigger, a fold that frees next to nothing is left undone."""
    budget = budget_for(Window(32_768), INFOLD)
    inputs = PlanInputs(INFOLD, budget, overhead_tokens=budget.trigger_tokens, bound=1.0)
    compaction = compact(log_of(story(2, tokens=30)), inputs)

    assert isinstance(compaction.final, Fits)
    assert compaction.final.gauge.count_tokens > budget.trigger_tokens
    assert compaction.steps == ()


@pytest.mark.parametrize("share", [0.5, 0.7, 0.75, 0.8, 0.9, 0.97])
def test_i08_runs_that_do_not_help_are_few(share: float) -> None:
    """B9: beside tools of that share of the window, each of few compactions frees enough, or the window is exceeded."""
    events: list[Event] = []
    usable_tokens = 6_964
    steps = steps_taken(
        opened("infold", OPENAI_CHAT, window=8_192, events=events), "depth " * int(usable_tokens * share)
    )
    made = compactions(events)

    assert len(made) <= 1 + steps // 8
    assert all(event.tokens_before - event.tokens_after > 0.04 * usable_tokens for event in made)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.85, 0.88])
def test_i08_no_model_is_asked_for_runs_that_do_not_help(share: float) -> None:
    """B9: where a window has room for little more than its tools, code folds at the limit, and a model is asked once."""
    events: list[Event] = []
    notes = Notetaker()
    session = opened("infold", OPENAI_CHAT, window=8_192, notes=notes, events=events)
    for new in requests_of(story(40, tokens=200)):
        session.prepare_new(written(OPENAI_CHAT, new), tools="depth " * int(6_964 * share))

    assert len(compactions(events)) > 10
    assert len(notes.asked) == 1


def steps_taken(session: Session, tools: str) -> int:
    """How many steps a story has until it ends or the window is exceeded, beside tools of that size."""
    for number, message in enumerate(story(40, tokens=60)):
        try:
            session.prepare_new(written(OPENAI_CHAT, [message]), tools=tools)
        except WindowExceeded:
            return number
    return 80


def test_i08_a_preset_with_attempts_stops_after_them() -> None:
    """S1.7, S5.3: `turn-window` compacts twice for one prompt, however often replies are cut off, and anew for the next."""
    policy = preset("turn-window")
    inputs = PlanInputs(policy, budget_for(WINDOW, policy))
    log = log_of(numbered([draft for _ in range(9) for draft in (user("go on"), replies("built"))]), policy=policy)
    made: list[int] = []
    for number in range(10):
        drafts = [user("and now?")] if number == 5 else []
        for message in numbered([*drafts, replies("and th", finish="length")], prefix=f"n{number}-"):
            log = log.append(MessageEntry(message))
        compaction = compact(log, inputs)
        log = compaction.log
        made += [number] * len(compactions(compaction.events))

    assert made == [0, 1, 5, 6]
