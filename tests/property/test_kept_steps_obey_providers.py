"""Law: whatever a fold keeps of earlier steps, no provider refuses the request, and no kept step says what is no longer true.

An agent works through generated steps in each of the five formats until ten folds were made.
"""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.working_agent import FORMATS, PLANS, Agent, Bring, Plan, check_kept

pytestmark = pytest.mark.slow

EXAMPLES = settings(max_examples=int(os.environ.get("INFOLD_EXAMPLES", "4")), deadline=None)


def work_through(name: str, plan: Plan) -> Agent:
    """Work until ten folds were made, or for long enough, and check every request."""
    agent = Agent(name, plan)
    for sent in agent.steps():
        check_kept(agent.session.log, sent, agent)
    return agent


@pytest.mark.parametrize("name", FORMATS)
@EXAMPLES
@given(plan=PLANS)
def test_no_request_is_refused(name: str, plan: Plan) -> None:
    """B52: over ten folds no provider refuses a request for its kept steps, which are whole, true and shown once."""
    work_through(name, plan)


@pytest.mark.parametrize("name", FORMATS)
@EXAMPLES
@given(plan=PLANS)
def test_no_request_is_refused_without_pruning(name: str, plan: Plan) -> None:
    """B52: nor where nothing but folds makes room."""
    work_through(name, replace(plan, prunes=False))


@pytest.mark.parametrize("name", FORMATS)
@EXAMPLES
@given(plan=PLANS, each=st.integers(2, 9))
def test_a_request_without_tools_has_no_kept_calls(name: str, plan: Plan, each: int) -> None:
    """B52: where a request offers no tools, the view has no kept steps, and neither have later ones before the next fold."""
    agent = Agent(name, plan)
    for _ in agent.steps(folds=5, most=40):
        if agent.number % each == 0:
            agent.request(tools=[])
            assert not agent.session.log.steps


BUSY = ("says and runs", "reads", "fails", "edits", "passes", "parallel", "short", "ends")


@pytest.mark.parametrize("brings", ["all", "new", "shown"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_law_is_put_to_the_test(name: str, brings: Bring) -> None:
    """B52: ten folds are made, and each keeps steps; signed ones too."""
    agent = work_through(name, Plan(BUSY, brings, prunes=False))

    assert agent.folds == 10
    assert agent.kept >= 20
