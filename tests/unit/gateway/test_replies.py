"""A reply is passed on as it arrives, and its end waits until it was taken in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import msgspec
import pytest
from starlette.types import Message

from infold.api.exchanges import Exchange, opened
from infold.api.passages import AsyncPassages
from infold.gateway.aside import Underway
from infold.gateway.leaving import until_left
from infold.gateway.replies import LINGER_SECONDS, PassedOn, Reply
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore

from .stage import CHAT

STREAM = {"content-type": "text/event-stream"}
ROLE = b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
WORD = b'data: {"choices": [{"index": 0, "delta": {"content": "hello"}}]}\n\n'
END = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
REFUSED = b'data: {"error": {"code": "context_length_exceeded", "message": "too long"}}\n\n'


class Body(httpx2.AsyncByteStream):
    """A body of these pieces; an error is raised, and `None` waits until it is closed."""

    def __init__(self, *pieces: bytes | Exception | None) -> None:
        self.closed = asyncio.Event()
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if piece is None:
                await self.closed.wait()
            elif isinstance(piece, Exception):
                raise piece
            else:
                yield piece

    async def aclose(self) -> None:
        """Note it."""
        self.closed.set()


class Acts:
    """What was done with a reply, in order."""

    def __init__(self) -> None:
        self.done: list[bytes | str] = []

    async def tried(self, passage: Underway, act: Callable[[], Awaitable[None]]) -> None:
        """Take note of it, and do it."""
        assert passage.exchange.name == "s"
        await act()
        self.done.append("taken in")


async def passage() -> Underway:
    """A request that is managed."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    exchange = opened(CHAT, {"x-infold-session": "s"}, msgspec.json.encode(body))
    assert isinstance(exchange, Exchange)

    async def nobody(_: bytes) -> object:
        raise AssertionError("nobody is asked")

    passages = AsyncPassages(MemoryStore(), SessionSettings(window=8_000))
    return await passages.begin(exchange, nobody)  # type: ignore[arg-type]  # it is never awaited


async def heard(body: Body, headers: dict[str, str], *, managed: bool = True) -> Acts:
    """What is passed on of a reply and what is done, in order, up to where it would wait."""
    acts = Acts()
    reply = Reply(httpx2.Response(200, headers=headers, stream=body), await passage() if managed else None, acts.tried)
    await reply.open()
    try:
        async for piece in reply.pieces():
            acts.done.append(piece)
    except httpx2.HTTPError as error:
        acts.done.append(type(error).__name__)
    await reply.aclose()
    return acts


def test_the_end_of_a_stream_waits_until_it_was_taken_in() -> None:
    """What is said goes on at once; what ends it comes after the session knows it."""
    acts = asyncio.run(heard(Body(ROLE, WORD, WORD, END, DONE), STREAM))

    assert acts.done == [ROLE, WORD, WORD, "taken in", END, DONE]


def test_a_stream_in_one_piece_is_taken_in_first() -> None:
    """However it was cut up on its way."""
    acts = asyncio.run(heard(Body(ROLE + WORD + END + DONE), STREAM))

    assert acts.done == ["taken in", ROLE + WORD + END + DONE]


def test_a_whole_reply_is_taken_in_first() -> None:
    """It is of no use to a client before it is whole."""
    pieces = (b'{"choices": [{"message": {"role": "assistant",', b' "content": "yes"}, "finish_reason": "stop"}]}')
    acts = asyncio.run(heard(Body(*pieces), {"content-type": "application/json"}))

    assert acts.done == ["taken in", *pieces]


def test_what_is_not_managed_is_passed_on_as_it_comes() -> None:
    """Nobody listens."""
    acts = asyncio.run(heard(Body(ROLE, b"\x00\xff", END), STREAM, managed=False))

    assert acts.done == [ROLE, b"\x00\xff", END]


def test_a_break_is_passed_on_after_what_came() -> None:
    """A client is told that a reply broke off; what ended before that was taken in."""
    broken = asyncio.run(heard(Body(ROLE, WORD, httpx2.ReadError("gone")), STREAM))
    ended = asyncio.run(heard(Body(ROLE, WORD, END, httpx2.ReadError("gone")), STREAM))

    assert broken.done == [ROLE, WORD, "ReadError"]
    assert ended.done == [ROLE, WORD, "taken in", END, "ReadError"]


