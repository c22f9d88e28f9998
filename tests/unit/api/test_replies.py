"""Replies on their way back to a client."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from infold.api.passages import AsyncPassages, Passages
from infold.api.session import Session
from infold.api.session_settings import SessionSettings
from infold.api.transports import AsyncInfoldTransport, InfoldTransport
from infold.core.events import Event, FailedOpen, NotManaged, Rejected
from infold.core.log import Log
from infold.core.messages import text_of
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Say, Script, Trouble, in_turn
from infold.testing.scripted_server import ScriptedServer

from .talks import Item, Talk

LONG = "Notes on the port, part by part. " * 6
OVERFLOW = {
    "message": "This model's maximum context length is 5000 tokens. However, your messages resulted in 9000 tokens.",
    "code": "context_length_exceeded",
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
each_path = pytest.mark.parametrize("kind", [*PATHS])


def body(kind: str, items: list[Item] | None = None, **fields: Any) -> Item:
    """A streamed request."""
    asked = items or [{"role": "user", "content": "hi"}]
    field = "input" if kind == "responses" else "messages"
    return {"model": "m", field: asked, "max_tokens": 50, "stream": True, **fields}


def long_list() -> list[Item]:
    """About seven thousand tokens."""
    talk = Talk("A", words=140)
    for _ in range(12):
        talk.hear(talk.next_answer())
    return talk.items


class Heard:
    """A client behind infold, in both colours; `log` is the session as it stands."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.store = MemoryStore()
        self.events: list[Event] = []
        self.settings = SessionSettings(window=200_000, on_event=self.events.append)

    @property
    def log(self) -> Log:
        """The one session there is."""
        return Session(self.store, "s", self.settings).log

    @property
    def said(self) -> list[str]:
        """What the session heard the model say."""
        return [text_of(placed.message) for placed in self.log.live if placed.message.id != "m0"]

    @contextmanager
    def client(self) -> Iterator[httpx2.Client]:
        """A sync client."""
        transport = InfoldTransport(httpx2.Client(), Passages(self.store, self.settings), self.tell, session="s")
        with httpx2.Client(base_url=self.server.url, transport=transport) as client:
            yield client

    def async_client(self) -> httpx2.AsyncClient:
        """An async client."""
        passages = AsyncPassages(self.store, self.settings)
        transport = AsyncInfoldTransport(httpx2.AsyncClient(), passages, self.tell, session="s")
        return httpx2.AsyncClient(base_url=self.server.url, transport=transport)

    def tell(self, event: FailedOpen | NotManaged) -> None:
        """Hear of a failure."""
        self.events.append(event)


@contextmanager
def heard(script: Script) -> Iterator[Heard]:
    """A server with that script and clients that speak to it."""
    with ScriptedServer(script) as server:
        yield Heard(server)


def refusing(*, events: int) -> Say:
    """A stream that ends in a refusal for size after so many events."""
    return Say(LONG, trouble=Trouble(cut_after_events=events, error_event={"type": "error", "error": OVERFLOW}))


@each_path
def test_a_stream_comes_piece_by_piece_and_is_heard(kind: str) -> None:
    """The bytes are the provider's own, in several pieces; at the end the session has the reply."""
    with heard(in_turn(Say(LONG))) as there, there.client() as client:
        with client.stream("POST", PATHS[kind], json=body(kind)) as response:
            pieces = list(response.iter_raw())
        plain = httpx2.post(f"{there.server.url}{PATHS[kind]}", json=body(kind)).content

    assert len(pieces) > 3
    assert b"".join(pieces).replace(b"_1", b"_2").replace(b"-1", b"-2") == plain
    assert there.said == [LONG]
    assert there.events == []


@each_path
def test_an_async_stream_is_heard(kind: str) -> None:
    """The same for an async client."""

    async def main(there: Heard) -> bytes:
        async with there.async_client() as client, client.stream("POST", PATHS[kind], json=body(kind)) as response:
            return b"".join([piece async for piece in response.aiter_raw()])

    with heard(in_turn(Say(LONG))) as there:
        assert b"event" in asyncio.run(main(there)) or kind == "chat"
        assert there.said == [LONG]


@each_path
def test_a_stream_let_go_early_is_not_heard(kind: str) -> None:
    """B13: half a reply is not the session's; asked for again it is heard once."""
    with heard(in_turn(Say(LONG))) as there, there.client() as client:
        with client.stream("POST", PATHS[kind], json=body(kind)) as response:
            next(response.iter_raw())
        before = there.said
        with client.stream("POST", PATHS[kind], json=body(kind)) as response:
            response.read()

    assert before == []
    assert there.said == [LONG]


