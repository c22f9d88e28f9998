"""The counters, read back by Prometheus' own client."""

import re
from collections.abc import Iterable
from threading import Thread

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infold.core.events import Compacted, Event, PluginFailed, Pruned, Rejected, SummaryProgressed
from infold.observers.metrics import CONTENT_TYPE, FAMILIES, Metrics, samples_of

from .events import EVENTS, SECRET

Read = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def text_of(*events: Event) -> str:
    """The counters after these events."""
    metrics = Metrics()
    for event in events:
        metrics.observe(event)
    return metrics.text()


def read(text: str) -> Read:
    """Every series by its name and labels, with its value."""
    return {
        (sample.name.removeprefix("infold_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def counted(events: Iterable[Event]) -> Read:
    """What is not zero after these events, without histograms."""
    return {
        series: value
        for series, value in read(text_of(*events)).items()
        if value and not re.search("_(bucket|sum|count)$", series[0])
    }


def test_every_event_is_counted() -> None:
    """B22: each kind of event is in the counters under labels of ours, but for a summary that is still being written."""
    totals = {
        "tokens_before_total": (1_000, 1_000, 1_000),
        "tokens_after_total": (150, 150, 250),
        "tokens_freed_total": (850, 850, 750),
        "uncached_tokens_total": (140, 150, 240),
    }
    changes: Read = {
        (name, (("change", change),)): value
        for name, values in totals.items()
        for change, value in zip(("pruning", "clipping", "compaction"), values, strict=True)
    }

    assert counted(EVENTS) == {
        ("prunings_total", (("reason", "trigger"),)): 1,
        ("clippings_total", (("reason", "safety"),)): 1,
        ("compactions_total", (("outcome", "summarised"), ("reason", "price"))): 1,
        **changes,
        ("summary_cost_dollars_total", ()): 0.25,
        ("summaries_rejected_total", ()): 1,
        ("summary_faults_total", (("fault", "invented"), ("outcome", "repaired"))): 1,
        ("summary_faults_total", (("fault", "empty"), ("outcome", "rejected"))): 1,
        ("summary_faults_total", (("fault", "model"), ("outcome", "rejected"))): 1,
        ("summary_faults_total", (("fault", "other"), ("outcome", "rejected"))): 1,
        ("preparations_total", ()): 1,
        ("preparations_cost_dollars_total", ()): 0.5,
        ("preparations_discarded_total", ()): 1,
        ("preparations_discarded_cost_dollars_total", ()): 0.5,
        ("compactions_vetoed_total", (("reason", "forced"), ("urgent", "true"))): 1,
        ("overflows_reported_total", ()): 1,
        ("windows_exceeded_total", ()): 1,
        ("restorations_total", ()): 1,
        ("instructions_stubbed_total", ()): 2,
        ("stubs_repeated_total", ()): 1,
        ("failed_open_total", ()): 1,
        ("media_not_stored_total", ()): 1,
        ("cache_misses_total", (("cause", "expired"),)): 1,
        ("cache_missed_tokens_total", (("cause", "expired"),)): 9_000,
        ("cache_missed_cost_dollars_total", (("cause", "expired"),)): 0.05,
        ("not_managed_total", ()): 1,
        ("windows_found_total", ()): 1,
        ("outputs_lowered_total", ()): 1,
        ("calls_repaired_total", ()): 1,
        ("summariser_pauses_total", ()): 1,
        ("summariser_pauses_ended_total", ()): 1,
        ("plugin_failures_total", (("plugin", "kites"),)): 1,
    }


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_samples_belong_to_a_metric(event: Event) -> None:
    """B22: what an event adds, it adds to metrics that exist, with as many labels as these have."""
    labels = {family.name: len(family.labels) for family in FAMILIES}
    samples = list(samples_of(event))

    assert bool(samples) is not isinstance(event, SummaryProgressed)
    assert all(len(sample.labels) == labels[sample.name] for sample in samples)


def test_nothing_a_session_said_is_exported() -> None:
    """B22: neither text nor session ids are in what is written."""
    text = text_of(*EVENTS)

    assert SECRET not in text
    assert "quay" not in text
    assert '"s"' not in text


def test_a_fold_by_code_is_told_from_a_summary() -> None:
    """B22: outcome and reason tell compactions apart, and what rejected a summary is not counted twice."""
    fold = Compacted("s", 7, 1_000, 250, "manual", faults=("empty",))
    found = counted([fold, fold, Compacted("s", 1, 0, 0, "manual", "gpt-x", ahead=True)])

    assert found["compactions_total", (("outcome", "folded"), ("reason", "manual"))] == 2
    assert found["compactions_total", (("outcome", "summarised"), ("reason", "manual"))] == 1
    assert found["preparations_used_total", ()] == 1
    assert not any(name == "summary_faults_total" for name, _ in found)


def test_a_change_that_frees_nothing_takes_nothing_away() -> None:
    """A counter never falls: a view that grew counts as nothing freed."""
    assert ("tokens_freed_total", (("change", "compaction"),)) not in counted([Compacted("s", 1, 100, 120, "manual")])


def test_seconds_are_counted_by_upper_bound() -> None:
    """B22: a histogram counts all that took at most its bound, tells the sum, and knows what nobody waited for."""
    events = [
        Compacted("s", 1, 10, 5, "trigger", "gpt-x", duration_ms=duration_ms) for duration_ms in (1, 250, 251, 500_000)
    ]
    found = read(text_of(*events, Compacted("s", 1, 10, 5, "trigger", "gpt-x", duration_ms=4_000, ahead=True)))
    counts = [found["summary_seconds_bucket", (("ahead", "false"), ("le", str(bound)))] for bound in (0.25, 0.5)]

    assert counts == [2, 3]
    assert found["summary_seconds_bucket", (("ahead", "false"), ("le", "120.0"))] == 3
    assert found["summary_seconds_bucket", (("ahead", "false"), ("le", "+Inf"))] == 4
    assert found["summary_seconds_count", (("ahead", "false"),)] == 4
    assert found["summary_seconds_sum", (("ahead", "false"),)] == pytest.approx(500.502)
    assert found["summary_seconds_count", (("ahead", "true"),)] == 1
    assert found["compaction_ratio_bucket", (("le", "0.5"),)] == 5
    assert found["compaction_ratio_bucket", (("le", "0.4"),)] == 0


def test_a_fold_without_a_model_took_no_time_to_write() -> None:
    """Only compactions that are known to have taken time are in the seconds; one whose model failed in vain is."""
    instant, failed = Compacted("s", 1, 10, 5, "trigger"), Compacted("s", 1, 10, 5, "trigger", duration_ms=900)

    assert "summary_seconds_count" not in text_of(instant)
    assert 'summary_seconds_count{ahead="false"} 1.0\n' in text_of(instant, failed)


# The format.


def test_the_text_is_written_as_the_format_wants_it() -> None:
    """B22: each metric has its help, its type and a name with the prefix; counters end in `_total`; the end is a line's end."""
    text = text_of(*EVENTS)
    parsed = {family.name: family for family in text_string_to_metric_families(text)}

    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert text.endswith("\n")
    assert len(parsed) == len(FAMILIES)
    for family in FAMILIES:
        found = parsed[f"infold_{family.name.removesuffix('_total')}"]
        assert (found.type, found.documentation) == (family.kind, family.help)
        assert family.name.endswith("_total") is (family.kind == "counter")
        assert not set(family.help) & {"\\", "\n"}


def test_what_never_happened_stands_at_zero() -> None:
    """A metric without labels is there from the beginning, so that its first increase is seen."""
    found = read(text_of())

    assert found["overflows_reported_total", ()] == 0
    assert found["compaction_ratio_count", ()] == 0
    assert set(found.values()) == {0}


def test_labels_are_escaped() -> None:
    """A plugin's name may hold quotes, backslashes and line ends."""
    name = 'a"b\\c\nd'

    assert counted([PluginFailed("s", name, "x")]) == {("plugin_failures_total", (("plugin", name),)): 1}


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), 1e-9, 12_345_678.9, 3])
def test_every_number_can_be_written(cost: float) -> None:
    """No price, however strange, keeps the others from being read."""
    found = read(text_of(Compacted("s", 1, 10, 5, "trigger", "gpt-x", cost)))

    assert found["summary_cost_dollars_total", ()] == pytest.approx(cost, nan_ok=True)


def test_threads_may_count_together() -> None:
    """No event is lost where many threads observe while another reads."""
    metrics = Metrics()
    event = Pruned("s", (), 1, 2, 1, "trigger")

    def count() -> None:
        for _ in range(250):
            metrics.observe(event)
            metrics.text()

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read(metrics.text())["prunings_total", (("reason", "trigger"),)] == 1_000


def test_thinking_that_is_refused_is_no_overflow() -> None:
    """B22, B32: a request refused for its thinking is counted apart from those that were too large."""
    assert counted([Rejected("s", 9_000, outdated_thinking=2)]) == {("thinking_refused_total", ()): 1}
