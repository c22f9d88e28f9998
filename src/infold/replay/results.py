"""The results of a replay as tables for DuckDB and pandas, in CSV or Parquet, and shards of a replay put together.

`result_rows` has a row for each session, window and policy, `call_rows` one for each call of those. Both begin with the
position of the file among all files, so that the rows of several shards have an order.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from infold.errors import UsageError
from infold.replay.outcome import ALL_FILES, FileOutcome, PolicyOutcome, ReplayReport, SessionOutcome, Shard

Row: TypeAlias = Mapping[str, str | int | float | bool | None]

CSV, PARQUET = ".csv", ".parquet"

_PLACE = {"position": int, "file": str, "session": str, "window_tokens": int, "policy": str}

RESULT_COLUMNS: Mapping[str, type] = {
    **_PLACE,
    "format": str,
    "parent": str,
    "model": str,
    "priced": bool,
    "calls": int,
    **dict.fromkeys(("input_tokens", "read_tokens", "output_tokens", "peak_tokens", "mean_tokens"), int),
    **dict.fromkeys(("compactions", "prunings", "summary_calls", "prefix_breaks"), int),
    **dict.fromkeys(("overruns", "broken_pairs", "without_opening", "refetch_tokens"), int),
    **dict.fromkeys(("hit_ratio", "dollars", "dollars_with_refetch", "uncached_dollars"), float),
    **{f"{part}_dollars": float for part in ("read", "fresh", "output", "summary", "refetch")},
    **dict.fromkeys(("input_error", "dollar_error"), float),
}
"""The columns of `result_rows`; the two errors are empty for a session that reports no usage."""

CALL_COLUMNS: Mapping[str, type] = {
    **_PLACE,
    **dict.fromkeys(("call", "prompt_tokens", "read_tokens", "output_tokens", "compactions", "prunings"), int),
    **dict.fromkeys(("breaks_prefix", "over_window"), bool),
}
"""The columns of `call_rows`; `call` counts from 1."""


def result_rows(report: ReplayReport) -> Iterator[Row]:
    """Yield a row for each session, window and policy, in the order of the files."""
    for position, found, session, outcome in _outcomes(report):
        checked = session.calibration
        fields = {
            **asdict(outcome),
            **{f"{part}_dollars": amount for part, amount in asdict(outcome.spend).items()},
            **{
                name: getattr(outcome, name) for name in ("mean_tokens", "hit_ratio", "dollars", "dollars_with_refetch")
            },
            **{name: getattr(session, name) for name in ("parent", "model", "priced")},
            "position": position,
            "file": found.path,
            "format": found.format,
            "session": session.id,
            **{name: checked and getattr(checked, name) for name in ("input_error", "dollar_error")},
        }
        yield {name: fields[name] for name in RESULT_COLUMNS}


def call_rows(report: ReplayReport) -> Iterator[Row]:
    """Yield a row for each call of each session, window and policy."""
    for position, found, session, outcome in _outcomes(report):
        place = (position, found.path, session.id, outcome.window_tokens, outcome.policy)
        for number, call in enumerate(outcome.series, 1):
            yield {**dict(zip(_PLACE, place, strict=True)), "call": number, **asdict(call)}


def _outcomes(report: ReplayReport) -> Iterator[tuple[int, FileOutcome, SessionOutcome, PolicyOutcome]]:
    for place, found in enumerate(report.files):
        if isinstance(found, FileOutcome):
            for session in found.sessions:
                for outcome in session.outcomes:
                    yield report.shard.position(place), found, session, outcome


# Files.


def table_writer(path: Path) -> Callable[[Mapping[str, type], Iterable[Row]], bytes]:
    """Return the function that encodes rows for a file of this name.

    Raise `UsageError` if the name ends neither in `.csv` nor in `.parquet`, or if pyarrow is needed and not installed.
    """
    if path.suffix == CSV:
        return encode_csv
    if path.suffix != PARQUET:
        raise UsageError(
            f"results are written as {CSV} or {PARQUET}, not as {path.suffix or repr(path.name)}; name such a file"
        )
    try:
        import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{path.name} needs pyarrow, which is not installed; pip install 'infold[parquet]', or write {path.stem}{CSV}"
        ) from error
    return encode_parquet


def encode_csv(columns: Mapping[str, type], rows: Iterable[Row]) -> bytes:
    """Return rows as CSV in UTF-8 with a header; a missing value is empty, a truth value `true` or `false`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([str(row[name]).lower() if kind is bool else row[name] for name, kind in columns.items()])
    return out.getvalue().encode()


def encode_parquet(columns: Mapping[str, type], rows: Iterable[Row]) -> bytes:
    """Return rows as a Parquet file; equal rows give equal bytes. Needs pyarrow."""
    arrow: Any = import_module("pyarrow")
    kinds = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    out = io.BytesIO()
    import_module("pyarrow.parquet").write_table(arrow.Table.from_pylist(list(rows), schema=schema), out)
    return out.getvalue()


# Shards.


def read_report(path: Path) -> ReplayReport:
    """Read what `infold replay --json` wrote; raise `UsageError` if the file is something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ReplayReport)
    except OSError as error:
        raise UsageError(f"cannot read {path} ({error.strerror}); check the path") from error
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{path} is not a result of 'infold replay --json' ({error}); give files that it wrote"
        ) from error


def merge_shards(reports: Sequence[ReplayReport]) -> ReplayReport:
    """Return the report that one run over all files would have made; raise `UsageError` if a shard is missing or differs."""
    first = reports[0]
    shards = {report.shard: report for report in reports}
    wanted = [Shard(number, first.shard.of) for number in range(1, first.shard.of + 1)]
    missing = [str(shard) for shard in wanted if shard not in shards]
    other = [str(shard) for shard in shards if shard not in wanted]
    if missing or other:
        unfit = f"shard {', '.join(missing)} is missing" if missing else f"shard {', '.join(other)} is of another split"
        raise UsageError(f"{unfit}; give the --json results of all {first.shard.of} shards")
    if len(reports) > len(shards):
        raise UsageError("a shard is given twice; give the --json result of each shard once")
    if any((report.plan, report.prices_as_of) != (first.plan, first.prices_as_of) for report in reports):
        raise UsageError("the shards were replayed with different options or prices; replay all of them with the same")
    parts = [shards[shard].files for shard in wanted]
    sizes = [len(part) for part in parts]
    if sizes != sorted(sizes, reverse=True) or sizes[0] - sizes[-1] > 1:
        raise UsageError("the shards are not of the same list of files; replay all of them with the same FILES")
    files = tuple(found for turn in zip_longest(*parts) for found in turn if found is not None)
    return replace(first, files=files, shard=ALL_FILES)
