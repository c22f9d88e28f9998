"""Models asked through OpenAI's chat interface."""

import openai
import pytest

from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import Additions, own_request
from infold.errors import KeyRefused, ModelBusy, ModelOverflow
from infold.models.openai import EMBEDDED, EmbeddedChat, OpenAIChat
from infold.observers.bus import Bus
from infold.ports import ModelRequest, Replied, ToolSpec
from infold.session.summariser import Callbacks
from infold.testing.script import Fail, Say, in_turn
from infold.testing.scripted_server import ScriptedServer

ASK = own_request("[user] hi", Additions(), output_tokens=500)
HI: list[object] = [{"role": "user", "content": "hi"}]
NOTE = ToolSpec("note", "Writes a note.", {"type": "object", "properties": {}, "additionalProperties": False})


def client(url: str) -> openai.OpenAI:
    """A client of the caller's."""
    return openai.OpenAI(base_url=url, api_key="k", max_retries=0)


def told(model: OpenAIChat, pieces: list[str] | None = None) -> ModelAnswer:
    """What a model says to a session that asks for a summary."""
    return Callbacks(Bus()).summarise(model.summarise, ASK, (pieces if pieces is not None else []).append, seconds=None)


def test_a_request_is_what_the_interface_takes() -> None:
    """B12: the system prompt stands first, the messages after it as they are, usage is asked for."""
    with ScriptedServer() as server:
        model = OpenAIChat(ModelRef("openai", "gpt-5"), client(server.url))
        list(model.stream(ModelRequest(HI, "Be good.", (NOTE,), 77)))
        list(model.stream(ModelRequest(HI)))
        full, bare = (request.body for request in server.requests)

    assert full["messages"] == [{"role": "system", "content": "Be good."}, *HI]
    assert full["tools"][0]["function"]["name"] == "note"
    assert full["max_tokens"] == 77
    assert bare == {"model": "gpt-5", "messages": HI, "stream": True, "stream_options": {"include_usage": True}}


def test_the_longest_answer_is_called_what_the_server_calls_it() -> None:
    """B8: OpenAI has a name of its own for it, which other servers need not know."""
    own, other = (
        OpenAIChat(ModelRef("openai", "gpt-5"), client(url)) for url in ("https://api.openai.com/v1", "http://[::1]")
    )

    assert "max_completion_tokens" in own._body(ModelRequest(HI, output_tokens=1))
    assert "max_tokens" in other._body(ModelRequest(HI, output_tokens=1))


def test_an_address_and_a_key_are_enough() -> None:
    """B23: any server that speaks the interface can be asked; a key that is refused is told by the variable it is set in."""
    with ScriptedServer(in_turn(Say("Well."), Fail(401))) as server:
        model = OpenAIChat(ModelRef("local", "qwen"), url=server.url, key="its key", variable="QWEN_KEY")
        assert isinstance(list(model.stream(ModelRequest(HI)))[-1], Replied)
        with pytest.raises(KeyRefused, match="set QWEN_KEY"):
            list(model.stream(ModelRequest(HI)))
        assert server.requests[0].headers["authorization"] == "Bearer its key"


def test_the_embedded_model_is_offered_no_tools() -> None:
    """It is too small to call any; all else is asked of it as of others."""
    with ScriptedServer() as server:
        model = EmbeddedChat(server.url)
        list(model.stream(ModelRequest(HI, "Be good.", (NOTE,), 9)))
        request = server.requests[0]

    assert model.ref == EMBEDDED
    assert request.path == "/v1/chat/completions"
    assert "tools" not in request.body
    assert (request.body["model"], request.body["max_tokens"]) == (EMBEDDED.id, 9)


def test_a_summary_is_streamed() -> None:
    """S3.2, S3.10, B22: heard piece by piece, then told with the model's name, the usage it reported and the price."""
    pieces: list[str] = []
    with ScriptedServer(in_turn(Say("Notes on the parser."))) as server:
        summary = told(OpenAIChat(ModelRef("openai", "gpt-4o-mini"), client(server.url)), pieces)
        request = server.requests[0]

    assert pieces == ["Notes on the", " parser."]
    assert (summary.answer, summary.model) == (Answer("Notes on the parser.", "stop"), "gpt-4o-mini")
    assert summary.usage is not None
    assert summary.usage.prompt == request.tokens
    assert summary.cost > 0
    assert request.body["max_tokens"] == 500
    assert request.body["messages"][0] == {"role": "system", "content": ASK.system}


def test_calls_and_ends_are_told() -> None:
    """B5: the judge hears that tools were called, and that an answer was cut off."""
    with ScriptedServer(in_turn(Say(calls=(("bash", {}),)), Say("Not", finish="length"))) as server:
        asked = OpenAIChat(ModelRef("", "m"), client(server.url))
        called, cut = told(asked), told(asked)

    assert called.answer == Answer("", "tool-calls", calls_tools=True)
    assert cut.answer == Answer("Not", "length")


def test_a_summary_that_is_refused_is_a_models_failure() -> None:
    """B8, B10: an overflow is told with its limit."""
    too_long = {"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}
    with ScriptedServer(in_turn(Fail(400, too_long), Fail(401))) as server:
        asked = OpenAIChat(ModelRef("", "m"), client(server.url))
        with pytest.raises(ModelOverflow) as overflow:
            told(asked)
        with pytest.raises(KeyRefused):
            told(asked)

    assert overflow.value.limit_tokens == 4_096


def test_a_long_wait_is_not_slept_through() -> None:
    """B10: the SDK would wait for as long as it is asked to, and tell nobody; whoever asked the model decides."""
    with ScriptedServer(in_turn(Fail(429, headers={"retry-after": "110"}))) as server:
        model = OpenAIChat(ModelRef("openai", "gpt-5"), url=f"{server.url}/v1", key="k")
        with pytest.raises(ModelBusy) as raised:
            list(model.stream(ModelRequest(HI)))

    assert (raised.value.wait_seconds, len(server.requests)) == (110, 1)
