"""Events of an agent, as values and as JSON."""

from pathlib import Path
from typing import get_args

import msgspec

from infold.agent.events import (
    AgentEvent,
    Notice,
    ReasoningReceived,
    RequestRetried,
    RunEnded,
    RunStarted,
    SessionTitled,
    StepFinished,
    SummaryStarted,
    TextReceived,
    ToolAnswered,
    ToolCalled,
    ToolRefused,
)
from infold.core import events as core_events
from infold.core.messages import Usage

EVENTS: list[tuple[AgentEvent, str]] = [
    (RunStarted("s", "scripted/scripted", "/project"), "started"),
    (TextReceived("hi"), "text"),
    (ReasoningReceived("hm"), "reasoning"),
    (ToolCalled("c1", "shell", '{"command": "ls"}', "ls"), "tool-call"),
    (ToolRefused("c1", "shell", "ls", ("shell:ls",)), "tool-refused"),
    (ToolAnswered("c1", "shell", "a", "completed", 0, 12), "tool-result"),
    (StepFinished(1, "stop", Usage(10, 2), 0.1, 12, 100), "step"),
    (RequestRetried("busy"), "retry"),
    (SummaryStarted("s"), "summary-begun"),
    (Notice("taking a snapshot"), "note"),
    (SessionTitled("s", "A title"), "title"),
    (RunEnded("done", "s", 1, "hi"), "ended"),
]


def test_events_name_themselves() -> None:
    """In JSON each event has its tag, is read back as what it was, and is in the guide; none is missing above."""
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "agent.md").read_text("utf-8")
    for event, name in EVENTS:
        encoded = msgspec.json.encode(event)
        assert msgspec.json.decode(encoded)["event"] == name
        assert msgspec.json.decode(encoded, type=AgentEvent) == event
        assert f"`{name}`" in guide

    assert {type(event) for event, _ in EVENTS} == set(get_args(AgentEvent))


def test_no_name_is_used_twice() -> None:
    """Events of an agent and of infold can be mixed in one stream."""
    theirs = {kind.__struct_config__.tag for kind in get_args(core_events.Event)}

    assert theirs.isdisjoint({name for _, name in EVENTS})
