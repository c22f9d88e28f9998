"""Spans for OpenTelemetry: one for each compaction, and marks for all else that infold does (B22).

Names follow the conventions for generative AI where they have one, and begin with `infold.` where not. Nothing that a session
said, nor what a plugin or an error said, is exported: only fields on a list are. A compaction is told of after it happened, so
its span begins in the past.
"""

from collections.abc import Callable
from importlib import import_module
from time import time_ns
from typing import TYPE_CHECKING, TypeAlias

from infold.core.events import Compacted, Event, PreparedAhead, SummaryProgressed, SummaryRejected
from infold.errors import UsageError
from infold.observers.metrics import kind_of_fault

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


Attribute: TypeAlias = str | bool | int | float | tuple[str, ...]

FIELDS = (
    *("reason", "outcome", "ratio", "cost", "duration_ms", "ahead", "is_urgent", "plugin", "folded_messages"),
    *("tokens_before", "tokens_after", "freed_tokens", "uncached_tokens", "floor_tokens", "usable_tokens"),
    *("estimated_tokens", "reported_tokens", "limit_tokens", "failures", "seconds", "safety"),
)
"""What of an event is exported; all else is text, or a place in a session."""

CONVERSATION, MODEL, OPERATION = "gen_ai.conversation.id", "gen_ai.request.model", "gen_ai.operation.name"
COMPACTED = "gen_ai.conversation.compacted"


class Traces:
    """Makes spans of what it observes, as children of the span that is current where the session runs.

    `provider` is OpenTelemetry's own global one unless another is given. Raises `UsageError` where its API is not installed.
    """

    def __init__(self, provider: "TracerProvider | None" = None, *, now_ns: Callable[[], int] = time_ns) -> None:
        try:
            self._api = import_module("opentelemetry.trace")
            get_tracer = self._api.get_tracer
        except (ImportError, AttributeError) as error:
            raise UsageError("traces need opentelemetry-api 1.25 or newer; pip install 'infold[otel]'") from error
        self._tracer = get_tracer("infold", tracer_provider=provider)
        self._now_ns = now_ns

    def observe(self, event: Event) -> None:
        """Make a span of a compaction or a preparation; mark all else on the current span, or by one without length."""
        match event:
            case SummaryProgressed():
                return
            case Compacted():
                # Nobody waited for what was written ahead: `PreparedAhead` has told how long that took.
                self._span("infold.compact", event, 0 if event.ahead else event.duration_ms)
            case PreparedAhead():
                self._span("infold.prepare", event, event.duration_ms)
            case _:
                self._mark(event)

    def _span(self, name: str, event: Event, duration_ms: int) -> None:
        end_ns = self._now_ns()
        start_ns = end_ns - max(0, duration_ms) * 1_000_000
        self._tracer.start_span(name, start_time=start_ns, attributes=_attributes(event)).end(end_time=end_ns)

    def _mark(self, event: Event) -> None:
        name = f"infold.{str(event.__struct_config__.tag).replace('-', '_')}"
        current = self._api.get_current_span()
        if current.is_recording():
            current.add_event(name, _attributes(event), timestamp=self._now_ns())
        else:
            self._span(name, event, 0)


def _attributes(event: Event) -> dict[str, Attribute]:
    """What is exported of an event; a value that nobody told is left out."""
    told: dict[str, Attribute] = {CONVERSATION: event.session_id}
    if isinstance(event, Compacted):
        told[OPERATION] = "compact"
        told[COMPACTED] = True
        if event.summariser:
            told[MODEL] = event.summariser
    if isinstance(event, Compacted | SummaryRejected):
        told["infold.faults"] = tuple(map(kind_of_fault, event.faults))
    for field in FIELDS:
        value = getattr(event, field, None)
        if value is not None:
            told[f"infold.{field}"] = value
    return told
