"""Law: what `infold` does by itself comes seldom; after a compaction that brought little, only need or news leads to the next."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import histories, infold_situations

from infold.core.compact import carry_out
from infold.core.entries import MessageEntry
from infold.core.gauge import Situation, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.messages import Message
from infold.core.plan import LEAST_NEWS_SHARE, Fits, Stuck, Summarise, next_step
from infold.testing.builders import log_of


@given(histories(max_blocks=30), infold_situations(), st.sampled_from((0.0, 0.5, 0.7, 0.85, 0.92)))
def test_only_need_or_news_follows_what_brought_little(
    history: tuple[Message, ...], situation: Situation, tools: float
) -> None:
    """B9: beside tools of any size, each act after a missed target is one that the limit demands, a cut-off reply, or due."""
    budget = situation.budget
    situation = replace(situation, overhead_tokens=int(tools * budget.usable_tokens / situation.bound), summariser=True)
    least = LEAST_NEWS_SHARE * budget.usable_tokens
    log = log_of((), policy=situation.policy)
    for message in history:
        log = log.append(MessageEntry(message))
        while not isinstance(step := next_step(log, situation), Fits | Stuck):
            if log.checkpoint is not None and log.checkpoint.tokens_after > budget.target_tokens:
                news = estimated_tokens(log, situation) - log.checkpoint.tokens_after
                urgent = gauge(log, situation).upper_tokens > budget.limit_tokens

                assert urgent or step.reason == "forced" or news >= least
                assert not (isinstance(step, Summarise) and step.cut.index) or unsummarised(log, step) >= least
            log = carry_out(log, step, situation).log


def unsummarised(log: Log, step: Summarise) -> int:
    """What of a head no summary stands for yet."""
    return sum(log.size_of(placed).measure for placed in log.live[: step.cut.index])
