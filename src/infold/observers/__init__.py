"""Those who are told what happened: a bus for callbacks, counters for Prometheus, spans for OpenTelemetry."""

from infold.observers.bus import Bus, Failure
from infold.observers.metrics import CONTENT_TYPE, Metrics
from infold.observers.traces import Traces

__all__ = [
    "Bus",
    "CONTENT_TYPE",
    "Failure",
    "Metrics",
    "Traces",
]
