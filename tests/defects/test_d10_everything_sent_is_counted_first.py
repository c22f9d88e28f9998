"""D10: a request is estimated before it is sent, and system prompt and tools are part of the estimate."""

import pytest

from infold import Window, fit
from infold.core.budget import budget_for
from infold.core.events import Event
from infold.core.policy import INFOLD
from infold.formats.registry import OPENAI_CHAT, WireFormat

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    conversation,
    each_preset,
    each_wire,
    opened,
    played,
    requests_of,
    story,
    written,
)

TOOLS = [{"name": f"chart{number}", "description": "shows the depths of the harbour " * 30} for number in range(12)]
PROMPT = "You are a pilot who knows the harbour. " * 250
"""Some 2,000 tokens each."""


@pytest.mark.slow
@each_preset
def test_d10_no_report_is_needed(name: str) -> None:
    """B8: with a provider that never says what it counted, each request is shown to fit before it is sent."""
    events: list[Event] = []
    session = opened(name, OPENAI_CHAT, window=16_384, events=events)
    for ready in played(session, OPENAI_CHAT, conversation(60)):
        assert ready.gauge.upper_tokens <= 16_384

    assert events


@each_wire
def test_d10_system_and_tools_are_counted(wire: WireFormat) -> None:
    """B8: what is sent beside the messages is in the count, to about the token, and in the report by name."""
    items = written(wire, story(8))
    bare = fit(items, window=64_000, format=wire.name)
    full = fit(items, window=64_000, format=wire.name, system=PROMPT, tools=TOOLS)

    assert bare.report.overhead_tokens == 0
    assert 3_500 < full.report.overhead_tokens < 5_500
    assert full.report.tokens_after - bare.report.tokens_after == full.report.overhead_tokens
    assert {"system", "tools"} <= set(full.report.after)


@pytest.mark.parametrize(
    ("system", "tools"), [(PROMPT, None), (None, TOOLS), (PROMPT, TOOLS)], ids=["system", "tools", "both"]
)
def test_d10_they_make_a_compaction_come_sooner(system: object, tools: object) -> None:
    """B8: a history that fits alone is compacted when it would not fit beside them."""
    items = written(OPENAI_CHAT, story(30))
    window = int(1.3 * fit(items, window=200_000).report.upper_tokens)

    assert not fit(items, window=window).report.changed
    fitted = fit(items, window=window, system=system, tools=tools)
    assert fitted.report.changed
    assert fitted.report.upper_tokens <= budget_for(Window(window), INFOLD).limit_tokens


def test_d10_a_session_counts_them_in_every_request() -> None:
    """B8: the gauge of each request has them, also when they change from one request to the next."""
    session = opened("infold", OPENAI_CHAT, window=64_000)
    counts = [
        session.prepare_new(written(OPENAI_CHAT, new), system=PROMPT if number % 2 else None, tools=TOOLS).gauge
        for number, new in enumerate(requests_of(story(6)))
    ]

    for without, beside in zip(counts[::2], counts[1::2], strict=False):
        assert beside.upper_tokens - without.upper_tokens > 2_000
    assert counts[0].upper_tokens > 1_500
