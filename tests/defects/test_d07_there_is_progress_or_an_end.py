"""D7: a compaction that brings nothing is not made again and again."""

import pytest
from hypothesis import given
from tests.support.strategies import histories, situations

from infold.core.compact import compact
from infold.core.entries import MessageEntry
from infold.core.events import Compacted, Event, Pruned
from infold.core.gauge import PlanInputs
from infold.core.messages import Message
from infold.core.plan import Fits, Stuck
from infold.core.policy import Policy
from infold.errors import WindowExceeded
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import log_of, numbered, replies, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    EXAMPLES,
    Notetaker,
    conversation,
    each_preset,
    each_way,
    infold_at,
    opened,
    played,
    story,
    written,
)


def cuts(events: list[Event]) -> int:
    """How often something old left the view: by a fold, or as stubs."""
    return sum(isinstance(event, Compacted | Pruned) for event in events)


@pytest.mark.slow
@EXAMPLES
@given(histories(), situations())
def test_d07_compacting_ends(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B9: in every preset it ends in a request that fits or a stop, and each fold on the way takes something along."""
    compaction = compact(log_of(history, policy=inputs.policy), inputs)

    assert isinstance(compaction.final, Fits | Stuck)
    assert len(compaction.steps) <= 10 + 2 * sum(len(message.parts) for message in history)


@each_preset
def test_d07_a_greeting_is_not_compacted(name: str) -> None:
    """B9: a session of two words in an ordinary window is left alone, however often it is prepared."""
    events: list[Event] = []
    session = opened(name, OPENAI_CHAT, window=200_000, notes=Notetaker(), events=events)
    session.prepare_new(written(OPENAI_CHAT, numbered([user("hi")])))
    for _ in range(5):
        session.prepare_new([])
    session.prepare_new(written(OPENAI_CHAT, numbered([replies("hello"), user("bye")], prefix="n")))

    assert events == []


@each_preset
def test_d07_asking_again_does_nothing(name: str) -> None:
    """B9: a request prepared twenty times over is compacted once at most."""
    events: list[Event] = []
    session = opened(name, OPENAI_CHAT, window=16_384, notes=Notetaker(), events=events)
    session.prepare_new(written(OPENAI_CHAT, conversation(40)))
    first = cuts(events)
    for _ in range(20):
        session.prepare_new([])

    assert first <= 2
    assert cuts(events) == first


def test_d07_what_cannot_be_folded_stops_at_once() -> None:
    """B9: where the system prompt alone is over the window, no summary is asked for before the error is raised."""
    notes = Notetaker()
    session = opened("infold", OPENAI_CHAT, window=4_096, notes=notes)
    for _ in range(5):
        with pytest.raises(WindowExceeded):
            session.prepare_new(written(OPENAI_CHAT, numbered([user("hi")])), system="depth " * 9_000)

    assert notes.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("window", [4_096, 8_192, 32_768])
@each_way
def test_d07_one_compaction_lasts_for_several_steps(window: int, policy: Policy) -> None:
    """B9, B16: in small windows too, most steps are taken without one."""
    events: list[Event] = []
    session = opened(policy, OPENAI_CHAT, window=window, notes=Notetaker(), events=events)
    steps = sum(1 for _ in played(session, OPENAI_CHAT, story(120, tokens=window // 24)))

    assert 2 <= cuts(events) <= steps // 5


def test_d07_a_cut_off_reply_forces_one() -> None:
    """S5.3, B9: a reply that ended for length is answered by one compaction; the same reply asks for no second one."""
    inputs = infold_at(32_768)
    log = log_of(numbered([*conversation(30), replies("and th", finish="length"), user("Go on.")], prefix="q"))
    first = compact(log, inputs)
    again = compact(first.log.append(MessageEntry(numbered([user("Well?")], prefix="w")[0])), inputs)

    assert [event.reason for event in first.events if isinstance(event, Compacted | Pruned)] == ["forced"]
    assert again.steps == ()
