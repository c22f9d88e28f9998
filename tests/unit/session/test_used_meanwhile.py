"""What an agent used while a summary was being written is in the checkpoint."""

import asyncio
from threading import Event as Gate
from typing import Any

import pytest

from infold import AsyncSession, Session, SessionSettings
from infold.core.compact import LONGEST_USED, USED, add_used, checkpoint_for
from infold.core.cut import Cut
from infold.core.entries import Checkpoint
from infold.core.events import Compacted, Event
from infold.core.log import Log
from infold.core.messages import FilePart, Message, MessageId, UserMessage
from infold.core.plan import Summarise
from infold.core.policy import PRESETS
from infold.core.summary_request import SummaryRequest
from infold.session.report import describe_event
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, replies, result, session, user

from .long_sessions import plan_inputs

FACT = "mirror 7: the harbour listens on quay_port 47113 behind the east pier"
TOLD = "The parser was ported with make."
CROWD = "\n".join(f"crate_{number} is stowed at berth_{number}, crate_{number} stays" for number in range(400))
"""More names than a checkpoint has room for, all worth more than the fact."""


def step(number: int, *, command: str = "make part") -> list[dict[str, Any]]:
    """A tool step of about six hundred tokens; the second one's result has the fact."""
    function = {"name": "bash", "arguments": f'{{"command": "{command}"}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    lines = [f"crate_{place}_{number} stowed" for place in range(80)]
    if number == 1:
        lines[40] = FACT
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": "\n".join(lines)},
    ]


def reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The reply that a step begins with."""
    return {"choices": [{"message": messages[0], "finish_reason": "tool_calls"}]}


def checkpoint_in(log: Log) -> Checkpoint:
    """The newest checkpoint."""
    assert log.checkpoint is not None
    return log.checkpoint


def check(log: Log, events: list[Event]) -> None:
    """The fact stands in the checkpoint with its line, once, and the event counts it."""
    done = next(event for event in events if isinstance(event, Compacted))
    assert done.ahead
    assert done.used == 1
    assert "1 line added" in describe_event(done)
    text = checkpoint_in(log).text
    assert text.count("quay_port 47113 behind the east pier") == 1
    assert USED in text
    assert TOLD in text
    assert "quay_port" in checkpoint_in(log).note
    assert TOLD not in checkpoint_in(log).note


@pytest.mark.parametrize("recall", [True, False])
def test_a_session_adds_what_was_used(recall: bool) -> None:
    """B39: a name of the head that a call used meanwhile is added with its line, next to a thread that writes the summary."""
    written, begun, events = Gate(), Gate(), list[Event]()

    def summariser(_: SummaryRequest) -> str:
        begun.set()
        assert written.wait(10)
        return TOLD

    settings = SessionSettings(
        window=16_384,
        summariser=summariser,
        background=True,
        recall=recall,
        on_event=events.append,
        now_ms=lambda: 5,
    )
    with Session(MemoryStore(), "s", settings) as driven:
        new: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser. Never touch vendor/."}]
        for number in range(40):
            driven.prepare_new(new)
            if any(isinstance(event, Compacted) for event in events):
                break
            made = step(number, command="ping $quay_port" if number > 9 and begun.wait(0.05) else "make part")
            if begun.is_set():
                written.set()
            driven.record(reply(made))
            new = made[1:]
        check(driven.log, events)
        assert ("[4.0]" in checkpoint_in(driven.log).used[0]) is recall


def test_an_async_session_adds_what_was_used() -> None:
    """B39: so does a session on an event loop."""
    events: list[Event] = []

    async def live() -> Log:
        written, begun = asyncio.Event(), asyncio.Event()

        async def summariser(_: SummaryRequest) -> str:
            begun.set()
            await written.wait()
            return TOLD

        settings = SessionSettings(
            window=16_384, summariser=summariser, background=True, on_event=events.append, now_ms=lambda: 5
        )
        driven = await AsyncSession.open(MemoryStore(), "s", settings)
        new: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser. Never touch vendor/."}]
        for number in range(40):
            await driven.prepare_new(new)
            if any(isinstance(event, Compacted) for event in events):
                break
            made = step(number, command="ping $quay_port" if begun.is_set() else "make part")
            if begun.is_set():
                written.set()
            await driven.record(reply(made))
            new = made[1:]
            await asyncio.sleep(0.01)
        await driven.close()
        return driven.log

    check(asyncio.run(live()), events)


# What counts as used.


def folded(*later: Message, said: str = "", seen: int | None = 5) -> Checkpoint:
    """The checkpoint of a head with the fact, with this narrative, after messages that were added meanwhile."""
    told_fact, crowd = result(output=f"all well\n{FACT}\nall well"), result(output=CROWD)
    log = session(user("Port it."), calls("bash"), told_fact, calls("bash"), crowd, *later, user("go on"))
    inputs = plan_inputs()
    told = Summarise(Cut.at(log, 5), 2_000, "trigger", seen=seen)
    return add_used(checkpoint_for(log, told, inputs, narrative=said)[0], log, told)


def test_only_what_is_missing_is_added() -> None:
    """B39: what the summary or the ledger has is not repeated, nor what the head never had."""
    used = calls("bash", arguments='{"command": "ping quay_port other_port"}')

    assert folded(used).used == (f"- {FACT}",)
    assert folded(used, said="The quay_port is known.").used == ()
    assert folded(calls("bash", arguments='{"command": "ping other_port 4711"}')).used == ()
    assert folded(replies("I use quay_port and 47113 now.")).used == (f"- {FACT}",)
    assert folded(user("quay_port!")).used == ()


def test_nothing_is_added_to_a_summary_that_was_waited_for() -> None:
    """B39: a summary written when it was needed has seen everything."""
    used = calls("bash", arguments='{"command": "ping quay_port"}')

    assert folded(used, seen=None).used == ()


def test_a_document_s_checkpoint_has_no_additions() -> None:
    """B39: a preset whose document has no ledger keeps the summary as it was written."""
    assert not any(policy.summary.ledger for name, policy in PRESETS.items() if name != "infold")


def test_media_have_no_lines() -> None:
    """B39: a name that stands in the title of an attached file alone has no line to add."""
    seen = UserMessage(MessageId("m"), (FilePart("image/png", 9, name="quay_port.png"),))
    log = session(user("Port it."), seen, replies("I see quay_port now."), user("go on"))
    told = Summarise(Cut.at(log, 2), 2_000, "trigger", seen=2)
    plain = Checkpoint("Nothing.")

    assert add_used(plain, log, told) is plain


def test_additions_have_a_limit() -> None:
    """B39: however much was used, lines take a tenth of the room, and each is short."""
    names = [f"name_{number}" for number in range(400)]
    lines = "\n".join(f"{'so it is ' * 40}{name} is set to {name}_value {'and on ' * 40}" for name in names)
    log = session(user(), calls("a"), result(output=lines), replies(" ".join(names)), user())
    told = Summarise(Cut.at(log, 3), 2_000, "trigger", seen=3)
    used = add_used(checkpoint_for(log, told, plan_inputs())[0], log, told).used

    assert 3 < len(used) < 20
    assert all(len(line) <= LONGEST_USED + 2 for line in used)
    assert all(any(name in line for name in names) for line in used)
