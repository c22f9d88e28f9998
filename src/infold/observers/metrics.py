"""Counters of what happened, as text that Prometheus reads (exposition format 0.0.4).

Labels are words of ours, and names of plugins: no session, no model's text and nothing that grows with use ever becomes one.
There are counters and histograms and no gauges, since an event says what was done and not how things stand. What an event adds
is decided by `samples_of`, a pure function; `Metrics` adds up and writes down.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from math import inf
from threading import Lock
from typing import Literal, TypeAlias, assert_never, get_args

from msgspec import Struct

from infold.core.entries import Fault
from infold.core.events import (
    Clipped,
    Compacted,
    CompactionVetoed,
    Event,
    Exceeded,
    FailedOpen,
    InstructionStubbed,
    MediaNotStored,
    NotManaged,
    PluginFailed,
    PreparationDiscarded,
    PreparedAhead,
    Pruned,
    Rejected,
    Repaired,
    Restored,
    StubRepeated,
    SummariserPaused,
    SummariserResumed,
    SummaryProgressed,
    SummaryRejected,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""What a server says of `Metrics.text`."""

SECONDS = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
"""Most summaries take 2 to 5 seconds; a minute is a slow local model."""

RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Family(Struct, frozen=True):
    """A metric: its name without the prefix, its type, its labels and what it says; a histogram has upper bounds."""

    name: str
    kind: Literal["counter", "histogram"]
    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Sample(Struct, frozen=True):
    """What an event adds to one metric."""

    name: str
    value: float = 1.0
    labels: tuple[str, ...] = ()


FAMILIES = (
    Family("compactions_total", "counter", "Heads folded.", ("reason", "outcome")),
    Family("prunings_total", "counter", "Times that old results or arguments became stubs.", ("reason",)),
    Family("clippings_total", "counter", "Times that parts too large for the window were shortened.", ("reason",)),
    Family("tokens_before_total", "counter", "Tokens of views before a change.", ("change",)),
    Family("tokens_after_total", "counter", "Tokens of views after a change.", ("change",)),
    Family("tokens_freed_total", "counter", "Tokens by which views became smaller.", ("change",)),
    Family("uncached_tokens_total", "counter", "Tokens of next requests that no cache holds.", ("change",)),
    Family("compaction_ratio", "histogram", "What part of the view a compaction left.", bounds=RATIOS),
    Family("summary_seconds", "histogram", "How long a compaction's summary took to write.", ("ahead",), SECONDS),
    Family("summary_cost_dollars_total", "counter", "Spent on the summaries of compactions."),
    Family("summaries_rejected_total", "counter", "Compactions whose summary could not be used."),
    Family("summary_faults_total", "counter", "What was wrong with summaries.", ("fault", "outcome")),
    Family("summariser_pauses_total", "counter", "Times that a failing summariser was left alone for a while."),
    Family("summariser_pauses_ended_total", "counter", "Times that it was asked again after that."),
    Family("preparations_total", "counter", "Summaries written before they were needed."),
    Family("preparations_cost_dollars_total", "counter", "Spent on them, used or not."),
    Family("preparations_used_total", "counter", "Compactions with a summary written ahead."),
    Family("preparations_discarded_total", "counter", "Summaries written ahead that no longer fitted."),
    Family("preparations_discarded_cost_dollars_total", "counter", "Spent on summaries that were discarded."),
    Family("compactions_vetoed_total", "counter", "Compactions that a plugin put off.", ("reason", "urgent")),
    Family("overflows_reported_total", "counter", "Requests that a provider refused as too large."),
    Family("thinking_refused_total", "counter", "Requests that a provider refused for thinking bound to another view."),
    Family("windows_exceeded_total", "counter", "Times that even the smallest view did not fit."),
    Family("media_not_stored_total", "counter", "Media that were too large to be stored."),
    Family("restorations_total", "counter", "Changes undone."),
    Family("instructions_stubbed_total", "counter", "Instructions that no longer fitted word for word."),
    Family("stubs_repeated_total", "counter", "Replies that wrote a stub as if it were content."),
    Family("failed_open_total", "counter", "Times that infold could not manage a request, or could not store it."),
    Family(
        "not_managed_total",
        "counter",
        "Requests relayed at their own size: the provider holds the history, or the body is not read.",
    ),
    Family("calls_repaired_total", "counter", "Calls without a result that were answered as interrupted."),
    Family("plugin_failures_total", "counter", "Times that a plugin was passed over.", ("plugin",)),
)
"""All metrics there are, in the order they are written."""

KNOWN_FAULTS = frozenset({*get_args(Fault), "model"})


