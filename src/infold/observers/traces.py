"""OpenTelemetry spans for compactions and background summaries, and span events for everything else.

Names follow the OpenTelemetry conventions for generative AI where there is one, and start with `infold.` otherwise.
Only `FIELDS` are exported: no text of a session, of a plugin or of an error. A compaction is reported after it
happened, so its span starts in the past.
"""

from collections.abc import Callable
from importlib import import_module
from time import time_ns
from typing import TYPE_CHECKING, TypeAlias, get_args

from infold.core.entries import Fault
from infold.core.events import Compacted, Event, PreparedAhead, SummaryProgressed, SummaryRejected
from infold.errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


Attribute: TypeAlias = str | bool | int | float | tuple[str, ...]

FIELDS = (
    *("reason", "outcome", "ratio", "cost", "duration_ms", "ahead", "is_urgent", "plugin", "folded_messages"),
    *("tokens_before", "tokens_after", "freed_tokens", "uncached_tokens", "floor_tokens", "usable_tokens"),
    *("estimated_tokens", "reported_tokens", "limit_tokens", "failures", "seconds", "safety"),
    *("cause", "tokens", "idle_seconds", "lifetime_seconds"),
)
"""The fields of an event that are exported; all others are text, or a place in a session."""

CONVERSATION, MODEL, OPERATION = "gen_ai.conversation.id", "gen_ai.request.model", "gen_ai.operation.name"
COMPACTED = "gen_ai.conversation.compacted"

KNOWN_FAULTS = frozenset({*get_args(Fault), "model"})


class Traces:
    """Turn events into spans, as children of the current span of the session's thread.

    `provider` defaults to OpenTelemetry's global tracer provider. Raise `UsageError` if the OpenTelemetry API is not
    installed.
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
        """Record a compaction or a background summary as a span, anything else as an event of the current span.

        Without a current span the event becomes a span of zero length.
        """
        match event:
            case SummaryProgressed():
                return
            case Compacted():
                # The time of a background summary was reported by `PreparedAhead`; nothing waited for it.
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


def fault_kind(fault: str) -> str:
    """Return a fault's kind, or "other" if it is unknown: details after a colon may hold text of a session."""
    kind = fault.partition(":")[0]
    return kind if kind in KNOWN_FAULTS else "other"


def _attributes(event: Event) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {CONVERSATION: event.session_id}
    if isinstance(event, Compacted):
        attributes[OPERATION] = "compact"
        attributes[COMPACTED] = True
        if event.summariser:
            attributes[MODEL] = event.summariser
    if isinstance(event, Compacted | SummaryRejected):
        attributes["infold.faults"] = tuple(map(fault_kind, event.faults))
    for field in FIELDS:
        value = getattr(event, field, None)
        if value is not None:
            attributes[f"infold.{field}"] = value
    return attributes
