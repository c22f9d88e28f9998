"""Claude Code's gateway protocol, line by line: what has to reach the provider or the client unchanged does.

Each route is checked with a request that fits, whose body passes byte for byte, and with one that is compacted, whose messages
alone are others.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from infold.formats.codec import Item
from infold.testing.script import Fail, Script, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving

pytestmark = pytest.mark.slow

WINDOW = 12_000
MODELS = "/v1/projects/p/locations/us-east5/publishers/anthropic/models"
ROUTES = {
    "messages": "/v1/messages?beta=true",
    "bedrock": "/model/us.anthropic.claude-sonnet-4-6-v1:0/invoke",
    "vertex": f"{MODELS}/claude-sonnet-4-6@20260201:rawPredict",
}
HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "anthropic-workspace-id": "wrkspc_1",
    "anthropic-dangerous-direct-browser-access": "true",
    "authorization": "Bearer a-credential-of-the-client",
    "x-api-key": "a-key-of-the-client",
    "x-claude-code-session-id": "2f6b8f6e-0000-4000-8000-1c2d3e4f5a6b",
    "x-claude-code-agent-id": "agent-1",
    "x-client-request-id": "7d1b3a52-0000-4000-8000-000000000001",
    "x-app": "cli",
    "x-stainless-retry-count": "0",
    "x-stainless-timeout": "600",
    "user-agent": "claude-cli/2.1.278 (external, cli)",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
FIELDS: Item = {
    "max_tokens": 1_024,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.278; cc_entrypoint=cli;"},
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "tools": [
        {"name": "Bash", "input_schema": {"type": "object"}, "eager_input_streaming": True, "defer_loading": False}
    ],
    "thinking": {"type": "adaptive", "display": "omitted"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high", "format": None},
    "metadata": {"user_id": '{"device_id": "d", "session_id": "2f6b8f6e"}'},
    "speed": "standard",
    "diagnostics": {"previous_message_id": "msg_0"},
    "a_field_of_next_year": {"nested": [1, None, 2.50, "\u00e9"]},
}
OWN_FIELDS: dict[str, Item] = {
    "messages": {"model": "claude-sonnet-4-6", "betas": ["x"]},
    "bedrock": {"anthropic_version": "bedrock-2023-05-31", "anthropic_beta": ["context-management-2025-06-27"]},
    "vertex": {"anthropic_version": "vertex-2023-10-16", "anthropic_beta": ["context-management-2025-06-27"]},
}
REPLY_HEADERS = {
    "request-id": "req_011",
    "anthropic-organization-id": "org_1",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-tokens-reset": "2026-11-16T09:00:00Z",
    "anthropic-ratelimit-unified-status": "allowed",
    "retry-after": "7",
    "x-should-retry": "true",
    "cf-ray": "8c1",
}
MESSAGE: Item = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-6",
    "content": [{"type": "text", "text": "Done."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 90, "output_tokens": 3},
}


def turns(count: int) -> list[Item]:
    """A history of that many turns, each of about 500 tokens."""
    history: list[Item] = []
    for number in range(count):
        marked = {"type": "text", "text": f"Turn {number}. " + "Look at the harbour again. " * 80}
        history.append({"role": "user", "content": [{**marked, "cache_control": {"type": "ephemeral"}}]})
        history.append({"role": "assistant", "content": [{"type": "text", "text": f"Seen {number}."}]})
    return [*history, {"role": "user", "content": "Go on."}]


@contextmanager
def client(script: Script) -> Iterator[tuple[httpx2.Client, ScriptedServer]]:
    """A client of the gateway with Claude Code's headers, and the provider."""
    with (
        ScriptedServer(script) as server,
        serving(Stage(server.url, window=WINDOW).app) as url,
        httpx2.Client(base_url=url, headers=HEADERS, timeout=60) as made,
    ):
        yield made, server


