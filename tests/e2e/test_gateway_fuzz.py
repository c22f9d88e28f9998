"""Whatever is asked for and whatever an upstream answers: no error of the gateway's own making, and no hang."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import BaseRoute

from infold.core.events import FailedOpen
from infold.errors import FormatError, UsageError
from infold.gateway.actions import SessionActions
from infold.gateway.page.routes import CONTENT_POLICY, page_routes
from infold.gateway.request_body import GatewayLimits
from infold.stores.memory import MemoryStore

from ..unit.gateway.raw_upstream import RawUpstream, whole  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252

pytestmark = pytest.mark.slow

SECONDS = 20.0
"""In which every request is answered; most take milliseconds."""

LIMITS = GatewayLimits(body_bytes=200_000, body_seconds=5.0, upstream_seconds=2.0)
TROUBLE = frozenset({502, 503, 504})

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

# What may be asked.

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PURGE")
CONVERSATIONS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/g:generateContent",
    "/v1beta/models/g:streamGenerateContent?alt=sse",
)
OWN = ("/", "/events-", "/sessions/x", "/sessions/x/compact", "/sessions/x/undo", "/sessions/x/pin", "/static/page.css")
PATHS = (
    *CONVERSATIONS,
    *OWN,
    *("/healthz", "/readyz", "/metrics", "/login", "/t/x/v1/models", "/t/", "//", "/v1", "/v1/", "/%00", "/a%2fb"),
    *("/sessions/%2e%2e/recall?q=x", "/sessions/x/messages/0.0", "/sessions/x/changes/0", "/static/../app.py"),
)
HEADERS = (
    *("authorization", "x-api-key", "x-infold-session", "x-infold-token", "cookie", "content-type", "accept-encoding"),
    *(
        "connection",
        "host",
        "origin",
        "sec-fetch-site",
        "expect",
        "content-encoding",
        "anthropic-version",
        "session_id",
    ),
)

text = st.text(max_size=20)
plain = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=30)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
)

WORDS = (
    *("role", "content", "type", "text", "parts", "id", "name", "arguments", "call_id", "tool_calls", "tool_call_id"),
    *(
        "function",
        "input",
        "output",
        "tool_use_id",
        "thinking",
        "signature",
        "functionCall",
        "functionResponse",
        "args",
    ),
    *("summary", "encrypted_content", "cache_control", "source", "image_url", "inlineData", "refusal", "is_error"),
)
SAID = (
    *("user", "assistant", "system", "tool", "developer", "model", "message", "text", "tool_use", "tool_result"),
    *("function_call", "function_call_output", "reasoning", "input_text", "output_text", "thinking", "image_url"),
)
items: st.SearchStrategy[Any] = st.recursive(
    scalars | st.sampled_from(SAID),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=16,
)
FIELDS = (
    *("messages", "input", "contents", "model", "stream", "tools", "system", "instructions", "max_tokens", "metadata"),
    *("systemInstruction", "generationConfig", "previous_response_id", "prompt_cache_key", "stream_options", "n"),
)
bodies = st.dictionaries(st.sampled_from(FIELDS), items | st.lists(items, max_size=5), max_size=6)
contents = st.binary(max_size=200) | bodies.map(lambda body: json.dumps(body).encode())

replies = st.builds(
    lambda status, headers, body: whole(body, status=b"%d X" % status, headers=headers),
    st.sampled_from([200, 201, 204, 302, 400, 413, 429, 500, 599]),
    st.lists(
        st.tuples(
            st.sampled_from([b"content-type", b"content-encoding", b"set-cookie", b"x-a", b"location"]),
            st.sampled_from([b"text/event-stream", b"application/json", b"gzip", b"br", b"", b"x" * 2_000]),
        ),
        max_size=3,
    ),
    st.binary(max_size=100)
    | values.map(lambda value: json.dumps(value).encode())
    | items.map(lambda value: f"data: {json.dumps(value)}\n\n".encode() * 3),
)


@pytest.fixture(scope="module")
def pages() -> list[BaseRoute]:
    """The gateway's own pages."""
    stage = Stage("")
    return page_routes(stage.store, SessionActions(stage.tenant_sessions), stage.hub)


@pytest.fixture(scope="module")
def upstream() -> Iterator[RawUpstream]:
    """An upstream that answers well."""
    with RawUpstream(lambda _: [whole(b"{}")]) as made:
        yield made


def answered(stage: Stage, method: str, path: str, headers: list[tuple[str, str]], content: bytes) -> httpx2.Response:
    """The answer to a request, which comes in time; its body is not decoded."""

    async def ask() -> httpx2.Response:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        async with asyncio.timeout(SECONDS), stage.client() as client:
            async with client.stream(method, f"http://127.0.0.1{path}", headers=raw, content=content) as answer:
                async for _ in answer.aiter_raw():
                    pass
            return answer

    return asyncio.run(ask())


def _unexpected(event: object) -> bool:
    """Whether a failure is one that no garbage of a client explains."""
    known = {error.__name__ for error in (*_kinds(FormatError), *_kinds(UsageError))} | {
        "WindowExceeded",
        "UnusableKey",
    }
    return isinstance(event, FailedOpen) and event.problem.partition(":")[0] not in known


def _kinds(error: type[Exception]) -> list[type[Exception]]:
    return [error, *(kind for child in error.__subclasses__() for kind in _kinds(child))]


@quick
@given(
    st.sampled_from(METHODS),
    st.sampled_from(PATHS) | st.text("abc/.%2F?=&:@", max_size=20).map(lambda rest: f"/{rest}"),
    st.lists(st.tuples(st.sampled_from(HEADERS), plain.map(str.strip)), max_size=4),
    contents,
)
def test_no_request_breaks_it(
    upstream: RawUpstream,
    pages: list[BaseRoute],
    method: str,
    path: str,
    headers: list[tuple[str, str]],
    content: bytes,
) -> None:
    """Any method, path, headers and body: the upstream's answer or a refusal, never an error of our own."""
    stage = Stage(upstream.url, limits=LIMITS, pages=pages, content_policy=CONTENT_POLICY)
    answer = answered(stage, method, path, headers, content)

    assert answer.status_code < 500


@quick
@given(st.sampled_from(CONVERSATIONS), st.lists(bodies, min_size=1, max_size=3))
def test_no_conversation_breaks_it(upstream: RawUpstream, path: str, asked: list[dict[str, Any]]) -> None:
    """Garbage in the shape of a conversation, several times in one session: what cannot be read is relayed, and said so."""
    store, events = MemoryStore(), list[object]()
    for body in asked:
        stage = Stage(upstream.url, limits=LIMITS, store=store)
        answer = answered(stage, "POST", path, [("x-infold-session", "s")], json.dumps(body).encode())
        events += stage.events

        assert answer.status_code == 200
        assert answer.headers["x-infold"].startswith(("managed", "relayed; "))
    assert [event for event in events if _unexpected(event)] == []


@quick
@given(st.sampled_from(CONVERSATIONS), st.booleans(), replies)
def test_no_reply_breaks_it(path: str, stream: bool, reply: bytes) -> None:
    """Whatever an upstream says is passed on, or is told as the upstream's trouble."""
    body: dict[str, Any] = {"model": "m", "stream": stream}
    for field in ("messages", "input", "contents"):
        body[field] = [{"role": "user", "content": "hi", "parts": [{"text": "hi"}]}]
    with RawUpstream(lambda _: [reply]) as upstream:
        answer = answered(Stage(upstream.url, limits=LIMITS), "POST", path, [], json.dumps(body).encode())
    status = int(reply.split()[1])

    assert answer.status_code == status or answer.status_code in TROUBLE
