"""Which of a provider's reports can be true."""

import pytest

from infold.core.budget import LEAST_ESTIMATED, is_plausible_count, is_plausible_usage
from infold.core.messages import Usage
from infold.core.tokens import SMALLEST_FACTOR, Calibration, Size

ALL = Calibration(1.0, 1.0, 1.0)
SENT = Size(prose=1_000, material=8_000, wide=1_000)


@pytest.mark.parametrize(
    ("reported", "can"), [(0, False), (5_799, False), (5_800, True), (10_000, True), (90_000, True)]
)
def test_text_has_a_least_count(reported: int, can: bool) -> None:
    """I13: below six tenths of the estimate, four tenths outside ASCII, no vocabulary counts the same text."""
    assert is_plausible_count(reported, SENT, LEAST_ESTIMATED) is can


def test_frames_reasoning_and_media_may_be_left_out() -> None:
    """I13: a provider that counts the text alone is believed."""
    loose = Size(prose=5_000, material=5_000, loose=9_000)

    assert is_plausible_count(1_000, loose, ALL)
    assert not is_plausible_count(999, loose, ALL)
    assert is_plausible_count(0, Size(wide=100, loose=400), LEAST_ESTIMATED)


@pytest.mark.parametrize(
    ("usage", "believed"),
    [
        (Usage(input=500, output=40, cache_read=9_000, cache_write=500), True),
        (Usage(input=500, output=9_500), False),
        (Usage(total=10_050, output=30, reasoning=20), True),
        (Usage(input=500, output=50, total=10_050), True),
        (Usage(input=500, output=9_500, total=10_000), False),
        (Usage(input=500, output=50, cleared=9_500), True),
    ],
    ids=["cache told", "output is no input", "total alone", "cache in the total alone", "cache nowhere", "cleared"],
)
def test_what_was_sent_is_read_from_all_that_is_told(usage: Usage, believed: bool) -> None:
    """S1.3, I13: what was read from the cache was sent too, wherever it is told; what was answered was not."""
    assert is_plausible_usage(usage, SENT, Size(prose=40), ALL) is believed


def test_the_answer_counts_too() -> None:
    """I13: a report without what was answered says little of the window in which the answer now stands."""
    answered = Size(prose=5_000)

    assert is_plausible_usage(Usage(input=10_000, output=5_000), SENT, answered, ALL)
    assert not is_plausible_usage(Usage(input=10_000, output=20), SENT, answered, ALL)


def test_the_least_is_no_less_than_any_vocabulary_has() -> None:
    """B15: a report that is believed can be learned from."""
    assert LEAST_ESTIMATED.wide >= SMALLEST_FACTOR
    assert LEAST_ESTIMATED.prose == LEAST_ESTIMATED.material > 0.5