def test_a_refusal_is_known_before_anything_is_passed_on() -> None:
    """B7: the opening is held until it is known what follows."""

    async def opening() -> bool:
        reply = Reply(
            httpx2.Response(200, headers=STREAM, stream=Body(ROLE, REFUSED, None)), await passage(), Acts().tried
        )
        await reply.open()
        await reply.aclose()
        return reply.overflow is not None

    assert asyncio.run(opening())


@pytest.mark.slow
def test_an_upstream_that_lingers_is_not_waited_for() -> None:
    """A reply that has ended is taken in after a moment, though its connection stays open."""

    async def lingering() -> list[bytes | str]:
        acts, body = Acts(), Body(ROLE, WORD, END, None)
        reply = Reply(httpx2.Response(200, headers=STREAM, stream=body), await passage(), acts.tried)
        await reply.open()
        pieces = reply.pieces()
        acts.done += [await anext(pieces) for _ in range(2)]
        acts.done.append(await anext(pieces))
        await reply.aclose()
        return acts.done

    assert asyncio.run(lingering()) == [ROLE, WORD, "taken in", END]


def test_the_last_word_is_not_waited_after() -> None:
    """A stream that has said its last word is passed on to its end at once, though its connection stays open."""

    async def lingering(*pieces: bytes) -> list[bytes | str]:
        acts, body = Acts(), Body(*pieces, None)
        reply = Reply(httpx2.Response(200, headers=STREAM, stream=body), await passage(), acts.tried)
        await reply.open()
        coming = reply.pieces()
        async with asyncio.timeout(LINGER_SECONDS / 2):
            for _ in pieces:
                piece = await anext(coming)
                acts.done.append(piece)
        await reply.aclose()
        return acts.done

    assert asyncio.run(lingering(ROLE, WORD, END, DONE)) == [ROLE, WORD, "taken in", END, DONE]
    assert asyncio.run(lingering(ROLE + WORD + END + DONE)) == ["taken in", ROLE + WORD + END + DONE]


def test_a_break_names_the_host(caplog: pytest.LogCaptureFixture) -> None:
    """The log tells which upstream broke off, and nothing of what it said."""

    async def answer() -> None:
        body = Body(b"half", httpx2.ReadError("gone: half"))
        reply = Reply(httpx2.Response(200, stream=body), None, Acts().tried, host="api.test")

        async def nothing(*_: Message) -> Message:
            return {"type": "http.disconnect"}

        await PassedOn(reply, ())({"type": "http"}, nothing, nothing)  # type: ignore[arg-type]  # what it gives is not used

    asyncio.run(answer())

    assert [record.getMessage() for record in caplog.records] == [
        "api.test broke off in the middle of its answer (ReadError)"
    ]


def test_a_client_that_leaves_lets_the_upstream_go() -> None:
    """The connection is closed whether the client leaves at once or in the middle."""

    async def leave(after: int) -> bool:
        body = Body(ROLE, WORD, None)
        reply = Reply(httpx2.Response(200, headers=STREAM, stream=body), await passage(), Acts().tried)
        await reply.open()
        enough = asyncio.Event()
        sent: list[Message] = []

        async def receive() -> Message:
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)
            if len(sent) > after:
                enough.set()
                await asyncio.Event().wait()

        await until_left(receive, PassedOn(reply, ())({"type": "http"}, receive, send))
        return body.closed.is_set()

    assert asyncio.run(leave(0))
    assert asyncio.run(leave(2))


def test_a_reply_that_broke_off_has_no_end() -> None:
    """No last word is sent, so that the server cuts the client's connection as the upstream cut ours."""
    sent: list[Message] = []

    async def answer() -> None:
        reply = Reply(httpx2.Response(200, stream=Body(b"half", httpx2.ReadError("gone"))), None, Acts().tried)

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await PassedOn(reply, ((b"x-a", b"1"), (b"x-a", b"2")))({"type": "http"}, receive, send)

    asyncio.run(answer())

    assert sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1"), (b"x-a", b"2")]},
        {"type": "http.response.body", "body": b"half", "more_body": True},
    ]
