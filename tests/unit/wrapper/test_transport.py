"""The HTTP transports behind a wrapped client, against a server on loopback."""

import asyncio
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx2
import msgspec
import pytest

from infold.core.entries import MessageEntry
from infold.core.events import FailedOpen, NotManaged
from infold.core.messages import text_of
from infold.errors import UsageError
from infold.proxy.sessions import SessionPool
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Say, Script, ScriptedAnswer, ScriptedRequest, in_turn
from infold.testing.scripted_server import ScriptedServer
from infold.wrapper.transport import AsyncInfoldTransport, InfoldTransport, wrap_http_client

from ..proxy.talks import BrokenStore, Item, Talk  # noqa: TID252 - `tests` is no package to name

NAMED = {"x-infold-session": "ferry"}
ROOMY = SessionSettings(window=200_000)
TOO_LONG = {
    "message": "This model's maximum context length is 5000 tokens. However, your messages resulted in 9000 tokens.",
    "code": "context_length_exceeded",
}


class Wire:
    """A client that sends through infold, and what infold told."""

    def __init__(self, server: ScriptedServer, store: MemoryStore, settings: SessionSettings) -> None:
        self.server = server
        self.failures: list[FailedOpen | NotManaged] = []
        self.ended: list[str] = []
        self.inner = httpx2.Client(base_url=server.url)
        transport = InfoldTransport(
            self.inner, SessionPool(store, settings), self.failures.append, end=lambda: self.ended.append("end")
        )
        self.client = httpx2.Client(base_url=server.url, transport=transport)

    def chat(self, items: Sequence[Item], **fields: Any) -> httpx2.Response:
        """Send a chat request under one name."""
        headers = {**NAMED, **fields.pop("headers", {})}
        body = {"model": "some-model", "messages": [*items], **fields}
        return self.client.post("/v1/chat/completions", json=body, headers=headers)


@contextmanager
def wired(
    script: Script, *, store: MemoryStore | None = None, settings: SessionSettings = ROOMY, window: int | None = None
) -> Iterator[Wire]:
    """A server with that script, and a client that speaks to it through infold."""
    with ScriptedServer(script, window_tokens=window) as server:
        wire = Wire(server, store or MemoryStore(), settings)
        try:
            yield wire
        finally:
            wire.client.close()


def problem_of(event: FailedOpen | NotManaged) -> str:
    """The error by which a request was relayed as it came."""
    assert isinstance(event, FailedOpen)
    return event.problem.partition(":")[0]


def said(text: str = "hi") -> list[Item]:
    """A lone message."""
    return [{"role": "user", "content": text}]


def long_list(turns: int = 12) -> list[Item]:
    """About seven thousand tokens."""
    talk = Talk("A", words=140)
    for _ in range(turns):
        talk.hear(talk.next_answer())
    return talk.items


# Requests.


def test_a_request_goes_out_as_it_came() -> None:
    """B29: body and headers are the client's, but for the name of the session, which is for infold alone."""
    with wired(in_turn(Say("Hello!"))) as wire:
        reply = wire.chat(said(), temperature=0.5, headers={"authorization": "Bearer k", "x-own": "1"})
        sent = wire.server.requests[0]

    assert reply.json()["choices"][0]["message"]["content"] == "Hello!"
    assert sent.body == {"model": "some-model", "messages": said(), "temperature": 0.5}
    assert sent.headers["authorization"] == "Bearer k"
    assert sent.headers["x-own"] == "1"
    assert "x-infold-session" not in sent.headers


def test_other_paths_are_relayed() -> None:
    """B23: what holds no history passes through, the name of the session left out all the same."""
    with wired(in_turn(Say())) as wire:
        listed = wire.client.get("/v1/models", headers=NAMED)
        counted = wire.client.post("/v1/messages/count_tokens", json={"messages": said()}, headers=NAMED)
        sent = wire.server.requests

    assert listed.json()["data"][0]["id"] == "scripted"
    assert counted.json()["input_tokens"] > 0
    assert all("x-infold-session" not in request.headers for request in sent)
    assert wire.failures == []


COUNTING: list[tuple[str, str, str, str]] = [
    ("/v1/messages", "/v1/messages/count_tokens", "messages", "input_tokens"),
    ("/v1/responses", "/v1/responses/input_tokens", "input", "input_tokens"),
    ("/v1beta/models/m:generateContent", "/v1beta/models/m:countTokens", "contents", "totalTokens"),
]


def shaped(items: Sequence[Item], field: str) -> list[Item]:
    """Return messages as the format with that field has them."""
    if field != "contents":
        return [*items]
    roles = {"user": "user", "assistant": "model"}
    return [{"role": roles[item["role"]], "parts": [{"text": item["content"]}]} for item in items]


