"""The demo's checks see what is wrong with a request, whoever made it."""

from typing import Any

import pytest

from infold.cli.demo_checks import Count, faults_of, pairs_are_whole, read
from infold.cli.demo_scene import Scene, item_of, scene_for
from infold.cli.demo_session import RULES
from infold.core.messages import UserMessage
from infold.core.policy import INFOLD

SCENE = scene_for(8_000, INFOLD)
FIRST = item_of(SCENE.history[0])
CALL = {"type": "tool_use", "id": "c1", "name": "bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}


def faults(*items: dict[str, Any], end: int = 1, scene: Scene = SCENE) -> list[str]:
    """What is found wrong with a request of these items."""
    return list(faults_of(items, Count(scene.system).request(read(items), ""), scene, end))


def test_a_sound_request_has_no_fault() -> None:
    """The first message alone, and a whole pair after it, are as they should be."""
    assert faults(FIRST) == []
    assert faults(FIRST, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}) == []


def test_a_request_over_the_limit_is_told_with_both_numbers() -> None:
    """B8: the count is the request's own, the limit the policy's."""
    [fault] = faults(FIRST, {"role": "user", "content": "word " * 9_000})

    assert "over the limit of 6,800" in fault


@pytest.mark.parametrize("items", [[{"role": "assistant", "content": [CALL]}], [{"role": "user", "content": [RESULT]}]])
def test_half_a_pair_is_told(items: list[dict[str, Any]]) -> None:
    """B12: a call without its result, or a result without its call, is what a provider refuses."""
    assert any("refuse" in fault for fault in faults(FIRST, *items))


def test_what_the_user_laid_down_is_looked_for() -> None:
    """B2: the first request and every rule said so far must be there word for word."""
    told = faults({"role": "user", "content": "Hello."}, end=len(SCENE.history))

    assert "the user's first request is missing" in told
    assert [f"a rule is missing: {rule}" for rule in RULES] == [fault for fault in told if "rule" in fault]
    assert faults(FIRST, end=1) == []


def test_a_call_must_be_answered_at_once() -> None:
    """B12: what stands between a call and its result breaks the pair."""
    items = (
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": "wait"},
        {"role": "user", "content": [RESULT]},
    )

    assert not pairs_are_whole(read(items))
    assert pairs_are_whole(read((items[0], items[2])))


def test_a_summary_is_counted_apart() -> None:
    """The text that stands for what was folded has a category of its own, wherever it stands."""
    count = Count("")
    tokens = count.request(
        read([{"role": "user", "content": [{"type": "text", "text": "all that was"}]}]), "all that was"
    )

    assert tokens["summary"] > 0
    assert tokens["system"] == 0


def test_messages_are_counted_without_what_is_sent_beside_them() -> None:
    """A system prompt is in a request's count and in no message's."""
    persons = [message for message in SCENE.history[:40] if isinstance(message, UserMessage)]
    count = Count(SCENE.system)

    assert 0 < count.messages(persons) < count.request(persons, "")["system"]
