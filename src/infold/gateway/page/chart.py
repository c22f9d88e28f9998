"""The window over time as shapes: areas by category, limits, and annotations below.

The chart is as wide as the page: areas stand in a box that is stretched, one unit wide for each request; text and symbols,
which must not be stretched, are placed by percent. Colours are CSS classes, since the page has a light and a dark theme.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count, groupby

from msgspec import Struct

from infold.reports.text import short_number
from infold.reports.timeline import Annotation, Timeline

PAGE_CATEGORIES = ("system", "tools", "summary", "user", "assistant", "reasoning", "results")
"""From the bottom of the chart to its top."""

CATEGORY_NAMES = {"results": "tool results"}

GROUPED_WITH = {"injected": "user", "calls": "assistant", "media": "user"}
"""Categories without a colour of their own on the page."""

HEIGHT = 1_000
"""Units from the bottom of the areas' box to its top."""

MOST_GRID_LINES = 4

HEADROOM = 1.08
"""Height of the chart relative to its highest value."""

MOST_LANES = 4
"""Rows of annotations below the chart; the last row takes what does not fit."""

LABEL_DISTANCE = 6.0
"""Percent of the height within which a grid line is left out next to a limit."""

FARTHEST_LIMIT = 2.5
"""How many times higher than any request a limit may be and still be drawn; beyond, everything else would be flat."""

LABEL_WIDTH = 12.0
"""Percent of the width that a limit must span to have room for its label."""


class Area(Struct, frozen=True):
    """One category, filled from the bottom up to its top; each covers those before it in the list."""

    category: str
    path: str


class GridLine(Struct, frozen=True):
    """A horizontal line: its distance from the top in percent, and its label."""

    down: float
    label: str


class LimitLine(Struct, frozen=True):
    """The limit of some requests: start, end and distance from the top in percent, and its label."""

    start: float
    end: float
    down: float
    label: str


class Symbol(Struct, frozen=True):
    """An annotation, its distance from the left in percent, and its row below the chart."""

    annotation: Annotation
    along: float
    lane: int


class Chart(Struct, frozen=True):
    """All shapes; limits far above the chart are not drawn, and `limit_is_above` if the current one is such."""

    columns: int
    areas: tuple[Area, ...]
    reported: str
    grid: tuple[GridLine, ...]
    limits: tuple[LimitLine, ...]
    symbols: tuple[Symbol, ...]
    limit_is_above: bool

    @property
    def lanes(self) -> int:
        """The number of rows of annotations below the chart."""
        return max((symbol.lane + 1 for symbol in self.symbols), default=0)


def group_contents(contents: Mapping[str, int]) -> dict[str, int]:
    """Return contents by the categories of the page, every one of them."""
    grouped = dict.fromkeys(PAGE_CATEGORIES, 0)
    for name, tokens in contents.items():
        grouped[GROUPED_WITH.get(name, name)] += tokens
    return grouped


def draw_chart(timeline: Timeline, limit_tokens: int | None) -> Chart:
    """Draw a timeline; its last column is the next request, which has the given limit.

    Each request has the limit that was recorded with it, since a session may change its model, or else the given one.
    """
    columns = [group_contents(contents) for contents in (*(point.contents for point in timeline.points), timeline.now)]
    reported = [point.reported_tokens for point in timeline.points]
    peak = max((*(sum(column.values()) for column in columns), *(tokens or 0 for tokens in reported), 1))
    known = [*(point.reply.window_tokens or limit_tokens or 0 for point in timeline.points), limit_tokens or 0]
    near = [tokens if tokens <= peak * FARTHEST_LIMIT else 0 for tokens in known]
    top = HEADROOM * max(peak, *near)
    limits = tuple(_limits(near, top))
    return Chart(
        columns=len(columns),
        areas=tuple(_areas(columns, top)),
        reported=_line(reported, top),
        grid=tuple(
            line for line in _grid(top) if all(abs(line.down - limit.down) > LABEL_DISTANCE for limit in limits)
        ),
        limits=limits,
        symbols=tuple(_symbols(timeline.annotations, timeline.first, len(columns))),
        limit_is_above=bool(limit_tokens) and not near[-1],
    )


def _areas(columns: Sequence[Mapping[str, int]], top: float) -> Iterator[Area]:
    """Yield the areas from the highest to the lowest; each reaches down to the bottom, so that no seam shows."""
    sums = [tuple(accumulate(column[name] for name in PAGE_CATEGORIES)) for column in columns]
    for place, name in reversed(tuple(enumerate(PAGE_CATEGORIES))):
        if any(column[name] for column in columns):
            yield Area(name, _stairs((column[place] for column in sums), top))


def _stairs(heights: Iterable[int], top: float) -> str:
    """Return a filled staircase: a request has its size for the whole width of its column."""
    steps = "".join(f"V{_up(tokens, top)}h1" for tokens in heights)
    return f"M0 {HEIGHT}{steps}V{HEIGHT}Z"


def _line(heights: Iterable[int | None], top: float) -> str:
    """Return an open staircase, interrupted at columns without a number."""
    pieces: list[str] = []
    is_drawing = False
    for column, tokens in enumerate(heights):
        if tokens is not None:
            pieces.append(f"V{_up(tokens, top)}h1" if is_drawing else f"M{column} {_up(tokens, top)}h1")
        is_drawing = tokens is not None
    return "".join(pieces)


def _limits(columns: Sequence[int], top: float) -> Iterator[LimitLine]:
    """Yield a line over each run of columns with the same limit, with a label if there is room for it."""
    start = 0
    for tokens, run in groupby(columns):
        end = start + len(list(run))
        if tokens:
            along, until = (round(100 * column / len(columns), 3) for column in (start, end))
            has_room = until - along >= LABEL_WIDTH or end == len(columns)
            yield LimitLine(along, until, _down(tokens, top), short_number(tokens) if has_room else "")
        start = end


def _grid(top: float) -> Iterator[GridLine]:
    """Yield lines at a few round numbers up to the top."""
    step = next(step for step in _round_numbers() if top / step <= MOST_GRID_LINES)
    return (GridLine(_down(tokens, top), short_number(tokens)) for tokens in range(step, int(top) + 1, step))


def _round_numbers() -> Iterator[int]:
    for power in count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)


def _symbols(annotations: Sequence[Annotation], first: int, columns: int) -> Iterator[Symbol]:
    """Place each annotation before its request; compactions have the first row, the others those below."""
    below = any(annotation.kind == "compaction" for annotation in annotations)
    taken: Counter[int] = Counter()
    for annotation in annotations:
        lane = 0
        if annotation.kind != "compaction":
            lane = min(below + taken[annotation.request], MOST_LANES - 1)
            taken[annotation.request] += 1
        yield Symbol(annotation, round(100 * (annotation.request - first) / columns, 3), lane)


def _up(tokens: int, top: float) -> int:
    return round(HEIGHT * (1 - tokens / top))


def _down(tokens: int, top: float) -> float:
    return round(100 * (1 - tokens / top), 2)
