"""Observers of events: a bus for callbacks, metrics for Prometheus, spans for OpenTelemetry."""

from importlib import import_module
from typing import TYPE_CHECKING

from infold.observers.bus import Bus, CallbackFailure
from infold.observers.traces import Traces

if TYPE_CHECKING:
    from infold.observers.metrics import CONTENT_TYPE, Metrics

__all__ = [
    "Bus",
    "CONTENT_TYPE",
    "CallbackFailure",
    "Metrics",
    "Traces",
]

_HOMES = dict.fromkeys(("CONTENT_TYPE", "Metrics"), "infold.observers.metrics")


def __getattr__(name: str) -> object:
    """Load the metrics on first use; they need prometheus-client, which comes with the gateway extra."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
