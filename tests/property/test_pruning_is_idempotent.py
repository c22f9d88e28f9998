"""Law: pruning twice is pruning once, and never touches what is pinned, protected or failed."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.strategies import histories, situations

from infold.core.entries import Handle, Pin, Pruning, handle_of
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.messages import Message, ToolCallPart, ToolResultPart
from infold.core.prune import plan_prune
from infold.testing.builders import log_of


@given(histories(), situations())
def test_pruning_twice_equals_pruning_once(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """S2.10: after a pruning is carried out there is nothing left to prune."""
    log = log_of(history, policy=inputs.policy)
    plan = plan_prune(log, inputs.policy.prune, usable_tokens=inputs.budget.usable_tokens)
    pruned = log.append(Pruning(plan.targets, plan.freed_tokens)) if plan.targets else log

    assert plan_prune(pruned, inputs.policy.prune, usable_tokens=inputs.budget.usable_tokens).targets == ()


@given(histories(), situations(), st.randoms(use_true_random=False))
def test_pinned_parts_survive(history: tuple[Message, ...], inputs: PlanInputs, random: st.DataObject) -> None:
    """No plan targets a pinned part, whatever else it targets."""
    log = log_of(history, policy=inputs.policy)
    handles = all_handles(log)
    pinned = [handle for handle in handles if random.random() < 0.5]  # type: ignore[attr-defined]
    log = log.extend(Pin(handle) for handle in pinned)
    plan = plan_prune(log, inputs.policy.prune, usable_tokens=0, minimum_tokens=0)

    assert not set(plan.targets) & set(pinned)


@given(histories(), situations())
def test_only_finished_work_of_ordinary_tools_is_pruned(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """S2.4: a plan targets completed results and, where the policy says so, calls; never those of protected tools."""
    log = log_of(history, policy=inputs.policy)
    policy = inputs.policy.prune
    plan = plan_prune(log, policy, usable_tokens=0, minimum_tokens=0)

    for handle in plan.targets:
        logged = log.find(handle)
        assert logged is not None
        part = logged.message.parts[int(handle.split(".")[1])]
        assert isinstance(part, ToolResultPart) or (policy.arguments and isinstance(part, ToolCallPart))
        assert part.tool not in policy.protected_tools
        assert not isinstance(part, ToolResultPart) or part.status == "completed"


def all_handles(log: Log) -> list[Handle]:
    """The handle of every part in the view."""
    return [handle_of(logged.sequence, index) for logged in log.live for index in range(len(logged.message.parts))]