class Metrics:
    """Adds up what it observes and writes it as text for Prometheus; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[str, dict[tuple[str, ...], _Value]] = {family.name: {} for family in FAMILIES}
        for family in FAMILIES:
            if not family.labels:
                self._values[family.name][()] = _Value(family)

    def observe(self, event: Event) -> None:
        """Count one event."""
        samples = tuple(samples_of(event))
        with self._lock:
            for sample in samples:
                series = self._values[sample.name]
                if sample.labels not in series:
                    series[sample.labels] = _Value(_BY_NAME[sample.name])
                series[sample.labels].add(sample.value)

    def text(self) -> str:
        """Everything counted so far; what never happened stands at zero, or is left out where it has labels."""
        with self._lock:
            return "".join(f"{line}\n" for family in FAMILIES for line in self._lines(family))

    def _lines(self, family: Family) -> Iterator[str]:
        name = f"infold_{family.name}"
        yield f"# HELP {name} {family.about}"
        yield f"# TYPE {name} {family.kind}"
        for values, value in sorted(self._values[family.name].items(), key=lambda series: series[0]):
            yield from value.lines(name, tuple(zip(family.labels, values, strict=True)))


def samples_of(event: Event) -> Iterator[Sample]:
    """What an event adds to which metrics; a piece of a summary being written adds nothing."""
    match event:
        case Compacted():
            yield from _of_compaction(event)
        case Pruned():
            yield Sample("prunings_total", labels=(event.reason,))
            yield from _of_change(event, "pruning")
        case Clipped():
            yield Sample("clippings_total", labels=(event.reason,))
            yield from _of_change(event, "clipping")
        case SummaryRejected():
            yield Sample("summaries_rejected_total")
            yield from _of_faults(event.faults, "rejected")
        case PreparedAhead():
            yield Sample("preparations_total")
            yield Sample("preparations_cost_dollars_total", event.cost)
        case PreparationDiscarded():
            yield Sample("preparations_discarded_total")
            yield Sample("preparations_discarded_cost_dollars_total", event.cost)
        case _:
            yield from _of_rare(event)


def kind_of_fault(fault: str) -> str:
    """A fault by a word of ours, so that no name and no text is exported; what follows a colon is detail."""
    kind = fault.partition(":")[0]
    return kind if kind in KNOWN_FAULTS else "other"


def _of_rare(  # noqa: C901, PLR0912 - a line for each kind
    event: CompactionVetoed
    | PluginFailed
    | Rejected
    | Exceeded
    | Restored
    | InstructionStubbed
    | StubRepeated
    | FailedOpen
    | MediaNotStored
    | NotManaged
    | Repaired
    | SummariserPaused
    | SummariserResumed
    | SummaryProgressed,
) -> Iterator[Sample]:
    match event:
        case CompactionVetoed():
            yield Sample("compactions_vetoed_total", labels=(event.reason, str(event.is_urgent).lower()))
        case PluginFailed():
            yield Sample("plugin_failures_total", labels=(event.plugin,))
        case Rejected():
            yield Sample("thinking_refused_total" if event.outdated_thinking else "overflows_reported_total")
        case Exceeded():
            yield Sample("windows_exceeded_total")
        case Restored():
            yield Sample("restorations_total")
        case InstructionStubbed():
            yield Sample("instructions_stubbed_total", len(event.handles))
        case StubRepeated():
            yield Sample("stubs_repeated_total")
        case FailedOpen():
            yield Sample("failed_open_total")
        case MediaNotStored():
            yield Sample("media_not_stored_total")
        case NotManaged():
            yield Sample("not_managed_total")
        case Repaired():
            yield Sample("calls_repaired_total", len(event.call_ids))
        case SummariserPaused():
            yield Sample("summariser_pauses_total")
        case SummariserResumed():
            yield Sample("summariser_pauses_ended_total")
        case SummaryProgressed():
            return
        case _:
            assert_never(event)


def _of_compaction(event: Compacted) -> Iterator[Sample]:
    yield Sample("compactions_total", labels=(event.reason, event.outcome))
    yield from _of_change(event, "compaction")
    yield Sample("compaction_ratio", event.ratio)
    yield Sample("summary_cost_dollars_total", event.cost)
    if event.duration_ms:  # else no model was asked, or nobody knows how long it took
        yield Sample("summary_seconds", event.duration_ms / 1_000, (str(event.ahead).lower(),))
    if event.outcome == "summarised":  # else `SummaryRejected` tells of them
        yield from _of_faults(event.faults, "repaired")
    if event.ahead:
        yield Sample("preparations_used_total")


def _of_change(event: Compacted | Pruned | Clipped, change: str) -> Iterator[Sample]:
    yield Sample("tokens_before_total", event.tokens_before, (change,))
    yield Sample("tokens_after_total", event.tokens_after, (change,))
    yield Sample("tokens_freed_total", max(0, event.tokens_before - event.tokens_after), (change,))
    yield Sample("uncached_tokens_total", event.uncached_tokens, (change,))


def _of_faults(faults: tuple[str, ...], outcome: str) -> Iterator[Sample]:
    for fault in faults:
        yield Sample("summary_faults_total", labels=(kind_of_fault(fault), outcome))


_BY_NAME = {family.name: family for family in FAMILIES}


class _Value:
    """A number that grows; of a histogram also how many there were, by upper bound."""

    def __init__(self, family: Family) -> None:
        self._bounds = (*family.bounds, inf) if family.kind == "histogram" else ()
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._sum += value
        if self._bounds:
            self._counts[bisect_left(self._bounds, value)] += 1

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        if not self._bounds:
            yield _line(name, labels, self._sum)
            return
        for bound, count in zip(self._bounds, accumulate(self._counts), strict=True):
            yield _line(f"{name}_bucket", (*labels, ("le", _number(bound))), count)
        yield _line(f"{name}_sum", labels, self._sum)
        yield _line(f"{name}_count", labels, sum(self._counts))


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _number(value: float) -> str:
    if value == inf:
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
