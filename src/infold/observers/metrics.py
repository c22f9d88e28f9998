"""Prometheus metrics, counted from events and exposed by prometheus-client.

Labels are fixed words or names of plugins, never a session id, text of a session or anything else of unbounded size.
An event says what was done, not how things stand, so there are counters and histograms but no gauges. `samples_of` is
a pure function from an event to what it adds; `Metrics` adds it up.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from infold.core import events
from infold.core.events import Event
from infold.observers.traces import fault_kind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of `Metrics.text`."""

SECONDS = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
"""Bucket bounds: most summaries take 2 to 5 seconds, a slow local model a minute."""

RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class MetricFamily(Struct, frozen=True):
    """A metric: its name without the prefix `infold_`, help text and labels; a histogram has the bounds of its buckets."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def kind(self) -> str:
        """The type of the metric."""
        return "histogram" if self.bounds else "counter"


class MetricSample(Struct, frozen=True):
    """What an event adds to one metric."""

    name: str
    value: float = 1.0
    labels: tuple[str, ...] = ()


FAMILIES = (
    MetricFamily("compactions_total", "Heads folded.", ("reason", "outcome")),
    MetricFamily("prunings_total", "Times that old results or arguments became stubs.", ("reason",)),
    MetricFamily("clippings_total", "Times that parts too large for the window were shortened.", ("reason",)),
    MetricFamily("tokens_before_total", "Tokens of views before a change.", ("change",)),
    MetricFamily("tokens_after_total", "Tokens of views after a change.", ("change",)),
    MetricFamily("tokens_freed_total", "Tokens by which views became smaller.", ("change",)),
    MetricFamily("uncached_tokens_total", "Tokens of next requests that no cache holds.", ("change",)),
    MetricFamily("compaction_ratio", "What part of the view a compaction left.", bounds=RATIOS),
    MetricFamily("summary_seconds", "How long a compaction's summary took to write.", ("ahead",), SECONDS),
    MetricFamily("summary_cost_dollars_total", "Spent on the summaries of compactions."),
    MetricFamily("summaries_rejected_total", "Compactions whose summary could not be used."),
    MetricFamily("summary_faults_total", "What was wrong with summaries.", ("fault", "outcome")),
    MetricFamily("summariser_pauses_total", "Times that a failing summariser was left alone for a while."),
    MetricFamily("summariser_pauses_ended_total", "Times that it was asked again after that."),
    MetricFamily("preparations_total", "Summaries written before they were needed."),
    MetricFamily("preparations_cost_dollars_total", "Spent on them, used or not."),
    MetricFamily("preparations_used_total", "Compactions with a summary written ahead."),
    MetricFamily("preparations_discarded_total", "Summaries written ahead that no longer fitted."),
    MetricFamily("preparations_discarded_cost_dollars_total", "Spent on summaries that were discarded."),
    MetricFamily("compactions_vetoed_total", "Compactions that a plugin put off.", ("reason", "urgent")),
    MetricFamily("overflows_reported_total", "Requests that a provider refused as too large."),
    MetricFamily("thinking_refused_total", "Requests that a provider refused for thinking bound to another view."),
    MetricFamily("native_refused_total", "Requests that a provider refused for a summary that it had written itself."),
    MetricFamily("windows_exceeded_total", "Times that even the smallest view did not fit."),
    MetricFamily("cache_misses_total", "Requests that the provider's cache should have served.", ("cause",)),
    MetricFamily("cache_missed_tokens_total", "Tokens that were read again for them.", ("cause",)),
    MetricFamily("cache_missed_cost_dollars_total", "What that cost more than the cache.", ("cause",)),
    MetricFamily("media_not_stored_total", "Media that were too large to be stored."),
    MetricFamily("restorations_total", "Changes undone."),
    MetricFamily("instructions_stubbed_total", "Instructions that no longer fitted word for word."),
    MetricFamily("stubs_repeated_total", "Replies that wrote a stub as if it were content."),
    MetricFamily("failed_open_total", "Times that infold could not manage a request, or could not store it."),
    MetricFamily(
        "not_managed_total",
        "Requests relayed at their own size: the provider holds the history, or the body is not read.",
    ),
    MetricFamily("windows_found_total", "Windows that servers reported for their models."),
    MetricFamily("outputs_lowered_total", "Requests that ask for less output than the client did, so that they fit."),
    MetricFamily("calls_repaired_total", "Calls without a result that were answered as interrupted."),
    MetricFamily("plugin_failures_total", "Times that a plugin was passed over.", ("plugin",)),
)
"""All metrics, in the order of the exposition."""


class Metrics:
    """Count events and expose the counts as text for Prometheus; safe to use from any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._metrics = {family.name: _make(family, self._registry) for family in FAMILIES}

    def observe(self, event: Event) -> None:
        """Count one event."""
        for sample in samples_of(event):
            metric = self._metrics[sample.name]
            series = metric.labels(*sample.labels) if sample.labels else metric
            if isinstance(series, Histogram):
                series.observe(sample.value)
            else:
                series.inc(0 if sample.value < 0 else sample.value)

    def text(self) -> str:
        """Return all counts so far. A metric without labels starts at zero; one with labels is absent until it is counted."""
        return generate_latest(self).decode()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as prometheus-client's registries do, without the time each series was created."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _make(family: MetricFamily, registry: CollectorRegistry) -> Counter | Histogram:
    name = f"infold_{family.name}"
    if family.bounds:
        return Histogram(name, family.help, family.labels, buckets=family.bounds, registry=registry)
    return Counter(name, family.help, family.labels, registry=registry)


