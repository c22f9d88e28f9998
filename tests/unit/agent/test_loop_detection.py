"""Loop detection: steps that repeat."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.agent.loop import LONGEST_PERIOD, REPEATS, find_repeat_period, step_records
from infold.core.messages import AssistantMessage, Message, MessageId, ToolCallPart, ToolMessage, ToolResultPart
from infold.testing.builders import calls, numbered, replies, result, user


@pytest.mark.parametrize(
    ("letters", "period"),
    [
        ("", 0),
        ("aa", 0),
        ("aaa", 1),
        ("xyaaa", 1),
        ("aaax", 0),
        ("ababa", 0),
        ("ababab", 2),
        ("abcabcabc", 3),
        ("xabcdabcdabcd", 4),
        ("abcdeabcdeabcde", 0),
        ("abcabdabc", 0),
    ],
)
def test_repeated_steps_are_found(letters: str, period: int) -> None:
    """One to four steps that are taken three times at the end are a loop."""
    assert find_repeat_period(letters) == period


@settings(deadline=None)
@given(st.text("abc", max_size=20))
def test_a_period_is_the_shortest_one(letters: str) -> None:
    """If a period is returned, the newest steps repeat with it and with no shorter one."""
    period = find_repeat_period(letters)
    periods = [of for of in range(1, LONGEST_PERIOD + 1) if letters.endswith(letters[-of:] * REPEATS) and letters]

    assert period == (periods[0] if periods else 0)


def again(output: str = "same", arguments: str = '{"a": 1, "b": 2}') -> list[Message]:
    """Return a step with one call and its result."""
    return [calls("shell", arguments=arguments), result(output=output)]


def test_steps_are_compared_by_meaning() -> None:
    """D14: the same call in another spelling, with the same result, is the same step, whatever text is around it."""
    steps = [*again(), *again(arguments='{ "b":2,"a":1 }'), replies("hm"), user("careful", synthetic=True), *again()]

    assert find_repeat_period(step_records(numbered([user("go"), *steps]))) == 1


def test_polling_is_not_a_loop() -> None:
    """A call whose result changes makes progress."""
    steps = [message for number in range(9) for message in again(f"{number} of 9 done")]

    assert find_repeat_period(step_records(numbered([user("go"), *steps]))) == 0


def test_other_arguments_are_another_step() -> None:
    """The same tool with other arguments is not a loop, even if the arguments are broken."""
    steps = [message for number in range(9) for message in again("ok", f'{{"n": {number}')]

    assert find_repeat_period(step_records(numbered([user("go"), *steps]))) == 0
    assert find_repeat_period(step_records(numbered([user("go"), *(again("no", "{broken") * 3)]))) == 1


def test_a_user_message_starts_over() -> None:
    """Steps before the last user message do not count: the user may want them again."""
    messages = numbered([user("go"), *again(), *again(), user("once more"), *again()])

    assert len(step_records(messages)) == 1


def test_parallel_calls_are_one_step() -> None:
    """Parallel calls are one step, so three of them are not a loop; it counts once all have a result."""
    parts = tuple(ToolCallPart(f"c{number}", "read", "{}") for number in range(3))
    step = AssistantMessage(MessageId("m"), parts)
    answers = [
        ToolMessage(MessageId(f"t{part.call_id}"), (ToolResultPart(part.call_id, "read", "x"),)) for part in parts
    ]

    assert len(step_records([step, *answers])) == 1
    assert step_records([step, *answers[:2]]) == ()
