"""Anthropic's models on Bedrock and Vertex, which bind thinking too: with SDK clients, through `wrap` and the gateway."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS, FOLDS_SETTING

from infold import SessionSettings, wrap
from infold.core.events import Compacted, Event, NotManaged, Pruned, Rejected
from infold.formats.registry import builder_for
from infold.formats.requests import model_in_path
from infold.testing.anthropic_rules import AnthropicRules
from infold.testing.script import Fail, ScriptedAnswer, ScriptedRequest, Send
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving
from .thinking_scenes import SYSTEM, TOOLS, WINDOW, Item, Thinker, Worker, client_of
from .thinking_scenes import UNKNOWN as UNKNOWN_MODEL

pytestmark = pytest.mark.slow

STEPS = 60
BEDROCK = "us.anthropic.claude-opus-5-5-20260901-v1:0"
PROFILE = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{BEDROCK}"
VERTEX = "claude-opus-5-5@20260901"
UNKNOWN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"

Client = anthropic.AnthropicBedrock | anthropic.AnthropicVertex


def bedrock(url: str) -> Client:
    """A client of Bedrock with an API key."""
    return anthropic.AnthropicBedrock(api_key="k", aws_region="us-east-1", base_url=url, max_retries=0)


def vertex(url: str) -> Client:
    """A client of Vertex with an access token."""
    return anthropic.AnthropicVertex(
        access_token="t", project_id="p", region="us-east5", base_url=f"{url}/v1", max_retries=0
    )


@contextmanager
def managed(way: str, make: Callable[[str], Client], script: Any, events: list[Event]) -> Iterator[Client]:
    """A client whose requests are managed by `wrap` or by the gateway, and folded if they do not fit."""
    with ScriptedServer(script) as server:
        if way == "wrap":
            yield wrap(make(server.url), SessionSettings(window=WINDOW, policy=FOLDS, on_event=events.append))
            return
        stage = Stage(server.url, window=WINDOW, variables=FOLDS_SETTING)
        with serving(stage.app) as url:
            yield make(url)
        events += stage.events


@pytest.mark.parametrize("way", ["wrap", "gateway"])
@pytest.mark.parametrize(
    ("make", "model"),
    [(bedrock, BEDROCK), (bedrock, PROFILE), (bedrock, UNKNOWN), (vertex, VERTEX)],
    ids=["bedrock", "profile", "unknown profile", "vertex"],
)
def test_bound_thinking_is_not_refused_on_a_cloud(way: str, make: Callable[[str], Client], model: str) -> None:
    """B32: on Bedrock and Vertex too no refusal reaches the client, and the first one teaches."""
    thinker, events = Thinker(), list[Event]()
    rules = AnthropicRules(thinker, binds=True)
    with managed(way, make, lambda request: rules(named(request)), events) as client:
        worker = Worker(steps=STEPS).run(lambda worker: ask(client, worker, model))

    assert (worker.refused, len(rules.refusals)) == (0, 1)
    assert thinker.summaries
    assert sum(isinstance(event, Compacted) for event in events) >= 2
    assert sum(isinstance(event, Rejected) for event in events) == 1


def named(request: ScriptedRequest) -> ScriptedRequest:
    """A request with the model of its path in its body, where the rules look for it."""
    assert request.body["anthropic_version"]
    assert "model" not in request.body
    return replace(request, body={"model": model_in_path(request.path), **request.body})


def ask(client: Any, worker: Worker, model: str) -> Item:
    """The reply to all that the worker has."""
    body = {"model": model, "max_tokens": 400, "system": SYSTEM, "tools": TOOLS, "messages": worker.items}
    reply: Item = client.messages.create(**body).model_dump(mode="json", exclude_none=True)
    return reply


@pytest.mark.parametrize("way", ["wrap", "gateway"])
def test_an_account_is_refused_once(way: str) -> None:
    """B32: what one session was refused for is known to the next one of the same client, and to no other client."""
    rules = AnthropicRules(Thinker(), binds=True)
    with ScriptedServer(rules) as server:
        if way == "wrap":
            clients = [wrap(client_of(server.url), SessionSettings(window=WINDOW)) for _ in range(2)]
            refusals = refusals_of_two_sessions_each(rules, clients)
        else:
            with serving(Stage(server.url, window=WINDOW).app) as url:
                clients = [client_of(url).with_options(api_key=key) for key in ("one", "two")]
                refusals = refusals_of_two_sessions_each(rules, clients)

    assert refusals == [1, 1, 2, 2]


def refusals_of_two_sessions_each(rules: AnthropicRules, clients: list[anthropic.Anthropic]) -> list[int]:
    """How many refusals there were after each session."""
    refusals: list[int] = []
    for client in clients:
        for _ in range(2):
            worker = Worker(steps=40).run(lambda worker, client=client: ask(client, worker, UNKNOWN_MODEL))  # type: ignore[misc]
            assert worker.refused == 0
            refusals.append(len(rules.refusals))
    return refusals


def framed(rules: AnthropicRules) -> Callable[[ScriptedRequest], ScriptedAnswer]:
    """The model's answers as Bedrock streams them."""

    def answer(request: ScriptedRequest) -> ScriptedAnswer:
        said = rules(named(request))
        if not isinstance(said, Send) or not request.path.endswith("/invoke-with-response-stream"):
            return said
        frames = [_frame(json.dumps(event.data).encode()) for event in said.events]
        return Fail(200, b"".join(frames), {"content-type": "application/vnd.amazon.eventstream"})

    return answer


