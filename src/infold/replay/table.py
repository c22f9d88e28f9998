"""A replay as tables for a terminal and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec.structs import asdict
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from infold.replay.outcome import (
    ALL_FILES,
    BrokenFile,
    CallOutcome,
    FileOutcome,
    PolicyOutcome,
    ReplayReport,
    RunCalibration,
    SessionOutcome,
)

MOST_CALIBRATED = 40
"""Sessions in the calibration table; the rest is in the JSON."""

MOST_SKIPPED = 20
"""Files that are named as skipped; the rest is in the JSON."""


def build_tables(replay: ReplayReport, *, plain: bool = False) -> RenderableType:
    """Return the calibration, a table for each window, and one for each file if there are several."""
    priced = any(session.priced for found in replay.replayed for session in found.sessions)
    parts: list[RenderableType] = []
    if replay.replayed:
        parts.append(_calibration_table(replay, plain=plain))
        parts += [_policy_table(window, rows, plain, priced=priced) for window, rows in by_window(replay.outcomes)]
    if len(replay.replayed) > 1:
        parts += [_file_table(replay, window, plain) for window, _ in by_window(replay.outcomes)]
    parts += [Text(note) for note in _notes(replay)]
    parts += [Text(line, style="red") for line in _skipped(replay.broken)]
    return Group(*parts)


def to_json(replay: ReplayReport) -> bytes:
    """Return the whole replay with sums and ratios; equal replays give equal bytes."""
    document = {
        "plan": replay.plan,
        "prices_as_of": replay.prices_as_of,
        **({} if replay.shard == ALL_FILES else {"shard": replay.shard}),
        "series_fields": CallOutcome.__struct_fields__,
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
        "sessions": [
            {**asdict(session), "outcomes": [_with_ratios(outcome) for outcome in session.outcomes]}
            for session in found.sessions
        ],
    }


def _with_ratios(outcome: PolicyOutcome) -> dict[str, Any]:
    ratios = {
        "dollars": outcome.dollars,
        "dollars_with_refetch": outcome.dollars_with_refetch,
        "hit_ratio": outcome.hit_ratio,
        "mean_tokens": outcome.mean_tokens,
    }
    fields = {**asdict(outcome), **ratios}
    return fields if outcome.series else {name: value for name, value in fields.items() if name != "series"}


def by_window(outcomes: Iterable[PolicyOutcome]) -> Iterator[tuple[int, list[PolicyOutcome]]]:
    """Yield each window with its outcomes."""
    for window, rows in groupby(outcomes, key=lambda outcome: outcome.window_tokens):
        yield window, list(rows)


def cheapest_safe(outcomes: Iterable[PolicyOutcome]) -> str:
    """Return the cheapest policy without calls over the window, broken pairs or a lost opening."""
    safe = [found for found in outcomes if not any(found.faults)]
    return min(safe, key=lambda outcome: outcome.dollars_with_refetch).policy if safe else ""


def _policy_table(window: int, rows: list[PolicyOutcome], plain: bool, *, priced: bool) -> Table:
    table = _table(f"window {window_label(window)}", plain)
    table.add_column("policy", no_wrap=True)
    refetched = any(outcome.refetch_tokens for outcome in rows)
    heads = ("cost", *(("+ refetch",) if refetched else ()), "uncached", "input", "hits", "peak", "mean")
    for head in (*heads, "folds", "prunes", "breaks", "over", "pairs", "lost"):
        table.add_column(head, justify="right", no_wrap=True)
    best = cheapest_safe(rows)
    for outcome in rows:
        mark = "*" if outcome.policy == best and priced else ""
        refetch = (dollars(outcome.dollars_with_refetch),) if refetched else ()
        table.add_row(
            f"{outcome.policy}{mark}",
            dollars(outcome.dollars),
            *refetch,
            *policy_cells(outcome),
            *(f"{count:,}" for count in outcome.faults),
            style="bold" if mark else "",
        )
    return table


def policy_cells(outcome: PolicyOutcome) -> tuple[str, ...]:
    """Return the figures of a policy that every table shows between its cost and its faults."""
    return (
        *(dollars(outcome.uncached_dollars), short(outcome.input_tokens), f"{outcome.hit_ratio:.1%}"),
        *(short(outcome.peak_tokens), short(outcome.mean_tokens)),
        *(f"{count:,}" for count in (outcome.compactions, outcome.prunings, outcome.prefix_breaks)),
    )


def _file_table(replay: ReplayReport, window: int, plain: bool) -> Table:
    table = _table(f"cost by file, window {window_label(window)}", plain)
    table.add_column("file", overflow="fold")
    for name in replay.plan.policies:
        table.add_column(name, justify="right")
    for found in replay.replayed:
        costs = {outcome.policy: outcome for outcome in found.outcomes if outcome.window_tokens == window}
        table.add_row(file_label(found.path), *(dollars(costs[name].dollars) for name in replay.plan.policies))
    return table


def _calibration_table(replay: ReplayReport, *, plain: bool) -> Table:
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


def calibration_rows(replay: ReplayReport) -> list[tuple[str, ...]]:
    """Return a row for each session that reports usage, largest first within its file."""
    return [
        _calibration_row(found, session, session.calibration)
        for found in replay.replayed
        for session in sorted(found.sessions, key=lambda session: -session.calls)
        if session.calibration is not None
    ]


def _calibration_row(found: FileOutcome, session: SessionOutcome, calibration: RunCalibration) -> tuple[str, ...]:
    main = session is found.longest
    cost = (dollars(calibration.recorded_dollars), f"{calibration.dollar_error:+.1%}") if session.priced else ("-", "-")
    return (
        file_label(found.path) if main else f"  {session.id[:18]}",
        f"{calibration.calls:,}",
        f"{session.factor:.2f}",
        short(session.overhead_tokens),
        f"{calibration.input_error:+.1%}",
        f"{calibration.recorded_hit_ratio:.1%}",
        f"{calibration.simulated_hit_ratio:.1%}",
        *cost,
        f"{calibration.misses}"
        + (f" ({calibration.corrected_dollar_error:+.1%})" if calibration.misses and session.priced else ""),
    )


def _notes(replay: ReplayReport) -> Iterator[str]:
    yield f"* the cheapest policy without a fault; dollars at the prices of {replay.prices_as_of}. Faults are calls over"
    yield "the window, broken pairs of call and result, and calls that lost the user's first words."
    yield "What a policy would have paid for the same work, not how the work would have gone."
    counts = Counter(note for found in replay.replayed for session in found.sessions for note in session.notes)
    for note, count in counts.items():
        yield f"- {note}" + (f" ({count} sessions)" if count > 1 else "")


def _skipped(files: Sequence[BrokenFile]) -> Iterator[str]:
    yield from (f"skipped {broken.path}: {broken.problem}" for broken in files[:MOST_SKIPPED])
    if len(files) > MOST_SKIPPED:
        yield f"and {len(files) - MOST_SKIPPED:,} more files were skipped; --json names all of them"


def _table(title: str, plain: bool) -> Table:
    box = None if plain else SIMPLE_HEAD
    return Table(title=title, title_justify="left", title_style="bold", box=box, pad_edge=False, collapse_padding=True)


def file_label(path: str) -> str:
    """Return a file's name without its suffixes."""
    name = PurePath(path).name
    return name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")


def window_label(tokens: int) -> str:
    """Return a window as it was requested."""
    return short(tokens) if tokens else "of the model"


def dollars(amount: float) -> str:
    """Return an amount with as many digits as are useful; a dash if no price is known."""
    if amount == 0:
        return "-"
    return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.4f}"


def short(tokens: int) -> str:
    """Return a number of tokens in few characters: 840, 6.8k, 64k, 1.23M."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 1_000_000:
        return f"{tokens / 1_000:.1f}".removesuffix(".0") + "k" if tokens < 100_000 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.2f}M"
