"""Summaries by a wrapped client's own model, and a real model with a small window."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from infold import wrap
from infold.core.events import Compacted, FailedOpen, Rejected, SummaryRejected
from infold.core.summary_request import COMPACTION_AGENT
from infold.models.embedded import EmbeddedModel, is_installed
from infold.testing.script import Fail, Say, Script, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

from .test_live_server import ABSENT
from .wrap_scenes import SCENES, Item, Plan, Scene, Wrapping, run, worker

pytestmark = pytest.mark.slow

NOTES = "The importer is being ported part by part with make; nothing under vendor/ was touched."
ABLE: Item = {"model": "gpt-4o", "window": 16_000}
"""The least that is asked of a model for its own summaries."""

each_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole", marks=pytest.mark.long), pytest.param(True, id="streamed")]
)
each_colour = pytest.mark.parametrize("colour", ["sync", "async"])


def is_summary(request: ScriptedRequest) -> bool:
    """Whether infold asks, and not the client."""
    return COMPACTION_AGENT.system_text in str(request.body) or "Write notes on the conversation" in str(request.body)


def writing(summary: ScriptedAnswer) -> Script:
    """A worker that answers infold's own requests so."""
    return lambda request: summary if is_summary(request) else worker(request)


@each_scene
@each_way
@each_colour
def test_the_clients_own_model_writes_the_summaries(scene: Scene, stream: bool, colour: str) -> None:
    """B5, B10: it is asked through the same client with the same credentials, in one piece; its words are judged and used."""
    wrapping = Wrapping(**ABLE)
    with ScriptedServer(writing(Say(NOTES)), window_tokens=16_000) as server:
        run(scene, colour, server, wrapping, Plan(turns=16, stream=stream, words=1_000))
        requests = server.requests

    asked = [request for request in requests if is_summary(request)]
    assert asked
    assert all("key-of-the-caller" in str(request.headers) for request in asked)
    assert not any(request.stream for request in asked)
    assert max(request.tokens for request in requests) <= 16_000
    assert {event.summariser for event in wrapping.heard(Compacted)} == {"scripted"}
    assert NOTES in str(requests[-1].body)


@pytest.mark.parametrize(
    "refusal",
    [
        Fail(500),
        Fail(400, {"error": {"message": "maximum context length is 900 tokens"}}),
        Say("I'm sorry, I can't."),
        Say(""),
    ],
    ids=["failed", "overflow", "declined", "silent"],
)
@each_scene
def test_a_model_that_will_not_summarise_is_done_without(scene: Scene, refusal: ScriptedAnswer) -> None:
    """B10, B36: the model is asked twice, for less after an overflow; the session folds by code and goes on without asking it."""
    wrapping = Wrapping(**ABLE)
    with ScriptedServer(writing(refusal), window_tokens=16_000) as server:
        run(scene, "sync", server, wrapping, Plan(turns=16, words=1_000))
        asked = [request for request in server.requests if is_summary(request)]

    assert {event.summariser for event in wrapping.heard(Compacted)} == {""}
    assert len(wrapping.heard(SummaryRejected)) == 1
    assert len(asked) == 2


@each_colour
def test_summaries_are_written_ahead(colour: str) -> None:
    """B18: with `background` the model is asked before a summary is needed, and no error comes of closing meanwhile."""
    wrapping = Wrapping(background=True, **ABLE)
    with ScriptedServer(writing(Say(NOTES)), window_tokens=16_000) as server:
        run(SCENES[2], colour, server, wrapping, Plan(turns=30, words=500))
        requests = server.requests

    assert any(event.ahead for event in wrapping.heard(Compacted))
    assert max(request.tokens for request in requests) <= 16_000


# A real model.


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a llama.cpp server with a context of 2,048 tokens listens."""
    if not is_installed():
        pytest.skip(ABSENT)
    with EmbeddedModel(2_048) as model:
        yield model.url


@pytest.mark.long
def test_a_real_model_never_refuses(address: str) -> None:
    """B8, B11: sixty turns with a model of 2,048 tokens get no refusal through `wrap`, and the same turns without it do."""
    wrapping = Wrapping(window=2_048)
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as bare:
        items = chatted(wrap(bare, wrapping.settings), 60)
        with pytest.raises(openai.BadRequestError):
            bare.chat.completions.create(model="smollm2", messages=items, max_tokens=8)

    assert len(items) == 121
    assert wrapping.heard(Compacted)
    assert not wrapping.heard(Rejected)
    assert not wrapping.heard(FailedOpen)


def chatted(client: openai.OpenAI, turns: int) -> list[Any]:
    """A chat of so many turns, and the user's next wish."""
    items: list[Any] = []
    for turn in range(turns):
        items.append(
            {
                "role": "user",
                "content": f"Tell me of harbour {turn}. The ferry to route {turn} is late by {turn} minutes.",
            }
        )
        reply = client.chat.completions.create(model="smollm2", messages=items, max_tokens=8)
        items.append({"role": "assistant", "content": reply.choices[0].message.content})
    return [*items, {"role": "user", "content": "And now?"}]
