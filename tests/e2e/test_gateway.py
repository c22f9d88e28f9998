"""The official SDKs through a real gateway: what they send and get is theirs, and no request is ever too large."""

import asyncio
import gzip
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from infold.core.events import Clipped, Compacted, FailedOpen, Pruned, Rejected
from infold.core.messages import SessionId
from infold.engine.recalling import recall
from infold.ports import SessionKey
from infold.testing.script import Fail, Say, Trouble, in_turn
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.raw_upstream import RawUpstream, whole  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252
from .gateway_stage import serving
from .wrap_scenes import CHAT, SCENES, BreakingStore, Item, Scene, go_on, go_on_async, worker

pytestmark = pytest.mark.slow

WINDOW = 6_000
TURNS = 14
CHANGES = (Compacted, Pruned, Clipped)
"""What changes a view."""

REPLY = (
    b'{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",'
    b'"message":{"role":"assistant","content":"yes"}}]}'
)

each_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
each_colour = pytest.mark.parametrize("colour", ["sync", "async"])


def failures(stage: Stage) -> list[FailedOpen]:
    """Where infold could not manage."""
    return [event for event in stage.events if isinstance(event, FailedOpen)]


def held(scene: Scene, url: str, turns: int, *, colour: str = "sync", stream: bool = False) -> list[Item]:
    """A session of so many turns through an SDK; the client's own list."""
    items: list[Item] = []

    async def hold() -> None:
        async with scene.async_client(url) as client:
            for turn in range(turns):
                await go_on_async(scene, client, items, turn, stream=stream)

    if colour == "async":
        asyncio.run(hold())
        return items
    with scene.client(url) as client:
        for turn in range(turns):
            go_on(scene, client, items, turn, stream=stream)
    return items


@each_scene
@each_way
@each_colour
def test_an_sdk_works_unchanged(scene: Scene, colour: str, *, stream: bool) -> None:
    """B23, B7: a session with tools outgrows its window; its client sees nothing of it, and no request is refused."""
    with ScriptedServer(worker, window_tokens=WINDOW) as upstream:
        stage = Stage(upstream.url, window=WINDOW)
        with serving(stage.app) as url:
            items = held(scene, url, TURNS, colour=colour, stream=stream)

        assert len(upstream.requests) == 2 * TURNS
        assert max(request.tokens for request in upstream.requests) <= WINDOW
        assert all("key-of-the-caller" in str(request.headers) for request in upstream.requests)
        assert all(request.stream is stream for request in upstream.requests)
    assert "is done" in str(items[-1])
    assert any(isinstance(event, CHANGES) for event in stage.events)
    assert failures(stage) == []
    assert len(stage.sessions()) == 1


def test_prefixes_break_only_where_a_view_changed() -> None:
    """B29: over a hundred and fifty calls the upstream's cache is broken no more often than infold changed the view."""
    with ScriptedServer(worker, window_tokens=16_000) as upstream:
        stage = Stage(upstream.url, window=15_000)
        with serving(stage.app) as url:
            held(SCENES[0], url, 75)
        sent = [request.body["messages"] for request in upstream.requests]
    breaks = sum(later[: len(earlier)] != earlier for earlier, later in pairwise(sent))
    changes = sum(isinstance(event, CHANGES) for event in stage.events)

    assert len(sent) == 150
    assert 1 <= breaks <= changes
    assert failures(stage) == []


@pytest.fixture
def scripted() -> Iterator[tuple[ScriptedServer, str]]:
    """An upstream, and a gateway before it."""
    with ScriptedServer() as upstream, serving(Stage(upstream.url).app) as url:
        yield upstream, url


def test_counting_and_listing_pass_through(scripted: tuple[ScriptedServer, str]) -> None:
    """What is no conversation is relayed, to the provider that its client speaks to."""
    _, url = scripted
    with SCENES[0].client(url) as client, SCENES[2].client(url) as claude:
        counted = claude.messages.count_tokens(model="m", messages=[{"role": "user", "content": "hi"}])

        assert [model.id for model in client.models.list()] == ["scripted"]
        assert [model.id for model in claude.models.list()] == ["scripted"]
        assert counted.input_tokens > 0


