"""Which sessions a cap on size deletes."""

import pytest

from infold.stores.lifecycle import choose_surplus


@pytest.mark.parametrize(
    ("max_bytes", "gone"),
    [(60, []), (59, ["old"]), (30, ["old"]), (29, ["middle", "old"]), (9, ["new", "middle", "old"])],
)
def test_oldest_go_first(max_bytes: int, gone: list[str]) -> None:
    """B27: the newest sessions that fit under the cap stay, and all that are older than the first that does not, go."""
    assert choose_surplus([("new", 10), ("middle", 20), ("old", 30)], max_bytes) == gone


def test_age_alone_decides() -> None:
    """B27: a small old session does not outlive a large younger one."""
    assert choose_surplus([("new", 10), ("large", 50), ("small", 1)], 30) == ["large", "small"]
