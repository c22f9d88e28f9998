"""Numbers and times as a person reads them."""

import pytest

from infold.dashboard.figures import ago, dollars, moment, percent, plural, seconds, short, size


@pytest.mark.parametrize(
    ("number", "told"),
    [
        *((0, "0"), (980, "980"), (4_240, "4.2k"), (9_949, "9.9k"), (61_499, "61k"), (999_499, "999k")),
        *((999_500, "1.00M"), (1_050_000, "1.05M"), (12_400_000, "12M")),
    ],
)
def test_counts_are_short(number: int, told: str) -> None:
    """A count has about three figures."""
    assert short(number) == told


def test_prices_are_finer_the_smaller() -> None:
    """Cents matter at a dollar, hundredths of a cent at a summary; what is not known is a dash."""
    assert [dollars(cost) for cost in (1_234.5, 0.952, 0.0042, 0.0)] == ["$1,234.50", "$0.952", "$0.0042", "–"]
    assert [dollars(cost) for cost in (0.0001, 0.00003)] == ["$0.0001", "< $0.0001"]


def test_sizes_shares_and_durations() -> None:
    """Each has its unit, and a dash where it is not known."""
    assert [size(count) for count in (12, 52_400, 1_240_000)] == ["12 B", "52 kB", "1.2 MB"]
    assert [percent(share) for share in (0.944, None)] == ["94%", "–"]
    assert [seconds(duration) for duration in (2_940, 0)] == ["2.9 s", "–"]
    assert [plural(count, "part") for count in (0, 1, 2_000)] == ["0 parts", "1 part", "2,000 parts"]


@pytest.mark.parametrize(
    ("passed", "told"),
    [
        *((3, "just now"), (150, "2 min ago"), (7_300, "2 h ago"), (86_400, "1 day ago"), (200_000, "2 days ago")),
        (90 * 86_400, "2026-06-23"),
    ],
)
def test_times_are_told_by_how_long_ago(passed: int, told: str) -> None:
    """Minutes, hours, days; after a month the date."""
    now = 1_790_000_000_000

    assert ago(now - passed * 1_000, now) == told


def test_unknown_times_are_dashes() -> None:
    """What nobody wrote down is not made up."""
    assert (ago(None, 5), moment(None), moment(0)) == ("–", "–", "1970-01-01 00:00 UTC")
