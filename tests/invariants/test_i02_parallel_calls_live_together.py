"""I2: the calls of one reply, and their results, are all in a request or all gone from it."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.support.play import play
from tests.support.provider_rules import problems
from tests.support.strategies import histories, situations

from infold import fit
from infold.core.entries import Checkpoint
from infold.core.gauge import PlanInputs
from infold.core.messages import Message, calls_of, results_of
from infold.core.policy import preset
from infold.core.view import view
from infold.errors import IllegalCut
from infold.formats.registry import OPENAI_CHAT, WireFormat
from infold.testing.builders import log_of

from .scenes import EXAMPLES, Notetaker, compactions, each_preset, each_wire, opened, story, written


def torn(made: Iterable[Message], sent: Iterable[Message]) -> list[list[str]]:
    """The replies of which some calls or results are in the request and some are not."""
    shown = tuple(sent)
    called = {call.call_id for message in shown for call in calls_of(message)}
    answered = {part.call_id for message in shown for part in results_of(message)}
    steps = [[call.call_id for call in calls_of(message)] for message in made if calls_of(message)]
    return [step for step in steps if 0 < len(called & {*step}) + len(answered & {*step}) < 2 * len(step)]


@pytest.mark.slow
@EXAMPLES
@given(histories(), situations())
def test_i02_any_legal_cut_keeps_or_folds_a_step_whole(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: wherever a checkpoint may begin its tail no step is torn, and everywhere else the log refuses it."""
    log = log_of(history, policy=inputs.policy)
    for placed in tuple(log.live):
        checkpoint = Checkpoint("so far", first_kept=placed.sequence)
        if placed.cuttable:
            assert torn(history, view(log.append(checkpoint), inputs.policy.summary)) == []
        else:
            with pytest.raises(IllegalCut):
                log.append(checkpoint)


@pytest.mark.slow
@EXAMPLES
@given(histories(max_blocks=24), situations())
def test_i02_no_compaction_tears_a_step(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: in every preset, compaction upon compaction, the calls of one reply stay together."""
    for request in play(log_of((), policy=inputs.policy), history, inputs):
        assert torn(history, request.request) == []


@pytest.mark.slow
@each_wire
def test_i02_calls_that_are_items_of_their_own_stay_together(wire: WireFormat) -> None:
    """B12: on a wire where each call and each answer is an item, those of a reply are sent together or not at all."""
    items = written(wire, story(24, tokens=90, parallel=3))
    for window in range(1_200, 4_000, 90):
        fitted = fit(items, window=window, format=wire.name)
        assert compactions(fitted.report.events)
        assert torn(fitted.report.history, fitted.report.sent) == []


@each_preset
@pytest.mark.parametrize("window", [5_000, 5_500, 6_000, 6_500, 7_000])
def test_i02_holds_while_answers_come_one_by_one(name: str, window: int) -> None:
    """B12: a session that is compacted when only one of three answers is there folds all three or none."""
    messages = story(16, parallel=3)
    session = opened(name, OPENAI_CHAT, window=window, notes=Notetaker())
    for item in written(OPENAI_CHAT, messages):
        assert problems(OPENAI_CHAT, session.prepare_new([item]).messages) == ()
        assert torn(messages, view(session.log, preset(name).summary)) == []

    assert session.log.checkpoint is not None


def test_i02_a_torn_step_is_found() -> None:
    """The check can fail: a missing call, and a missing answer, are each told."""
    opening, asks, answers = story(1, parallel=2)

    assert torn((opening, asks, answers), (opening, asks, answers)) == []
    assert torn((opening, asks, answers), (opening, replace(asks, parts=asks.parts[1:]), answers)) != []
    assert torn((opening, asks, answers), (opening, asks, replace(answers, parts=answers.parts[1:]))) != []
