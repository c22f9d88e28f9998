"""Models asked through the `anthropic` SDK."""

import subprocess
import sys

import anthropic
import pytest

from infold.core.judge import Answer
from infold.core.summary import Additions, own_request
from infold.engine.asking import ask
from infold.errors import ModelError, ModelOverflow
from infold.models.anthropic import summariser
from infold.testing.scripted import Fail, Say, ScriptedServer, in_turn

NAMING = """
from infold.models.anthropic import summariser
try:
    summariser("claude-haiku-4-5")
except Exception as error:
    print(type(error).__name__, error)
"""
ASK = own_request("[user] hi", Additions(), output_tokens=500)


def client(server: ScriptedServer) -> anthropic.Anthropic:
    """A client of the caller's."""
    return anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)


def heard(piece: str) -> None:
    """Hear a piece of a summary."""
    raise AssertionError(piece)


def test_a_model_is_asked_by_its_name() -> None:
    """S3.2, B22: its answer without its thinking, its name, the usage it reported and the price are told."""
    with ScriptedServer(in_turn(Say("Notes.", reasoning="Hm."))) as server:
        told = summariser("anthropic/claude-haiku-4-5", client(server))(ASK)
        request = server.requests[0]

    assert told.answer == Answer("Notes.")
    assert told.model == "anthropic/claude-haiku-4-5"
    assert request.body["model"] == "claude-haiku-4-5"
    assert told.usage is not None
    assert told.usage.prompt == request.tokens
    assert told.cost > 0
    assert request.body["max_tokens"] == 500
    assert request.body["system"] == ASK.system


def test_its_refusals_are_a_models_failures() -> None:
    """B10: what the SDK raises is told as the model's failure, an overflow with its limit."""
    words = "prompt is too long: 9000 tokens > 4096 maximum"
    too_long = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    with ScriptedServer(in_turn(Fail(400, too_long), Fail(529))) as server:
        asked = summariser("claude-haiku-4-5", client(server))
        with pytest.raises(ModelOverflow) as overflow:
            ask(asked, ASK, heard, seconds=None)
        with pytest.raises(ModelError, match="raised"):
            ask(asked, ASK, heard, seconds=None)

    assert overflow.value.limit_tokens == 4096


@pytest.mark.slow
def test_without_a_key_it_is_told_what_to_do() -> None:
    """A model that cannot be asked is an error when it is named."""
    told = subprocess.run([sys.executable, "-c", NAMING], capture_output=True, text=True, check=True, env={}).stdout

    assert told.startswith("UsageError claude-haiku-4-5 cannot be asked for summaries")
    assert "ANTHROPIC_API_KEY" in told
