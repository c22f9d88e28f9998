"""Replicas under load, one of them killed again and again: a short form of `make replicas`."""

from argparse import Namespace

import pytest
from benchmarks.replica_load import Job
from benchmarks.replicas import soak_row

from ..contract.postgres_server import postgres_server  # noqa: TID252 - `tests` is no package to name


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4])
def test_killed_replicas_lose_no_message(size: int) -> None:
    """B14, B29: every request is answered, and every message is in the store once and in its order."""
    job = Job(agents=8, requests_per_session=30)
    with postgres_server() as server:
        row = soak_row(server, size, job, Namespace(minutes=0.5, kill_seconds=6.0))

    assert row["kills"] >= 2
    assert row["answered"] > 20
    assert len(row["memory"]["samples_mb"]) > 3
    assert {name: row[name] for name in ("lost", "doubled", "out_of_order", "unanswered", "other_sessions")} == {
        "lost": 0,
        "doubled": 0,
        "out_of_order": 0,
        "unanswered": 0,
        "other_sessions": [],
    }
