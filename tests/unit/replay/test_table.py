"""A replay as tables and as JSON."""

import io
import json

import pytest
from rich.console import Console

from infold.replay.outcome import Broken, FileOutcome, Outcome, Plan, Replay, Spend
from infold.replay.run import replay_session
from infold.replay.table import cheapest_safe, dollars, file_label, tables, to_json, window_label

from .recorded import RULER, session, with_usage, work

PLAN = Plan(("infold", "none", "as-recorded"), (16_000,), model="claude-opus-4-6")


def replay() -> Replay:
    """Two equal files and a broken one."""
    told = replay_session(session(with_usage(work(30), overhead=2_000)), PLAN, RULER)
    files = tuple(FileOutcome(f"day{number}.jsonl.gz", "pi", (told,)) for number in range(2))
    return Replay(PLAN, "2026-01-01", (*files, Broken("night.jsonl", "there is nothing in it")))


def printed(found: Replay) -> str:
    """What a terminal of a hundred columns shows."""
    console = Console(width=100, color_system=None, record=True, file=io.StringIO())
    console.print(tables(found, plain=True))
    return console.export_text()


def test_tables_show_each_policy_and_fit_a_hundred_columns() -> None:
    """The cheapest policy without a fault is marked, files are listed, a broken one is told."""
    text = printed(replay())

    assert "infold*" in text
    assert "day0" in text
    assert "skipped night.jsonl: there is nothing in it" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_json_has_sums_and_ratios_and_is_the_same_each_time() -> None:
    """Everything that was found is in it, worked out."""
    found = replay()
    told = json.loads(to_json(found))

    assert to_json(found) == to_json(found)
    assert [row["policy"] for row in told["totals"]] == list(PLAN.policies)
    assert told["totals"][0]["dollars"] == pytest.approx(found.outcomes[0].dollars)
    assert told["files"][2] == {"state": "broken", "path": "night.jsonl", "problem": "there is nothing in it"}
    series = told["files"][0]["sessions"][0]["outcomes"][0]["series"]
    assert len(series[0]) == len(told["series_fields"])


def test_cheapest_safe_policy_has_no_fault() -> None:
    """A policy that overran its window is not the best, however cheap; where all have faults there is none."""
    cheap, dear = Outcome("a", 1, overruns=1), Outcome("b", 1, spend=Spend(output=5))

    assert cheapest_safe([cheap, dear]) == "b"
    assert cheapest_safe([cheap]) == ""


def test_labels_are_plain() -> None:
    """Files lose their endings, windows are named as they were asked for, small amounts keep their digits, none is a dash."""
    assert file_label("a/b.jsonl.gz") == "b"
    assert (window_label(0), window_label(64_000)) == ("of the model", "64k")
    assert (dollars(1_234.5), dollars(0.0123), dollars(0)) == ("1,234.50", "0.0123", "-")


def test_nothing_replayed_is_told() -> None:
    """Without a file that could be replayed there are the reasons alone."""
    assert "skipped" in printed(Replay(PLAN, "2026-01-01", (Broken("a", "b"),)))
