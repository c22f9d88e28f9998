"""Events of an agent, as values and as JSON."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from infold.agent.events import (
    AgentEvent,
    Notice,
    ReasoningReceived,
    RequestRetried,
    RunEnded,
    RunEnding,
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

TOLD: list[tuple[AgentEvent, str]] = [
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


@pytest.mark.parametrize(("message", "name"), TOLD, ids=lambda value: value if isinstance(value, str) else "")
def test_an_event_names_itself(message: AgentEvent, name: str) -> None:
    """In JSON each says what it is, and is read back as what it was."""
    said: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(message))

    assert said["event"] == name
    assert msgspec.json.decode(msgspec.json.encode(message), type=AgentEvent) == message


def test_every_event_is_looked_at() -> None:
    """No kind of event is missing above."""
    assert {type(message) for message, _ in TOLD} == set(get_args(AgentEvent))


def test_no_name_is_used_twice() -> None:
    """Events of an agent and of infold can be mixed in one stream."""
    theirs = {kind.__struct_config__.tag for kind in get_args(core_events.Event)}

    assert theirs.isdisjoint({name for _, name in TOLD})


def test_endings_are_few() -> None:
    """The CLI has words for each ending."""
    assert set(get_args(RunEnding)) == {"done", "aborted", "length", "steps", "circling", "filtered", "failed", "stop"}


@pytest.mark.parametrize(("_", "name"), TOLD, ids=lambda value: value if isinstance(value, str) else "")
def test_scripts_can_look_it_up(_: AgentEvent, name: str) -> None:
    """The guide names every event by its tag."""
    guide = Path(__file__).parents[3] / "docs" / "guides" / "agent.md"

    assert f"`{name}`" in guide.read_text("utf-8")
