"""Long sessions near their trigger, over it, and over their limit."""

from tests.support.policies import FOLDS

from infold.core.budget import Window, budget_for
from infold.core.entries import Entry, MessageEntry
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, SessionId
from infold.core.plan import Summarise, next_step
from infold.core.policy import Policy
from infold.testing.builders import calls, numbered, result, user

__all__ = ["SOON", "TRIGGERED", "URGENT", "long_session", "plan_inputs", "step_of"]

SOON, TRIGGERED, URGENT = 11, 14, 15
"""Steps of a thousand tokens after which a session in a window of 16k is near its trigger, over it, and over its limit."""


def plan_inputs(policy: Policy = FOLDS, *, window: int = 16_000, manual: bool = False) -> PlanInputs:
    """A policy in a window, with a model to summarise."""
    return PlanInputs(policy, budget_for(Window(window), policy), 200, 1.0, summariser=True, manual=manual)


def long_session(steps: int, policy: Policy = FOLDS) -> Log:
    """A session of one request and so many tool steps of a thousand tokens, not yet compacted."""
    step = (calls("bash", arguments='{"command": "make part"}'), result(output="all parts went well here\n" * 165))
    drafts: list[Message] = [
        user("Port the parser. Never touch vendor/."),
        *(one for _ in range(steps) for one in step),
    ]
    entries: list[Entry] = [MessageEntry(message) for message in numbered(drafts)]
    return Log(SessionId("s"), Rendering(policy.estimate, policy.stub)).extend(entries)


def step_of(log: Log, given: PlanInputs) -> Summarise:
    """The summary that is needed next."""
    step = next_step(log, given)
    assert isinstance(step, Summarise)
    return step
