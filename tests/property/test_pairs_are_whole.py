"""Law: in every view of every preset, calls and results stand together, whole and in order."""

from hypothesis import given
from tests.support.play import play
from tests.support.strategies import histories, situations

from infold.core.gauge import PlanInputs
from infold.core.messages import AssistantMessage, Message, calls_of, results_of
from infold.testing.builders import log_of


@given(histories(), situations())
def test_every_call_is_answered_at_once(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: each call of a view is answered exactly once, before anything else is said, and no result lacks its call."""
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        assert open_calls(played.request) == set()


@given(histories(), situations())
def test_parallel_calls_stay_together(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: a message of a view makes all the calls it made in the history, or is gone as a whole."""
    made = {message.id: [call.call_id for call in calls_of(message)] for message in history}

    for played in play(log_of((), policy=inputs.policy), history, inputs):
        for message in played.request:
            if message.id in made:
                assert [call.call_id for call in calls_of(message)] == made[message.id]


@given(histories(), situations())
def test_what_is_kept_keeps_its_order(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: the messages of a view stand in the order in which they were appended."""
    order = {message.id: number for number, message in enumerate(history)}

    for played in play(log_of((), policy=inputs.policy), history, inputs):
        kept = [order[message.id] for message in played.request if message.id in order]
        assert kept == sorted(kept)


def open_calls(request: tuple[Message, ...]) -> set[str]:
    """The calls that are open at the end; fails on a result without a call and on words before an answer."""
    waiting: set[str] = set()
    for message in request:
        results = [result.call_id for result in results_of(message)]
        assert set(results) <= waiting
        assert len(results) == len(set(results))
        assert results or not waiting
        waiting -= set(results)
        if isinstance(message, AssistantMessage):
            waiting = {call.call_id for call in calls_of(message)}
    return waiting
