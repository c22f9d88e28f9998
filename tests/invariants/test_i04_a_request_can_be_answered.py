"""I4: a request begins and ends in a state from which its provider may go on, and holds no empty message."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.play import play
from tests.support.provider_rules import problems
from tests.support.strategies import histories, situations

from infold.core.events import Event
from infold.core.gauge import PlanInputs
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    calls_of,
    results_of,
    text_of,
)
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.formats.registry import FORMATS, WireFormat
from infold.testing.builders import calls, log_of, numbered, replies, result, session, user

from .scenes import (
    EXAMPLES,
    Notetaker,
    bare,
    compactions,
    conversation,
    each_preset,
    each_wire,
    opened,
    played,
)

ASKING = numbered([user("Port the parser.")], prefix="opening")
MODELS = ("assistant", "model")


@pytest.mark.slow
@EXAMPLES
@given(histories(), situations(), st.sets(st.integers(0, 30), max_size=4))
def test_i04_holds_for_every_history(history: tuple[Message, ...], inputs: PlanInputs, failures: set[int]) -> None:
    """B12: a session that a person began is accepted by every provider at each of its requests, and has nothing empty."""
    for request in play(log_of((), policy=inputs.policy), (*ASKING, *with_failures(history, failures)), inputs):
        for message in request.request:
            assert text_of(message).strip() or calls_of(message) or results_of(message)
        for wire in FORMATS:
            assert problems(wire, bare(wire, request.request)) == ()


def with_failures(history: tuple[Message, ...], places: set[int]) -> Iterator[Message]:
    """The history with replies in these places that failed before anything was said."""
    for place, message in enumerate(history):
        if place in places:
            yield AssistantMessage(MessageId(f"failed{place}"), (), finish="error", error="the connection was lost")
        yield message


@pytest.mark.slow
@each_preset
@each_wire
def test_i04_a_model_always_has_something_to_answer(name: str, wire: WireFormat) -> None:
    """B12: through compactions by a model, each request of steps and turns is accepted and ends with the user's side."""
    events: list[Event] = []
    for ready in played(opened(name, wire, notes=Notetaker()), wire, conversation(30)):
        events += ready.events
        assert problems(wire, ready.messages) == ()
        assert role(ready.messages[-1]) not in MODELS

    assert compactions(events)


def role(item: object) -> str:
    """Who speaks in a wire item; results and calls that are items of their own speak for tool and model."""
    assert isinstance(item, dict)
    own = {"function_call": "assistant", "reasoning": "assistant", "function_call_output": "tool"}
    return str(item.get("role") or own[item["type"]])


@pytest.mark.parametrize(
    "parts",
    [(), (TextPart(""),), (TextPart(" \n"),), (ReasoningPart("I was about to"),), (StepStartPart(),)],
    ids=["nothing", "empty", "blank", "thought", "step"],
)
def test_i04_a_reply_that_failed_before_it_began_is_not_sent(parts: tuple[Part, ...]) -> None:
    """B12, B13: what is left of a reply that failed is no empty message, so the question still stands last."""
    failed = AssistantMessage(MessageId("failed"), parts, finish="error", error="the connection was lost")
    request = view(log_of((*ASKING, failed)), INFOLD.summary)

    assert [message.id for message in request] == [ASKING[0].id]


def test_i04_a_reply_that_failed_does_not_stand_last() -> None:
    """B12, B13: half a reply whose request failed is not sent as if it were to be gone on with; the question is."""
    failed = AssistantMessage(MessageId("failed"), (TextPart("I was abo"),), finish="error", error="connection lost")
    request = view(log_of((*ASKING, failed)), INFOLD.summary)

    assert not isinstance(request[-1], AssistantMessage)


def test_i04_a_reply_that_only_thought_does_not_part_a_loop() -> None:
    """B12: an aborted thought between a result and the next reply leaves nothing behind, and the pairs stay whole."""
    log = session(
        user("Port it."), calls("bash"), result(), replies("", reasoning="hm", finish="abort"), calls("bash"), result()
    )

    for wire in FORMATS:
        assert problems(wire, bare(wire, view(log, INFOLD.summary))) == ()
    assert len(view(log, INFOLD.summary)) == 5


def test_i04_where_everything_is_folded_the_user_speaks() -> None:
    """B12: the last resort, which keeps no tail at all, still leaves a request that asks for an answer."""
    events: list[Event] = []
    session_ = opened("infold", FORMATS[-1], window=2_048)
    huge = numbered(
        [user("Port it."), calls("write", arguments=f'{{"a": [{", ".join(["12345"] * 3_000)}]}}'), result()]
    )
    for ready in played(session_, FORMATS[-1], huge):
        events += ready.events

    assert compactions(events)
    assert {role(item) for item in ready.messages} == {"user"}
