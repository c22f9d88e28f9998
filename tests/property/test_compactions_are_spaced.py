"""Law: what `infold` does by itself comes seldom; after a compaction that brought little, only need or news leads to the next."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import histories, infold_situations

from infold.core.compact import apply_step
from infold.core.entries import MessageEntry
from infold.core.gauge import PlanInputs, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.messages import Message
from infold.core.plan import LEAST_NEWS_SHARE, Fits, Stuck, Summarise, next_step
from infold.testing.builders import log_of


@given(histories(max_blocks=30), infold_situations(), st.sampled_from((0.0, 0.5, 0.7, 0.85, 0.92)))
def test_only_need_or_news_follows_what_brought_little(
    history: tuple[Message, ...], inputs: PlanInputs, tools: float
) -> None:
    """B9: beside tools of any size, each act after a missed target is one that the limit demands, a cut-off reply, or due."""
    budget = inputs.budget
    inputs = replace(inputs, overhead_tokens=int(tools * budget.usable_tokens / inputs.bound), summariser=True)
    least = LEAST_NEWS_SHARE * budget.usable_tokens
    log = log_of((), policy=inputs.policy)
    for message in history:
        log = log.append(MessageEntry(message))
        while not isinstance(step := next_step(log, inputs), Fits | Stuck):
            if log.checkpoint is not None and log.checkpoint.tokens_after > budget.target_tokens:
                news = estimated_tokens(log, inputs) - log.checkpoint.tokens_after
                urgent = gauge(log, inputs).upper_tokens > budget.limit_tokens

                assert urgent or step.reason == "forced" or news >= least
                assert not (isinstance(step, Summarise) and step.cut.index) or unsummarised(log, step) >= least
            log = apply_step(log, step, inputs).log


def unsummarised(log: Log, step: Summarise) -> int:
    """What of a head no summary stands for yet."""
    return sum(log.size_of(logged).measure for logged in log.live[: step.cut.index])
