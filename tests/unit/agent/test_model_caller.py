"""Calling a model, and what can go wrong."""

from collections.abc import Iterator

import pytest

from infold.agent.events import AgentEvent, ReasoningReceived, RequestRetried, TextReceived
from infold.agent.loop import LONGEST_WAIT_SECONDS, MOST_RETRIES_BEFORE_REPLY, MOST_RETRIES_IN_REPLY, ModelCaller
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
    """A model that is busy so many times, asking for a wait, and then answers."""

    ref, format = SCRIPTED, "openai-chat"

    def __init__(self, times: int, wait_seconds: float = 0.0) -> None:
        self.times = times
        self._wait_seconds = wait_seconds

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Answer, once it is no longer busy."""
        self.times -= 1
        if self.times >= 0:
            raise ModelBusy("m", "slow down", wait_seconds=self._wait_seconds)
        return ScriptedModel(in_turn(Say("Well."))).stream(request)

    summarise = ScriptedModel().summarise


def waits_for(model: Model) -> list[float]:
    """Return the waits before each retry, after comparing them with the events."""
    events, waits = list[AgentEvent](), list[float]()
    try:
        ModelCaller(model, events.append, pause_seconds=1, wait=waits.append).call(REQUEST, never)
    finally:
        assert [one.wait_seconds for one in events if isinstance(one, RequestRetried)] == waits
    return waits


def calling(*answers: ScriptedAnswer) -> tuple[ModelCaller, ScriptedModel, list[AgentEvent]]:
    """Return a caller of a model that gives these answers, with the model and the events."""
    model, events = ScriptedModel(in_turn(*answers)), list[AgentEvent]()
    return ModelCaller(model, events.append, pause_seconds=0), model, events


def never(overflow: ModelOverflow) -> ModelRequest:
    """Refuse to shrink the request."""
    raise overflow


def test_a_reply_is_emitted_as_it_arrives() -> None:
    """Text and reasoning are emitted as they arrive; the whole reply is returned at the end."""
    caller, _, events = calling(Say("It is well with all.", reasoning="Hm."))
    body = caller.call(REQUEST, never)

    assert events == [ReasoningReceived("Hm."), TextReceived("It is well w"), TextReceived("ith all.")]
    assert caller.text == "It is well with all."
    assert body["choices"][0]["message"]["content"] == "It is well with all."


def test_a_busy_model_is_called_again() -> None:
    """After a temporary refusal or a broken stream the same request is sent again; the text so far is discarded."""
    caller, model, events = calling(Fail(429), BROKEN, Say("Well."))
    caller.call(REQUEST, never)

    assert [type(one) for one in events] == [RequestRetried, TextReceived, RequestRetried, TextReceived]
    assert caller.text == "Well."
    assert len(model.requests) == 3


def test_a_model_that_stays_busy_is_given_up() -> None:
    """After the last retry the failure is raised; the text of the last try is still available."""
    caller, model, _ = calling(BROKEN)
    with pytest.raises(ModelBusy):
        caller.call(REQUEST, never)

    assert len(model.requests) == 1 + MOST_RETRIES_IN_REPLY
    assert caller.text == "The first ha"


def test_waits_grow() -> None:
    """Waits double, and are never shorter than the provider asks for; before a reply there are more retries."""
    assert waits_for(Busy(MOST_RETRIES_BEFORE_REPLY)) == [1, 2, 4, 8, 16]
    assert waits_for(Busy(3, wait_seconds=3)) == [3, 3, 4]
    assert waits_for(Busy(1, wait_seconds=60)) == [60]
    with pytest.raises(ModelBusy):
        waits_for(Busy(MOST_RETRIES_BEFORE_REPLY + 1))


def test_a_long_wait_fails_at_once() -> None:
    """A provider that asks for hours of waiting is not waited for."""
    model = Busy(9, wait_seconds=LONGEST_WAIT_SECONDS + 1)
    with pytest.raises(ModelBusy):
        waits_for(model)

    assert model.times == 8


def test_other_failures_are_raised_at_once() -> None:
    """A wrong key is not retried."""
    caller, model, events = calling(Fail(401))
    with pytest.raises(KeyRefused):
        caller.call(REQUEST, never)

    assert (len(model.requests), events) == (1, [])


def test_a_request_that_is_too_large_is_shrunk() -> None:
    """B8: an overflow before or in the middle of the stream leads to a smaller request."""
    late = Say(
        "The first half and more", trouble=Trouble(cut_after_events=1, error_event=wire_replies.chat_overflow(9, 8))
    )
    caller, model, events = calling(TOO_LARGE, late, Say("Well."))
    caller.call(REQUEST, lambda _: SMALLER)

    assert [request.body["messages"] for request in model.requests] == [
        REQUEST.messages,
        SMALLER.messages,
        SMALLER.messages,
    ]
    assert caller.text == "Well."
    assert sum(isinstance(one, RequestRetried) for one in events) == 2


def test_an_overflow_that_cannot_be_shrunk_is_raised() -> None:
    """If nothing can be left out, the overflow is raised and no retry is emitted."""
    caller, _, events = calling(TOO_LARGE)
    with pytest.raises(ModelOverflow):
        caller.call(REQUEST, never)

    assert events == []


class Replyless:
    """A model that breaks its contract: its stream ends without a reply."""

    ref, format = SCRIPTED, "openai-chat"

    def stream(self, request: ModelRequest) -> Iterator[Heard]:  # noqa: ARG002
        """Stream some text."""
        yield Said("So")

    summarise = ScriptedModel().summarise


def test_a_stream_without_a_reply_is_a_broken_contract() -> None:
    """A model that never yields the whole reply is wrong, not busy."""
    model: Model = Replyless()
    with pytest.raises(AssertionError, match="without a reply"):
        ModelCaller(model, lambda _: None, pause_seconds=0).call(REQUEST, never)
