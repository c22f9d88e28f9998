"""Pictures as SVG text."""

from xml.etree import ElementTree as ET

from infold.replay.html import cost_chart, top_of, window_chart
from infold.replay.outcome import CallOutcome, PolicyOutcome, Spend

SERIES = (CallOutcome(50, 0, 5), CallOutcome(80, 50, 5), CallOutcome(30, 10, 5, 1, 0, breaks_prefix=True))
FOUND = PolicyOutcome("<in & fold>", 60, calls=3, peak_tokens=80, series=SERIES, spend=Spend(1, 2, 3, 0, 4))


def drawn(text: str) -> dict[str, int]:
    """How often each class of element is in a picture; a picture that is no XML is an error."""
    found: dict[str, int] = {}
    for element in ET.fromstring(text).iter():
        name = element.get("class", "")
        found[name] = found.get(name, 0) + 1
    return found


def test_window_picture_shows_areas_limit_and_compactions() -> None:
    """What was read and what was fresh, the window, and a mark at each compaction; names are escaped."""
    classes = drawn(window_chart(FOUND, window_tokens=60, top_tokens=90))

    assert (classes["read"], classes["fresh"], classes["limit"], classes["compacted"]) == (1, 1, 1, 1)
    assert "broke" not in classes


def test_other_breaks_are_marked_too() -> None:
    """A prefix that broke without a compaction has its own mark; a window beyond the picture has no line."""
    broken = PolicyOutcome("x", 60, calls=1, series=(CallOutcome(5, 0, 0, 0, 1, breaks_prefix=True),))
    classes = drawn(window_chart(broken, window_tokens=600, top_tokens=90))

    assert classes["broke"] == 1
    assert "limit" not in classes


def test_long_session_is_drawn_in_as_many_columns_as_there_are() -> None:
    """Thousands of calls make a picture no larger than the columns it has, and no compaction gets lost."""
    series = tuple(CallOutcome(number, 0, 0, int(number == 777)) for number in range(5_000))
    text = window_chart(PolicyOutcome("x", 9, calls=5_000, series=series), window_tokens=0, top_tokens=5_000)

    assert len(text) < 15_000
    assert drawn(text)["compacted"] == 1


def test_cost_picture_has_a_piece_for_each_part_that_cost_something() -> None:
    """Parts without a cost have no piece; a policy without any cost has none at all."""
    classes = drawn(cost_chart([FOUND, PolicyOutcome("free", 60)]))

    assert [classes[part] for part in ("read", "fresh", "output", "refetch")] == [1, 1, 1, 1]
    assert "summary" not in classes
    assert drawn(cost_chart([]))


def test_pictures_of_one_window_reach_equally_high() -> None:
    """High enough for the highest peak, but not so that the window is lost below it."""
    assert top_of([FOUND], 1_000) == 80
    assert top_of([FOUND], 40) == 60
    assert top_of([FOUND], 0) == 80
    assert drawn(window_chart(PolicyOutcome("none", 0), window_tokens=0, top_tokens=0))
