"""I20: what is switched off does nothing, and every change that is made of itself is told with its numbers and its reason."""

from itertools import pairwise

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.support.play import play
from tests.support.strategies import histories, situations

from infold import Session, SessionSettings, WindowExceeded
from infold.core.compact import compact
from infold.core.entries import Checkpoint, Clipping, Entry, Pruning
from infold.core.events import Clipped, Compacted, Event, Exceeded, Pruned, Rejected, Restored, SummaryRejected
from infold.core.gauge import PlanInputs, estimated_tokens
from infold.core.judge import Answer
from infold.core.messages import Message, SessionId
from infold.core.policy import Policy, preset
from infold.formats.registry import OPENAI_CHAT
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import log_of

from .scenes import EXAMPLES, Notetaker, compactions, conversation, each_preset, opened, played, story, written

TOLD: dict[type[Entry], type[Event]] = {Pruning: Pruned, Clipping: Clipped, Checkpoint: Compacted}
REASONS = ("trigger", "price", "task", "asked", "forced", "manual", "safety", "import", "overflow")


def switched_off(policy: Policy) -> Policy:
    """The policy with everything automatic off."""
    return replace(policy, auto=False, prune=replace(policy.prune, enabled=False))


@pytest.mark.slow
@EXAMPLES
@given(histories(max_blocks=24), situations())
def test_i20_off_is_off(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """S1.1, S2.9: with automatic work off, each request of any history is the history, however full the window is."""
    off = replace(inputs, policy=switched_off(inputs.policy))
    for request in play(log_of((), policy=off.policy), history, off):
        assert (request.compaction.steps, request.compaction.events) == ((), ())


@each_preset
def test_i20_a_session_that_is_off_still_does_what_it_is_asked(name: str) -> None:
    """S1.1, B20: nothing happens of itself, whatever was reported; a person's own wish is met all the same."""
    events: list[Event] = []
    told = SessionSettings(
        window=8_192,
        policy=switched_off(preset(name)),
        format="openai-chat",
        on_event=events.append,
        summariser=Notetaker(),
    )
    session = Session(MemoryStore(), "s", told)
    items = written(OPENAI_CHAT, conversation(30))
    ready = session.prepare_new(items)

    assert (ready.messages, ready.events, events) == (items, (), [])
    session.compact()
    assert [event.reason for event in compactions(events)] == ["manual"]


@pytest.mark.slow
@each_preset
def test_i20_every_change_has_its_event(name: str) -> None:
    """B22, S8.3: as many prunings, clippings and compactions are told as were stored, in order, with reason and numbers."""
    store, events = MemoryStore(), list[Event]()
    session = opened(name, OPENAI_CHAT, store=store, events=events, notes=Notetaker())
    list(played(session, OPENAI_CHAT, (*conversation(30), *story(1)[1:])))
    changes = [
        TOLD[type(entry)] for _, entry in store.newest_first(SessionKey("", SessionId("s"))) if type(entry) in TOLD
    ]
    told = [event for event in events if isinstance(event, Pruned | Clipped | Compacted)]

    assert [type(event) for event in told] == changes[::-1]
    assert Compacted in changes
    for event in told:
        assert event.reason in REASONS
        assert event.session_id == "s"
        assert 0 < event.tokens_after < event.tokens_before


@pytest.mark.slow
@EXAMPLES
@given(histories(max_blocks=24), situations())
def test_i20_the_numbers_follow_from_one_another(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B22: what one event leaves is what the next begins with, from the view before to the view after."""
    log = log_of(history, policy=inputs.policy)
    compaction = compact(log, inputs)
    told = [event for event in compaction.events if isinstance(event, Pruned | Clipped | Compacted)]

    assert not told or told[0].tokens_before == estimated_tokens(log, inputs)
    for earlier, later in pairwise(told):
        continued = 0 if not isinstance(earlier, Compacted) else 40
        assert 0 <= later.tokens_before - earlier.tokens_after <= continued
    if isinstance(compaction.events[-1] if compaction.events else None, Exceeded):
        assert compaction.final.floor_tokens > compaction.final.usable_tokens  # type: ignore[union-attr]


def test_i20_a_summary_that_fails_is_told() -> None:
    """B5, B22: observers hear what was wrong with it and that code folded instead."""
    events: list[Event] = []
    session = opened("infold", OPENAI_CHAT, window=64_000, notes=Notetaker(Answer("", "error")), events=events)
    session.prepare_new(written(OPENAI_CHAT, conversation(40, tokens=12, reply_tokens=900)))
    session.compact()

    assert [event.faults for event in events if isinstance(event, SummaryRejected)] == [("refused", "refused")]
    assert [(event.outcome, event.faults) for event in compactions(events)] == [("folded", ("refused", "refused"))]


def test_i20_a_window_that_cannot_hold_is_told() -> None:
    """B9, B22: the stop is an event as well as an error, with the same numbers."""
    events: list[Event] = []
    session = opened("infold", OPENAI_CHAT, window=4_096, events=events)
    with pytest.raises(WindowExceeded) as caught:
        session.prepare_new(written(OPENAI_CHAT, story(1)), tools="depth " * 9_000)

    assert isinstance(events[-1], Exceeded)
    assert events[-1].floor_tokens == caught.value.floor_tokens
    assert events[-1].usable_tokens == caught.value.usable_tokens


def test_i20_a_refusal_and_an_undo_are_told() -> None:
    """B1, B7, B22: what a provider refused and what a person took back are events too."""
    events: list[Event] = []
    session = opened("infold", OPENAI_CHAT, window=64_000, events=events)
    session.prepare_new(written(OPENAI_CHAT, story(40)))
    session.recover("prompt is too long: 70000 tokens > 60000 maximum")
    session.undo()

    assert [type(event) for event in events if isinstance(event, Rejected | Restored)] == [Rejected, Restored]
