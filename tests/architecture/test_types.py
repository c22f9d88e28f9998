"""The public names as a user's own program has them under a strict type checker; `make check` checks this module like any other.

What a line here needs no cast and no suppression for, nobody's does.
"""

import anthropic
import openai
import pytest

from infold import Fitted, Ready, Session, SessionSettings, fit, open_store, wrap
from infold.testing.scripted_server import ScriptedServer

ASKED = [{"role": "user", "content": "Port the feed. Never touch vendor/."}]


def fitted() -> list[Fitted | Ready]:
    """The same messages by either way to a request."""
    return [
        fit(ASKED, window=8_000),
        Session(open_store("memory"), "ferry", SessionSettings(window=8_000)).prepare(ASKED),
    ]


@pytest.mark.parametrize("request_", fitted(), ids=lambda one: type(one).__name__)
def test_messages_go_to_an_sdk_as_they_are(request_: Fitted | Ready) -> None:
    """What is given back is sent with the provider's own SDK, and read as what it is."""
    with ScriptedServer(window_tokens=6_000) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            client.chat.completions.create(model="some-model", messages=request_.messages)
        with anthropic.Anthropic(base_url=server.url, api_key="none") as claude:
            claude.messages.create(model="some-model", max_tokens=500, messages=request_.messages)

    assert [sent.body["messages"] for sent in server.requests] == [ASKED, ASKED]
    assert request_.messages[0]["content"] == "Port the feed. Never touch vendor/."


def test_a_wrapped_client_keeps_its_type() -> None:
    """A wrapped client is used as the class it was, in a `with` block too."""
    with (
        ScriptedServer(window_tokens=6_000) as server,
        wrap(openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")) as client,
    ):
        reply = client.chat.completions.create(model="some-model", messages=[{"role": "user", "content": "Hello."}])

    assert reply.choices[0].message.content
