"""Law: under `infold` every request fits, or the step is `Stuck` and says by how much."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.play import play
from tests.support.strategies import histories, infold_situations

from infold.core.budget import Window, budget_for
from infold.core.entries import Handle, Pruning
from infold.core.gauge import PlanInputs, gauge
from infold.core.messages import Message
from infold.core.plan import Fits, Stuck
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.testing.builders import log_of, numbered, replies, user
from infold.testing.script import count_tokens


@given(histories(max_blocks=30), infold_situations())
def test_a_view_fits_or_the_step_is_stuck(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B8, B9: the most a request can be is within the limit, or the step names floor and limit."""
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        match played.compaction.final:
            case Fits():
                assert gauge(played.compaction.log, inputs).upper_tokens <= inputs.budget.limit_tokens
            case Stuck() as stuck:
                assert stuck.floor_tokens > stuck.usable_tokens == inputs.budget.limit_tokens


@given(histories(max_blocks=30), infold_situations())
def test_what_is_sent_is_what_was_proven(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B8: the messages themselves, counted afresh, are within the limit that was proven for the log."""
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        if isinstance(played.compaction.final, Fits):
            sent = count_tokens(played.request) + inputs.overhead_tokens
            assert sent <= inputs.budget.limit_tokens + 12 * len(played.request)


@given(histories(max_blocks=30), infold_situations(), st.sampled_from((0.7, 1.0, 1.15)))
def test_a_counting_provider_never_sees_too_much(
    history: tuple[Message, ...], inputs: PlanInputs, factor: float
) -> None:
    """B8, B15: with reported usage and a true bound, no request exceeds the limit as the provider counts."""
    inputs = PlanInputs(inputs.policy, inputs.budget, inputs.overhead_tokens, bound=max(1.2, factor * 1.05))
    for played in play(log_of((), policy=inputs.policy), history, inputs, factor=factor):
        if isinstance(played.compaction.final, Fits):
            sent = (count_tokens(played.request) + inputs.overhead_tokens) * factor
            assert sent <= inputs.budget.limit_tokens + 24 * len(played.request)


@given(
    histories(max_blocks=20),
    st.sampled_from((0.5, 0.7, 1.0, 1.3, 2.0)),
    st.sampled_from((1.05, 1.2, 1.65)),
    st.lists(st.integers(0, 40), max_size=3),
)
def test_a_report_speaks_for_a_view_that_shrank(
    history: tuple[Message, ...], factor: float, bound: float, hidden: list[int]
) -> None:
    """I13, B8: once a provider has reported, no hiding takes the proof below what it would count, whatever our margin."""
    inputs = PlanInputs(INFOLD, budget_for(Window(2_000_000), INFOLD), 500, bound)
    *_, last = play(
        log_of(()), (*history, *numbered([user("And?"), replies("So.")], prefix="z")), inputs, factor=factor
    )
    log = last.compaction.log
    targets = [f"{logged.sequence}.{place}" for logged in log.live for place in logged.prunable]
    chosen = tuple(dict.fromkeys(Handle(targets[n % len(targets)]) for n in hidden)) if targets else ()
    log = log.append(Pruning(chosen, 0)) if chosen else log
    sent = view(log, INFOLD.summary)

    assert log.reported is not None
    assert gauge(log, inputs).upper_tokens >= factor * (count_tokens(sent) + 500) - 24 * len(sent)


@given(histories(), infold_situations())
def test_only_a_hopeless_window_is_stuck(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B9: whenever system prompt and tools leave a quarter of the window, a way to fit is found."""
    if inputs.overhead_tokens * inputs.bound > inputs.budget.limit_tokens * 0.75:
        return
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        assert isinstance(played.compaction.final, Fits)
