"""A replay as one self-contained HTML page: no scripts, fonts or images from elsewhere.

The page follows the reader's choice of light or dark and fits a phone. Everything from a transcript is escaped.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from msgspec import Struct

from infold.replay.outcome import CallOutcome, FileOutcome, PolicyOutcome, ReplayReport, Spend
from infold.replay.table import (
    by_window,
    calibration_rows,
    cheapest_safe,
    dollars,
    file_label,
    policy_cells,
    short,
    window_label,
)

WIDTH = 360

HEIGHT = 150


LEFT, RIGHT, TOP, BOTTOM = 34, 4, 16, 22

PARTS = ("read", "fresh", "output", "summary", "refetch")
"""The parts of the cost, in the order in which they are stacked."""

MOST_WINDOWS = 1.5
"""How far above the window a chart reaches, in windows; higher peaks are cut off and named in the caption."""

ROW = 34


class _Frame(Struct, frozen=True):
    """Positions of calls and tokens in a chart."""

    calls: int
    top_tokens: int

    def x(self, number: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * number / max(1, self.calls), 1)

    def y(self, tokens: float) -> float:
        share = min(1.0, tokens / max(1, self.top_tokens))
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share, 1)


class _Column(Struct, frozen=True):
    """The calls of one column of a chart from a number on: the largest request among them, and what happened in any."""

    number: int
    largest: CallOutcome
    compacted: bool
    broke: bool


def window_chart(outcome: PolicyOutcome, *, window_tokens: int, top_tokens: int) -> str:
    """Return a chart of each request's size: cached and fresh tokens, compactions and breaks of the prefix."""
    frame = _Frame(len(outcome.series), top_tokens)
    columns = _columns(outcome.series)
    limit = f'<path class="limit" d="M{LEFT} {frame.y(window_tokens)}H{WIDTH - RIGHT}"/>'
    label = f"{outcome.policy}: tokens sent at each of {outcome.calls} calls, peak {short(outcome.peak_tokens)}"
    inside = "".join(
        (
            *_axis(frame),
            _area("fresh", frame, [(column.number, column.largest.prompt_tokens) for column in columns]),
            _area("read", frame, [(column.number, column.largest.read_tokens) for column in columns]),
            limit if 0 < window_tokens <= top_tokens else "",
            *_marks(frame, columns),
            f'<text x="{LEFT}" y="10" class="name">{escape(outcome.policy)}</text>',
            f'<text x="{WIDTH - RIGHT}" y="10" class="end">{_caption(outcome)}</text>',
        )
    )
    return _svg(inside, HEIGHT, label)


def top_of(outcomes: Sequence[PolicyOutcome], window_tokens: int) -> int:
    """Return the tokens at the top of all charts of one window, so that they can be compared."""
    peak = max((outcome.peak_tokens for outcome in outcomes), default=0)
    return min(peak, int(window_tokens * MOST_WINDOWS)) if window_tokens else peak


