"""Law: a view is never empty, holds nothing empty, and ends in a state from which a provider may go on."""

from hypothesis import given
from tests.support.play import play
from tests.support.strategies import histories, situations

from infold.core.gauge import PlanInputs
from infold.core.messages import AssistantMessage, Message, calls_of, results_of, text_of
from infold.testing.builders import log_of


@given(histories(), situations())
def test_a_view_is_never_empty(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: once anything was said there is always something to send."""
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        assert played.request or not history


@given(histories(), situations())
def test_no_message_of_a_view_is_empty(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: every message sent has words, media, calls or results in it."""
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        for message in played.request:
            assert text_of(message).strip() or calls_of(message) or results_of(message)


@given(histories(), situations())
def test_the_question_stays_last(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: if the log ends with something to answer, so does its view."""
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        live = played.compaction.log.live
        if live and not isinstance(live[-1].message, AssistantMessage):
            assert not isinstance(played.request[-1], AssistantMessage)
