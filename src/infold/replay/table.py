"""A replay as tables for a terminal and as JSON; decides nothing."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import PurePath
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from infold.replay.outcome import Calibration, FileOutcome, Outcome, Replay, SessionOutcome
from infold.reports.text import short_number

MOST_CALIBRATED = 40
"""Sessions shown in the calibration table; a file of two hundred dialogues is summed up in JSON."""

MARK = {True: "*", False: ""}


def tables(replay: Replay, *, plain: bool = False) -> RenderableType:
    """Everything worth seeing in a terminal: calibration, each window, and each file where there are several."""
    priced = any(session.priced for found in replay.replayed for session in found.sessions)
    parts: list[RenderableType] = []
    if replay.replayed:
        parts.append(_calibration_table(replay, plain=plain))
        parts += [_policy_table(window, rows, plain, priced=priced) for window, rows in _by_window(replay.outcomes)]
    if len(replay.replayed) > 1:
        parts += [_file_table(replay, window, plain) for window, _ in _by_window(replay.outcomes)]
    parts += [Text(note) for note in _notes(replay)]
    parts += [Text(f"skipped {broken.path}: {broken.problem}", style="red") for broken in replay.broken]
    return Group(*parts)


def to_json(replay: Replay) -> bytes:
    """The whole replay, with sums and ratios worked out; the same replay always gives the same bytes."""
    document = {
        "plan": replay.plan,
        "prices_as_of": replay.prices_as_of,
        "series_fields": (
            *("prompt_tokens", "read_tokens", "output_tokens"),
            *("compactions", "prunings", "breaks_prefix", "over_window"),
        ),
        "totals": [_with_ratios(outcome) for outcome in replay.outcomes],
        "files": [_file_json(found) if isinstance(found, FileOutcome) else found for found in replay.files],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _file_json(found: FileOutcome) -> dict[str, Any]:
    return {
        "state": "replayed",
        "path": found.path,
        "format": found.format,
        "totals": [_with_ratios(outcome) for outcome in found.outcomes],
        "sessions": [_session_json(session) for session in found.sessions],
    }


def _session_json(session: SessionOutcome) -> dict[str, Any]:
    told = msgspec.structs.asdict(session)
    return {**told, "outcomes": [_with_ratios(outcome) for outcome in session.outcomes]}


def _with_ratios(outcome: Outcome) -> dict[str, Any]:
    ratios = {
        "dollars": outcome.dollars,
        "dollars_with_refetch": outcome.dollars_with_refetch,
        "hit_ratio": outcome.hit_ratio,
        "mean_tokens": outcome.mean_tokens,
    }
    told = {**msgspec.structs.asdict(outcome), **ratios}
    return told if outcome.series else {name: value for name, value in told.items() if name != "series"}


def _by_window(outcomes: Iterable[Outcome]) -> Iterator[tuple[int, list[Outcome]]]:
    for window, rows in groupby(outcomes, key=lambda outcome: outcome.window_tokens):
        yield window, list(rows)


def cheapest_safe(outcomes: Iterable[Outcome]) -> str:
    """The policy that costs least of those with no call over the window, no broken pair, and the opening always there."""
    safe = [found for found in outcomes if not (found.overruns or found.broken_pairs or found.without_opening)]
    return min(safe, key=lambda outcome: outcome.dollars_with_refetch).policy if safe else ""


def _policy_table(window: int, rows: list[Outcome], plain: bool, *, priced: bool) -> Table:
    table = _table(f"window {window_label(window)}", plain)
    table.add_column("policy", no_wrap=True)
    refetched = any(outcome.refetch_tokens for outcome in rows)
    heads = ("cost", *(("+ refetch",) if refetched else ()), "uncached", "input", "hits", "peak", "mean")
    for head in (*heads, "folds", "prunes", "breaks", "over", "pairs", "lost"):
        table.add_column(head, justify="right", no_wrap=True)
    best = cheapest_safe(rows)
    for outcome in rows:
        mark = MARK[outcome.policy == best and priced]
        refetch = (dollars(outcome.dollars_with_refetch),) if refetched else ()
        table.add_row(
            f"{outcome.policy}{mark}",
            dollars(outcome.dollars),
            *refetch,
            dollars(outcome.uncached_dollars),
            short_number(outcome.input_tokens),
            f"{outcome.hit_ratio:.1%}",
            short_number(outcome.peak_tokens),
            short_number(outcome.mean_tokens),
            *_counts(outcome),
            style="bold" if mark else "",
        )
    return table


def _counts(outcome: Outcome) -> Iterator[str]:
    yield from (f"{count:,}" for count in (outcome.compactions, outcome.prunings, outcome.prefix_breaks))
    yield from (f"{count:,}" for count in (outcome.overruns, outcome.broken_pairs, outcome.without_opening))


def _file_table(replay: Replay, window: int, plain: bool) -> Table:
    table = _table(f"cost by file, window {window_label(window)}", plain)
    table.add_column("file", overflow="fold")
    for name in replay.plan.policies:
        table.add_column(name, justify="right")
    for found in replay.replayed:
        costs = {outcome.policy: outcome for outcome in found.outcomes if outcome.window_tokens == window}
        table.add_row(file_label(found.path), *(dollars(costs[name].dollars) for name in replay.plan.policies))
    return table


def _calibration_table(replay: Replay, *, plain: bool) -> Table:
    table = _table("the recorded run against its simulation", plain)
    table.add_column("session", no_wrap=True, max_width=28)
    for head in ("calls", "factor", "overhead", "input", "hits", "sim.", "cost", "sim.", "misses"):
        table.add_column(head, justify="right", no_wrap=True)
    rows = calibration_rows(replay)
    for row in rows[:MOST_CALIBRATED]:
        table.add_row(*row)
    if len(rows) > MOST_CALIBRATED:
        table.add_row(f"and {len(rows) - MOST_CALIBRATED:,} more")
    return table


def calibration_rows(replay: Replay) -> list[tuple[str, ...]]:
    """One row for each session that reports usage, largest first within its file."""
    return [
        _calibration_row(found, session, session.calibration)
        for found in replay.replayed
        for session in sorted(found.sessions, key=lambda session: -session.calls)
        if session.calibration is not None
    ]


def _calibration_row(found: FileOutcome, session: SessionOutcome, told: Calibration) -> tuple[str, ...]:
    main = session is found.longest
    cost = (dollars(told.recorded_dollars), f"{told.dollar_error:+.1%}") if session.priced else ("-", "-")
    return (
        file_label(found.path) if main else f"  {session.id[:18]}",
        f"{told.calls:,}",
        f"{session.factor:.2f}",
        short_number(session.overhead_tokens),
        f"{told.input_error:+.1%}",
        f"{told.recorded_hit_ratio:.1%}",
        f"{told.simulated_hit_ratio:.1%}",
        *cost,
        f"{told.misses}" + (f" ({told.corrected_dollar_error:+.1%})" if told.misses and session.priced else ""),
    )


def _notes(replay: Replay) -> Iterator[str]:
    yield f"* the cheapest policy without a fault; dollars at the prices of {replay.prices_as_of}. Faults are calls over"
    yield "the window, broken pairs of call and result, and calls that lost the user's first words."
    yield "What a policy would have paid for the same work, not how the work would have gone."
    told: dict[str, int] = {}
    for session in (session for found in replay.replayed for session in found.sessions):
        for note in session.notes:
            told[note] = told.get(note, 0) + 1
    for note, count in told.items():
        yield f"- {note}" + (f" ({count} sessions)" if count > 1 else "")


def _table(title: str, plain: bool) -> Table:
    box = None if plain else SIMPLE_HEAD
    return Table(title=title, title_justify="left", title_style="bold", box=box, pad_edge=False, collapse_padding=True)


def file_label(path: str) -> str:
    """A file's name without its endings."""
    name = PurePath(path).name
    return name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")


def window_label(tokens: int) -> str:
    """A window as it is asked for."""
    return short_number(tokens) if tokens else "of the model"


def dollars(amount: float) -> str:
    """An amount of money in as many digits as tell something; a dash where there is no price, for nothing is free."""
    if amount == 0:
        return "-"
    return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.4f}"
