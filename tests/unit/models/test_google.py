"""Models asked through the `google-genai` SDK."""

import subprocess
import sys
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import Additions, own_request
from infold.errors import KeyRefused, ModelBusy, RequestRefused
from infold.models.google import FAILURES, GoogleGemini
from infold.ports import ModelRequest, Replied, ToolSpec
from infold.testing.script import Fail, Say, in_turn
from infold.testing.scripted_server import ScriptedServer

from .walking import walked

NAMING = """
import warnings
warnings.simplefilter("ignore")
from infold.core.messages import ModelRef
from infold.models.google import GoogleGemini
try:
    GoogleGemini(ModelRef("google", "gemini-2.5-flash"))
except Exception as error:
    print(type(error).__name__, error)
"""
ASK = own_request("[user] hi", Additions(), output_tokens=500)
HI: list[object] = [{"role": "user", "parts": [{"text": "hi"}]}]
NOTE = ToolSpec("note", "Writes a note.", {"type": "object", "properties": {}, "additionalProperties": False})
SIGNED: dict[str, Any] = {"functionCall": {"name": "note", "args": {}}, "thoughtSignature": "c2ln+/=="}


def model_at(url: str) -> GoogleGemini:
    """A model at a server that speaks Gemini."""
    client = genai.Client(api_key="a long and secret key", http_options=types.HttpOptions(base_url=url))
    return GoogleGemini(ModelRef("google", "gemini-2.5-flash"), client)


def test_a_request_is_what_the_interface_takes() -> None:
    """B12: the system prompt, tools and limits stand beside the contents."""
    with ScriptedServer() as server:
        list(model_at(server.url).stream(ModelRequest(HI, "Be good.", (NOTE,), 77)))
        list(model_at(server.url).stream(ModelRequest(HI)))
        full, bare = server.requests

    assert full.body["systemInstruction"] == {"parts": [{"text": "Be good."}]}
    assert full.body["tools"][0]["functionDeclarations"][0]["name"] == "note"
    assert full.body["generationConfig"] == {"maxOutputTokens": 77}
    assert bare.body == {"contents": HI, "generationConfig": {}}
    assert bare.path.endswith("/models/gemini-2.5-flash:streamGenerateContent?alt=sse")


def test_contents_are_sent_as_they_are() -> None:
    """B12: fields the SDK does not know, names in either spelling and signatures are the provider's to read, not the SDK's."""
    given: list[object] = [
        {"role": "user", "parts": [{"text": "hi", "mediaResolution": {"level": "x", "new_field": 1}}]},
        {"role": "model", "parts": [SIGNED, {"function_call": {"name": "note", "args": {"file_path": None}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "note", "response": {"output": "ok"}}}]},
    ]
    with ScriptedServer() as server:
        list(model_at(server.url).stream(ModelRequest(given)))
        assert server.requests[0].body["contents"] == given


def test_a_signature_comes_back_with_its_call() -> None:
    """B12: what the provider signed stands beside the call it belongs to."""
    with ScriptedServer(in_turn(Say(calls=(("note", {"text": None}),), reasoning="Hm."))) as server:
        replied = list(model_at(server.url).stream(ModelRequest(HI)))[-1]

    assert isinstance(replied, Replied)
    part = replied.body["candidates"][0]["content"]["parts"][-1]
    assert part["thoughtSignature"] == "c2lnbmVk"
    assert part["functionCall"]["args"] == {"text": None}


def test_an_address_and_a_key_are_enough() -> None:
    """B23: without a client of the caller's one is made, for the address it is given."""
    with ScriptedServer() as server:
        model = GoogleGemini(ModelRef("google", "gemini-2.5-flash"), url=server.url, key="its key")
        assert isinstance(list(model.stream(ModelRequest(HI)))[-1], Replied)
        assert server.requests[0].headers["x-goog-api-key"] == "its key"


def test_a_blocked_request_is_refused() -> None:
    """B10: a provider that will not answer says so in place of a reply; asking again would not help."""
    blocked = Fail(200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    with ScriptedServer(in_turn(blocked)) as server, pytest.raises(RequestRefused, match="PROHIBITED_CONTENT"):
        list(model_at(server.url).stream(ModelRequest(HI)))


def test_a_call_that_is_none_may_be_asked_for_again() -> None:
    """The provider withholds a malformed call and says so; that is no reply of no words."""
    with ScriptedServer(in_turn(Say("", finish="error"))) as server, pytest.raises(ModelBusy, match="with an error"):
        list(model_at(server.url).stream(ModelRequest(HI)))


def test_a_spent_quota_says_how_long_to_wait() -> None:
    """It stands among the details of the refusal."""
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}
    spent = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [delay]}}
    with ScriptedServer(in_turn(Fail(429, spent))) as server, pytest.raises(ModelBusy) as raised:
        list(model_at(server.url).stream(ModelRequest(HI)))

    assert raised.value.wait_seconds == 37


def test_a_key_that_is_not_accepted_is_told_without_it() -> None:
    """B28: Google refuses a wrong key with 400; the error names the variable, never the key."""
    words = "API key not valid: a long and secret key"
    refused = {"error": {"code": 400, "message": words, "details": [{"reason": "API_KEY_INVALID"}]}}
    with ScriptedServer(in_turn(Fail(400, refused))) as server, pytest.raises(KeyRefused) as caught:
        list(model_at(server.url).stream(ModelRequest(HI)))

    assert "API key not valid: ***; set GEMINI_API_KEY" in str(caught.value)


def test_a_summary_is_streamed() -> None:
    """S3.10, B22: pieces, then all of it with name, usage and price."""
    with ScriptedServer(in_turn(Say("Notes on the parser.", reasoning="Hm."))) as server:
        *pieces, told = model_at(server.url).summarise(ASK)
        request = server.requests[0]

    assert "".join(str(piece) for piece in pieces) == "Notes on the parser."
    assert isinstance(told, ModelAnswer)
    assert (told.answer, told.model) == (Answer("Notes on the parser.", "stop"), "gemini-2.5-flash")
    assert told.cost > 0
    assert request.body["generationConfig"] == {"maxOutputTokens": 500}


@pytest.mark.slow
def test_each_exception_has_a_meaning() -> None:
    """B10: every exception class of the SDK's errors, its transport and its credentials is in the table, and nothing else is."""
    unmapped, unknown = walked("infold.models.google", "google.genai", "google.auth")

    assert unmapped == ["httpx2.HTTPError", "httpx2.RequestError"]
    assert unknown == []


def test_every_error_the_sdk_names_is_caught() -> None:
    """B10: whatever stands in the SDK's module of errors descends from a class that is caught."""
    named = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    raised = [kind for kind in named if not issubclass(kind, Warning)]

    assert [kind.__name__ for kind in raised if not issubclass(kind, FAILURES.roots)] == []


@pytest.mark.slow
def test_without_a_key_it_is_told_what_to_do() -> None:
    """A model that cannot be asked is an error when it is named."""
    told = subprocess.run([sys.executable, "-c", NAMING], capture_output=True, text=True, check=True, env={}).stdout

    assert told.startswith("KeyRefused gemini-2.5-flash: there is no key for it; set GEMINI_API_KEY")