def answers(request: ScriptedRequest) -> ScriptedAnswer:
    """A reply with the headers of a provider."""
    del request
    return Fail(200, MESSAGE, {**REPLY_HEADERS, "content-type": "application/json"})


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("count", [2, 60], ids=["fits", "compacted"])
def test_headers_and_fields_pass(route: str, count: int) -> None:
    """B23, B30: every header and every field but the messages reaches the provider as Claude Code sent it, on each route."""
    body = {**FIELDS, **OWN_FIELDS[route], "messages": turns(count)}
    raw = json.dumps(body, indent=1).encode()
    with client(answers) as (claude, server):
        reply = claude.post(ROUTES[route], content=raw, headers={"content-type": "application/json"})
    sent = server.requests[-1]

    assert reply.headers["x-infold"] == "managed"
    assert {name: sent.headers.get(name) for name in HEADERS} == HEADERS
    assert sent.path == ROUTES[route]
    assert list(sent.body) == list(body)
    assert {**sent.body, "messages": None} == {**body, "messages": None}
    assert (sent.body["messages"] == body["messages"]) is (count == 2)
    assert all(reply.headers[name] == value for name, value in REPLY_HEADERS.items())
    assert reply.json() == MESSAGE


def test_the_messages_that_stay_are_the_clients() -> None:
    """B30: of a compacted request, the messages that stay are the client's own, with their cache marks."""
    history = turns(60)
    with client(answers) as (claude, server):
        claude.post(ROUTES["messages"], json={**FIELDS, **OWN_FIELDS["messages"], "messages": history})
    kept = server.requests[-1].body["messages"]

    own = [message for message in kept if message in history]
    assert 4 < len(own) < len(history)
    assert kept[-len(own) :] == history[-len(own) :]


def test_a_count_is_of_what_the_client_has() -> None:
    """B30: a count is relayed untouched; it is of the client's whole history, also of one that infold folds."""
    body = {"model": "claude-sonnet-4-6", "messages": turns(60)}
    with client(answers) as (claude, _):
        folded = claude.post(ROUTES["messages"], json={**FIELDS, **body})
        counted = claude.post("/v1/messages/count_tokens?beta=true", json=body)
        on_vertex = claude.post(f"{MODELS}/count-tokens:rawPredict", json=body)

    assert folded.headers["x-infold"] == "managed"
    assert counted.headers["x-infold"] == on_vertex.headers["x-infold"] == "relayed; the path takes no messages"
    assert counted.json()["input_tokens"] > 2 * WINDOW


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_are_the_providers(status: int, kind: str) -> None:
    """B30: status, body and headers of an error pass as they came, so that Claude Code retries and reports as it would."""
    error = {"type": "error", "error": {"type": kind, "message": "context_management: Extra inputs are not permitted"}}
    raw = json.dumps({**error, "request_id": "req_011"}, indent=1).encode()
    with client(lambda _: Fail(status, raw, REPLY_HEADERS)) as (claude, server):
        reply = claude.post(ROUTES["messages"], json={**FIELDS, **OWN_FIELDS["messages"], "messages": turns(2)})

    assert (reply.status_code, reply.content) == (status, raw)
    assert all(reply.headers[name] == value for name, value in REPLY_HEADERS.items())
    assert len(server.requests) == 1


@pytest.mark.parametrize("count", [2, 60], ids=["fits", "compacted"])
def test_a_stream_passes_with_its_pings(count: int) -> None:
    """B30: each event of a stream passes as it came: pings, unknown events, comments and an error in the middle."""
    events: list[Item] = [
        {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "an_event_of_next_year", "x": 1},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
        {"type": "ping"},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]
    text = ": a comment\n\n" + "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    stream = Fail(200, text, {**REPLY_HEADERS, "content-type": "text/event-stream; charset=utf-8"})
    body = {**FIELDS, **OWN_FIELDS["messages"], "messages": turns(count), "stream": True}
    with client(lambda _: stream) as (claude, server):
        reply = claude.post(ROUTES["messages"], json=body)

    assert reply.text == text
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert all(reply.headers[name] == value for name, value in REPLY_HEADERS.items())
    assert server.requests[-1].body["stream"] is True


def test_models_are_listed_by_the_provider() -> None:
    """Model discovery is relayed with its query and the client's credential."""
    with ScriptedServer() as server, serving(Stage(server.url).app) as url:
        reply = httpx2.get(f"{url}/v1/models?limit=1000", headers=HEADERS)

    assert reply.status_code == 200
    assert reply.headers["x-infold"].startswith("relayed")
    assert reply.json()["data"]
