"""What belongs together is added up."""

import pytest

from infold.core.messages import Overhead, Usage

ONE = Usage(100, 20, 5, 300, 40, 465)


@pytest.mark.parametrize(
    ("other", "both"),
    [
        (None, ONE),
        (Usage(), Usage(100, 20, 5, 300, 40)),
        (Usage(1, 2, 3, 4, 5), Usage(101, 22, 8, 304, 45)),
        (Usage(1, 2, 3, 4, 5, 15), Usage(101, 22, 8, 304, 45, 480)),
        (Usage(cleared=7, compaction=Usage(9)), Usage(100, 20, 5, 300, 40, cleared=7, compaction=Usage(9))),
    ],
)
def test_usages_are_added_by_kind(other: Usage | None, both: Usage) -> None:
    """S1.3: each kind by itself; a provider's own sum only where both have one."""
    assert ONE.plus(other) == both


def test_compactions_by_the_provider_are_added() -> None:
    """S1.3: what a provider used to compact is a sum of its own."""
    one, other = Usage(compaction=Usage(9, 1)), Usage(compaction=Usage(2))

    assert one.plus(other).compaction == Usage(11, 1)
    assert one.plus(Usage(5)).compaction == Usage(9, 1)


def test_overhead_is_what_is_sent_beside() -> None:
    """B8: the system prompt and the tools together."""
    assert Overhead(300, 1_200).tokens == 1_500
