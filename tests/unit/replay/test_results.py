"""Results of a replay as tables, and shards put together."""

import csv
import io
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from msgspec.structs import replace

from infold.errors import UsageError
from infold.replay.outcome import BrokenFile, ReplayPlan, ReplayReport, Shard
from infold.replay.results import (
    CALL_COLUMNS,
    RESULT_COLUMNS,
    call_rows,
    encode_csv,
    encode_parquet,
    merge_shards,
    read_report,
    result_rows,
    table_writer,
)
from infold.replay.run import replay_file
from infold.replay.table import to_json

DATA = Path(__file__).parents[2] / "data" / "transcripts"
PLAN = ReplayPlan(("infold", "none"), (8_000, 16_000))
BROKEN = BrokenFile("broken.jsonl", "it is broken")
FILES = (
    replay_file(DATA / "claude-code.jsonl", PLAN, "features"),
    BROKEN,
    replay_file(DATA / "tau.json", PLAN, "features"),
    replay_file(DATA / "pi.jsonl", PLAN, "features"),
)
REPORT = ReplayReport(PLAN, "2026-11-01", FILES)


def shards(of: int, report: ReplayReport = REPORT) -> list[ReplayReport]:
    """The reports of so many runs, each over a part of the files."""
    return [replace(report, files=report.files[n - 1 :: of], shard=Shard(n, of)) for n in range(1, of + 1)]


def test_rows_have_every_session_window_and_policy() -> None:
    """There is a row for each, with the columns stated; a file that was skipped has none, but keeps its position."""
    rows = list(result_rows(REPORT))
    sessions = sum(len(found.sessions) for found in REPORT.replayed)

    assert len(rows) == sessions * len(PLAN.policies) * len(PLAN.windows)
    assert all(tuple(row) == tuple(RESULT_COLUMNS) for row in rows)
    assert {row["position"] for row in rows} == {1, 3, 4}
    assert sum(int(row["calls"] or 0) for row in rows) == sum(outcome.calls for outcome in REPORT.outcomes)


def test_calls_have_a_row_each() -> None:
    """The calls of a session and policy are numbered from 1 and add up to the totals."""
    rows = list(call_rows(REPORT))

    assert len(rows) == sum(outcome.calls for outcome in REPORT.outcomes)
    assert all(tuple(row) == tuple(CALL_COLUMNS) for row in rows)
    assert sum(int(row["prompt_tokens"] or 0) for row in rows) == sum(found.prompt_tokens for found in REPORT.outcomes)
    assert rows[0]["call"] == 1


@pytest.mark.parametrize("columns", [RESULT_COLUMNS, CALL_COLUMNS], ids=["results", "calls"])
def test_csv_and_parquet_hold_the_same(columns: dict[str, type]) -> None:
    """Both files have the same columns and values, and equal rows give equal bytes."""
    rows = list(result_rows(REPORT) if columns is RESULT_COLUMNS else call_rows(REPORT))
    text, table = encode_csv(columns, rows), encode_parquet(columns, rows)
    read = pyarrow.parquet.read_table(io.BytesIO(table)).to_pylist()

    assert read == rows
    assert [
        {name: kind(value == "true" if kind is bool else value) if value else None for (name, kind), value in pairs}
        for pairs in (
            zip(columns.items(), line, strict=True) for line in list(csv.reader(io.StringIO(text.decode())))[1:]
        )
    ] == [{name: value if value != "" else None for name, value in row.items()} for row in rows]
    assert (encode_csv(columns, rows), encode_parquet(columns, rows)) == (text, table)


@pytest.mark.parametrize("name", ["out.txt", "out", "out.xlsx"])
def test_other_kinds_of_files_are_refused(name: str) -> None:
    """The error names the two kinds there are."""
    with pytest.raises(UsageError, match=r"\.csv or \.parquet"):
        table_writer(Path(name))


@pytest.mark.slow
def test_parquet_needs_its_extra() -> None:
    """Without pyarrow the error has the line that installs it, and CSV is still written."""
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path\n"
        "from infold.replay.results import table_writer\n"
        "table_writer(Path('out.csv'))\n"
        "assert 'pyarrow.parquet' not in sys.modules\n"
        "try: table_writer(Path('out.parquet'))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith("UsageError out.parquet needs pyarrow")
    assert "pip install 'infold[parquet]'" in ran.stdout


@pytest.mark.parametrize("of", [1, 2, 3, 4, 7])
def test_shards_make_the_whole(of: int, tmp_path: Path) -> None:
    """Written as JSON, read again in any order and merged, shards are what one run over all files reports."""
    paths = [tmp_path / f"{n}.json" for n in range(of)]
    for path, shard in zip(paths, reversed(shards(of)), strict=True):
        path.write_bytes(to_json(shard))
    whole = merge_shards([read_report(path) for path in paths])

    assert whole == REPORT
    assert to_json(whole) == to_json(REPORT)


def test_rows_of_shards_have_the_positions_of_the_whole() -> None:
    """Rows of all shards, in the order of their positions, are those of one run."""
    rows = [row for shard in shards(3) for row in result_rows(shard)]

    assert sorted(rows, key=lambda row: int(row["position"] or 0)) == list(result_rows(REPORT))


def test_shards_that_do_not_fit_are_refused() -> None:
    """A missing shard is named; a foreign, doubled or differently made one is refused with the reason."""
    one, two, three = shards(3)
    others = shards(3, replace(REPORT, files=REPORT.files * 3))
    for given, problem in (
        ([one, three], "shard 2/3 is missing"),
        ([one, two, three, shards(4)[0]], "shard 1/4 is of another split"),
        ([one, two, three, two], "given twice"),
        ([one, two, replace(three, plan=replace(PLAN, caching=False))], "different options"),
        ([one, two, others[2]], "same list of files"),
    ):
        with pytest.raises(UsageError, match=problem):
            merge_shards(given)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"plan": 3}', b"\xff"])
def test_file_that_is_not_a_result_is_refused(content: bytes, tmp_path: Path) -> None:
    """The error says what the file should be."""
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a result of 'infold replay --json'"):
        read_report(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_report(tmp_path / "missing.json")
