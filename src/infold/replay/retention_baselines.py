"""What simpler ways of making room would have kept of a head: the measures that a fold has to be better than."""

from collections.abc import Sequence

from infold.core.tokens import estimate
from infold.replay.facts_events import Event
from infold.replay.facts_match import Shown

KEPT_RESULTS = 10
EDGE_LINES = 5
MASK = "[masked]"


def baselines_of(head: Sequence[Event], *, budget_tokens: int) -> dict[str, tuple[Shown, ...]]:
    """The texts that each baseline leaves in view."""
    newest = {event.handle for event in [event for event in head if event.speaker == "result"][-KEPT_RESULTS:]}
    return {
        "none": _records(head, {event.handle: event.text for event in head}),
        "last-n": _records(*_last(head, budget_tokens)),
        "mask-all": _records(head, {event.handle: _masked(event) for event in head}),
        "mask-keep-10": _records(
            head, {event.handle: event.text if event.handle in newest else _masked(event) for event in head}
        ),
        "head+tail lines": _records(head, {event.handle: _edges(event) for event in head}),
    }


def _records(head: Sequence[Event], texts: dict[str, str]) -> tuple[Shown, ...]:
    """Texts as records; a result is one record with its call."""
    return tuple(Shown.of(_with_call(event, texts[event.handle])) for event in head if event.speaker != "call")


def _with_call(event: Event, text: str) -> str:
    return text if event.call is None else f"{event.call.text}\n{_status(event)}\n{text}"


def _status(event: Event) -> str:
    return "" if event.exit_status is None else f"exit {event.exit_status}"


def _last(head: Sequence[Event], budget_tokens: int) -> tuple[list[Event], dict[str, str]]:
    kept: list[Event] = []
    for event in reversed(head):
        budget_tokens -= estimate(event.text, "features")
        if budget_tokens < 0:
            break
        kept.append(event)
    kept.reverse()
    return kept, {event.handle: event.text for event in kept}


def _masked(event: Event) -> str:
    return MASK if event.speaker == "result" else event.text


def _edges(event: Event) -> str:
    lines = event.text.splitlines()
    if event.speaker != "result" or len(lines) <= 2 * EDGE_LINES:
        return event.text
    return "\n".join((*lines[:EDGE_LINES], MASK, *lines[-EDGE_LINES:]))
