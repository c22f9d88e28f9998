"""Pictures of a replay as SVG text: the window over time under one policy, and the cost by part.

Drawn in a coordinate system as wide as a phone, so that text stays legible there; a page lays them out side by side where it
has room. Colours are classes, so that the page decides about light and dark.
"""

from collections.abc import Iterator, Sequence
from html import escape

from msgspec import Struct

from infold.replay.outcome import CallOutcome, Outcome, Spend
from infold.replay.table import dollars, short

WIDTH = 360
HEIGHT = 150
LEFT, RIGHT, TOP, BOTTOM = 34, 4, 16, 22
PARTS = ("read", "fresh", "output", "summary", "refetch")
"""The parts of the cost, in the order in which they are stacked."""

MOST_WINDOWS = 1.5
"""How far above the window a picture reaches; what goes beyond is cut off and its peak told in words."""

ROW = 34


class _Frame(Struct, frozen=True):
    """Where a call and a number of tokens stand in the picture."""

    calls: int
    top_tokens: int

    def x(self, number: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * number / max(1, self.calls), 1)

    def y(self, tokens: float) -> float:
        share = min(1.0, tokens / max(1, self.top_tokens))
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share, 1)


class _Column(Struct, frozen=True):
    """Some calls that share a column of the picture: the largest request among them, and what happened in any."""

    number: int
    prompt_tokens: int
    read_tokens: int
    compacted: bool
    pruned: bool
    broke: bool


def window_chart(outcome: Outcome, *, window_tokens: int, top_tokens: int) -> str:
    """Each request's size over the calls: what the cache served, what was fresh, where it compacted or broke the prefix."""
    frame = _Frame(len(outcome.series), top_tokens)
    columns = _columns(outcome.series)
    label = f"{outcome.policy}: tokens sent at each of {outcome.calls} calls, peak {short(outcome.peak_tokens)}"
    inside = "".join(
        (
            *_axis(frame),
            _area("fresh", frame, [(c.number, c.prompt_tokens) for c in columns]),
            _area("read", frame, [(c.number, c.read_tokens) for c in columns]),
            *_limit(frame, window_tokens),
            *_marks(frame, columns),
            f'<text x="{LEFT}" y="10" class="name">{escape(outcome.policy)}</text>',
            f'<text x="{WIDTH - RIGHT}" y="10" class="end">{_caption(outcome)}</text>',
        )
    )
    return _svg(inside, HEIGHT, label)


def top_of(outcomes: Sequence[Outcome], window_tokens: int) -> int:
    """How many tokens the pictures of one window reach up to, so that they can be compared."""
    peak = max((outcome.peak_tokens for outcome in outcomes), default=0)
    return min(peak, int(window_tokens * MOST_WINDOWS)) if window_tokens else peak


def _columns(series: Sequence[CallOutcome]) -> list[_Column]:
    width = max(1, -(-len(series) // (WIDTH - LEFT - RIGHT)))
    return [_column(start, series[start : start + width]) for start in range(0, len(series), width)]


def _column(number: int, calls: Sequence[CallOutcome]) -> _Column:
    largest = max(calls, key=lambda call: call.prompt_tokens)
    return _Column(
        number,
        largest.prompt_tokens,
        largest.read_tokens,
        any(call.compactions for call in calls),
        any(call.prunings for call in calls),
        any(call.breaks_prefix for call in calls),
    )


def _area(part: str, frame: _Frame, points: list[tuple[int, int]]) -> str:
    """A filled staircase: a request has its size until the next one."""
    if not points:
        return ""
    path = [f"M{frame.x(points[0][0])} {frame.y(0)}"]
    for number, tokens in points:
        path.append(f"H{frame.x(number)}V{frame.y(tokens)}")
    path.append(f"H{frame.x(frame.calls)}V{frame.y(0)}Z")
    return f'<path class="{part}" d="{"".join(path)}"/>'


def _axis(frame: _Frame) -> Iterator[str]:
    for share in (0, 0.5, 1):
        tokens = int(frame.top_tokens * share)
        y = frame.y(tokens)
        yield f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 3}" y="{y + 3}" class="end">{short(tokens)}</text>'
    yield f'<text x="{LEFT}" y="{HEIGHT - 2}">1</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" class="end">{frame.calls} calls</text>'


def _limit(frame: _Frame, window_tokens: int) -> Iterator[str]:
    if 0 < window_tokens <= frame.top_tokens:
        yield f'<path class="limit" d="M{LEFT} {frame.y(window_tokens)}H{WIDTH - RIGHT}"/>'


def _marks(frame: _Frame, columns: Sequence[_Column]) -> Iterator[str]:
    """Below the axis: a triangle for each compaction, a short line for any other break of the prefix."""
    base = HEIGHT - BOTTOM + 2
    for column in columns:
        x = frame.x(column.number)
        if column.compacted:
            yield f'<path class="compacted" d="M{x} {base}l3 7h-6z"/>'
        elif column.broke:
            yield f'<path class="broke" d="M{x} {base}v6"/>'


def _caption(outcome: Outcome) -> str:
    over = f", {outcome.overruns} over" if outcome.overruns else ""
    return f"peak {short(outcome.peak_tokens)}{over} · {outcome.hit_ratio:.0%} cached"


def cost_chart(outcomes: Sequence[Outcome]) -> str:
    """A bar for each policy, stacked by what the money went to."""
    most = max((outcome.dollars_with_refetch for outcome in outcomes), default=0.0) or 1.0
    rows = "".join(_bar(number, outcome, most) for number, outcome in enumerate(outcomes))
    label = "; ".join(f"{outcome.policy} {dollars(outcome.dollars_with_refetch)} dollars" for outcome in outcomes)
    return _svg(rows, ROW * len(outcomes), f"cost by part: {label}")


def _bar(number: int, outcome: Outcome, most: float) -> str:
    top = ROW * number
    texts = (
        f'<text x="0" y="{top + 11}" class="name">{escape(outcome.policy)}</text>'
        f'<text x="{WIDTH}" y="{top + 11}" class="end">${dollars(outcome.dollars_with_refetch)}</text>'
    )
    return texts + "".join(_pieces(outcome.spend, top + 15, most))


def _pieces(spend: Spend, top: int, most: float) -> Iterator[str]:
    left = 0.0
    for part in PARTS:
        width = WIDTH * getattr(spend, part) / most
        if width >= 0.05:
            title = f"<title>{part} ${dollars(getattr(spend, part))}</title>"
            yield f'<rect class="{part}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="12">{title}</rect>'
        left += width


def _svg(inside: str, height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'
