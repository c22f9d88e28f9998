"""What an agent does while a summary is being written stands in the view that the summary makes."""

from threading import Event as Gate
from typing import Any

from tests.support.policies import FOLDS

from infold import Session, SessionSettings
from infold.core.events import Compacted, Event
from infold.core.summary_request import SummaryRequest
from infold.stores.memory import MemoryStore


def step(number: int) -> list[dict[str, Any]]:
    """A tool step of about six hundred tokens."""
    function = {"name": "bash", "arguments": f'{{"command": "make part {number}"}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    lines = "\n".join(f"crate_{place}_{number} stowed" for place in range(80))
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": lines},
    ]


def reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The reply that a step begins with."""
    return {"choices": [{"message": messages[0], "finish_reason": "tool_calls"}]}


def test_what_was_called_meanwhile_is_shown() -> None:
    """B39: each call made since the summary was begun is in the view, in a kept step or in the tail."""
    written, begun, events = Gate(), Gate(), list[Event]()

    def summariser(_: SummaryRequest) -> str:
        begun.set()
        assert written.wait(10)
        return "The parser was ported with make."

    settings = SessionSettings(
        window=16_384, policy=FOLDS, summariser=summariser, background=True, on_event=events.append, now_ms=lambda: 5
    )
    meanwhile: list[str] = []
    with Session(MemoryStore(), "s", settings) as driven:
        new: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser. Never touch vendor/."}]
        for number in range(40):
            driven.prepare_new(new)
            if any(isinstance(event, Compacted) for event in events):
                break
            if number > 9 and begun.wait(0.05):
                meanwhile.append(f'{{"command": "make part {number}"}}')
            made = step(number)
            driven.record(reply(made))
            new = made[1:]
            if len(meanwhile) == 2:
                written.set()
        shown = [call["function"]["arguments"] for sent in driven.view() for call in sent.get("tool_calls", ())]

    assert [event.ahead for event in events if isinstance(event, Compacted)] == [True]
    assert len(meanwhile) >= 2
    assert set(meanwhile) <= set(shown)