def test_unknown_fields_and_paths_are_the_clients(scripted: tuple[ScriptedServer, str]) -> None:
    """What infold has never heard of arrives as it was sent."""
    upstream, url = scripted
    with SCENES[0].client(url) as client:
        client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], extra_body={"novel": {"a": [1, None]}}
        )
        with pytest.raises(openai.NotFoundError):
            client.post("/novel/things?a=1", body={"b": 2}, cast_to=object)
    known, novel = upstream.requests

    assert known.body["novel"] == {"a": [1, None]}
    assert (novel.path, novel.body) == ("/v1/novel/things?a=1", {"b": 2})


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "AuthenticationError"), (404, "NotFoundError"), (429, "RateLimitError"), (500, "InternalServerError")],
)
@each_scene
def test_errors_reach_the_client_as_they_are(scene: Scene, status: int, kind: str) -> None:
    """An SDK raises what it would raise without the gateway, with the upstream's body and request id."""
    body = {"type": "error", "error": {"type": "odd_error", "message": "no", "extra": [1]}}
    ids = {"x-request-id": "req_7", "request-id": "req_7", "retry-after": "9"}
    library: Any = anthropic if scene.name == "messages" else openai
    with (
        ScriptedServer(lambda _: Fail(status, body, ids)) as upstream,
        serving(Stage(upstream.url).app) as url,
        scene.client(url) as client,
        pytest.raises(getattr(library, kind)) as caught,
    ):
        scene.ask(client, [{"role": "user", "content": "hi"}], False)

    error: Any = caught.value
    assert error.response.json() == body
    assert (error.request_id, error.response.headers["retry-after"]) == ("req_7", "9")


def test_headers_come_back_whole() -> None:
    """Request ids, limits and doubled cookies are the upstream's; a compressed reply is decoded by the client."""
    headers = [
        (b"x-request-id", b"req_8"),
        (b"x-ratelimit-remaining-tokens", b"99"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"content-encoding", b"gzip"),
    ]
    answer = whole(gzip.compress(REPLY), headers=headers)
    with (
        RawUpstream(lambda _: [answer]) as upstream,
        serving(Stage(upstream.url).app) as url,
        SCENES[0].client(url) as client,
    ):
        raw = client.chat.completions.with_raw_response.create(model="m", messages=[{"role": "user", "content": "hi"}])

    assert raw.parse().choices[0].message.content == "yes"
    assert raw.parse()._request_id == "req_8"
    assert raw.headers["x-ratelimit-remaining-tokens"] == "99"
    assert raw.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert raw.headers["x-infold"] == "managed"


SSE = "streamGenerateContent?alt=sse"
OVERFLOW = "This model's maximum context length is 3000 tokens."
OPENINGS: dict[str, tuple[int, Item]] = {
    "chat": (1, {"error": {"message": OVERFLOW, "code": "context_length_exceeded"}}),
    "responses": (2, {"type": "error", "code": "context_length_exceeded", "message": OVERFLOW, "sequence_number": 2}),
    "messages": (
        2,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 4100 tokens > 3000"},
        },
    ),
}
"""For each interface: how many events open its stream, and the event by which it then refuses."""


def long_history() -> list[Item]:
    """About four thousand tokens."""
    told = "The tide tables of this harbour are long and were read aloud in full. " * 6
    return [
        message
        for number in range(40)
        for message in ({"role": "user", "content": f"{number}: {told}"}, {"role": "assistant", "content": "Noted."})
    ]


@each_scene
@pytest.mark.parametrize("before", ["nothing", "opening"])
def test_a_refusal_in_a_stream_is_recovered(scene: Scene, before: str) -> None:
    """B7: a stream that answers 200 and refuses in its first word is made smaller and sent once more, unseen."""
    events, error = OPENINGS[scene.name]
    trouble = Trouble(cut_after_events=events if before == "opening" else 0, error_event=error)
    script = in_turn(Say("Never said.", trouble=trouble), Say("All is well."))
    with ScriptedServer(script) as upstream:
        stage = Stage(upstream.url, window=None)
        with serving(stage.app) as url, scene.client(url) as client:
            said = scene.ask(client, [*long_history(), {"role": "user", "content": "Go on."}], True)

        refused, taken = upstream.requests
        assert refused.tokens > 3_000 > taken.tokens
    assert "All is well." in str(said.items)
    assert "Never said." not in str(said.items)
    assert sum(isinstance(event, Rejected) for event in stage.events) == 1