@pytest.mark.parametrize(
    ("sent_to", "counted_at", "field", "counts"), COUNTING, ids=["anthropic", "responses", "gemini"]
)
def test_what_would_be_sent_is_counted(sent_to: str, counted_at: str, field: str, counts: str) -> None:
    """B23: a request that counts tokens counts the view of its session and what is new, and leaves the session as it is."""
    store, items, asked = MemoryStore(), shaped(long_list(30), field), shaped(said("And now?"), field)
    begun = shaped([*said("Another talk"), {"role": "assistant", "content": "Yes."}], field)
    with wired(lambda _: Say(), store=store, settings=SessionSettings(window=8_000), window=8_000) as wire:
        body = {"model": "some-model", "max_tokens": 100, field: items}
        assert wire.client.post(sent_to, json=body, headers=NAMED).status_code == 200
        (key,) = (one.key for one in store.sessions(""))
        entries = next(store.newest_first(key))
        question = {"model": "some-model", field: [*items, *asked]}
        shown = wire.client.post(counted_at, json=question, headers=NAMED).json()[counts]
        other = {"model": "some-model", field: [*begun, *items]}
        whole = wire.client.post(counted_at, json=other, headers=NAMED).json()[counts]
        counted = wire.server.requests[-2].body[field]

    assert shown < 8_000 < whole
    assert counted[-1] == asked[0]
    assert next(store.newest_first(key)) == entries
    assert wire.failures == []


def test_a_list_that_cannot_be_read_is_counted_as_it_is() -> None:
    """B23: counting fails open too."""
    with wired(in_turn(Say())) as wire:
        wire.client.post("/v1/messages/count_tokens", content=b"no json", headers=NAMED)

    assert [problem_of(event) for event in wire.failures] == ["MalformedError"]


def test_uploads_are_not_read_into_memory() -> None:
    """A body that is sent piece by piece to another path stays so."""
    read: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(3):
            read.append(number)
            yield b'{"input": ' if number == 0 else b'"x"' if number == 1 else b"}"

    with wired(in_turn(Say())) as wire:
        response = wire.client.post("/v1/embeddings", content=pieces())

    assert response.status_code == 404
    assert read == [0, 1, 2]


def test_history_at_the_provider_is_relayed_untouched() -> None:
    """B22, B23, B30: `previous_response_id` means that the provider holds the history: nothing changes, and an event says so."""
    store = MemoryStore()
    with wired(in_turn(Say()), store=store) as wire:
        raw = b'{ "input" : "go on", "previous_response_id":"resp_1", "store":true }'
        wire.client.post("/v1/responses", content=raw, headers={**NAMED, "content-type": "application/json"})
        sent = wire.server.requests[0]

    assert sent.body == msgspec.json.decode(raw)
    assert list(store.sessions("")) == []
    assert [type(event) for event in wire.failures] == [NotManaged]
    assert "previous_response_id" in str(wire.failures)


@pytest.mark.parametrize("raw", [b"no json", b'{"messages": 3}', b'{"messages": [{"content": "no role"}]}'])
def test_what_cannot_be_read_goes_out_all_the_same(raw: bytes) -> None:
    """A broken request is the provider's to refuse; infold only says that it relayed it."""
    with wired(in_turn(Say())) as wire:
        response = wire.client.post("/v1/chat/completions", content=raw)

    assert response.status_code == 400
    assert [problem_of(failure) for failure in wire.failures] in (["BrokenInput"], ["MalformedError"])


# Failing open.


@pytest.mark.parametrize("writes", [0, 1])
def test_a_broken_store_costs_the_caller_nothing(writes: int) -> None:
    """B13: with a store that fails before the request, or after it, the request goes out and the reply comes back."""
    with wired(in_turn(Say("Hello!")), store=BrokenStore(writes)) as wire:
        reply = wire.chat(said())

    assert reply.json()["choices"][0]["message"]["content"] == "Hello!"
    assert [failure.session_id for failure in wire.failures] == ["ferry"]
    assert "the disk is full" in str(wire.failures[0])


def test_what_cannot_fit_is_the_providers_to_refuse() -> None:
    """B9, B58: where tools alone fill the window, the caller gets one clear error, and nothing is sent."""
    tools = [{"type": "function", "function": {"name": "t", "description": "lorem ipsum " * 5_000}}]
    with wired(in_turn(Say()), settings=SessionSettings(window=4_096), window=4_096) as wire:
        reply = wire.chat(said(), tools=tools)

    assert reply.status_code == 400
    assert "system prompt and tools" in reply.json()["error"]["message"]
    assert not wire.server.requests


# Refusals.