def _columns(series: Sequence[CallOutcome]) -> list[_Column]:
    width = max(1, -(-len(series) // (WIDTH - LEFT - RIGHT)))
    groups = ((start, series[start : start + width]) for start in range(0, len(series), width))
    return [
        _Column(
            start,
            max(calls, key=lambda call: call.prompt_tokens),
            any(call.compactions for call in calls),
            any(call.breaks_prefix for call in calls),
        )
        for start, calls in groups
    ]


def _area(part: str, frame: _Frame, points: list[tuple[int, int]]) -> str:
    """Return a filled staircase: a request's size lasts until the next one."""
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


def _marks(frame: _Frame, columns: Sequence[_Column]) -> Iterator[str]:
    """Yield the marks below the axis: a triangle for a compaction, a short line for any other break of the prefix."""
    base = HEIGHT - BOTTOM + 2
    for column in columns:
        x = frame.x(column.number)
        if column.compacted:
            yield f'<path class="compacted" d="M{x} {base}l3 7h-6z"/>'
        elif column.broke:
            yield f'<path class="broke" d="M{x} {base}v6"/>'


def _caption(outcome: PolicyOutcome) -> str:
    over = f", {outcome.overruns} over" if outcome.overruns else ""
    return f"peak {short(outcome.peak_tokens)}{over} · {outcome.hit_ratio:.0%} cached"


def cost_chart(outcomes: Sequence[PolicyOutcome]) -> str:
    """Return a bar for each policy, stacked by the parts of the cost."""
    most = max((outcome.dollars_with_refetch for outcome in outcomes), default=0.0) or 1.0
    rows = "".join(_bar(number, outcome, most) for number, outcome in enumerate(outcomes))
    label = "; ".join(f"{outcome.policy} {dollars(outcome.dollars_with_refetch)} dollars" for outcome in outcomes)
    return _svg(rows, ROW * len(outcomes), f"cost by part: {label}")


def _bar(number: int, outcome: PolicyOutcome, most: float) -> str:
    top = ROW * number
    return (
        f'<text x="0" y="{top + 11}" class="name">{escape(outcome.policy)}</text>'
        f'<text x="{WIDTH}" y="{top + 11}" class="end">${dollars(outcome.dollars_with_refetch)}</text>'
        f"{''.join(_pieces(outcome.spend, top + 15, most))}"
    )


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


PART_NAMES = {
    "read": "input from the cache",
    "fresh": "fresh input",
    "output": "output",
    "summary": "summaries",
    "refetch": "fetched again",
}

HEADS = (
    *("cost", "no cache", "input", "hits", "peak", "mean"),
    *("compactions", "prunings", "breaks", "over", "pairs", "lost"),
)

CALIBRATION_HEADS = ("calls", "factor", "overhead", "input", "hits", "simulated", "cost", "simulated", "misses")

MOST_OPEN = 3
"""Files whose charts are expanded at first."""


def to_html(replay: ReplayReport) -> str:
    """Return the page."""
    body = "".join((*_opening(replay), *_totals(replay), *_calibration(replay), *_files(replay), *_closing(replay)))
    style = files("infold.replay").joinpath("report.css").read_text("utf-8")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<meta name="color-scheme" content="light dark">'
        f"<title>infold replay</title><style>\n{style}</style></head><body>{body}</body></html>\n"
    )


def _opening(replay: ReplayReport) -> Iterator[str]:
    sessions = [session for found in replay.replayed for session in found.sessions]
    calls = sum(session.calls for session in sessions)
    caching = "" if replay.plan.caching else ", without a prompt cache"
    yield "<h1>What each policy would have cost</h1>"
    yield (
        f"<p>{len(replay.replayed)} transcripts, {len(sessions)} sessions, {calls:,} recorded calls, "
        f"replayed with the requests each policy would have sent{caching}. "
        f"Prices of {escape(replay.prices_as_of)}, in dollars.</p>"
    )
    yield (
        '<p class="quiet">The recorded course does not change: this is what a policy would have paid for the same work, '
        "not how the work would have gone.</p>"
    )


def _totals(replay: ReplayReport) -> Iterator[str]:
    yield "<h2>In all</h2>"
    yield from _costs(replay.outcomes)
    yield (
        '<p class="quiet">In bold the cheapest policy without a fault. Faults are calls over the window, pairs of call and '
        "result that were parted, and calls in which the user's first words were lost. A break is a request that does "
        "not begin like the one before it; no cache is the cost if the provider had none.</p>"
    )


def _costs(outcomes: Sequence[PolicyOutcome]) -> Iterator[str]:
    """Yield a chart for each window, side by side, then the tables."""
    windows = tuple(by_window(outcomes))
    shown = [part for part in PARTS if any(getattr(outcome.spend, part) for outcome in outcomes)]
    if shown:
        yield _key((part, PART_NAMES[part]) for part in shown)
        yield '<div class="grid wide">'
        for window, rows in windows:
            caption = f"<figcaption>cost by part, window {window_label(window)}</figcaption>"
            yield f"<figure>{caption}{cost_chart(rows)}</figure>"
        yield "</div>"
    for window, rows in windows:
        best = cheapest_safe(rows) if any(outcome.dollars for outcome in rows) else ""
        yield f"<h3>window {window_label(window)}</h3>"
        yield _table(("policy", *HEADS), (_policy_row(outcome, is_best=outcome.policy == best) for outcome in rows))


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{head}</th>" for head in heads)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _policy_row(outcome: PolicyOutcome, *, is_best: bool) -> str:
    shown = (escape(outcome.policy), dollars(outcome.dollars_with_refetch), *policy_cells(outcome))
    cells = "".join(f"<td>{cell}</td>" for cell in shown)
    cells += "".join(f'<td class="fault">{fault:,}</td>' if fault else "<td>0</td>" for fault in outcome.faults)
    return f'<tr class="best">{cells}</tr>' if is_best else f"<tr>{cells}</tr>"


def _calibration(replay: ReplayReport) -> Iterator[str]:
    rows = calibration_rows(replay)
    if not rows:
        return
    lines = (f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    yield "<h2>How far to trust it</h2>"
    yield (
        "<p>The recorded run, simulated and compared with the usage its provider reported. Misses are calls that the cache "
        "should have served by time and content and did not; in brackets the error of the cost once they are known, as they "
        "are to every policy above.</p>"
    )
    yield _table(("session", *CALIBRATION_HEADS), lines)


def _files(replay: ReplayReport) -> Iterator[str]:
    yield "<h2>File by file</h2>"
    yield _key((("read", "served from the cache"), ("fresh", "fresh input"), ("compacted", "compaction")))
    yield (
        '<p class="quiet">Each picture shows the size of every request. The dashed line is the window; a triangle below '
        "marks a compaction, a short line any other change of the prefix.</p>"
    )
    for number, found in enumerate(replay.replayed):
        opened = " open" if number < MOST_OPEN else ""
        yield f'<details{opened}><summary class="file">{escape(file_label(found.path))}</summary>'
        yield from _file(found)
        yield "</details>"


def _file(found: FileOutcome) -> Iterator[str]:
    longest = found.longest
    assert longest is not None
    others = f", the longest of {len(found.sessions)} sessions" if len(found.sessions) > 1 else ""
    yield f'<p class="quiet">{escape(found.format)}, {escape(longest.model)}, {longest.calls:,} calls{others}</p>'
    for window, outcomes in by_window(longest.outcomes):
        top = top_of(outcomes, window)
        charts = (window_chart(outcome, window_tokens=window, top_tokens=top) for outcome in outcomes)
        yield f"<h3>each request, window {window_label(window)}</h3>"
        yield f'<div class="grid">{"".join(f"<figure>{chart}</figure>" for chart in charts)}</div>'
    yield "<h3>the whole file</h3>"
    yield from _costs(found.outcomes)
    for note in dict.fromkeys(note for session in found.sessions for note in session.notes):
        yield f'<p class="quiet">{escape(note)}</p>'


def _closing(replay: ReplayReport) -> Iterator[str]:
    if replay.broken:
        items = "".join(
            f"<li>{escape(file_label(found.path))}: {escape(found.problem)}</li>" for found in replay.broken
        )
        yield f"<h2>Skipped</h2><ul>{items}</ul>"


def _key(entries: Iterable[tuple[str, str]]) -> str:
    colour = {"compacted": "mark"}
    items = (f'<span><i style="background:var(--{colour.get(p, p)})"></i>{name}</span>' for p, name in entries)
    return f'<div class="key">{"".join(items)}</div>'
