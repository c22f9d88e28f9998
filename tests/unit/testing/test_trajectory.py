"""The seeded sessions have the shape and size that benchmarks and the demo rely on."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from splintr import Tokenizer
from tests.support.coding_session import AGENTS_TEXT, RULES, SYSTEM_TEXT, coding_session
from tests.support.trajectory import TRAJECTORY_RULE, trajectory

from infold.core.messages import UserMessage, calls_of, results_of, text_of
from infold.core.tokens import estimate_tokens
from infold.testing.script import count_tokens


@pytest.mark.slow
def test_the_trajectory_has_223_000_tokens() -> None:
    """150 steps are 223,000 o200k tokens of content, names and arguments, give or take two in a hundred."""
    tokenizer = Tokenizer.from_pretrained("o200k_base")
    total = sum(len(tokenizer.encode(text)) for message in trajectory() for text in texts(message))

    assert abs(total - 223_000) <= 0.02 * 223_000


def test_the_trajectory_has_333_messages_in_six_turns() -> None:
    """There is one opening message, and a user turn after every thirty steps; none is a system message."""
    roles = [message["role"] for message in trajectory()]

    assert len(roles) == 333
    assert roles.count("user") == 6
    assert "system" not in roles


def test_the_opening_message_lays_down_a_rule() -> None:
    """The rule that a strategy may lose stands in the first user message."""
    assert TRAJECTORY_RULE in trajectory()[0]["content"]


def test_every_seventh_step_makes_two_calls() -> None:
    """Parallel calls stand in one message and are answered in order, by id."""
    messages = trajectory()
    made = [[call["id"] for call in message.get("tool_calls", ())] for message in messages if "tool_calls" in message]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]

    assert [len(ids) for ids in made[:8]] == [2, 1, 1, 1, 1, 1, 1, 2]
    assert answered == [call_id for ids in made for call_id in ids]
    assert answered[:3] == ["call_0", "call_1", "call_2"]


def test_tool_results_have_300_to_12_000_characters() -> None:
    """Every result's length is within the stated span."""
    lengths = [len(message["content"]) for message in trajectory() if message["role"] == "tool"]

    assert min(lengths) >= 300
    assert max(lengths) <= 12_000


def test_arguments_are_json_text() -> None:
    """A call's arguments are a string that holds a JSON object, as the chat interface has it."""
    for message in trajectory(steps=20):
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_equal_seeds_give_equal_sessions() -> None:
    """The seed is the only source of chance."""
    assert trajectory(steps=10, seed=3) == trajectory(steps=10, seed=3)
    assert trajectory(steps=10, seed=3) != trajectory(steps=10, seed=4)
    assert coding_session(turns=2) == coding_session(turns=2)


def test_the_coding_session_is_as_large_as_a_real_one() -> None:
    """It has 300,000 to 400,000 tokens; most results are small and the largest has some 50,000."""
    session = coding_session()
    results = sorted(count_tokens((message,)) for message in session if results_of(message))

    assert 300_000 <= count_tokens(session) <= 400_000
    assert results[len(results) // 2] < 2_000
    assert 45_000 <= results[-1] <= 55_000


def test_a_scaled_down_session_takes_the_same_course() -> None:
    """The same tools are called in the same order; only the sizes differ."""
    large, small = coding_session(), coding_session(largest_result_tokens=500)

    assert [call.tool for message in large for call in calls_of(message)] == [
        call.tool for message in small for call in calls_of(message)
    ]
    assert max(count_tokens((message,)) for message in small if results_of(message)) < 700


def test_each_rule_is_said_by_the_user() -> None:
    """Every rule stands word for word in what the user says."""
    said = "\n".join(text_of(message) for message in coding_session() if isinstance(message, UserMessage))

    assert all(rule in said for rule in RULES)


def test_a_failing_test_is_fixed_and_lint_is_not() -> None:
    """`pytest` fails and passes later; `make lint` fails and is not run again."""
    statuses: dict[str, list[int | None]] = {}
    commands: dict[str, str] = {}
    for message in coding_session():
        commands |= {call.call_id: json.loads(call.arguments).get("command", "") for call in calls_of(message)}
        for result in results_of(message):
            statuses.setdefault(commands[result.call_id], []).append(result.exit_status)

    assert statuses["pytest -q"][:2] == [1, 0]
    assert statuses["make lint"] == [1]


def test_the_overhead_is_of_real_size() -> None:
    """The system prompt has about 2,000 tokens, AGENTS.md 1,000 to 5,000."""
    assert 1_800 <= estimate_tokens(SYSTEM_TEXT) <= 2_200
    assert 1_000 <= estimate_tokens(AGENTS_TEXT) <= 5_000


def texts(message: Mapping[str, Any]) -> list[str]:
    """All a tokeniser sees of a chat message."""
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return [message["content"], *(text for function in functions for text in (function["name"], function["arguments"]))]
