"""A history played again, from the beginning or from where it ended."""

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.budget import Window, budget_for
from infold.core.compact import Simulation, advance, simulate
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.messages import Message, SessionId
from infold.core.policy import INFOLD, Policy
from infold.core.view import view
from infold.testing.builders import calls, numbered, replies, result, summary, user

SITUATION = PlanInputs(INFOLD, budget_for(Window(8_192), INFOLD))

each_way = pytest.mark.parametrize("policy", [INFOLD, FOLDS], ids=["prunes or folds", "folds"])


def history(turns: int = 12) -> tuple[Message, ...]:
    """Turns of about a thousand tokens each."""
    return numbered([draft for _ in range(turns) for draft in (user(), calls("bash"), result(4_000), replies())])


def test_each_reply_answers_a_request() -> None:
    """B29: one request stands before each reply and one after the last message."""
    played = list(simulate(Log(SessionId("s")), history(3), SITUATION))

    assert len(played) == 3 * 2 + 1


def test_a_summary_answers_no_request() -> None:
    """S4.1: a recorded summary is not a reply to the conversation."""
    played = list(simulate(Log(SessionId("s")), numbered([user(), summary()]), SITUATION))

    assert len(played) == 1


@each_way
def test_carried_on_is_as_from_the_beginning(policy: Policy) -> None:
    """B29: played in two pieces, a history gives the log, the events and the numbers of one piece."""
    messages, situation = history(), replace(SITUATION, policy=policy)
    whole = advance(Simulation(Log(SessionId("s"))), messages, situation)
    half = advance(Simulation(Log(SessionId("s"))), messages[:21], situation)
    both = advance(half, messages[21:], situation)

    assert whole.events == both.events != ()
    assert whole.sequences == both.sequences
    assert view(whole.log, INFOLD.summary) == view(both.log, INFOLD.summary)


@each_way
def test_numbers_are_those_of_the_log(policy: Policy) -> None:
    """B6: the number a rehearsal remembers for a message is the one its handles begin with."""
    messages = history()
    played = advance(Simulation(Log(SessionId("s"))), messages, replace(SITUATION, policy=policy))
    numbers = dict(zip((message.id for message in messages), played.sequences, strict=True))

    assert all(numbers[logged.message.id] == logged.sequence for logged in played.log.live)
