"""How full the window is at the first compaction, by every way in that recovers."""

import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("splintr", reason="the `tokens` extra is not installed")

FILL: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "window_fill.py"))
pytestmark = pytest.mark.long

RECOVERING = ("wrap", "gateway", "agent")


def filled(entry: str, count: str, *, model: str = "my-deployment", reports: bool = False) -> Any:
    """The first compaction of a session, and its refusals."""
    return FILL["first_fill"](FILL["Case"](model, entry, count, reports))


@pytest.mark.slow
@pytest.mark.parametrize("entry", RECOVERING)
def test_a_provider_that_counts_more_refuses_once(entry: str) -> None:
    """B34, B8: without usage, a session is refused once where the provider counts a quarter more, and the client sees nothing."""
    fill = filled(entry, "1.25")

    assert (fill.reason, fill.refusals) == ("overflow", 1)
    assert 100 <= fill.percent < 105
    assert 20 < fill.after_percent < 50


@pytest.mark.slow
@pytest.mark.parametrize("entry", RECOVERING)
@pytest.mark.parametrize(("model", "count"), [("my-deployment", "0.85"), ("claude-sonnet-4-5", "cl100k")])
def test_the_window_is_filled_first(entry: str, model: str, count: str) -> None:
    """B34: with no usage reported, the first compaction comes at 80–100 % by the provider's own count."""
    fill = filled(entry, count, model=model)

    assert (fill.reason, fill.refusals) == ("trigger", 0)
    assert 80 <= fill.percent <= 100


@pytest.mark.slow
@pytest.mark.parametrize("entry", RECOVERING)
def test_reported_usage_is_held_to(entry: str) -> None:
    """B34: where usage is reported nothing is refused, however the provider counts."""
    fill = filled(entry, "1.25", reports=True)

    assert fill.refusals == 0
    assert 94 <= fill.percent <= 100
