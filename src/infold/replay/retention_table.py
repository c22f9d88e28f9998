"""What was kept, as rows: mean over sessions with a bootstrap interval, for each way of making room and each set of facts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from statistics import fmean

from msgspec import Struct

from infold.replay.facts_values import SETS, FactSet
from infold.replay.retention import CUTS, Measured, Scored

RESAMPLES, SEED = 1_000, 20_261
LAST = f"infold k={CUTS[-1]}"
FEWEST_FACTS = 5
QUERIES = ("origin 1", "origin 2", "use 1", "use 2")
RECALLED: tuple[FactSet, ...] = ("outcome", "later", "result-only")
"""The sets that recall is asked for."""


class Rate(Struct, frozen=True):
    """A share in per cent: the mean over sessions, where 95 % of resampled means lie, and how much it rests on."""

    mean: float
    low: float
    high: float
    facts: int
    sessions: int


class Line(Struct, frozen=True):
    """One way, over all sets it is measured on; what its text takes of the history, and its faults."""

    way: str
    rates: dict[str, Rate]
    share_of_history: float | None = None
    stale: int = 0
    invented: int = 0


class Summary(Struct, frozen=True):
    """The whole outcome: lines, and what they rest on."""

    points: int
    sessions: int
    history_tokens: int
    lines: tuple[Line, ...]


def summarise_measured(measured: Sequence[Measured]) -> Summary:
    """The lines of these points: every way by itself, recall by itself, and the last fold together with recall."""
    ways = dict.fromkeys(way for one in measured for way in one.tokens)
    lines = [_way(way, [one for one in measured if way in one.tokens]) for way in ways]
    lines += [_asked(f"recall: {query}", measured, _recalled_by(query)) for query in QUERIES]
    lines += [_asked(f"{LAST} or recall: {query}", measured, _kept_or_recalled_by(query)) for query in QUERIES]
    lines.append(_asked("in context or any recall", measured, lambda s: LAST in s.held or bool(s.recalled)))
    sessions = len({_session(one) for one in measured})
    return Summary(len(measured), sessions, sum(one.head_tokens for one in measured), tuple(lines))


def render(summary: Summary) -> str:
    """The lines as a table of plain text, a column for each set."""
    head = f"{'':34}" + "".join(f"{name:>22}" for name in SETS) + f"{'of history':>12}{'stale':>7}{'invented':>9}"
    rows = [
        f"{line.way:34}" + "".join(_cell(line.rates.get(name)) for name in SETS) + _faults(line)
        for line in summary.lines
    ]
    ground = (
        f"{summary.points} points in {summary.sessions} sessions, {summary.history_tokens:,} tokens of history folded"
    )
    note = "per cent of facts, mean over sessions [95 % of 1,000 resamples] (facts)"
    return "\n".join((ground, note, "", head, *rows)) + "\n"


def _way(way: str, measured: Sequence[Measured]) -> Line:
    return Line(
        way,
        _rates(measured, SETS, lambda scored: way in scored.held),
        round(sum(one.tokens[way] for one in measured) / sum(one.head_tokens for one in measured), 4),
        sum(way in scored.stale for one in measured for scored in one.facts),
        sum(len(one.invented.get(way, ())) for one in measured),
    )


def _asked(name: str, measured: Sequence[Measured], kept: Callable[[Scored], bool]) -> Line:
    return Line(name, _rates(measured, RECALLED, kept))


def _recalled_by(query: str) -> Callable[[Scored], bool]:
    return lambda scored: query in scored.recalled


def _kept_or_recalled_by(query: str) -> Callable[[Scored], bool]:
    return lambda scored: LAST in scored.held or query in scored.recalled


def _rates(measured: Sequence[Measured], sets: Iterable[FactSet], kept: Callable[[Scored], bool]) -> dict[str, Rate]:
    found = {name: _rate(measured, name, kept) for name in sets}
    return {name: rate for name, rate in found.items() if rate is not None}


def _rate(measured: Sequence[Measured], name: FactSet, kept: Callable[[Scored], bool]) -> Rate | None:
    by_session: dict[str, list[bool]] = {}
    for one in measured:
        verdicts = [kept(scored) for scored in one.facts if name in scored.fact.sets]
        if verdicts:
            by_session.setdefault(_session(one), []).extend(verdicts)
    if not by_session:
        return None
    shares = [100 * fmean(verdicts) for verdicts in _pooled(by_session.values())]
    low, high = _interval(shares)
    return Rate(round(fmean(shares), 1), low, high, sum(map(len, by_session.values())), len(by_session))


def _pooled(sessions: Iterable[list[bool]]) -> Iterator[list[bool]]:
    """Sessions by themselves; those with very few facts of a set together, as one or two facts make no share."""
    small: list[bool] = []
    for verdicts in sessions:
        if len(verdicts) < FEWEST_FACTS:
            small += verdicts
        else:
            yield verdicts
    if small:
        yield small


def _interval(shares: Sequence[float]) -> tuple[float, float]:
    """Where the middle 95 % of means over resampled sessions lie; the same resamples each time."""
    chance = Random(SEED)
    means = sorted(fmean(chance.choices(shares, k=len(shares))) for _ in range(RESAMPLES))
    return round(means[RESAMPLES * 25 // 1_000], 1), round(means[RESAMPLES * 975 // 1_000 - 1], 1)


def _session(one: Measured) -> str:
    return one.session.partition("@")[0]


def _cell(rate: Rate | None) -> str:
    return f"{'–':>22}" if rate is None else f"{f'{rate.mean} [{rate.low:.0f}–{rate.high:.0f}] ({rate.facts})':>22}"


def _faults(line: Line) -> str:
    if line.share_of_history is None:
        return ""
    return f"{100 * line.share_of_history:>11.1f}%{line.stale:>7}{line.invented:>9}"
