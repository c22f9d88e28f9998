"""Law: between infold's own cuts each request begins with the one before, so the provider's cache holds."""

from hypothesis import given

from infold.core.compact import rehearse
from infold.core.gauge import Situation
from infold.core.messages import Message
from infold.core.view import view
from infold.testing.builders import log_of
from infold.testing.play import play
from infold.testing.strategies import histories, infold_situations


@given(histories(max_blocks=30), infold_situations())
def test_requests_break_only_at_own_cuts(history: tuple[Message, ...], situation: Situation) -> None:
    """B29: a request starts with the whole of the one before unless something was compacted in between."""
    before: tuple[Message, ...] | None = None
    for played in play(log_of((), policy=situation.policy), history, situation):
        if before is not None and not played.compaction.steps:
            assert played.request[: len(before)] == before
        settled = not played.compaction.log.open_calls
        before = played.request if settled else None


@given(histories(max_blocks=30), infold_situations())
def test_the_same_history_gives_the_same_requests(history: tuple[Message, ...], situation: Situation) -> None:
    """B29: played again from nothing, a history of any length ends in the request it had when it was that long."""
    played = list(rehearse(log_of((), policy=situation.policy), history, situation))
    again = list(rehearse(log_of((), policy=situation.policy), history, situation))

    assert [view(one.log, situation.policy.summary) for one in played] == [
        view(one.log, situation.policy.summary) for one in again
    ]
