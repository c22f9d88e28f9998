"""Requests for summaries are served from the provider's cache, through `wrap`, the gateway and the agent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from infold import wrap
from infold.agent.run import RunOptions, UserInterface, open_run
from infold.core.events import Compacted, Event
from infold.core.messages import ModelRef, SessionId, ToolMessage, Usage, results_of
from infold.core.tokens import estimate_tokens
from infold.formats.registry import format_named
from infold.models.anthropic import AnthropicMessages
from infold.models.google import GoogleGemini
from infold.models.openai import OpenAIChat, OpenAIResponses
from infold.ports import Model, SessionKey
from infold.settings import read_settings
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_server import ScriptedServer
from infold.wiring import system_clock

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .agent_stage import place_in
from .gateway_stage import serving
from .wrap_scenes import SCENES, TASK, Item, Scene, Wrapping, shown

pytestmark = pytest.mark.slow

LEAST_SERVED = 0.9
NOTES = "The importer is being ported part by part with make; the parts so far are done, the files under vendor/ are untouched."
ASKS = "Write notes"
"""How the instruction to a summariser begins."""

MODELS: dict[str, tuple[Callable[..., Model], str]] = {
    "anthropic": (AnthropicMessages, ""),
    "google": (GoogleGemini, ""),
    "openai": (OpenAIResponses, "/v1"),
    "openai-chat": (OpenAIChat, "/v1"),
}
"""How the agent asks each provider, and what of the address its SDK wants to be given."""

GEMINI = "/v1beta/models/gemini-x:generateContent"
each_window = pytest.mark.parametrize("window", [8_000, 32_000, pytest.param(200_000, marks=pytest.mark.long)])
each_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)


class CachingModel:
    """A model that calls a tool and then answers, at a provider that caches whatever it was sent.

    `served` has the share of each request for a summary that an earlier request began with, system prompt and tools included.
    """

    def __init__(self, tool: str = "bash", **arguments: str) -> None:
        self.served: list[float] = []
        self._call = (tool, arguments or {"command": "make part"})
        self._seen: list[tuple[object, list[Item]]] = []

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """What the model says, with the usage that the provider reports."""
        wire = format_named(request.format)
        items = request.body[wire.items_field]
        before = (wire.system_text(request.body), request.body.get("tools"))
        same = max((_common(items, other) for first, other in self._seen if first == before), default=0)
        self._seen.append((before, items))
        share = (_tokens((before, items[:same])) if same else 0) / _tokens((before, items))
        cached = int(request.tokens * share)
        usage = Usage(request.tokens - cached, 30, cache_read=cached)
        if ASKS in str(items[-1]):
            self.served.append(share)
            return Say(NOTES, usage=usage)
        last = request.messages[-1]
        if not request.body.get("tools"):
            return Say("Port the importer", usage=usage)
        if isinstance(last, ToolMessage) or results_of(last):
            return Say(f"Part {len(self._seen)} is done.", usage=usage)
        return Say("Running.", calls=(self._call,), usage=usage)


def _common(items: list[Item], other: list[Item]) -> int:
    return next(
        (at for at, (one, two) in enumerate(zip(items, other, strict=False)) if one != two), min(len(items), len(other))
    )


def _tokens(content: object) -> int:
    return estimate_tokens(msgspec.json.encode(content).decode())


def wish(turn: int, window: int) -> str:
    """What the user asks for, with a long list of what is late."""
    late = "\n".join(f"Ferry {turn}.{number} to harbour {number * turn} was late." for number in range(window // 200))
    return f"{TASK if turn == 0 else f'Now part {turn}.'}\n{late}"


def hold(scene: Scene, client: Any, window: int, turns: int = 26) -> None:
    """A session that outgrows its window: wishes and results of a twentieth of it each."""
    items: list[Item] = []
    for turn in range(turns):
        items.append({"role": "user", "content": wish(turn, window)})
        said = scene.ask(client, items, False)
        items += [*said.items, *(scene.result(call, shown(turn) * (window // 8_000)) for call in said.calls)]
        items += scene.ask(client, items, False).items


def check(model: CachingModel, events: list[Event], window: int) -> None:
    """In a small window code may fold; in others the model was asked, and nearly all of what it was shown was in the cache."""
    assert any(isinstance(event, Compacted) for event in events)
    assert model.served or window <= 8_000
    assert min(model.served, default=1.0) >= LEAST_SERVED, model.served


@each_scene
@each_window
def test_wrapped_clients_are_served_from_the_cache(scene: Scene, window: int) -> None:
    """B16, B37: through a wrapped client nine tenths of each request for a summary were sent before."""
    model, wrapping = CachingModel(), Wrapping(window=window)
    with (
        ScriptedServer(model) as server,
        wrap(scene.client(server.url), wrapping.settings, store=wrapping.store) as client,
    ):
        hold(scene, client, window)

    check(model, wrapping.events, window)


@each_scene
@each_window
def test_clients_of_the_gateway_are_served_from_the_cache(scene: Scene, window: int) -> None:
    """B16, B37: the same through the gateway."""
    model = CachingModel()
    with ScriptedServer(model) as upstream:
        stage = Stage(upstream.url, window=window)
        with serving(stage.app) as url, scene.client(url) as client:
            hold(scene, client, window)

    check(model, stage.events, window)


@each_window
def test_gemini_is_served_from_the_cache(window: int) -> None:
    """B16, B37: the same in Gemini's format."""
    model = CachingModel()
    tools = [{"functionDeclarations": [{"name": "bash", "parameters": {"type": "object"}}]}]
    contents: list[Item] = []
    with ScriptedServer(model) as upstream:
        stage = Stage(upstream.url, window=window)
        with (
            serving(stage.app) as url,
            httpx2.Client(base_url=url, headers={"x-goog-api-key": "k"}, timeout=60) as client,
        ):
            for turn in range(26):
                contents.append({"role": "user", "parts": [{"text": wish(turn, window)}]})
                for _ in range(2):
                    reply = client.post(GEMINI, json={"contents": contents, "tools": tools}).json()
                    content = reply["candidates"][0]["content"]
                    contents.append(content)
                    answered = {"name": "bash", "response": {"output": shown(turn) * (window // 8_000)}}
                    if any("functionCall" in part for part in content["parts"]):
                        contents.append({"role": "user", "parts": [{"functionResponse": answered}]})

    check(model, stage.events, window)


@each_window
@pytest.mark.parametrize("provider", MODELS)
def test_the_agent_is_served_from_the_cache(tmp_path: Path, provider: str, window: int) -> None:
    """B16, B37: the same for the agent, which asks its own model for summaries."""
    place = place_in(tmp_path, {"late.txt": shown(1) * (window // 8_000)})
    environ = {**place.environ, "INFOLD_AGENT_SNAPSHOTS": "false"}
    model, events = CachingModel("read", path="late.txt"), list[Any]()
    made, path = MODELS[provider]
    options = RunOptions(root=place.root, environ=environ, clock=system_clock(), window=window, steps=400)
    with ScriptedServer(model) as server:
        work = open_run(
            MemoryStore(),
            SessionKey("", SessionId("s")),
            made(ModelRef(provider, "scripted"), url=f"{server.url}{path}", key="none"),
            options=options,
            settings=read_settings(environ, place.root),
            ui=UserInterface(events.append, lambda _: "no"),
        )
        for turn in range(26):
            work.run(wish(turn, window))

    check(model, events, window)
