"""Models asked through OpenAI's Responses interface."""

import openai
import pytest

from infold.core.judge import ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import Additions, own_request
from infold.models.openai import OpenAIResponses
from infold.ports import ModelRequest, Replied, ToolSpec
from infold.testing.script import Say, in_turn
from infold.testing.scripted_server import ScriptedServer

HI: list[object] = [{"role": "user", "content": "hi"}]
NOTE = ToolSpec("note", "Writes a note.", {"type": "object", "properties": {}, "additionalProperties": False})


def model_at(url: str, name: str = "gpt-5") -> OpenAIResponses:
    """A model at a server that speaks Responses."""
    return OpenAIResponses(ModelRef("openai", name), openai.OpenAI(base_url=url, api_key="k", max_retries=0))


def test_a_request_is_what_the_interface_takes() -> None:
    """B12: the provider keeps nothing; instructions stand beside the messages, which go as they are."""
    with ScriptedServer() as server:
        list(model_at(server.url).stream(ModelRequest(HI, "Be good.", (NOTE,), 77)))
        list(model_at(server.url, "gpt-4o").stream(ModelRequest(HI)))
        full, bare = (request.body for request in server.requests)

    assert (full["input"], full["instructions"], full["max_output_tokens"]) == (HI, "Be good.", 77)
    assert (full["tools"][0]["name"], full["tools"][0]["strict"]) == ("note", True)
    assert bare == {"model": "gpt-4o", "input": HI, "stream": True, "store": False}


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        *((name, True) for name in ("gpt-5", "gpt-5.1-codex", "o3", "o4-mini", "codex-mini-latest", "gpt-6")),
        *(
            (name, False)
            for name in ("gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "chatgpt-4o-latest", "gpt-5-chat-latest")
        ),
        ("ft:gpt-4.1:acme::x", False),
    ],
)
def test_sealed_reasoning_is_asked_of_models_that_reason(name: str, reasons: bool) -> None:
    """B12: what was reasoned can be given back though the provider keeps nothing; others would refuse to be asked for it."""
    asked = model_at("http://127.0.0.1:9", name)._body(ModelRequest(HI))

    assert ("include" in asked) == reasons


def test_sealed_reasoning_is_in_the_reply() -> None:
    """B12: byte for byte, to be given back."""
    with ScriptedServer(in_turn(Say("Well.", reasoning="Hm."))) as server:
        replied = list(model_at(server.url).stream(ModelRequest(HI)))[-1]

    assert isinstance(replied, Replied)
    assert replied.body["output"][0]["encrypted_content"] == "c2VhbGVk"


def test_a_summary_is_streamed() -> None:
    """S3.10: pieces, then all of it."""
    with ScriptedServer(in_turn(Say("Notes on the parser."))) as server:
        *pieces, told = model_at(server.url).summarise(own_request("[user] hi", Additions(), output_tokens=500))

    assert "".join(str(piece) for piece in pieces) == "Notes on the parser."
    assert isinstance(told, ModelAnswer)
    assert told.cost > 0
