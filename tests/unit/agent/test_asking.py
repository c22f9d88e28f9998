"""A model is asked and listened to, through what goes wrong on the way."""

from collections.abc import Iterator

import pytest

from infold.agent.events import Happening, Reasoned, Retried, Spoke
from infold.agent.loop import LONGEST_WAIT_SECONDS, MOST_RETRIES, MOST_WAITS, Listener
from infold.errors import KeyRefused, ModelBusy, ModelOverflow
from infold.ports import Heard, Model, ModelRequest, Said
from infold.testing import wire_replies
from infold.testing.script import Fail, Say, ScriptedAnswer, Trouble, in_turn
from infold.testing.scripted_model import SCRIPTED, ScriptedModel

REQUEST = ModelRequest([{"role": "user", "content": "Hello?"}])
SMALLER = ModelRequest([{"role": "user", "content": "Hi?"}])
BROKEN = Say("The first half and more", trouble=Trouble(cut_after_events=1))
TOO_LARGE = Fail(400, wire_replies.chat_overflow(9_000, 8_000))


class Busy:
    """A model that is busy so often, asking to wait so long, and then answers."""

    ref, format = SCRIPTED, "openai-chat"

    def __init__(self, times: int, wait_seconds: float = 0.0) -> None:
        self.times = times
        self._wait_seconds = wait_seconds

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """The answer, once it is not busy any more."""
        self.times -= 1
        if self.times >= 0:
            raise ModelBusy("m", "slow down", wait_seconds=self._wait_seconds)
        return ScriptedModel(in_turn(Say("Well."))).stream(request)

    summarise = ScriptedModel().summarise


def waited_for(model: Model) -> list[float]:
    """How long was waited before each further try, as it was told and as it was done."""
    told, waited = list[Happening](), list[float]()
    try:
        Listener(model, told.append, pause_seconds=1, wait=waited.append).ask(REQUEST, never)
    finally:
        assert [one.wait_seconds for one in told if isinstance(one, Retried)] == waited
    return waited


def listening(*answers: ScriptedAnswer) -> tuple[Listener, ScriptedModel, list[Happening]]:
    """A listener to a model that gives these answers, and what it tells."""
    model, told = ScriptedModel(in_turn(*answers)), list[Happening]()
    return Listener(model, told.append, pause_seconds=0), model, told


def never(overflow: ModelOverflow) -> ModelRequest:
    """Nothing can be left out."""
    raise overflow


def test_a_reply_is_told_piece_by_piece() -> None:
    """Words and thoughts are told as they come; the whole reply is given in the end."""
    listener, _, told = listening(Say("It is well with all.", reasoning="Hm."))
    body = listener.ask(REQUEST, never)

    assert told == [Reasoned("Hm."), Spoke("It is well w"), Spoke("ith all.")]
    assert listener.said == "It is well with all."
    assert body["choices"][0]["message"]["content"] == "It is well with all."


def test_a_busy_model_is_asked_again() -> None:
    """A refusal for now and a stream that broke are told, and the same request is sent again; what it had said is forgotten."""
    listener, model, told = listening(Fail(429), BROKEN, Say("Well."))
    listener.ask(REQUEST, never)

    assert [type(one) for one in told] == [Retried, Spoke, Retried, Spoke]
    assert listener.said == "Well."
    assert len(model.requests) == 3


def test_a_model_that_stays_busy_is_given_up() -> None:
    """After so many tries the failure is raised; what the last try had said can still be had."""
    listener, model, _ = listening(BROKEN)
    with pytest.raises(ModelBusy):
        listener.ask(REQUEST, never)

    assert len(model.requests) == 1 + MOST_RETRIES
    assert listener.said == "The first ha"


def test_who_is_asked_to_wait_waits() -> None:
    """Pauses grow, and are never shorter than the provider asks for; a model that says nothing has more patience."""
    assert waited_for(Busy(MOST_WAITS)) == [1, 2, 4, 8, 16]
    assert waited_for(Busy(3, wait_seconds=3)) == [3, 3, 4]
    assert waited_for(Busy(1, wait_seconds=60)) == [60]
    with pytest.raises(ModelBusy):
        waited_for(Busy(MOST_WAITS + 1))


def test_nobody_waits_for_hours() -> None:
    """A limit that ends tomorrow is told at once."""
    model = Busy(9, wait_seconds=LONGEST_WAIT_SECONDS + 1)
    with pytest.raises(ModelBusy):
        waited_for(model)

    assert model.times == 8


def test_other_failures_are_raised_at_once() -> None:
    """No second try helps against a wrong key."""
    listener, model, told = listening(Fail(401))
    with pytest.raises(KeyRefused):
        listener.ask(REQUEST, never)

    assert (len(model.requests), told) == (1, [])


def test_a_request_that_is_too_large_is_made_smaller() -> None:
    """B8: whoever can make it smaller is asked for that, before the stream and in its middle."""
    late = Say(
        "The first half and more", trouble=Trouble(cut_after_events=1, error_event=wire_replies.chat_overflow(9, 8))
    )
    listener, model, told = listening(TOO_LARGE, late, Say("Well."))
    listener.ask(REQUEST, lambda _: SMALLER)

    assert [request.body["messages"] for request in model.requests] == [
        REQUEST.messages,
        SMALLER.messages,
        SMALLER.messages,
    ]
    assert listener.said == "Well."
    assert sum(isinstance(one, Retried) for one in told) == 2


def test_what_cannot_be_made_smaller_is_told() -> None:
    """The overflow is raised where nothing can be left out, and nobody is told of another try."""
    listener, _, told = listening(TOO_LARGE)
    with pytest.raises(ModelOverflow):
        listener.ask(REQUEST, never)

    assert told == []


class Wordless:
    """A model that breaks its word: its stream ends without a reply."""

    ref, format = SCRIPTED, "openai-chat"

    def stream(self, request: ModelRequest) -> Iterator[Heard]:  # noqa: ARG002
        """Some words."""
        yield Said("So")

    summarise = ScriptedModel().summarise


def test_a_stream_without_a_reply_is_a_broken_contract() -> None:
    """A model that never gives the whole reply is wrong, not busy."""
    model: Model = Wordless()
    with pytest.raises(AssertionError, match="without a reply"):
        Listener(model, lambda _: None, pause_seconds=0).ask(REQUEST, never)
