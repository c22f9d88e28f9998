"""The window over time as shapes: areas by category, limits, and annotations below.

The chart is as wide as the page: areas stand in a box that is stretched, one unit wide for each request; text and symbols,
which must not be stretched, are placed by percent. Colours are CSS classes, since the page has a light and a dark theme.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count, groupby
from typing import Literal, TypeAlias

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

MOST_GRID_LINES = 5

HEADROOM = 1.08
"""Height of the chart relative to its highest value."""

MOST_LANES = 4
"""Rows of annotations below the chart; the last row takes what does not fit."""

LABEL_DISTANCE = 7.0
"""Percent of the height that two limits must be apart for a label each."""

FARTHEST_LIMIT = 2.5
"""How many times higher than any request a limit may be and still be drawn; beyond, everything else would be flat."""

LABEL_WIDTH = 18.0
"""Percent of the width that a limit must span to have room for its label."""


LimitKind: TypeAlias = Literal["usable", "window"]

LIMIT_NAMES: dict[LimitKind, str] = {"usable": "infold's limit", "window": "model's window"}


class RequestLimit(Struct, frozen=True):
    """How much of its window a request may fill, and the whole window; 0 if that is not known."""

    usable_tokens: int = 0
    window_tokens: int = 0

    def tokens(self, kind: LimitKind) -> int:
        """Return one of both."""
        return self.usable_tokens if kind == "usable" else self.window_tokens


class Area(Struct, frozen=True):
    """One category, filled from the bottom up to its top; each covers those before it in the list."""

    category: str
    path: str


class GridLine(Struct, frozen=True):
    """A horizontal line: its distance from the top in percent, and its label."""

    down: float
    label: str


class LimitLine(Struct, frozen=True):
    """A limit of some requests: start, end and distance from the top in percent, and its label.

    `usable` is the part of the window that infold fills, `window` the model's own.
    """

    kind: LimitKind
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
    """All shapes; limits far above the chart are not drawn, and `limit_is_above` if infold's current one is such."""

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


def draw_chart(timeline: Timeline, limits: Sequence[RequestLimit]) -> Chart:
    """Draw a timeline; its last column is the next request. `limits` has one for each column, that one included."""
    columns = [group_contents(contents) for contents in (*(point.contents for point in timeline.points), timeline.now)]
    reported = [point.reported_tokens for point in timeline.points]
    peak = max((*(sum(column.values()) for column in columns), *(tokens or 0 for tokens in reported), 1))
    near = [
        RequestLimit(
            *(tokens if tokens <= peak * FARTHEST_LIMIT else 0 for tokens in (limit.usable_tokens, limit.window_tokens))
        )
        for limit in limits
    ]
    top = HEADROOM * max(peak, *(tokens for limit in near for tokens in (limit.usable_tokens, limit.window_tokens)))
    return Chart(
        columns=len(columns),
        areas=tuple(_areas(columns, top)),
        reported=_line(reported, top),
        grid=tuple(_grid(top)),
        limits=tuple(_limits(near, top)),
        symbols=tuple(_symbols(timeline.annotations, timeline.first, len(columns))),
        limit_is_above=limits[-1].usable_tokens > 0 and not near[-1].usable_tokens,
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


def _limits(columns: Sequence[RequestLimit], top: float) -> Iterator[LimitLine]:
    """Yield lines over each run of columns with the same limits, with labels if there is room for them."""
    start = 0
    for limit, run in groupby(columns):
        end = start + len(list(run))
        along, until = (round(100 * column / len(columns), 3) for column in (start, end))
        has_room = until - along >= LABEL_WIDTH or end == len(columns)
        for kind, label in _limit_labels(limit, top).items():
            yield LimitLine(kind, along, until, _down(limit.tokens(kind), top), label if has_room else "")
        start = end


def _limit_labels(limit: RequestLimit, top: float) -> dict[LimitKind, str]:
    """Return the limits to draw and their labels; two that are close together have one label, at the higher line."""
    drawn: list[LimitKind] = ["usable"] if limit.usable_tokens else []
    if limit.window_tokens > limit.usable_tokens:
        drawn.append("window")
    labels = {kind: f"{LIMIT_NAMES[kind]} {short_number(limit.tokens(kind))}" for kind in drawn}
    if len(drawn) == 2 and 100 * (limit.window_tokens - limit.usable_tokens) / top < LABEL_DISTANCE:
        labels = {"usable": "", "window": f"{labels['usable']}, {labels['window']}"}
    return labels


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
