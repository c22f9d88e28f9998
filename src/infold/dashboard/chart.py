"""The window over time as shapes: where each band, line and mark of the picture stands.

The picture is as wide as the page: areas stand in a box that is stretched, one unit wide for each request, and everything that
must not be stretched, words and marks, is placed by percent. Colours are classes, so that the page decides about light and dark.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count, groupby

from msgspec import Struct

from infold.dashboard.bands import BANDS, Band, Filling
from infold.dashboard.figures import short
from infold.dashboard.marks import Mark
from infold.dashboard.timeline import Timeline

TALL = 1_000
"""Units from the bottom of the areas' box to its top."""

FEW_LINES = 4
"""Most lines across the picture, the limit not counted."""

HEADROOM = 1.08
"""How far above the highest thing the picture goes on."""

MOST_LANES = 4
"""Lines of marks below the picture; what would need more stands on the last."""

APART = 6.0
"""Percent of the picture's height within which a line gives way to the limit."""

FAR = 2.5
"""How many times higher than anything sent a limit may be and still be drawn; beyond, everything else would be flat."""


ROOM = 12.0
"""Percent of the picture's width that a limit must hold for to have room for its words."""


class Area(Struct, frozen=True):
    """One band, filled from the bottom up to its top; those before it in the list are covered by those after."""

    band: Band
    path: str


class Rule(Struct, frozen=True):
    """A line across the picture: how far down it is, in percent, and what stands beside it."""

    down: float
    words: str


class Limit(Struct, frozen=True):
    """A limit as a line over the requests that it held for: from where to where and how far down, in percent, and its words."""

    start: float
    end: float
    down: float
    words: str


class PlacedMark(Struct, frozen=True):
    """A mark, how far to the right it stands, in percent, and on which line below the picture."""

    mark: Mark
    along: float
    lane: int


class Chart(Struct, frozen=True):
    """All shapes of the picture.

    `limits` are drawn where they are known and not far above the picture; `limit_is_above`: the one that holds now is.
    """

    columns: int
    areas: tuple[Area, ...]
    reported: str
    rules: tuple[Rule, ...]
    limits: tuple[Limit, ...]
    marks: tuple[PlacedMark, ...]
    limit_is_above: bool

    @property
    def lanes(self) -> int:
        """How many lines of marks there are below the picture."""
        return max((placed.lane + 1 for placed in self.marks), default=0)


def chart(timeline: Timeline, limit_tokens: int | None) -> Chart:
    """The picture of a timeline; its last column is the view as it would be sent next, for which the limit given holds.

    A request has the limit that it was made for, since a session may go on with another model; untold, it has the one given.
    """
    fillings = [*(point.filling for point in timeline.points), timeline.now]
    reported = [point.reported_tokens for point in timeline.points]
    peak = max((*(filling.tokens for filling in fillings), *(tokens or 0 for tokens in reported), 1))
    known = [*(point.window_tokens or limit_tokens or 0 for point in timeline.points), limit_tokens or 0]
    near = [tokens if tokens <= peak * FAR else 0 for tokens in known]
    top = HEADROOM * max(peak, *near)
    limits = tuple(_limits(near, top))
    return Chart(
        columns=len(fillings),
        areas=tuple(_areas(fillings, top)),
        reported=_line(reported, top),
        rules=tuple(rule for rule in _rules(top) if all(abs(rule.down - limit.down) > APART for limit in limits)),
        limits=limits,
        marks=tuple(_placed(timeline.marks, timeline.first, len(fillings))),
        limit_is_above=bool(limit_tokens) and not near[-1],
    )


def _areas(fillings: Sequence[Filling], top: float) -> Iterator[Area]:
    """From the highest to the lowest; each reaches down to the bottom, so that no seam shows between two."""
    sums = [tuple(accumulate(filling.of(band) for band in BANDS)) for filling in fillings]
    for place, band in reversed(tuple(enumerate(BANDS))):
        if any(filling.of(band) for filling in fillings):
            yield Area(band, _stairs((column[place] for column in sums), top))


def _stairs(heights: Iterable[int], top: float) -> str:
    """A filled staircase: a request has its size for the whole width of its column."""
    steps = "".join(f"V{_up(tokens, top)}h1" for tokens in heights)
    return f"M0 {TALL}{steps}V{TALL}Z"


def _line(heights: Iterable[int | None], top: float) -> str:
    """A staircase without a filling, which begins anew after a column without a number."""
    pieces: list[str] = []
    is_drawing = False
    for column, tokens in enumerate(heights):
        if tokens is not None:
            pieces.append(f"V{_up(tokens, top)}h1" if is_drawing else f"M{column} {_up(tokens, top)}h1")
        is_drawing = tokens is not None
    return "".join(pieces)


def _limits(columns: Sequence[int], top: float) -> Iterator[Limit]:
    """A line over each row of columns that have one limit; words where there is room for them."""
    start = 0
    for tokens, held in groupby(columns):
        end = start + len(list(held))
        if tokens:
            along, until = (round(100 * column / len(columns), 3) for column in (start, end))
            has_room = until - along >= ROOM or end == len(columns)
            yield Limit(along, until, _down(tokens, top), short(tokens) if has_room else "")
        start = end


def _rules(top: float) -> Iterator[Rule]:
    """Lines at a few round numbers up to the top."""
    step = next(step for step in _round_numbers() if top / step <= FEW_LINES)
    return (Rule(_down(tokens, top), short(tokens)) for tokens in range(step, int(top) + 1, step))


def _round_numbers() -> Iterator[int]:
    for power in count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)


def _placed(marks: Sequence[Mark], first: int, columns: int) -> Iterator[PlacedMark]:
    """Each mark before its request; compactions on a line of their own, others below as far as there is room for all."""
    below = any(mark.kind == "compaction" for mark in marks)
    taken: Counter[int] = Counter()
    for mark in marks:
        lane = 0
        if mark.kind != "compaction":
            lane = min(below + taken[mark.request], MOST_LANES - 1)
            taken[mark.request] += 1
        yield PlacedMark(mark, round(100 * (mark.request - first) / columns, 3), lane)


def _up(tokens: int, top: float) -> int:
    return round(TALL * (1 - tokens / top))


def _down(tokens: int, top: float) -> float:
    return round(100 * (1 - tokens / top), 2)
