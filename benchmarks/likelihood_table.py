"""Compare views of folded sessions by what a model gave to what really happened next.

A difference is paired: both views at the same cuts, summed over all tokens, with bounds from drawing sessions with replacement.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

INFOLD, TAIL, FULL = "infold", "tail", "full"
"""Names of views: the fold of the default policy, and the two between which shares are counted."""

DECOY = "~decoy"
"""Ending of the ids of continuations from elsewhere in the session: gain there is form and copying, not memory."""

CLASSES = ("text", "calls", "facts")
"""What is scored, marked by 1, 2 and 3: prose, calls without facts, and facts; in tables facts are part of the calls too."""

JOINED, JOINED_IDS = "joined dialogues, apart", ("tau-bench/", "tau2-bench/")
"""Short dialogues recorded one after the other and joined: their past helps little by its nature."""

DRAWS = 1_000
TOGETHER = "prose and calls together"


class Score(Struct, frozen=True):
    """What a model gave what happened next after one view: sums of -log p and numbers of tokens by class."""

    id: str
    system: str
    context: int
    nll: tuple[float, float, float]
    n: tuple[int, int, int]
    fits: bool = True


class Estimate(Struct, frozen=True):
    """A value, and the bounds of 95 % of what it is for sessions drawn at random from these."""

    value: float
    low: float
    high: float


class Row(Struct, frozen=True):
    """One view: cuts at which it has the size, its mean tokens, and by class bits per token and the share of what the full
    history gains over the tail alone, in per cent."""

    view: str
    cuts: int
    tokens: float
    bits: dict[str, float]
    share: dict[str, Estimate]


class Difference(Struct, frozen=True):
    """Bits per token of a view less those of another one, at the cuts where both have the size."""

    view: str
    against: str
    cuts: int
    bits: dict[str, Estimate]


class Group(Struct, frozen=True):
    """The rows of one kind of sessions, after one kind of continuation."""

    name: str
    cuts: int
    sessions: int
    rows: list[Row]
    differences: list[Difference]


Scores: TypeAlias = Mapping[str, Mapping[str, Score]]
"""Scores by cut, and by view."""


def read_scores(paths: Iterable[Path]) -> list[Score]:
    """Return the scores of several files."""
    return [score for path in paths for score in msgspec.json.decode(path.read_bytes(), type=list[Score])]


def compare(scores: Iterable[Score], against: Sequence[str]) -> list[Group]:
    """Return the groups of a table from all scores; views that have another size than asked for are left out."""
    groups = defaultdict[str, dict[str, dict[str, Score]]](dict)
    for score in scores:
        kind = JOINED if score.id.startswith(JOINED_IDS) else "sessions"
        what = "what happened elsewhere in the session (decoys)" if score.id.endswith(DECOY) else "what happened next"
        if score.fits:
            groups[f"{kind}: {what}"].setdefault(score.id, {})[score.system] = score
    return [_group(name, cuts, against) for name, cuts in sorted(groups.items(), reverse=True)]


def _group(name: str, cuts: Scores, against: Sequence[str]) -> Group:
    known = list(dict.fromkeys(view for found in cuts.values() for view in found))
    views = [*(view for view in (FULL, TAIL) if view in known), *sorted({*known} - {FULL, TAIL})]
    rows = [_row(view, chosen) for view in views if (chosen := _with(cuts, view, TAIL, FULL))]
    pairs = [(view, base) for base in against for view in views if view not in (base, FULL)]
    differences = [_difference(*pair, chosen) for pair in pairs if (chosen := _with(cuts, *pair))]
    return Group(name, len(cuts), len({_session_of(cut) for cut in cuts}), rows, differences)


def _with(cuts: Scores, *views: str) -> Scores:
    return {cut: found for cut, found in cuts.items() if all(view in found for view in views)}


def _session_of(cut: str) -> str:
    return cut.rpartition("@")[0]


def _row(view: str, cuts: Scores) -> Row:
    tokens = sum(found[view].context for found in cuts.values()) / len(cuts)
    bits: dict[str, float] = {}
    share: dict[str, Estimate] = {}
    for number, name in enumerate(CLASSES):
        tallies = {
            cut: [by_class(found[view].n)[number], *(by_class(found[one].nll)[number] for one in (view, TAIL, FULL))]
            for cut, found in cuts.items()
        }
        count, nats, *_ = _added(tallies.values())
        bits[name] = per_token(nats, count)
        share[name] = resample(tallies, _share)
    return Row(view, len(cuts), tokens, bits, share)


def _share(tally: Sequence[float]) -> float:
    _, view, tail, full = tally
    return 100 * (tail - view) / (tail - full) if tail != full else 0.0


def _difference(view: str, base: str, cuts: Scores) -> Difference:
    tallies: dict[str, list[float]] = {}
    for cut, found in cuts.items():
        pairs = zip(by_class(found[view].nll), by_class(found[base].nll), strict=True)
        tallies[cut] = [*by_class(found[view].n), *(mine - other for mine, other in pairs)]
    bits = {name: resample(tallies, partial(_difference_of, number)) for number, name in enumerate(CLASSES)}
    bits[TOGETHER] = resample(tallies, lambda tally: _difference_of(0, tally) + _difference_of(1, tally))
    return Difference(view, base, len(cuts), bits)


def _difference_of(number: int, tally: Sequence[float]) -> float:
    return per_token(tally[len(CLASSES) + number], tally[number])


def by_class(marked: Sequence[float]) -> list[float]:
    """Return figures of prose, calls and facts, with facts as part of the calls."""
    text, calls, facts = marked
    return [text, calls + facts, facts]


def per_token(nats: float, count: float) -> float:
    """Return bits per token."""
    return nats / max(1, count) / math.log(2)


def resample(
    tallies: Mapping[str, Sequence[float]], value_of: Callable[[Sequence[float]], float], *, draws: int = DRAWS
) -> Estimate:
    """Return a value of the summed tallies of all cuts, with its bounds for sessions drawn with replacement."""
    sums = defaultdict[str, list[float]](list)
    for cut, tally in tallies.items():
        session = _session_of(cut)
        sums[session] = [a + b for a, b in zip(sums[session] or [0.0] * len(tally), tally, strict=True)]
    sessions, chance = list(sums.values()), random.Random(7)
    values = sorted(value_of(_added(chance.choices(sessions, k=len(sessions)))) for _ in range(draws))
    return Estimate(value_of(_added(sessions)), values[int(0.025 * draws)], values[int(0.975 * draws)])


def _added(tallies: Iterable[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*tallies, strict=True)]


def render_table(groups: Iterable[Group]) -> str:
    """Return the groups as plain text."""
    lines = [
        "bits per token; in brackets the share of what the full history gains over the tail alone, per cent",
        f"[95 % of {DRAWS:,} resamples of sessions]; facts are part of the calls; differences at the cuts that both views have",
    ]
    for group in groups:
        lines += ["", f"{group.name}: {group.cuts} cuts of {group.sessions} sessions"]
        width = max((len(row.view) for row in group.rows), default=0)
        for row in group.rows:
            figures = (
                f"{name} {row.bits[name]:.3f} ({found.value:.0f} [{found.low:.0f}, {found.high:.0f}])"
                for name, found in row.share.items()
            )
            lines.append(f"{row.view:{width}} {row.cuts:4} cuts {row.tokens:7,.0f} tokens  {'  '.join(figures)}")
        for one in group.differences:
            figures = (f"{name} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]" for name, e in one.bits.items())
            lines.append(f"  {one.view} minus {one.against}, {one.cuts} cuts: {', '.join(figures)}")
    return "\n".join(lines) + "\n"
