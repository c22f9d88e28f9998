"""Spans, as OpenTelemetry's own SDK exports them."""

import subprocess
import sys
from collections.abc import Mapping

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from infold.core.events import Compacted, Event, PreparedAhead, Pruned, Rejected, SummaryProgressed, SummaryRejected
from infold.observers.traces import FIELDS, Traces

from .events import EVENTS, SECRET

NOW_NS = 1_700_000_000_000_000_000


class Recorded:
    """Traces with a provider of their own, at a time that stands still, and what they export."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = Traces(self.provider, now_ns=lambda: NOW_NS)

    def of(self, *events: Event) -> tuple[ReadableSpan, ...]:
        """The spans of these events, with none current."""
        for event in events:
            self.traces.observe(event)
        return self.spans

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Everything exported so far."""
        return self._exporter.get_finished_spans()


def told(of: Mapping[str, object] | None) -> dict[str, object]:
    """Attributes as a plain dict."""
    return dict(of or {})


def test_a_compaction_is_a_span_that_began_in_the_past() -> None:
    """B22, S3.7: its span lasts as long as the summary took, and has reason, outcome, tokens, ratio, cost and cache effect."""
    (span,) = Recorded().of(
        Compacted("ferry-42", 7, 1_000, 250, "price", "gpt-x", 0.25, 2_500, 240, faults=("invented",))
    )

    assert span.name == "infold.compact"
    assert (span.start_time, span.end_time) == (NOW_NS - 2_500_000_000, NOW_NS)
    assert told(span.attributes) == {
        "gen_ai.conversation.id": "ferry-42",
        "gen_ai.conversation.compacted": True,
        "gen_ai.operation.name": "compact",
        "gen_ai.request.model": "gpt-x",
        "infold.ahead": False,
        "infold.cost": 0.25,
        "infold.duration_ms": 2_500,
        "infold.faults": ("invented",),
        "infold.folded_messages": 7,
        "infold.outcome": "summarised",
        "infold.ratio": 0.25,
        "infold.reason": "price",
        "infold.safety": (),
        "infold.tokens_after": 250,
        "infold.tokens_before": 1_000,
        "infold.uncached_tokens": 240,
    }


def test_a_fold_by_code_names_no_model() -> None:
    """B22: where no model's summary was used, the span has no model and says so."""
    attributes = told(Recorded().of(Compacted("s", 7, 1_000, 250, "manual"))[0].attributes)

    assert "gen_ai.request.model" not in attributes
    assert attributes["infold.outcome"] == "folded"


def test_nobody_waited_for_what_was_written_ahead() -> None:
    """B18: the preparation is a span of its length, and the compaction that uses it has none."""
    prepared, compacted = Recorded().of(
        PreparedAhead("s", 0.5, 4_000), Compacted("s", 7, 1_000, 250, "trigger", "gpt-x", 0.5, 4_000, ahead=True)
    )

    assert (prepared.name, prepared.start_time, prepared.end_time) == (
        "infold.prepare",
        NOW_NS - 4_000_000_000,
        NOW_NS,
    )
    assert compacted.start_time == compacted.end_time == NOW_NS


def test_all_else_is_marked_on_the_current_span() -> None:
    """B22: inside a caller's span, what was done is an event on it, and a compaction a child of it."""
    recorded = Recorded()
    tracer = recorded.provider.get_tracer("caller")
    with tracer.start_as_current_span("chat gpt-x"):
        recorded.traces.observe(Pruned("s", (), 900, 1_000, 150, "trigger", 140))
        recorded.traces.observe(Rejected("s", 9_000))
        recorded.traces.observe(Compacted("s", 7, 1_000, 250, "price"))
    compact, caller = recorded.spans
    pruned, rejected = caller.events

    assert compact.parent == caller.context
    assert (pruned.name, pruned.timestamp) == ("infold.pruned", NOW_NS)
    assert told(pruned.attributes) == {
        "gen_ai.conversation.id": "s",
        "infold.freed_tokens": 900,
        "infold.reason": "trigger",
        "infold.tokens_after": 150,
        "infold.tokens_before": 1_000,
        "infold.uncached_tokens": 140,
    }
    assert told(rejected.attributes) == {"gen_ai.conversation.id": "s", "infold.estimated_tokens": 9_000}


def test_without_a_current_span_each_has_its_own() -> None:
    """B22: outside of any span every event but a summary's progress is a span; its name is its tag."""
    spans = Recorded().of(*EVENTS)
    lasting = {"infold.compact", "infold.prepare"}

    assert len(spans) == len(EVENTS) - 1
    assert "infold.window_exceeded" in {span.name for span in spans}
    assert all(span.start_time == span.end_time for span in spans if span.name not in lasting)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_nothing_a_session_said_is_exported(event: Event) -> None:
    """B22: text, handles, and what plugins and errors said stay in the process."""
    assert all("quay" not in span.to_json() for span in Recorded().of(event))


def test_every_field_on_the_list_is_of_some_event() -> None:
    """What is meant to be exported has the name that events give it."""
    assert [field for field in FIELDS if not any(hasattr(event, field) for event in EVENTS)] == []


def test_faults_are_told_by_kind() -> None:
    """B5, B22: why a summary was rejected is exported in words of ours."""
    (span,) = Recorded().of(SummaryRejected("s", ("empty", "model: gpt-x", SECRET)))

    assert told(span.attributes)["infold.faults"] == ("empty", "model", "other")


def test_a_summarys_progress_is_no_span() -> None:
    """S3.10: the pieces of a summary are content, and many; none is exported."""
    assert Recorded().of(SummaryProgressed("s", SECRET)) == ()


def test_the_global_provider_serves_by_default() -> None:
    """B22: without a provider, whatever the process has set up is used; where nothing is, nothing happens."""
    traces = Traces()
    for event in EVENTS:
        traces.observe(event)

    assert not trace.get_current_span().is_recording()


@pytest.mark.slow
def test_a_missing_api_is_a_mistake_that_names_the_extra() -> None:
    """B22: without OpenTelemetry the other observers work, and asking for traces says what to install."""
    code = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"  # what an import finds where there is no such package
        "from infold.errors import UsageError\n"
        "from infold.observers import Bus, Metrics, Traces\n"
        "Bus(), Metrics()\n"
        "try:\n"
        "    Traces()\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)

    assert done.stdout == "traces need opentelemetry-api 1.25 or newer; pip install 'infold[otel]'\n"
