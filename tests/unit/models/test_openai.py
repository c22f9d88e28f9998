"""Models asked through the `openai` SDK."""

import subprocess
import sys

import openai
import pytest

from infold.core.judge import Answer
from infold.core.summary import Additions, own_request
from infold.engine.asking import ask
from infold.errors import ModelError, ModelOverflow
from infold.models.openai import summariser
from infold.testing.scripted import Fail, Say, ScriptedServer, in_turn

NAMING = """
from infold.models.openai import summariser
try:
    summariser("gpt-4o")
except Exception as error:
    print(type(error).__name__, error)
"""
ASK = own_request("[user] hi", Additions(), output_tokens=500)


def client(server: ScriptedServer) -> openai.OpenAI:
    """A client of the caller's."""
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)


def heard(piece: str) -> None:
    """Hear a piece of a summary."""
    raise AssertionError(piece)


def test_a_model_is_asked_by_its_name() -> None:
    """S3.2, B22: its answer, its name, the usage it reported and the price are told."""
    with ScriptedServer(in_turn(Say("Notes."))) as server:
        told = summariser("gpt-4o-mini", client(server))(ASK)
        request = server.requests[0]

    assert told.answer == Answer("Notes.")
    assert told.model == "gpt-4o-mini"
    assert told.usage is not None
    assert told.usage.prompt == request.tokens
    assert told.cost > 0
    assert request.body["model"] == "gpt-4o-mini"
    assert request.body["max_completion_tokens"] == 500
    assert ASK.system in str(request.body["messages"][0])


def test_calls_and_ends_are_told() -> None:
    """B5: the judge hears that tools were called, and that an answer was cut off."""
    with ScriptedServer(in_turn(Say(calls=(("bash", {}),)), Say("Not", finish="length"))) as server:
        asked = summariser("m", client(server))
        called, cut = asked(ASK), asked(ASK)

    assert called.answer == Answer("", "tool-calls", calls_tools=True)
    assert cut.answer == Answer("Not", "length")


def test_its_refusals_are_a_models_failures() -> None:
    """B10: what the SDK raises is told as the model's failure, an overflow with its limit."""
    too_long = {"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}
    with ScriptedServer(in_turn(Fail(400, too_long), Fail(401))) as server:
        asked = summariser("m", client(server))
        with pytest.raises(ModelOverflow) as overflow:
            ask(asked, ASK, heard, seconds=None)
        with pytest.raises(ModelError, match="AuthenticationError"):
            ask(asked, ASK, heard, seconds=None)

    assert overflow.value.limit_tokens == 4096


@pytest.mark.slow
def test_without_a_key_it_is_told_what_to_do() -> None:
    """A model that cannot be asked is an error when it is named."""
    told = subprocess.run([sys.executable, "-c", NAMING], capture_output=True, text=True, check=True, env={}).stdout

    assert told.startswith("UsageError gpt-4o cannot be asked for summaries")
    assert "OPENAI_API_KEY" in told