@each_path
def test_a_stream_that_is_cut_short_is_not_heard(kind: str) -> None:
    """B13: a connection that breaks in the middle reaches the caller as what it is, and the retry is heard."""
    cut = Say(LONG, trouble=Trouble(cut_after_events=7))
    with heard(in_turn(cut, Say(LONG))) as there, there.client() as client:
        with pytest.raises(httpx2.RemoteProtocolError), client.stream("POST", PATHS[kind], json=body(kind)) as response:
            response.read()
        before = there.said
        with client.stream("POST", PATHS[kind], json=body(kind)) as response:
            response.read()

    assert before == []
    assert there.said == [LONG]
    assert there.events == []


@pytest.mark.parametrize(("kind", "events"), [("chat", 0), ("messages", 0), ("messages", 2), ("responses", 2)])
def test_a_refusal_in_the_opening_of_a_stream_is_recovered(kind: str, events: int) -> None:
    """B8, B11: a provider that begins to stream and then refuses for size is asked once more; the caller sees one stream."""
    with heard(in_turn(refusing(events=events), Say("Well then."))) as there, there.client() as client:
        with client.stream("POST", PATHS[kind], json=body(kind, long_list())) as response:
            text = response.read().decode()
        first, second = there.server.requests

    assert "context_length_exceeded" not in text
    assert second.tokens < first.tokens
    assert [event.limit_tokens for event in there.events if isinstance(event, Rejected)] == [5_000]
    assert there.log.limits.tokens == 5_000


def test_an_async_refusal_in_the_opening_is_recovered() -> None:
    """B8: the same for an async client."""

    async def main(there: Heard) -> str:
        async with there.async_client() as client:
            asked = body("responses", long_list())
            async with client.stream("POST", PATHS["responses"], json=asked) as response:
                return (await response.aread()).decode()

    with heard(in_turn(refusing(events=2), Say("Well then."))) as there:
        assert "context_length_exceeded" not in asyncio.run(main(there))
        assert len(there.server.requests) == 2


def test_a_refusal_after_the_first_word_is_the_callers() -> None:
    """What was said already cannot be taken back: the error passes through, and nothing is recorded."""
    with heard(in_turn(refusing(events=9))) as there, there.client() as client:
        with client.stream("POST", PATHS["chat"], json=body("chat", long_list())) as response:
            text = response.read().decode()

        assert "context_length_exceeded" in text
        assert len(there.server.requests) == 1
    assert "Notes" not in " ".join(there.said)


def test_a_connection_that_breaks_in_the_opening_is_let_go() -> None:
    """What breaks before the first word is an error of the connection, which SDKs try again."""
    cut = in_turn(Say(LONG, trouble=Trouble(cut_after_events=0)))

    async def main(there: Heard) -> None:
        async with there.async_client() as client:
            await client.post(PATHS["messages"], json=body("messages"))

    with heard(cut) as there, there.client() as client, pytest.raises(httpx2.RemoteProtocolError):
        client.post(PATHS["messages"], json=body("messages"))
    with heard(cut) as there, pytest.raises(httpx2.RemoteProtocolError):
        asyncio.run(main(there))


def test_headers_and_time_are_the_providers() -> None:
    """Ids of requests and the rest of the headers are kept, and the time it took can be asked for."""
    reply = {"choices": [{"message": {"role": "assistant", "content": "Hello!"}, "finish_reason": "stop"}]}
    headers = {"x-request-id": "req_1", "openai-processing-ms": "7", "set-cookie": "a=1"}
    with heard(in_turn(Fail(200, reply, headers))) as there, there.client() as client:
        response = client.post(PATHS["chat"], json=body("chat", stream=False))

    assert headers.items() <= dict(response.headers).items()
    assert response.http_version == "HTTP/1.1"
    assert response.elapsed > timedelta(0)
    assert int(response.headers["content-length"]) == len(response.content)
    assert there.said == ["Hello!"]


def test_a_reply_that_is_no_json_passes_through() -> None:
    """What a provider's front sends instead of a reply reaches the caller; that it was not understood is told."""
    with heard(in_turn(Fail(200, b'<html>"error"</html>'))) as there, there.client() as client:
        response = client.post(PATHS["chat"], json=body("chat", stream=False))

    assert response.content == b'<html>"error"</html>'
    assert [type(event) for event in there.events] == [FailedOpen]


def test_garbage_in_a_stream_passes_through() -> None:
    """Events that nobody can read are relayed, and what is said between them is heard."""
    with heard(in_turn(Say(LONG, trouble=Trouble(garbage=True)))) as there, there.client() as client:
        response = client.post(PATHS["chat"], json=body("chat"))

    assert b"\xff\xfe" in response.content
    assert there.said == [LONG]
