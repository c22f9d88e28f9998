"""Sessions get a title."""

from threading import Event as Gate

import pytest

from infold.agent.agents import TITLE
from infold.agent.events import Happening, Spoke, Stepped, Titled
from infold.agent.run import MOST_SHOWN, Namer, title_by
from infold.core.messages import text_of
from infold.engine.titles import title_of
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Hang, Say, ScriptedAnswer, ScriptedRequest, Trouble
from infold.testing.scripted_model import ScriptedModel

from .workshop import KEY, model_saying, session_in

STEP = Stepped(1, "stop", None, 0.0, 0, 0)
PROMPT = "Count the boats in the harbour"


def test_a_model_is_asked_for_a_title() -> None:
    """S6.2: the hidden agent is shown the message as material, without tools."""
    model = model_saying('"Counting boats"')

    assert title_by(model, PROMPT) == "Counting boats"
    system, asked = model.requests[0].messages
    assert text_of(system) == TITLE.system_text
    assert text_of(asked) == f"<message>\n{PROMPT}\n</message>"
    assert "tools" not in model.requests[0].body


def test_a_long_message_is_shown_in_part() -> None:
    """A title needs no more than the beginning."""
    model = model_saying("Boats")
    title_by(model, "boat " * 5_000)

    assert len(text_of(model.requests[0].messages[1])) < MOST_SHOWN + 100


@pytest.mark.parametrize(
    "answer", [Fail(500), Fail(401), Hang(1), Say(""), Say("Bo", trouble=Trouble(cut_after_events=1))]
)
def test_a_title_is_worth_no_error(answer: ScriptedAnswer) -> None:
    """Where the model gives none there is none, and nothing is raised."""
    assert title_by(model_saying(answer), PROMPT) == ""


@pytest.mark.parametrize(("answer", "title"), [(Say("Counting boats"), "Counting boats"), (Fail(500), PROMPT)])
def test_a_session_is_named_after_its_first_reply(answer: ScriptedAnswer, title: str) -> None:
    """S6.2: once, as soon as a step has ended; by code where the model gives no title."""
    store, model, told = MemoryStore(), model_saying(answer), list[Happening]()
    namer = Namer(session_in(store, model), model, told.append)
    namer.expect(PROMPT)
    for one in (Spoke("a"), STEP, STEP):
        namer.tell(one)

    assert told == [Spoke("a"), STEP, Titled("s", title), STEP]
    assert title_of(store, KEY) == title


def test_code_may_name_it_alone() -> None:
    """Without a model for titles none is asked."""
    store, model, told = MemoryStore(), model_saying("Counting boats"), list[Happening]()
    namer = Namer(session_in(store, model), None, told.append)
    namer.expect(PROMPT)
    namer.tell(STEP)

    assert title_of(store, KEY) == PROMPT
    assert model.requests == ()


def test_what_was_named_keeps_its_name() -> None:
    """Without a new session to be named, nothing is."""
    store, model, told = MemoryStore(), model_saying("Counting boats"), list[Happening]()
    Namer(session_in(store, model), model, told.append).tell(STEP)

    assert told == [STEP]


def test_nobody_waits_long_for_a_title() -> None:
    """S6.2: a model that takes its time is not waited for; code makes the title, and the work goes on."""
    gate, store, told = Gate(), MemoryStore(), list[Happening]()

    def slow(_: ScriptedRequest) -> ScriptedAnswer:
        gate.wait(10)
        return Say("Counting boats")

    model = ScriptedModel(slow)
    namer = Namer(session_in(store, model), model, told.append, seconds=0.01)
    namer.expect(PROMPT)
    namer.tell(STEP)
    gate.set()

    assert title_of(store, KEY) == PROMPT
