"""When a task has ended, and what follows from it: an early fold near the trigger, a cut between two tasks."""

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.budget import Window, budget_for
from infold.core.cut import Room, choose_cut, has_ended_task
from infold.core.gauge import PlanInputs, Rates, gauge
from infold.core.log import Log
from infold.core.messages import Message
from infold.core.plan import Fits, Fold, Prune, next_step
from infold.core.policy import INFOLD, PRESETS, Policy, TailPolicy
from infold.core.tokens import tokens_in
from infold.errors import PolicyError
from infold.testing.builders import calls, replies, result, session, user


def ran(command: str, output: str, **changes: object) -> Log:
    """A session whose newest step ran a command."""
    done = result(output=output)
    part = replace(done.parts[0], **changes)
    return session(user(), calls("bash", arguments=f'{{"command": "{command}"}}'), replace(done, parts=(part,)))


@pytest.mark.parametrize(
    ("log", "ended"),
    [
        (session(), False),
        (session(user("begin")), False),
        (session(user("begin"), replies("done"), user("next")), True),
        (session(user("begin"), replies("done")), False),
        (session(user("begin"), calls("bash")), False),
        (session(user("begin"), calls("bash"), result(9)), False),
        (ran("git add -A && git commit -m done", "[main 1a2b3c4] done"), True),
        (ran("git commit -m done", "nothing to commit", exit_status=1), False),
        (ran("git log", "commit 1a2b3c4"), False),
        (ran("pytest -q", "12 passed in 3 s"), True),
        (ran("pytest -q", "12 passed, 1 failed in 3 s"), False),
        (ran("cat notes.txt", "12 passed in 3 s"), False),
    ],
)
def test_where_a_task_ends(log: Log, *, ended: bool) -> None:
    """A task ends with the next request of a person, a commit that was made, and tests that all passed."""
    assert has_ended_task(log) is ended


@pytest.mark.parametrize(("status", "ended"), [("completed", True), ("in_progress", False)])
def test_closed_todos_end_a_task(status: str, *, ended: bool) -> None:
    """A task ends once the last item of its todo list is closed."""
    items = f'{{"todos": [{{"content": "a", "status": "completed"}}, {{"content": "b", "status": "{status}"}}]}}'

    assert has_ended_task(session(user(), calls("todowrite", arguments=items), result(9))) is ended


# An early fold.


def filled(*last: Message, policy: Policy = FOLDS) -> tuple[Log, PlanInputs]:
    """A session that fills all but 3 % of its trigger, and the inputs to decide on it."""
    drafts = [user("Port it."), *(one for _ in range(30) for one in (calls("bash"), result(output="a word " * 300)))]
    log = session(*drafts, *last, policy=policy)
    inputs = PlanInputs(policy, budget_for(Window(200_000), policy), recovers=True)
    trigger = int(gauge(log, inputs).count_tokens * 1.03)
    return log, replace(inputs, budget=replace(inputs.budget, trigger_tokens=trigger, usable_tokens=trigger))


def test_a_task_s_end_near_the_trigger_is_taken() -> None:
    """B34: close below the trigger a fold is made when a task has ended, and says so; otherwise it waits for the trigger."""
    log, inputs = filled(replies("done"), user("Now the docs."))
    step = next_step(log, inputs)

    assert isinstance(step, Fold)
    assert step.reason == "task"
    assert isinstance(next_step(*filled()), Fits)
    off = replace(inputs, policy=replace(FOLDS, task_band=0.0))
    assert isinstance(next_step(log, off), Fits)
    roomy = replace(inputs, budget=replace(inputs.budget, trigger_tokens=inputs.budget.trigger_tokens * 2))
    assert isinstance(next_step(log, roomy), Fits)


def test_stubs_wait_for_the_trigger() -> None:
    """B16: where pruning alone will do at the trigger, the end of a task is left to pass, so that the cache holds."""
    log, inputs = filled(replies("done"), user("Now the docs."), policy=INFOLD)
    at_trigger = replace(inputs, budget=replace(inputs.budget, trigger_tokens=gauge(log, inputs).count_tokens))

    assert isinstance(next_step(log, at_trigger), Prune)
    assert isinstance(next_step(log, inputs), Fits)


def test_where_stubs_would_cost_more_a_task_s_end_is_taken() -> None:
    """B16, B34: where pruning would do but costs clearly more than a fold, the end of a task is taken for the fold."""
    log, inputs = filled(replies("The tide is high today. " * 1_000), user("Now the docs."), policy=INFOLD)
    step = next_step(log, inputs)

    assert isinstance(step, Fold)
    assert step.reason == "task"
    dear = replace(inputs, rates=Rates(fresh=1.25, cached=0.1, output=25.0), summariser=True)
    assert isinstance(next_step(log, dear), Fits)


def test_documents_wait_for_their_trigger() -> None:
    """B34: no preset of a document looks for the end of a task."""
    assert [name for name, policy in PRESETS.items() if policy.task_band or policy.tail.task_share] == ["infold"]


@pytest.mark.parametrize("band", [-0.1, 0.6])
def test_a_band_is_a_share(band: float) -> None:
    """A band below zero or wider than half of the trigger is refused, and so is a share of more than the tail."""
    with pytest.raises(PolicyError, match="task_band"):
        replace(INFOLD, task_band=band)
    with pytest.raises(PolicyError, match="task_share"):
        TailPolicy(task_share=band * 9)


# The cut.


def room_from(log: Log, index: int) -> Room:
    """Room for a tail that begins with that message."""
    return Room(sum(tokens_in(log.measured_of(logged), log.rendering.estimate) for logged in log.live[index:]))


def test_the_cut_falls_between_two_tasks() -> None:
    """A tail begins with a person's request if one is near where the rule would cut, and not in the middle of a task."""
    work = (calls("bash"), result(100))
    log = session(user("one"), *work * 5, replies("done"), user("two"), *work * 4)
    tail, room = INFOLD.tail, room_from(log, 11)
    plain = choose_cut(log, replace(tail, task_share=0.0), room)
    chosen = choose_cut(log, tail, room)

    assert plain is not None
    assert chosen is not None
    assert (plain.index, chosen.index) == (11, 12)
    assert log.live[chosen.index].is_persons


def test_a_short_task_does_not_shorten_the_tail() -> None:
    """A request that would leave much less of a tail is not cut at."""
    work = (calls("bash"), result(100))
    log = session(user("one"), *work * 9, replies("done"), user("two"), *work)
    chosen = choose_cut(log, INFOLD.tail, room_from(log, 9))

    assert chosen is not None
    assert not log.live[chosen.index].is_persons
