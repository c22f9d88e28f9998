"""Law: deciding and carrying out ends, for every preset, and ends in `Fits` or `Stuck`."""

from hypothesis import given
from msgspec.structs import replace
from tests.support.strategies import histories, situations

from infold.core.compact import apply_step, compact
from infold.core.gauge import PlanInputs
from infold.core.messages import Message
from infold.core.plan import Fits, Stuck, next_step
from infold.testing.builders import log_of


@given(histories(), situations())
def test_compaction_ends(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B9: after at most a handful of steps per message nothing is left to do."""
    log = log_of(history, policy=inputs.policy)
    for _ in range(10 + 3 * sum(len(message.parts) for message in history)):
        step = next_step(log, inputs)
        if isinstance(step, Fits | Stuck):
            return
        log = apply_step(log, step, inputs).log
    raise AssertionError("still at it")


@given(histories(), situations())
def test_a_compacted_log_stays_as_it_is(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B9, I8: with nothing new said, a second compaction does nothing."""
    once = compact(log_of(history, policy=inputs.policy), inputs)
    twice = compact(once.log, inputs)

    assert twice.steps == ()
    assert twice.final == once.final


@given(histories(), situations())
def test_off_means_off(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """S1.1, S2.9: with automatic work and pruning off nothing is ever done."""
    policy = replace(inputs.policy, auto=False, prune=replace(inputs.policy.prune, enabled=False))
    log = log_of(history, policy=policy)

    assert compact(log, replace(inputs, policy=policy)).steps == ()
