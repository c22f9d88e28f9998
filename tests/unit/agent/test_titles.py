"""Titles of sessions."""

from threading import Event as Gate

import pytest

from infold.agent.agents import TITLE
from infold.agent.events import AgentEvent, SessionTitled
from infold.agent.run import MOST_TITLE_CHARACTERS, give_title, request_title
from infold.core.messages import text_of
from infold.session.titles import title_of
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Hang, Say, ScriptedAnswer, ScriptedRequest, Trouble
from infold.testing.scripted_model import ScriptedModel

from .builders import KEY, model_saying, session_in

PROMPT = "Count the boats in the harbour"


def test_a_model_is_asked_for_a_title() -> None:
    """S6.2: the hidden agent gets the prompt as material, without tools."""
    model = model_saying('"Counting boats"')

    assert request_title(model, PROMPT) == "Counting boats"
    system, asked = model.requests[0].messages
    assert text_of(system) == TITLE.system_text
    assert text_of(asked) == f"<message>\n{PROMPT}\n</message>"
    assert "tools" not in model.requests[0].body


def test_a_long_prompt_is_sent_in_part() -> None:
    """A title needs only the beginning."""
    model = model_saying("Boats")
    request_title(model, "boat " * 5_000)

    assert len(text_of(model.requests[0].messages[1])) < MOST_TITLE_CHARACTERS + 100


@pytest.mark.parametrize(
    "answer", [Fail(500), Fail(401), Hang(1), Say(""), Say("Bo", trouble=Trouble(cut_after_events=1))]
)
def test_a_failed_request_is_not_an_error(answer: ScriptedAnswer) -> None:
    """If the model gives no title, an empty one is returned."""
    assert request_title(model_saying(answer), PROMPT) == ""


@pytest.mark.parametrize(("answer", "title"), [(Say("Counting boats"), "Counting boats"), (Fail(500), PROMPT)])
def test_a_session_gets_a_title(answer: ScriptedAnswer, title: str) -> None:
    """S6.2: the model's, or one made by code if the model gives none."""
    store, model, events = MemoryStore(), model_saying(answer), list[AgentEvent]()
    give_title(session_in(store, model), PROMPT, model, events.append)

    assert events == [SessionTitled("s", title)]
    assert title_of(store, KEY) == title


def test_a_slow_model_is_not_waited_for() -> None:
    """S6.2: code makes the title if the model takes too long."""
    gate, store = Gate(), MemoryStore()

    def slow(_: ScriptedRequest) -> ScriptedAnswer:
        gate.wait(10)
        return Say("Counting boats")

    model = ScriptedModel(slow)
    give_title(session_in(store, model), PROMPT, model, lambda _: None, timeout_seconds=0.01)
    gate.set()

    assert title_of(store, KEY) == PROMPT
