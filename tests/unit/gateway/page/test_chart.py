"""The shapes of the chart."""

import re

from msgspec.structs import replace

from infold.core.entries import Checkpoint, Handle, Pruning, Rejection
from infold.core.messages import SessionId
from infold.core.tokens import estimate
from infold.gateway.page.chart import Chart, RequestLimit, draw_chart, group_contents
from infold.reports.timeline import build_timeline
from infold.session.report import CATEGORIES
from infold.testing.builders import calls, replies, result, user

from ...reports.stored_sessions import earlier_of, entries_of, reported  # noqa: TID252 - `tests` is no package to name


def drawn(*things: object, limit: int | None = None, window: int = 0) -> Chart:
    """The picture of a session; each request has the limit that is recorded with it, or else the given one."""
    entries = entries_of(*things)  # type: ignore[arg-type]  # messages and entries
    timeline = build_timeline(SessionId("s"), entries, earlier_of(entries))
    limits = [RequestLimit(point.reply.window_tokens or limit or 0, window) for point in timeline.points]
    return draw_chart(timeline, [*limits, RequestLimit(limit or 0, window)])


def heights(path: str) -> list[int]:
    """How far below the top each step of a staircase is."""
    return [int(found) for found in re.findall(r"V(\d+)h1", path)]


def test_categories_are_stacked() -> None:
    """Each area reaches from the bottom to the top of its category, the highest first; empty categories are left out."""
    picture = drawn(user("go " * 50), calls("bash"), result(500), replies("done"))

    assert picture.columns == 3
    assert [area.category for area in picture.areas] == ["results", "assistant", "user"]
    for higher, lower in zip(picture.areas, picture.areas[1:], strict=False):
        assert all(high <= low for high, low in zip(heights(higher.path), heights(lower.path), strict=True))
    assert all(area.path.startswith("M0 1000V") and area.path.endswith("V1000Z") for area in picture.areas)


def test_the_limit_is_drawn_where_it_is_near() -> None:
    """A limit that the views come near is a line; one far above is said in words, and an unknown one not at all."""
    said = user("word " * 4_000)
    near, far, unknown = (drawn(said, replies("x"), limit=limit) for limit in (9_000, 1_000_000, None))
    size = estimate("word " * 4_000, "features")

    [limit] = near.limits
    assert (limit.start, limit.end, limit.label) == (0, 100, "infold's limit 9k")
    assert 0 < limit.down < 100 * (1 - size / 9_000 / 1.1)
    assert (far.limits, far.limit_is_above) == ((), True)
    assert (unknown.limits, unknown.limit_is_above) == ((), False)
    assert drawn(said, limit=0).limits == ()


def test_each_request_has_the_limit_it_was_made_for() -> None:
    """A session that goes on with a smaller model was not over its limit before; where none was told, the newest holds."""
    said = user("word " * 4_000)
    large, small = (replace(replies("x"), window_tokens=tokens) for tokens in (9_000, 5_000))
    told = drawn(said, large, user(), large, user(), small, user(), large, *(user(), small) * 5, limit=5_000)
    untold = drawn(said, replies("x"), user(), small, limit=5_000)

    assert [(round(limit.start), round(limit.end), limit.label) for limit in told.limits] == [
        (0, 20, "infold's limit 9k"),
        (20, 30, ""),
        (30, 40, ""),
        (40, 100, "infold's limit 5k"),
    ]
    assert told.limits[0].down < told.limits[1].down
    assert [(limit.start, limit.end) for limit in untold.limits] == [(0, 100)]
    assert [limit.end for limit in drawn(said, large, limit=400_000).limits] == [50]
    assert drawn(said, large, limit=400_000).limit_is_above


def test_lines_stand_at_round_numbers() -> None:
    """A few lines help to read the picture; they have their labels at its side, so that none covers an area."""
    plain, limited = (drawn(user("word " * 4_000), limit=limit) for limit in (None, 6_000))

    assert [rule.label for rule in plain.grid] == ["1k", "2k", "3k"]
    assert [rule.label for rule in limited.grid] == ["2k", "4k", "6k"]


def test_infolds_limit_and_the_models_window_are_two_lines() -> None:
    """Each has its name and its number; where they are close together, one label at the higher line names both."""
    apart, close, same = (
        drawn(user("word " * 4_000), limit=limit, window=window)
        for limit, window in ((6_800, 8_000), (8_000, 8_100), (8_000, 8_000))
    )

    assert [(line.kind, line.label) for line in apart.limits] == [
        ("usable", "infold's limit 6.8k"),
        ("window", "model's window 8k"),
    ]
    assert apart.limits[1].down < apart.limits[0].down
    assert [line.label for line in close.limits] == ["", "infold's limit 8k, model's window 8.1k"]
    assert [line.kind for line in same.limits] == ["usable"]


def test_a_window_far_above_is_left_out() -> None:
    """Where infold works in a small part of a large window, its own limit is drawn and the window is not."""
    [line] = drawn(user("word " * 4_000), limit=6_000, window=1_000_000).limits

    assert line.kind == "usable"


def test_reported_usage_is_a_line_with_gaps() -> None:
    """Where a reply reported nothing the line is broken and begins anew."""
    told = drawn(
        *(user(), reported(replies("a"), 900), user(), reported(replies("b"), 950), user(), replies("c")),
        *(user(), reported(replies("d"), 990)),
    )

    assert re.fullmatch(r"M0 \d+h1V\d+h1M3 \d+h1", told.reported)
    assert drawn(user(), replies("a")).reported == ""


def test_symbols_stand_before_the_request_they_changed() -> None:
    """A symbol is at the left edge of the next request's column; compactions have a row of their own."""
    picture = drawn(
        *(user("a"), calls("t"), result(90), Pruning((Handle("2.0"),), 90), replies("b")),
        *(user("c"), replies("d"), Checkpoint("x", first_kept=5)),
    )
    pruning, compaction = picture.symbols

    assert (pruning.annotation.kind, pruning.along, pruning.lane) == ("pruning", 25.0, 1)
    assert (compaction.annotation.kind, compaction.along, compaction.lane) == ("compaction", 75.0, 0)
    assert picture.lanes == 2
    assert [placed.lane for placed in drawn(user("a"), *(Rejection(9) for _ in range(5))).symbols] == [0, 1, 2, 3, 3]
    assert drawn(user("a"), Checkpoint("x")).symbols[0].along == 0
    assert drawn(user("a")).lanes == 0


def test_an_empty_session_has_a_picture() -> None:
    """Nothing is divided by nothing."""
    picture = draw_chart(build_timeline(SessionId("s"), (), earlier_of([])), [RequestLimit()])

    assert (picture.columns, picture.areas, picture.symbols) == (1, (), ())


def test_every_category_has_a_place_on_the_page() -> None:
    """Injected text and media are drawn with the user's words, calls with the model's."""
    contents = {"system": 1, "user": 2, "injected": 4, "media": 8, "assistant": 16, "calls": 32}

    assert {name: tokens for name, tokens in group_contents(contents).items() if tokens} == {
        "system": 1,
        "user": 14,
        "assistant": 48,
    }
    assert sum(group_contents(dict.fromkeys(CATEGORIES, 1)).values()) == len(CATEGORIES)
