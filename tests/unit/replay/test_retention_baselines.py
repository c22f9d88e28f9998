"""What simpler ways of making room keep."""

from infold.replay.facts import HistoryEvent
from infold.replay.retention import MASK, baselines_of

CALL = HistoryEvent(0, "0.0", "call", "bash\nmake", "bash")
LONG = "\n".join(f"line {number}" for number in range(30))


def texts(head: list[HistoryEvent], way: str, budget_tokens: int = 1_000) -> list[str]:
    """What a baseline leaves in view."""
    return [shown.text for shown in baselines_of(head, budget_tokens=budget_tokens)[way]]


def test_a_result_is_one_record_with_its_call() -> None:
    """Call, status and output stand together; words stand alone."""
    head = [
        CALL,
        HistoryEvent(1, "1.0", "result", "ok", "bash", call=CALL, exit_status=0),
        HistoryEvent(2, "2.0", "agent", "Done"),
    ]

    assert texts(head, "none") == ["bash\nmake\nexit 0\nok", "done"]


def test_masking_hides_results() -> None:
    """All of them, or all but the ten newest."""
    head = [HistoryEvent(number, f"{number}.0", "result", f"output {number}", "bash") for number in range(12)]

    assert set(texts(head, "mask-all")) == {MASK}
    assert texts(head, "mask-keep-10") == [MASK, MASK, *(f"output {number}" for number in range(2, 12))]


def test_edges_of_long_results_stay() -> None:
    """Five lines at either end of a result; other text is whole."""
    head = [HistoryEvent(0, "0.0", "result", LONG, "bash"), HistoryEvent(1, "1.0", "agent", LONG)]
    kept = texts(head, "head+tail lines")

    assert kept[0].splitlines() == [*LONG.splitlines()[:5], MASK, *LONG.splitlines()[-5:]]
    assert kept[1] == LONG


def test_the_newest_stay_within_the_budget() -> None:
    """From the end backwards while there is room."""
    head = [HistoryEvent(0, "0.0", "agent", LONG), HistoryEvent(1, "1.0", "agent", "newest words")]

    assert texts(head, "last-n", budget_tokens=10) == ["newest words"]
    assert texts(head, "last-n") == [LONG, "newest words"]
