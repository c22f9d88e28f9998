"""Values of the wrong kind, and the conversions formats share."""

from typing import Any

import pytest

from infold.core.messages import ModelRef, TextPart, Usage
from infold.transcripts.values import (
    dig,
    exit_code,
    finish_of,
    integer,
    json_text,
    model_ref,
    openai_usage,
    string,
    time_ms,
    user_parts,
)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-01-05T10:00:00Z", 1767607200000),
        ("2026-01-05T10:00:00", 1767607200000),
        (1767607200, 1767607200000),
        (1767607200.5, 1767607200500),
        (1767607200000, 1767607200000),
        ("yesterday", None),
        (None, None),
        (-1, None),
        (True, None),
    ],
)
def test_moments_are_read_in_milliseconds(moment: Any, expected: int | None) -> None:
    """ISO text, seconds and milliseconds are told apart; anything else is no moment."""
    assert time_ms(moment) == expected


@pytest.mark.parametrize("wrong", [None, [], {}, True, float("nan"), float("inf"), 10**400, -5])
def test_a_wrong_number_is_zero(wrong: Any) -> None:
    """Whatever stands where a count should be, a count comes out."""
    assert integer(wrong) == 0


def test_an_exit_status_is_a_small_number() -> None:
    """Truth values and absurd numbers are no exit status."""
    assert [exit_code(value) for value in (0, -9, True, 2**40, "1")] == [0, -9, None, None, None]


def test_digging_in_what_is_not_there_gives_nothing() -> None:
    """No path through the wrong values raises."""
    assert dig({"a": [1]}, "a", "b", "c") is None
    assert string({"a": 1}) == ""


def test_arguments_are_json_text() -> None:
    """Text is kept as the model wrote it, objects are encoded, nothing is an empty object."""
    assert [json_text(value) for value in ('{"a":', {"a": 1}, None)] == ['{"a":', '{"a":1}', "{}"]


def test_models_are_told_with_their_provider() -> None:
    """A stated provider counts, then the one in the name, then the maker of the name."""
    assert model_ref("gpt-5", "azure") == ModelRef("azure", "gpt-5")
    assert model_ref("openrouter/x/y") == ModelRef("openrouter", "x/y")
    assert model_ref("claude-opus-4-6") == ModelRef("anthropic", "claude-opus-4-6")
    assert model_ref(None) is None


def test_openai_usage_is_taken_apart() -> None:
    """The cache leaves the input and reasoning leaves the output."""
    usage = openai_usage(
        {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 80},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 20},
        }
    )

    assert usage == Usage(input=20, output=10, reasoning=20, cache_read=80)


def test_reasons_to_finish_are_in_our_words() -> None:
    """Known reasons are translated, unknown ones are other, silence is nothing."""
    assert [finish_of(value) for value in ("toolUse", "end_turn", "cosmic ray", "", None)] == [
        "tool-calls",
        "stop",
        "other",
        None,
        None,
    ]


def test_user_text_is_searched_for_what_a_harness_wrote() -> None:
    """Reminders are split off; text known to be a program's is marked whole."""
    parts = user_parts("Hello\n<system-reminder>x</system-reminder>")

    assert [part.synthetic for part in parts] == [False, True]
    assert user_parts("Hello", synthetic=True) == (TextPart("Hello", synthetic=True),)
