"""Law: `fit` over a growing history keeps its prefix between its own cuts, remembers nothing that shows, and fits."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.provider_rules import problems
from tests.support.wire import WireHistory, guises, wire_histories

from infold import Fitted, WindowExceeded, fit
from infold.core.budget import Window, budget_for
from infold.core.compact import Simulation, advance
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import SessionId
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.session.fit import FitCache

REPLY_TYPES = ("reasoning", "function_call")
ROLES = ("assistant", "model")

WINDOWS = st.sampled_from((600, 800, 1_200, 2_000))
"""Small enough that a history of some hundred tokens is folded several times."""

REPEATS = st.sampled_from((1, 4, 20))
"""How often a tool's output is said over: a history's size is in its results."""


@st.composite
def large_histories(draw: st.DrawFn) -> WireHistory:
    """Histories of each format with results of up to some thousand tokens."""
    history, times = draw(wire_histories()), draw(REPEATS)
    return replace(history, items=[_grown(item, times) for item in history.items])


def _grown(value: Any, times: int) -> Any:
    """Wire items whose tool outputs are repeated."""
    if isinstance(value, list):
        return [_grown(inner, times) for inner in value]
    if not isinstance(value, dict):
        return value
    field = "output" if "output" in value else "content" if "tool_call_id" in value or "tool_use_id" in value else ""
    return {
        key: inner * times if key == field and isinstance(inner, str) else _grown(inner, times)
        for key, inner in value.items()
    }


def is_reply(item: Any) -> bool:
    """Whether the model said this, in any of the formats."""
    return item.get("role") in ROLES or item.get("type") in REPLY_TYPES


def request_points(items: list[Any]) -> Iterator[int]:
    """How many items the history had when each request was made: before each run of a model's items, and at the end."""
    for place, item in enumerate(items):
        if place and is_reply(item) and not is_reply(items[place - 1]):
            yield place
    yield len(items)


def fit_or_none(history: WireHistory, length: int, window: int) -> Fitted | None:
    """A beginning of the history made to fit, or nothing where nothing can."""
    try:
        return fit(history.items[:length], window=window, format=history.format.name)
    except WindowExceeded:
        return None


@given(large_histories(), WINDOWS)
def test_requests_break_only_at_own_cuts(history: WireHistory, window: int) -> None:
    """B29: a request starts with the whole of the one before unless something was pruned or folded in between."""
    before: Fitted | None = None
    for length in request_points(history.items):
        now = fit_or_none(history, length, window)
        if before is not None and now is not None and now.report.events == before.report.events:
            assert now.messages[: len(before.messages)] == before.messages
        before = now


@given(large_histories(), WINDOWS)
def test_every_request_is_lawful(history: WireHistory, window: int) -> None:
    """B8, B12: at each length the request fits and is nothing its provider would refuse."""
    for length in request_points(history.items):
        fitted = fit_or_none(history, length, window)
        if fitted is not None:
            assert fitted.report.upper_tokens <= fitted.report.budget.limit_tokens
            assert problems(history.format, fitted.messages) == ()


@given(large_histories(), WINDOWS)
def test_fit_is_deterministic(history: WireHistory, window: int) -> None:
    """B29: the same history gives the same request, whatever was asked before, and is itself left as it was."""
    before = copy.deepcopy(history.items)
    grown = [fit_or_none(history, length, window) for length in request_points(history.items)]
    at_once = [fit_or_none(history, length, window) for length in reversed([*request_points(history.items)])]

    assert [made and made.messages for made in grown] == [made and made.messages for made in reversed(at_once)]
    assert [made and made.report.explain() for made in grown] == [
        made and made.report.explain() for made in reversed(at_once)
    ]
    assert history.items == before


@given(st.data(), large_histories(), WINDOWS)
def test_the_guise_changes_nothing(data: st.DataObject, history: WireHistory, window: int) -> None:
    """B25: as bytes or SDK objects a history is cut where it is cut as dicts."""
    guised = replace(history, items=data.draw(guises(history.items)))
    one, other = (fit_or_none(form, len(form.items), window) for form in (history, guised))

    assert (one and one.report.events) == (other and other.report.events)
    assert (one and one.report.sent) == (other and other.report.sent)


@given(large_histories(), WINDOWS)
def test_remembered_rehearsals_change_nothing(history: WireHistory, window: int) -> None:
    """B29: carried on or from the beginning, a rehearsal gives the same view, events and numbers."""
    messages = history.format.decode(history.items).messages
    inputs = PlanInputs(INFOLD, budget_for(Window(window), INFOLD), reports_usage=False)
    remembering = FitCache()
    for length in range(len(messages) + 1):
        carried = remembering.play(messages[:length], inputs, Rendering())
        fresh = FitCache().play(messages[:length], inputs, Rendering())
        played = advance(Simulation(Log(SessionId("fit"))), messages[:length], inputs)
        shown = [view(rehearsal.log, INFOLD.summary) for rehearsal in (carried, fresh, played)]

        assert shown[0] == shown[1] == shown[2]
        assert carried.events == fresh.events == played.events
        assert carried.sequences == fresh.sequences == played.sequences
