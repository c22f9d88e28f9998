"""What a request asks for in reply, and how much of the window that takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.budget import NOTHING_ASKED, AskedOutput, Window, budget_for
from infold.core.policy import INFOLD, PRESETS, preset

DOCUMENTS = sorted(set(PRESETS) - {"infold"})


def usable(window: int, asked: AskedOutput, overhead: int = 0, name: str = "infold") -> int:
    """What may be filled beside the reply that is asked for."""
    policy = preset(name)
    return budget_for(asked.narrow(Window(window), policy, overhead), policy).limit_tokens


@pytest.mark.parametrize(
    ("window", "asked", "expected"),
    [
        (60_000, 32_000, 51_000),
        (80_000, 32_000, 68_000),
        (48_000, 32_000, 40_800),
        (60_000, 4_000, 51_000),
        (60_000, 0, 51_000),
        (200_000, 128_000, 170_000),
        (1_000_000, 128_000, 872_000),
        (32_000, 32_000, 27_200),
        (12_000, 4_000, 8_000),
        (16_000, 32_000, 11_904),
        (0, 32_000, 0),
    ],
)
def test_the_reply_takes_a_share_of_the_window(window: int, asked: int, expected: int) -> None:
    """B8: whatever is asked for, 15 % of the window is reserved, or the least that may be asked for where that is more."""
    assert usable(window, AskedOutput(asked)) == expected


@pytest.mark.parametrize(
    ("window", "asked", "overhead", "expected"),
    [
        (60_000, AskedOutput(32_000, 16_000), 5_000, 42_976),
        (60_000, AskedOutput(32_000, 16_000), 34_000, 51_000),
        (60_000, AskedOutput(32_000, 31_999), 29_500, 51_000),
        (8_000, AskedOutput(8_000), 3_500, 6_800),
        (60_000, AskedOutput(32_000), 50_000, 51_000),
    ],
)
def test_thinking_takes_no_room_that_the_prompt_needs(
    window: int, asked: AskedOutput, overhead: int, expected: int
) -> None:
    """B8: room is kept for thinking and an answer, unless system prompt and tools then leave no conversation."""
    assert usable(window, asked, overhead) == expected


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize(("window", "asked"), [(60_000, 32_000), (100_000, 4_000), (200_000, 64_000)])
def test_a_documents_preset_keeps_its_own_reserve(name: str, window: int, asked: int) -> None:
    """S1.0: a document's preset leaves room for all that is asked for, as before, besides its own reserve."""
    whole, policy = Window(window), preset(name)
    narrowed = AskedOutput(asked).narrow(whole, policy, overhead_tokens=9_000)

    assert narrowed == Window(window, input_tokens=window - asked)
    assert AskedOutput(asked).narrow(whole, policy, overhead_tokens=window - asked) == whole
    assert AskedOutput(window).narrow(whole, policy, overhead_tokens=0) == whole
    assert NOTHING_ASKED.narrow(whole, policy, overhead_tokens=0) == whole


@pytest.mark.parametrize(
    ("window", "prompt", "asked", "expected"),
    [
        (60_000, 28_000, AskedOutput(32_000), 32_000),
        (60_000, 28_001, AskedOutput(32_000), 31_399),
        (60_000, 51_000, AskedOutput(32_000), 8_400),
        (60_000, 58_000, AskedOutput(32_000), 4_096),
        (60_000, 58_000, AskedOutput(3_000), 3_000),
        (60_000, 51_000, AskedOutput(32_000, 10_000), 11_024),
        (60_000, 51_000, AskedOutput(32_000, 31_999), 32_000),
        (0, 51_000, AskedOutput(32_000), 32_000),
    ],
)
def test_output_is_lowered_only_where_both_do_not_fit(
    window: int, prompt: int, asked: AskedOutput, expected: int
) -> None:
    """B8: less is asked for only if prompt and output exceed the window, never below 4,096 or thinking and an answer."""
    assert asked.fitting(window, expected_tokens=prompt, most_tokens=prompt) == expected


def test_a_lowered_output_fits_the_largest_count() -> None:
    """B8: the expected count decides whether to lower; how far is decided by the most that the prompt can be."""
    asked = AskedOutput(32_000)

    assert asked.fitting(60_000, expected_tokens=28_000, most_tokens=31_000) == 32_000
    assert asked.fitting(60_000, expected_tokens=40_000, most_tokens=43_000) == 16_400


@given(st.integers(1, 2_000_000), st.integers(0, 2_000_000), st.integers(0, 200_000), st.integers(0, 300_000))
def test_a_large_output_never_takes_the_window(window: int, asked: int, thinking: int, overhead: int) -> None:
    """B8: what a request asks for leaves at least the room that nothing asked leaves, or enough for a conversation."""
    output = AskedOutput(asked, thinking)
    left = output.narrow(Window(window), INFOLD, overhead).limit_tokens

    assert left >= min(int(window * 0.85), overhead + int(window * 0.15))
    sent = output.fitting(window, expected_tokens=left, most_tokens=left)
    assert output.least_tokens <= sent <= asked
    assert sent == asked or left + sent <= window or sent == output.least_tokens
