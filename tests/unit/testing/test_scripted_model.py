"""The model for tests that lives in the process; its contract is in `tests/contract`."""

import pytest

from infold.core.messages import ModelRef, UserMessage, text_of
from infold.errors import KeyRefused, ModelBusy, ModelError, ModelOverflow, RequestRefused, UnknownModel
from infold.formats.registry import OPENAI_CHAT
from infold.ports import ModelRequest, Replied, Said, ToolSpec
from infold.testing.script import Fail, Hang, Say, ScriptedAnswer, ScriptedRequest, Trouble, in_turn
from infold.testing.scripted_model import SCRIPTED, ScriptedModel

HI: list[object] = [{"role": "user", "content": "hi"}]
NOTE = ToolSpec("note", "Writes a note.", {"type": "object", "properties": {}})


def test_a_script_sees_what_a_server_would() -> None:
    """B23: messages decoded, the system prompt among them, tools and a count of it all."""

    def script(request: ScriptedRequest) -> ScriptedAnswer:
        return Say(f"You said {text_of(request.messages[-1])}.")

    model = ScriptedModel(script, ref=ModelRef("openai", "gpt-5"))
    *_, replied = model.stream(ModelRequest(HI, "Be good.", (NOTE,)))
    (request,) = model.requests

    assert isinstance(replied, Replied)
    assert OPENAI_CHAT.reply_items(replied.body) == [{"role": "assistant", "content": "You said hi.", "refusal": None}]
    assert request.body["messages"] == [{"role": "system", "content": "Be good."}, *HI]
    assert request.body["tools"][0]["function"]["name"] == "note"
    assert (request.body["model"], request.format) == ("gpt-5", "openai-chat")
    assert isinstance(request.messages[-1], UserMessage)
    assert OPENAI_CHAT.usage(replied.body).prompt == request.tokens > 0  # type: ignore[union-attr] # it always reports


def test_calls_of_two_replies_have_ids_of_their_own() -> None:
    """B12: a session refuses the same id twice."""
    model = ScriptedModel(in_turn(Say(calls=(("note", {}),))))
    ids = [str([*model.stream(ModelRequest(HI))][-1]).partition("'id': 'call_")[2][:3] for _ in range(2)]

    assert ids == ["1_0", "2_0"]


def test_what_is_too_large_is_refused_before_the_script_sees_it() -> None:
    """B8: with the limit, and the numbers of the refusal for whoever learns from them."""
    model = ScriptedModel(in_turn(Say("Well.")), window_tokens=50)
    large: list[object] = [{"role": "user", "content": "hello " * 200}]

    assert isinstance([*model.stream(ModelRequest(HI))][-1], Replied)
    with pytest.raises(ModelOverflow) as caught:
        list(model.stream(ModelRequest(large)))
    assert caught.value.limit_tokens == 50


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Fail(401), KeyRefused),
        (Fail(404), UnknownModel),
        (Fail(418), RequestRefused),
        (Fail(503), ModelBusy),
        (Fail(500, ["odd"]), ModelBusy),
        (Hang(9), ModelBusy),
    ],
)
def test_failures_are_those_of_an_adapter(answer: ScriptedAnswer, kind: type[ModelError]) -> None:
    """B10: at once, whatever the script asks for."""
    with pytest.raises(kind) as caught:
        list(ScriptedModel(in_turn(answer)).stream(ModelRequest(HI)))

    assert type(caught.value) is kind


def test_time_passes_as_a_test_says() -> None:
    """S3.10: before the first piece and after each, so that somebody can break a reply off in between."""
    passed: list[float] = []
    trouble = Trouble(delay_seconds=2, chunk_delay_seconds=1)
    model = ScriptedModel(in_turn(Say("All is well, all of it.", trouble=trouble)), pause=passed.append)
    heard = list(model.stream(ModelRequest(HI)))

    assert passed == [2, *(1 for piece in heard if isinstance(piece, Said))]
    assert model.ref == SCRIPTED
