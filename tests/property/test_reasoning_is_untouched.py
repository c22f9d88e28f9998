"""Law: signed reasoning is sent as it came and in its place, or goes with the whole loop it opened."""

from hypothesis import given
from tests.support.play import play
from tests.support.strategies import histories, infold_situations

from infold.core.gauge import PlanInputs
from infold.core.messages import AssistantMessage, Message, MessageId, UserMessage, is_signed, results_of
from infold.testing.builders import log_of


@given(histories(), infold_situations())
def test_signed_messages_are_the_very_messages(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12, B24: a message with signed parts is in the view as the object that was appended, or not at all."""
    signed = {message.id: message for message in history if is_signed(message)}

    for played in play(log_of((), policy=inputs.policy), history, inputs):
        for message in played.request:
            if message.id in signed:
                assert message is signed[message.id]


@given(histories(), infold_situations())
def test_a_loop_goes_with_its_reasoning(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: when signed reasoning leaves the view, what stays of its loop begins with reasoning of its own."""
    before: set[MessageId] = set()
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        now = {message.id for message in played.request}
        for loop in loops(history):
            lost = [message for message in loop if is_signed(message) and message.id in before - now]
            kept = [message for message in loop if message.id in now]
            assert not lost or not kept or is_signed(kept[0])
        before = now


def loops(history: tuple[Message, ...]) -> list[list[Message]]:
    """The assistant messages of each run of steps that nobody interrupted."""
    found: list[list[Message]] = [[]]
    for message in history:
        if isinstance(message, UserMessage) and not results_of(message):
            found.append([])
        if isinstance(message, AssistantMessage):
            found[-1].append(message)
    return found
