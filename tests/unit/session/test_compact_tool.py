"""A model that asks for a compaction by its tool."""

import asyncio
from typing import Any

import pytest

from infold import AsyncSession, Session, SessionSettings, UsageError
from infold.core.budget import Window, budget_for
from infold.core.events import Compacted, Event
from infold.core.gauge import PlanInputs
from infold.core.messages import is_compact
from infold.core.plan import asked_call
from infold.core.policy import INFOLD
from infold.core.summary_request import SummaryRequest
from infold.formats.tools import compact_focus, compact_tool
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, replies, result, session, user

FOCUS = "the retry limit of the feed"


def step(number: int, tool: str = "bash", arguments: str = '{"command": "make part"}') -> list[dict[str, Any]]:
    """A tool step of about six hundred tokens."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": arguments}}
    said = f"line {number}: all went well\n" * 80 if tool == "bash" else "noted"
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": said},
    ]


def history(steps: int, *last: dict[str, Any]) -> list[dict[str, Any]]:
    """A task of so many steps, and what follows."""
    opening = [{"role": "user", "content": "Port the parser. Never touch vendor/."}]
    return [*opening, *(item for number in range(steps) for item in step(number)), *last]


def settings(events: list[Event], **changes: Any) -> SessionSettings:
    """Settings of a session that offers the tool."""
    usual = {"window": 16_384, "format": "openai-chat", "compact_tool": True, "on_event": events.append}
    return SessionSettings(**{**usual, **changes})


def asking(number: int, tool: str = "compact") -> list[dict[str, Any]]:
    """A step that asks."""
    return step(number, tool, f'{{"focus": "{FOCUS}"}}')


def reasons(events: list[Event]) -> list[str]:
    """Why there were compactions."""
    return [event.reason for event in events if isinstance(event, Compacted)]


@pytest.mark.parametrize("tool", ["compact", "mcp__infold__compact", "infold_compact"])
def test_a_model_is_given_what_it_asks_for(tool: str) -> None:
    """B20: with more than half of the trigger filled, the request after the call is folded, with the model's focus."""
    events, asked = list[Event](), list[SummaryRequest]()

    def summariser(request: SummaryRequest) -> str:
        asked.append(request)
        return "The parser was ported with make."

    with Session(MemoryStore(), "s", settings(events, summariser=summariser)) as made:
        made.prepare(history(14))
        assert reasons(events) == []
        ready = made.prepare(history(14, *asking(14, tool)))
        assert reasons(events) == ["asked"]
        assert FOCUS in str(asked[0])
        assert "ported with make" in str(ready.messages[0])
        assert "c14" in str(ready.messages)
        made.prepare(history(14, *asking(14, tool)))
        made.prepare(history(14, *asking(14, tool), *step(15)))
        assert reasons(events) == ["asked"]


def test_it_does_not_wait_for_the_background() -> None:
    """B20: a compaction that was asked for is made with the next request, also where summaries are written ahead."""
    events: list[Event] = []
    with Session(MemoryStore(), "s", settings(events, summariser=lambda _: "Ported.", background=True)) as made:
        made.prepare(history(14, *asking(14)))

    assert reasons(events) == ["asked"]


def test_a_nearly_empty_window_is_left_alone() -> None:
    """B16: with little in the view nothing is done, and the answer says why."""
    events: list[Event] = []
    with Session(MemoryStore(), "s", settings(events)) as made:
        made.prepare(history(3, *asking(3)))
        told = made.answer_compact_tool(FOCUS)

    assert reasons(events) == []
    assert told.startswith("Not compacted: your view has ")
    assert "worth it from " in told


def test_the_answer_says_what_follows() -> None:
    """B20: the model is told that a compaction follows, or that it is off or too soon."""
    events: list[Event] = []
    with Session(MemoryStore(), "s", settings(events)) as made:
        made.prepare(history(14))
        assert made.answer_compact_tool().startswith("Before your next step")
        assert f"room to: {FOCUS}." in made.answer_compact_tool(f" {FOCUS} ")
        with pytest.raises(UsageError):
            made.answer_compact_tool(7)  # type: ignore[arg-type]  # a wrong type
    off = {"INFOLD_DISABLE_AUTOCOMPACT": "1"}
    with Session(MemoryStore(), "s", settings(events, environ=off)) as made:
        made.prepare(history(14, *asking(14)))
        assert "is off" in made.answer_compact_tool()
    assert reasons(events) == []


def test_a_compaction_that_fell_short_is_not_repeated() -> None:
    """B9: after a compaction that missed its target a model may ask in vain until enough is new."""
    events: list[Event] = []
    tools = [{"type": "function", "function": {"name": "big", "description": "word " * 9_000}}]
    with Session(MemoryStore(), "s", settings(events)) as made:
        made.prepare(history(12), tools=tools)
        count = len(reasons(events))
        made.prepare(history(12, *asking(12)), tools=tools)
        assert len(reasons(events)) == count
        assert "too little is new" in made.answer_compact_tool()


def test_an_async_session_answers_too() -> None:
    """B20: an async session gives the same answer."""

    async def live() -> str:
        made = await AsyncSession.open(MemoryStore(), "s", settings([]))
        await made.prepare(history(14))
        return made.answer_compact_tool()

    assert asyncio.run(live()).startswith("Before your next step")


def test_another_tool_of_that_name_is_not_ours() -> None:
    """A caller's own tool named compact asks for nothing, unless the settings say that it is infold's."""
    events: list[Event] = []
    with Session(MemoryStore(), "s", settings(events, compact_tool=False)) as made:
        made.prepare(history(14, *asking(14)))
        assert reasons(events) == []
        made.prepare(history(14, *asking(14), *asking(15, "mcp__infold__compact")))
        assert reasons(events) == ["asked"]
    assert not is_compact("compactor")
    assert not is_compact("compact", plain=False)


def test_only_the_newest_step_asks() -> None:
    """A call from before a person's request, a checkpoint or the newest reply is not carried out."""
    inputs = PlanInputs(INFOLD, budget_for(Window(16_000), INFOLD), compact_tool=True)
    asked = (user(), calls("compact"), result(9))

    assert asked_call(session(*asked), inputs) is not None
    assert asked_call(session(*asked, user("next")), inputs) is None
    assert asked_call(session(*asked, replies("done")), inputs) is None
    assert asked_call(session(), inputs) is None


@pytest.mark.parametrize(
    ("arguments", "focus"),
    [
        ('{"focus": "the feed"}', "the feed"),
        ({"focus": "the feed"}, "the feed"),
        ('{"query": "the feed"}', "the feed"),
        ("the feed", "the feed"),
        ('"{\\"focus\\": 1}"', ""),
        ("{}", ""),
        ("", ""),
        ("{broken", ""),
        ('{"focus": true}', ""),
        ("[" * 9_000, ""),
        ('{"focus": ["a", "b"]}', "a b"),
    ],
)
def test_a_focus_is_read_however_it_is_written(arguments: str | dict[str, object], focus: str) -> None:
    """Whatever a model writes as arguments gives a focus or none, and never fails."""
    assert compact_focus(arguments) == focus


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
def test_the_tool_has_each_format_s_shape(name: str) -> None:
    """B23: the tool is offered in the shape of each format, with a focus that may be left out."""
    assert "focus" in str(compact_tool(name))
    assert "'required'" not in str(compact_tool(name))
