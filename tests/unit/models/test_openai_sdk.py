"""What the `openai` SDK raises, and where it is asked."""

import subprocess
import sys

import httpx2
import openai
import pytest

from infold.errors import ModelBusy, ModelUnreachable
from infold.models.failures import translate_error
from infold.models.openai import FAILURES, NO_KEY, endpoint_of, make_client

from .walking import TRANSPORT_ROOTS, walked

KEYLESS = """
from infold.models.openai import make_client
try:
    make_client("gpt-5", url="", key="", variable="OPENAI_API_KEY")
except Exception as error:
    print(type(error).__name__, error)
print(make_client("m", url="http://127.0.0.1:9/v1", key="", variable="OPENAI_API_KEY").api_key)
"""
CLIENT = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="k")
REQUEST = httpx2.Request("POST", "http://127.0.0.1:9/v1")


@pytest.mark.slow
def test_each_exception_has_a_meaning() -> None:
    """B10: every exception class of the SDK and of its transport is in the table, and nothing else is."""
    assert walked("infold.models.openai", "openai") == ([*TRANSPORT_ROOTS, "openai.OpenAIError"], [])


@pytest.mark.slow
def test_a_key_is_needed_where_openai_itself_is_asked() -> None:
    """The error says which variable to set; a server of one's own may want no key."""
    told = subprocess.run([sys.executable, "-c", KEYLESS], capture_output=True, text=True, check=True, env={}).stdout

    assert told.splitlines() == [
        "KeyRefused gpt-5: there is no key for it; set OPENAI_API_KEY to a key that may use this model",
        NO_KEY,
    ]


def test_a_given_key_is_used() -> None:
    """A server of one's own may want one after all."""
    client = make_client("m", url="http://127.0.0.1:9/v1", key="its key", variable="X")

    assert client.api_key == "its key"
    assert endpoint_of("m", client, variable="X").address == "http://127.0.0.1:9/v1/"


def test_what_lies_behind_a_failed_connection_counts() -> None:
    """B10: nobody at the address is one thing, a server that hangs up is another, which may pass."""
    line = endpoint_of("m", CLIENT, variable="X")
    refused, left = openai.APIConnectionError(request=REQUEST), openai.APIConnectionError(request=REQUEST)
    refused.__cause__ = httpx2.ConnectError("connection refused")
    left.__cause__ = httpx2.RemoteProtocolError("server disconnected")

    assert isinstance(translate_error(line, refused, FAILURES), ModelUnreachable)
    assert isinstance(translate_error(line, left, FAILURES), ModelBusy)
    assert isinstance(translate_error(line, openai.APIConnectionError(request=REQUEST), FAILURES), ModelUnreachable)