_COUNTED: Mapping[type[Event], str] = {
    events.Exceeded: "windows_exceeded_total",
    events.FailedOpen: "failed_open_total",
    events.MediaNotStored: "media_not_stored_total",
    events.NotManaged: "not_managed_total",
    events.Restored: "restorations_total",
    events.StubRepeated: "stubs_repeated_total",
    events.SummariserPaused: "summariser_pauses_total",
    events.SummariserResumed: "summariser_pauses_ended_total",
    events.WindowFound: "windows_found_total",
    events.OutputLowered: "outputs_lowered_total",
}
"""Events of which only the number counts."""


def samples_of(event: Event) -> Iterator[MetricSample]:  # noqa: C901, PLR0912 - one case per event
    """Return what an event adds to which metrics; a piece of a summary being written adds nothing."""
    match event:
        case events.Compacted():
            yield from _of_compaction(event)
        case events.Pruned():
            yield MetricSample("prunings_total", labels=(event.reason,))
            yield from _of_change(event, "pruning")
        case events.Clipped():
            yield MetricSample("clippings_total", labels=(event.reason,))
            yield from _of_change(event, "clipping")
        case events.SummaryRejected():
            yield MetricSample("summaries_rejected_total")
            yield from _of_faults(event.faults, "rejected")
        case events.PreparedAhead():
            yield MetricSample("preparations_total")
            yield MetricSample("preparations_cost_dollars_total", event.cost)
        case events.PreparationDiscarded():
            yield MetricSample("preparations_discarded_total")
            yield MetricSample("preparations_discarded_cost_dollars_total", event.cost)
        case events.CompactionVetoed():
            yield MetricSample("compactions_vetoed_total", labels=(event.reason, str(event.is_urgent).lower()))
        case events.PluginFailed():
            yield MetricSample("plugin_failures_total", labels=(event.plugin,))
        case events.Rejected():
            reported = "thinking_refused_total" if event.outdated_thinking else "overflows_reported_total"
            yield MetricSample("native_refused_total" if event.native else reported)
        case events.InstructionStubbed():
            yield MetricSample("instructions_stubbed_total", len(event.handles))
        case events.Repaired():
            yield MetricSample("calls_repaired_total", len(event.call_ids))
        case events.CacheMissed():
            yield MetricSample("cache_misses_total", labels=(event.cause,))
            yield MetricSample("cache_missed_tokens_total", event.tokens, (event.cause,))
            yield MetricSample("cache_missed_cost_dollars_total", event.cost, (event.cause,))
        case events.SummaryProgressed():
            return
        case _:
            yield MetricSample(_COUNTED[type(event)])


def _of_compaction(event: events.Compacted) -> Iterator[MetricSample]:
    yield MetricSample("compactions_total", labels=(event.reason, event.outcome))
    yield from _of_change(event, "compaction")
    yield MetricSample("compaction_ratio", event.ratio)
    yield MetricSample("summary_cost_dollars_total", event.cost)
    if event.duration_ms:  # zero if no model was asked, or the duration is unknown
        yield MetricSample("summary_seconds", event.duration_ms / 1_000, (str(event.ahead).lower(),))
    if event.outcome == "summarised":  # otherwise `SummaryRejected` reports them
        yield from _of_faults(event.faults, "repaired")
    if event.ahead:
        yield MetricSample("preparations_used_total")


def _of_change(event: events.Compacted | events.Pruned | events.Clipped, change: str) -> Iterator[MetricSample]:
    yield MetricSample("tokens_before_total", event.tokens_before, (change,))
    yield MetricSample("tokens_after_total", event.tokens_after, (change,))
    yield MetricSample("tokens_freed_total", max(0, event.tokens_before - event.tokens_after), (change,))
    yield MetricSample("uncached_tokens_total", event.uncached_tokens, (change,))


def _of_faults(faults: tuple[str, ...], outcome: str) -> Iterator[MetricSample]:
    for fault in faults:
        yield MetricSample("summary_faults_total", labels=(fault_kind(fault), outcome))