def test_a_refusal_is_recovered_inside_the_request() -> None:
    """B8: a request that the provider refuses for its size is sent once more, smaller, and the caller sees the reply."""
    store = MemoryStore()
    with wired(in_turn(Say("Hello!")), store=store, window=5_000) as wire:
        reply = wire.chat(long_list(), headers={"idempotency-key": "once"})
        first, second = wire.server.requests

    assert reply.status_code == 200
    assert second.tokens < 5_000 < first.tokens
    assert first.headers["idempotency-key"] == "once"
    assert "idempotency-key" not in second.headers
    assert wire.failures == []


def test_a_second_refusal_reaches_the_caller() -> None:
    """B8: one more try and no more; then the provider's own words are the answer."""
    refusal = Fail(400, {"error": TOO_LONG}, {"x-request-id": "req_7"})
    with wired(in_turn(refusal)) as wire:
        reply = wire.chat(long_list())
        sent = wire.server.requests

    assert reply.json()["error"]["code"] == "context_length_exceeded"
    assert reply.headers["x-request-id"] == "req_7"
    assert len(sent) == 2
    assert sent[1].tokens < sent[0].tokens


def test_each_request_is_recovered() -> None:
    """B8, B11: a provider that refuses twice without a number is asked for less at the caller's next try, until it fits."""

    def script(request: ScriptedRequest) -> ScriptedAnswer:
        refusal = Fail(400, {"error": {"message": "prompt exceeds max length"}})
        return refusal if request.tokens > 1_000 else Say("Hello!")

    with wired(script) as wire:
        statuses = [wire.chat(long_list()).status_code for _ in range(3)]

    assert statuses == [400, 200, 200]
    assert wire.failures == []


@pytest.mark.parametrize("refusal", [Fail(400, {"error": {"message": "bad tool"}}), Fail(429), Fail(500)])
def test_other_errors_pass_through(refusal: Fail) -> None:
    """An error that does not speak of size is the caller's, sent once."""
    with wired(in_turn(refusal)) as wire:
        reply = wire.chat(long_list())
        sent = wire.server.requests

    assert reply.status_code == refusal.status
    assert len(sent) == 1
    assert wire.failures == []


def test_an_overflow_with_a_good_status_is_recovered() -> None:
    """B11: some services report an overflow in a reply whose status says that all is well."""
    with wired(in_turn(Fail(200, {"error": TOO_LONG}), Say("Hello!"))) as wire:
        reply = wire.chat(long_list())
        sent = wire.server.requests

    assert reply.json()["choices"][0]["message"]["content"] == "Hello!"
    assert len(sent) == 2


# Async.


def test_the_async_transport_does_the_same() -> None:
    """A request goes out, a refusal is recovered, a broken store costs nothing, other paths pass, and closing ends it."""
    ended: list[str] = []
    failures: list[FailedOpen | NotManaged] = []

    async def main(server: ScriptedServer, store: MemoryStore) -> list[httpx2.Response]:
        transport = AsyncInfoldTransport(
            httpx2.AsyncClient(base_url=server.url),
            SessionPool(store, ROOMY),
            failures.append,
            session="ferry",
            end=lambda: ended.append("end"),
        )
        async with httpx2.AsyncClient(base_url=server.url, transport=transport) as client:
            bodies = [{"model": "m", "messages": items} for items in (said(), long_list())]
            sent = [await client.post("/v1/chat/completions", json=body) for body in bodies]
            return [*sent, await client.get("/v1/models"), await client.post("/v1/messages", content=b"no json")]

    with ScriptedServer(in_turn(Say("Hello!")), window_tokens=5_000) as server:
        replies = asyncio.run(main(server, MemoryStore()))
        broken = asyncio.run(main(server, BrokenStore()))

    assert [reply.status_code for reply in replies] == [200, 200, 200, 400]
    assert [reply.status_code for reply in broken] == [200, 200, 200, 400]
    assert ended == ["end", "end"]
    assert {problem_of(failure) for failure in failures} == {"StoreBroken", "MalformedError"}


def test_an_async_second_refusal_reaches_the_caller() -> None:
    """B8: the same for an async client."""

    async def main(server: ScriptedServer) -> httpx2.Response:
        pool = SessionPool(MemoryStore(), ROOMY)
        transport = AsyncInfoldTransport(httpx2.AsyncClient(base_url=server.url), pool, ignore)
        async with httpx2.AsyncClient(base_url=server.url, transport=transport) as client:
            return await client.post("/v1/chat/completions", json={"model": "m", "messages": long_list()})

    with ScriptedServer(in_turn(Fail(400, {"error": TOO_LONG}))) as server:
        reply = asyncio.run(main(server))
        count = len(server.requests)

    assert reply.status_code == 400
    assert count == 2


def ignore(event: FailedOpen | NotManaged) -> None:
    """Hear nothing."""
    del event