@each_scene
def test_another_error_in_a_stream_is_the_clients(scene: Scene) -> None:
    """Whatever else an upstream reports in a stream reaches the client in the upstream's words."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "message": "Overloaded"}
    trouble = Trouble(cut_after_events=OPENINGS[scene.name][0], error_event=error)
    with (
        ScriptedServer(lambda _: Say("x", trouble=trouble)) as upstream,
        serving(Stage(upstream.url).app) as url,
        scene.client(url) as client,
        pytest.raises((openai.OpenAIError, anthropic.AnthropicError), match="verloaded"),
    ):
        scene.ask(client, [{"role": "user", "content": "hi"}], True)


@each_scene
@each_way
def test_a_refusal_is_recovered_and_learned(scene: Scene, *, stream: bool) -> None:
    """B7, B11: a window nobody told is learned from the refusal, inside the request; the next one is within it."""
    history = long_history()
    with ScriptedServer(window_tokens=3_000) as upstream:
        stage = Stage(upstream.url, window=None)
        with serving(stage.app) as url, scene.client(url) as client:
            for _ in range(2):
                history.append({"role": "user", "content": "Go on."})
                history += scene.ask(client, history, stream).items
        sizes = [request.tokens for request in upstream.requests]

    assert sizes[0] > 3_000 >= max(sizes[1:])
    assert len(sizes) == 3
    assert sum(isinstance(event, Rejected) for event in stage.events) == 1


def test_gemini_is_spoken_too() -> None:
    """B23: whole and streamed, as events and as an array; and a refusal in a stream is recovered there as well."""
    contents = [
        {"role": "model" if message["role"] == "assistant" else "user", "parts": [{"text": message["content"]}]}
        for message in [*long_history(), {"role": "user", "content": "Go on."}]
    ]
    error = {
        "error": {"code": 400, "message": "The input token count (4100) exceeds the maximum of 3000.", "status": "X"}
    }
    refused = Say("x", trouble=Trouble(cut_after_events=0, error_event=error))
    script = in_turn(Say("one"), Say("two"), Say("three"), refused, Say("four"))
    base = "/v1beta/models/gemini-x:"
    with ScriptedServer(script) as upstream:
        stage = Stage(upstream.url, window=None)
        with serving(stage.app) as url, httpx2.Client(base_url=url, headers={"x-goog-api-key": "k"}) as client:
            told = [
                client.post(f"{base}{act}", json={"contents": contents}).text
                for act in ("generateContent", SSE, "streamGenerateContent", SSE)
            ]
        sizes = [request.tokens for request in upstream.requests]

    assert [word in text for word, text in zip(("one", "two", "three", "four"), told, strict=True)] == [True] * 4
    assert len(sizes) == 5
    assert sizes[4] < 3_000 < sizes[3]
    assert failures(stage) == []


@each_way
def test_it_fails_open(*, stream: bool) -> None:
    """A store that breaks in the middle costs the client nothing, not even the window; header, event and counter say so."""
    with ScriptedServer(worker, window_tokens=WINDOW) as upstream:
        stage = Stage(upstream.url, window=WINDOW, store=BreakingStore(5))
        with serving(stage.app) as url:
            items = held(SCENES[0], url, TURNS, stream=stream)
            answer = httpx2.post(f"{url}/v1/chat/completions", json={**CHAT, "messages": items})
            metrics = httpx2.get(f"{url}/metrics").text

    assert len(items) == TURNS * 4
    assert answer.headers["x-infold"] == "managed; not stored: StoreBroken"
    assert failures(stage)
    assert f"infold_failed_open_total {len(failures(stage))}" in metrics


def test_tenants_share_nothing() -> None:
    """B28: two callers with one and the same history have two sessions, two compactions, and find only their own."""
    with ScriptedServer(worker, window_tokens=WINDOW) as upstream:
        stage = Stage(upstream.url, window=WINDOW)
        with serving(stage.app) as url:
            for key in ("ada", "eve"):
                with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
                    items: list[Item] = []
                    for turn in range(TURNS):
                        go_on(SCENES[0], client, items, turn)
                        if turn == 2 and key == "ada":
                            items[-1]["content"] = "The lighthouse is painted teal."
        bodies = [request.body for request in upstream.requests]
    ada, eve = (stage.tenants.of({"authorization": f"Bearer {key}"}, {}) for key in ("ada", "eve"))
    found = {
        tenant: recall(
            stage.store, SessionKey(tenant, SessionId(session_id)), "lighthouse", budget_tokens=500, rule="features"
        )
        for tenant, session_id, _ in stage.sessions()
    }

    assert sorted(found) == sorted((ada, eve))
    assert "teal" in found[ada]
    assert "teal" not in found[eve]
    assert "teal" in str(bodies[: 2 * TURNS])
    assert "teal" not in str(bodies[2 * TURNS :])


def test_a_title_never_joins_a_coding_session() -> None:
    """An agent's requests without tools, between those of its session, leave that session as it is."""
    with ScriptedServer(worker) as upstream:
        stage = Stage(upstream.url, window=WINDOW)
        with serving(stage.app) as url, SCENES[0].client(url) as client:
            items: list[Item] = []
            for turn in range(3):
                go_on(SCENES[0], client, items, turn)
                client.chat.completions.create(model="m", messages=[], extra_body={"messages": items})
        sizes = {name.endswith("-plain"): entries for _, name, entries in stage.sessions()}

    assert sizes[False] == len(items)
    assert set(sizes) == {True, False}


def test_it_tells_how_it_is(scripted: tuple[ScriptedServer, str]) -> None:
    """Alive, ready, and counted in the way Prometheus reads."""
    _, url = scripted
    metrics = httpx2.get(f"{url}/metrics").text

    assert httpx2.get(f"{url}/healthz").text == "ok\n"
    assert httpx2.get(f"{url}/readyz").json() == {"ready": True}
    assert "infold_compactions" in {family.name for family in text_string_to_metric_families(metrics)}
