"""How far a growing history was played is remembered, and nothing depends on it but time."""

from typing import Any

from tests.support.trajectory import trajectory

from infold import fit
from infold.core.budget import Window, budget_for
from infold.core.compact import Simulation, advance
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, SessionId
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.session.fit import FitCache
from infold.testing.builders import calls, numbered, replies, result, user

RENDERING = Rendering()


def inputs(window: int = 8_192) -> PlanInputs:
    """infold's own policy at a window."""
    return PlanInputs(INFOLD, budget_for(Window(window), INFOLD), reports_usage=False)


def history(turns: int = 12, said: str = "go on") -> tuple[Message, ...]:
    """Turns of about a thousand tokens each."""
    return numbered([draft for _ in range(turns) for draft in (user(said), calls("bash"), result(4_000), replies())])


def afresh(messages: tuple[Message, ...], under: PlanInputs, rendering: Rendering = RENDERING) -> Simulation:
    """The same history played by nobody who remembers anything."""
    return advance(Simulation(Log(SessionId("fit"), rendering)), messages, under)


def agree(one: Simulation, other: Simulation) -> bool:
    """Whether two rehearsals show, tell and number the same."""
    shown = [view(rehearsal.log, INFOLD.summary) for rehearsal in (one, other)]
    return shown[0] == shown[1] and (one.events, one.sequences) == (other.events, other.sequences)


def test_a_growing_history_is_carried_on() -> None:
    """B29: each length gives what it gives from the beginning."""
    rehearsals, messages = FitCache(), history()

    for length in range(0, len(messages) + 1, 3):
        assert agree(rehearsals.play(messages[:length], inputs(), RENDERING), afresh(messages[:length], inputs()))


def test_the_same_history_again_is_the_same() -> None:
    """B29: a request that is tried again goes out as it went."""
    rehearsals, messages = FitCache(), history()
    first, again = (rehearsals.play(messages, inputs(), RENDERING) for _ in range(2))

    assert agree(first, again)
    assert first.events


def test_a_history_that_was_rewritten_is_played_anew() -> None:
    """A beginning that changed is not taken for the one that is known, nor is a shorter history."""
    rehearsals, messages = FitCache(), history()
    rehearsals.play(messages, inputs(), RENDERING)
    rewritten = (*history(1, "start over"), *messages[4:])

    assert agree(rehearsals.play(rewritten, inputs(), RENDERING), afresh(rewritten, inputs()))
    assert agree(rehearsals.play(messages[:9], inputs(), RENDERING), afresh(messages[:9], inputs()))


def test_another_situation_is_another_rehearsal() -> None:
    """The same messages at another window or with other stubs share nothing."""
    rehearsals, messages = FitCache(), history()
    rehearsals.play(messages, inputs(), RENDERING)
    wide, named = inputs(64_000), Rendering(recall=True)

    assert agree(rehearsals.play(messages, wide, RENDERING), afresh(messages, wide))
    assert agree(rehearsals.play(messages, inputs(), named), afresh(messages, inputs(), named))


def test_two_branches_of_one_beginning_do_not_mix() -> None:
    """B25: a history that goes on in two ways is two histories."""
    rehearsals, messages = FitCache(), history(6)
    rehearsals.play(messages, inputs(), RENDERING)
    left, right = (messages + numbered([user(said), replies(said)], prefix=said) for said in ("left", "right"))

    for branch in (left, right, left):
        assert agree(rehearsals.play(branch, inputs(), RENDERING), afresh(branch, inputs()))


def test_only_the_newest_are_kept() -> None:
    """What is remembered has a bound, and forgetting changes nothing."""
    rehearsals = FitCache(most=2)
    told = [history(2, said) for said in ("one", "two", "three")]
    for messages in told:
        rehearsals.play(messages, inputs(), RENDERING)

    assert len(rehearsals._known) == 2
    assert agree(rehearsals.play(told[0], inputs(), RENDERING), afresh(told[0], inputs()))


def shell(exit_code: int) -> list[Any]:
    """A Responses history in which a shell command ended with that code."""
    printed = [{"stdout": "", "stderr": "killed", "outcome": {"type": "exit", "exit_code": exit_code}}]
    return [
        {"type": "message", "role": "user", "content": "Run it."},
        {"type": "shell_call", "call_id": "a", "action": {"commands": ["make"]}},
        {"type": "shell_call_output", "call_id": "a", "output": printed},
    ]


def test_histories_with_equal_hashes_are_told_apart() -> None:
    """B29: Python hashes -1 and -2 alike; a history is taken for another only if it is equal, not if its hash is."""
    fit(shell(-1), window=8_192)
    messages = shell(-2)

    assert all(sent is given for sent, given in zip(fit(messages, window=8_192).messages, messages, strict=True))


def test_a_request_may_be_changed() -> None:
    """What a caller changes in the items that infold wrote does not show in the next request."""
    messages = trajectory(steps=60)
    first, second = (fit(messages, window=30_000) for _ in range(2))
    made = [item for item, source in zip(first.messages, first.sources, strict=True) if source is None]
    assert len(made) > 5
    for item in made:
        item.clear()

    assert fit(messages, window=30_000).messages == second.messages