def test_settings_that_make_no_sense_are_told_at_once() -> None:
    """A preset that nobody knows is an error when a client is wrapped, not at each request."""
    with pytest.raises(UsageError, match="no such preset"):
        wrap_http_client(httpx2.Client(), MemoryStore(), SessionSettings(policy="no such preset"))


def test_closing_closes_what_is_behind() -> None:
    """The client it sends through is closed once, and whoever waits for the end is told."""
    with wired(in_turn(Say())) as wire:
        wire.client.close()
        wire.client.close()

        assert wire.inner.is_closed
        assert wire.ended == ["end"]


def test_the_session_may_be_named_once_for_all() -> None:
    """B23: a name given with the transport is that of all requests that bring none of their own."""
    store = MemoryStore()

    transport = InfoldTransport(httpx2.Client(), SessionPool(store, ROOMY), ignore, session="all")
    body = {"model": "m", "messages": said()}
    with ScriptedServer() as server, httpx2.Client(base_url=server.url, transport=transport) as client:
        client.post("/v1/chat/completions", json=body)
        client.post("/v1/chat/completions", json=body, headers={"x-infold-session": "own"})

    assert sorted(stored.key.session_id for stored in store.sessions("")) == ["all", "own"]


class Packed(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """A provider that compresses what it answers, and notes which encodings it was asked for."""

    def __init__(self, encoding: str, *, stream: bool) -> None:
        self.asked: list[str] = []
        self._encoding, self._stream = encoding, stream

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer."""
        self.asked.append(request.headers["accept-encoding"])
        kind = "text/event-stream" if self._stream else "application/json"
        headers = {"content-type": kind, "content-encoding": self._encoding}
        content = STREAMED if self._stream else msgspec.json.encode(WHOLE)
        return httpx2.Response(200, headers=headers, content=PACK[self._encoding](content))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The same for an async client."""
        return self.handle_request(request)


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
WHOLE = {"choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}
DELTA = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}
STREAMED = b"data: " + msgspec.json.encode(DELTA) + b"\n\ndata: [DONE]\n\n"
BODY = {"model": "some-model", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_replies_are_asked_for_and_heard(encoding: str, stream: bool) -> None:
    """B23, B30: a wrapped client asks for the encodings that the bare one does; the reply arrives decoded and is recorded."""
    store, provider = MemoryStore(), Packed(encoding, stream=stream)
    transport = InfoldTransport(httpx2.Client(transport=provider), SessionPool(store, ROOMY), ignore)
    with httpx2.Client(base_url="http://provider", transport=transport) as client:
        reply = client.post("/v1/chat/completions", json={**BODY, "stream": stream}, headers=NAMED)
        bare = client.headers["accept-encoding"]

    assert [one.strip() for one in provider.asked[0].split(",")] == bare.split(", ")
    assert reply.content == (STREAMED if stream else msgspec.json.encode(WHOLE))
    assert "content-encoding" not in reply.headers
    assert recorded(store) == ["hi", "hello"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_async_client_gets_compressed_replies_too(stream: bool) -> None:
    """B23, B30: the same for an async client."""
    store, provider = MemoryStore(), Packed("gzip", stream=stream)

    async def talk() -> bytes:
        transport = AsyncInfoldTransport(httpx2.AsyncClient(transport=provider), SessionPool(store, ROOMY), ignore)
        async with httpx2.AsyncClient(base_url="http://provider", transport=transport) as client:
            return (await client.post("/v1/chat/completions", json={**BODY, "stream": stream}, headers=NAMED)).content

    assert asyncio.run(talk()) == (STREAMED if stream else msgspec.json.encode(WHOLE))
    assert recorded(store) == ["hi", "hello"]


@pytest.mark.parametrize(
    ("accepted", "sent"), [("snappy", "identity"), ("gzip;q=0.5, snappy", "gzip;q=0.5"), ("*", "identity")]
)
def test_encodings_that_cannot_be_decoded_are_not_asked_for(accepted: str, sent: str) -> None:
    """B30: what a caller accepts and infold cannot decode is left out, for replies are read on their way."""
    provider = Packed("gzip", stream=False)
    transport = InfoldTransport(httpx2.Client(transport=provider), SessionPool(MemoryStore(), ROOMY), ignore)
    with httpx2.Client(base_url="http://provider", transport=transport) as client:
        client.post("/v1/chat/completions", json=BODY, headers={**NAMED, "accept-encoding": accepted})

    assert provider.asked == [sent]


def recorded(store: MemoryStore) -> list[str]:
    """The texts of the one session."""
    (session,) = store.sessions("")
    entries = [entry for _, entry in store.newest_first(session.key)][::-1]
    return [text_of(entry.message) for entry in entries if isinstance(entry, MessageEntry)]
