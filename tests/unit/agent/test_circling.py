"""Models that go round in a circle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.agent.loop import LONGEST_PERIOD, REPEATS, StepRecord, find_repeat_period, step_records
from infold.core.messages import AssistantMessage, Message, MessageId, ToolCallPart, ToolMessage, ToolResultPart
from infold.testing.builders import calls, numbered, replies, result, user


def deeds(letters: str) -> list[StepRecord]:
    """A deed for each letter."""
    return [StepRecord(letter, "{}", "") for letter in letters]


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
def test_circles_are_seen(letters: str, period: int) -> None:
    """One to four deeds that come round three times at the end are a circle."""
    assert find_repeat_period(deeds(letters)) == period


@settings(deadline=None)
@given(st.text("abc", max_size=20))
def test_a_circle_is_what_it_is_called(letters: str) -> None:
    """Where a period is given the end repeats with it, and no shorter one does."""
    period = find_repeat_period(deeds(letters))
    circles = [of for of in range(1, LONGEST_PERIOD + 1) if letters.endswith(letters[-of:] * REPEATS) and letters]

    assert period == (circles[0] if circles else 0)


def again(output: str = "same", arguments: str = '{"a": 1, "b": 2}') -> list[Message]:
    """A step with one call, and its answer."""
    return [calls("shell", arguments=arguments), result(output=output)]


def test_deeds_come_from_messages() -> None:
    """D14: the same call in another spelling, with the same answer, is the same deed, whatever else was said."""
    steps = [*again(), *again(arguments='{ "b":2,"a":1 }'), replies("hm"), user("careful", synthetic=True), *again()]

    assert find_repeat_period(step_records(numbered([user("go"), *steps]))) == 1


def test_polling_is_no_circle() -> None:
    """A call whose answer changes gets somewhere."""
    steps = [message for number in range(9) for message in again(f"{number} of 9 done")]

    assert find_repeat_period(step_records(numbered([user("go"), *steps]))) == 0


def test_other_arguments_are_another_deed() -> None:
    """The same tool with something else to do is no circle, also where arguments are broken."""
    steps = [message for number in range(9) for message in again("ok", f'{{"n": {number}')]

    assert find_repeat_period(step_records(numbered([user("go"), *steps]))) == 0
    assert find_repeat_period(step_records(numbered([user("go"), *(again("no", "{broken") * 3)]))) == 1


def test_a_person_begins_anew() -> None:
    """What was done before a person spoke last does not count: they may want it once more."""
    messages = numbered([user("go"), *again(), *again(), user("once more"), *again()])

    assert len(step_records(messages)) == 1


def test_a_step_is_one_deed() -> None:
    """Calls made at once are one deed, so three of them are no circle; the step counts once they are all answered."""
    parts = tuple(ToolCallPart(f"c{number}", "read", "{}") for number in range(3))
    step = AssistantMessage(MessageId("m"), parts)
    answers = [
        ToolMessage(MessageId(f"t{part.call_id}"), (ToolResultPart(part.call_id, "read", "x"),)) for part in parts
    ]

    assert len(step_records([step, *answers])) == 1
    assert step_records([step, *answers[:2]]) == ()