def _frame(event: bytes) -> bytes:
    headers = b"\x0b:event-type\x07\x00\x05chunk"
    payload = json.dumps({"bytes": b64encode(event).decode()}).encode()
    return (
        (16 + len(headers) + len(payload)).to_bytes(4)
        + len(headers).to_bytes(4)
        + b"...."
        + headers
        + payload
        + b"...."
    )


def test_a_stream_of_bedrock_is_passed_on_and_recorded() -> None:
    """B32: frames reach the client as they came, and replies are recorded from them: nothing is refused over several cuts."""
    rules, events = AnthropicRules(Thinker(), binds=True), list[Event]()
    path = f"/model/{BEDROCK}/invoke-with-response-stream"
    headers = {"authorization": "Bearer k"}
    with ScriptedServer(framed(rules)) as server:
        stage = Stage(server.url, window=WINDOW)
        with serving(stage.app) as url, httpx2.Client(base_url=url, headers=headers, timeout=60) as client:

            def stream(worker: Worker) -> Item:
                version = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 400}
                body = {**version, "system": SYSTEM, "tools": TOOLS, "messages": worker.items}
                reply = client.post(path, json=body)
                assert reply.status_code == 200, reply.text
                assert reply.headers["content-type"] == "application/vnd.amazon.eventstream"
                builder = builder_for("anthropic-messages")
                builder.feed(reply.content)
                return builder.reply() or {}

            worker = Worker(steps=STEPS).run(stream)
        events += stage.events
        live = stage.tenant_sessions.store.sessions(next(iter(stage.store.tenants())))

    assert (worker.refused, len(rules.refusals)) == (0, 1)
    assert max(len(request.kept) for request in rules.requests[30:]) >= 3
    assert sum(isinstance(event, Compacted | Pruned) for event in events) >= 2
    assert len(list(live)) == 1


def test_a_signed_request_is_relayed() -> None:
    """B32: a request signed by AWS passes byte for byte, and an event says that it is not managed."""
    raw = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": []}).encode()
    signed = {"authorization": "AWS4-HMAC-SHA256 Credential=A/20261116/us-east-1/bedrock/aws4_request, Signature=0"}
    with ScriptedServer() as server:
        stage = Stage(server.url, window=WINDOW)
        with serving(stage.app) as url:
            reply = httpx2.post(f"{url}/model/{BEDROCK}/invoke", content=raw, headers=signed)

    assert "SigV4" in reply.headers["x-infold"]
    assert server.requests[0].headers["authorization"] == signed["authorization"]
    assert any(isinstance(event, NotManaged) for event in stage.events)
