"""Models asked through the `anthropic` SDK."""

import subprocess
import sys

import anthropic
import pytest

from infold.core.judge import Answer
from infold.core.messages import ModelRef, Usage
from infold.core.summary_request import Additions, own_request
from infold.errors import ModelBusy, ModelOverflow
from infold.formats.registry import ANTHROPIC_MESSAGES
from infold.models.anthropic import AnthropicMessages
from infold.observers.bus import Bus
from infold.ports import ModelRequest, Replied, ToolSpec
from infold.session.summariser import Callbacks
from infold.testing.script import Fail, Say, in_turn
from infold.testing.scripted_server import ScriptedServer

from .walking import TRANSPORT_ROOTS, walked

NAMING = """
from infold.core.messages import ModelRef
from infold.models.anthropic import AnthropicMessages
try:
    AnthropicMessages(ModelRef("anthropic", "claude-haiku-4-5"))
except Exception as error:
    print(type(error).__name__, error)
"""
ASK = own_request("[user] hi", Additions(), output_tokens=500)
HI: list[object] = [{"role": "user", "content": "hi"}]
NOTE = ToolSpec("note", "Writes a note.", {"type": "object", "properties": {}, "additionalProperties": False})
CACHED = {"type": "ephemeral"}


def model_at(url: str) -> AnthropicMessages:
    """A model at a server that speaks Messages."""
    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
    return AnthropicMessages(ModelRef("anthropic", "claude-haiku-4-5"), client)


def test_a_request_is_what_the_interface_takes() -> None:
    """B8, B12: the system prompt and tools stand beside the messages; the longest answer is the model's own unless it is told."""
    with ScriptedServer() as server:
        list(model_at(server.url).stream(ModelRequest(HI, "Be good.", (NOTE,), 77)))
        list(model_at(server.url).stream(ModelRequest(HI)))
        full, bare = (request.body for request in server.requests)

    assert full["system"] == [{"type": "text", "text": "Be good.", "cache_control": CACHED}]
    assert (full["messages"], full["max_tokens"], full["tools"][0]["name"]) == (HI, 77, "note")
    assert bare == {
        "model": "claude-haiku-4-5",
        "messages": HI,
        "max_tokens": 64_000,
        "stream": True,
        "cache_control": CACHED,
    }


def test_the_cache_is_asked_for_without_touching_the_messages() -> None:
    """B16: the mark that moves with the last message is the API's to set; what was sent before is sent again as it was."""
    later = [*HI, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Go on."}]
    with ScriptedServer() as server:
        for items in (HI, later):
            list(model_at(server.url).stream(ModelRequest(items, "Be good.")))
        first, second = (request.body for request in server.requests)

    assert second["messages"][: len(HI)] == first["messages"] == HI
    assert {**second, "messages": HI} == first


def test_what_was_written_to_the_cache_is_counted() -> None:
    """B22: reading and writing have prices of their own."""
    counted = Usage(input=3, output=9, cache_read=100, cache_write=40)
    with ScriptedServer(in_turn(Say("Well.", usage=counted))) as server:
        replied = list(model_at(server.url).stream(ModelRequest(HI)))[-1]

    assert isinstance(replied, Replied)
    assert ANTHROPIC_MESSAGES.usage(replied.body) == counted


def test_an_address_and_a_key_are_enough() -> None:
    """B23: without a client of the caller's one is made, for the address it is given."""
    with ScriptedServer() as server:
        model = AnthropicMessages(ModelRef("anthropic", "claude-haiku-4-5"), url=server.url, key="its key")
        assert isinstance(list(model.stream(ModelRequest(HI)))[-1], Replied)
        assert "its key" in str(server.requests[0].headers)


def test_a_summary_is_streamed_and_not_cached() -> None:
    """S3.2, S3.10, B22: heard piece by piece, told without its thinking, with name, usage and price."""
    pieces: list[str] = []
    with ScriptedServer(in_turn(Say("Notes on the parser.", reasoning="Hm."))) as server:
        told = Callbacks(Bus()).summarise(model_at(server.url).summarise, ASK, pieces.append, seconds=None)
        request = server.requests[0]

    assert "".join(pieces) == "Notes on the parser."
    assert (told.answer, told.model) == (Answer("Notes on the parser.", "stop"), "claude-haiku-4-5")
    assert told.usage is not None
    assert told.usage.prompt == request.tokens
    assert told.cost > 0
    assert (request.body["max_tokens"], request.body["system"]) == (500, ASK.system)
    assert "cache_control" not in request.body


def test_a_summary_that_is_refused_is_a_models_failure() -> None:
    """B8, B10: an overflow is told with its limit."""
    words = "prompt is too long: 9000 tokens > 4096 maximum"
    too_long = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    with ScriptedServer(in_turn(Fail(400, too_long), Fail(529))) as server:
        asked = model_at(server.url).summarise
        with pytest.raises(ModelOverflow) as overflow:
            Callbacks(Bus()).summarise(asked, ASK, print, seconds=None)
        with pytest.raises(ModelBusy):
            Callbacks(Bus()).summarise(asked, ASK, print, seconds=None)

    assert overflow.value.limit_tokens == 4_096


@pytest.mark.slow
def test_each_exception_has_a_meaning() -> None:
    """B10: every exception class of the SDK and of its transport is in the table, and nothing else is."""
    assert walked("infold.models.anthropic", "anthropic") == (["anthropic.AnthropicError", *TRANSPORT_ROOTS], [])


@pytest.mark.slow
def test_without_a_key_it_is_told_what_to_do() -> None:
    """A model that cannot be asked is an error when it is named."""
    told = subprocess.run([sys.executable, "-c", NAMING], capture_output=True, text=True, check=True, env={}).stdout

    assert told.startswith("KeyRefused claude-haiku-4-5: there is no key for it; set ANTHROPIC_API_KEY")


def test_a_long_wait_is_not_slept_through() -> None:
    """B10: the SDK would wait for as long as it is asked to, and tell nobody; whoever asked the model decides."""
    with ScriptedServer(in_turn(Fail(429, headers={"retry-after": "110"}))) as server:
        model = AnthropicMessages(ModelRef("anthropic", "claude-haiku-4-5"), url=server.url, key="k")
        with pytest.raises(ModelBusy) as raised:
            list(model.stream(ModelRequest(HI)))

    assert (raised.value.wait_seconds, len(server.requests)) == (110, 1)
