"""A reply is passed on as it arrives, and its end waits until it was recorded."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx2
import msgspec
import pytest
from starlette.types import Message

from infold.gateway.relay import LINGER_SECONDS, ObservedReply, cancel_on_disconnect
from infold.proxy.managed_request import ReplyObserver
from infold.proxy.request import ParsedRequest, parse_request

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

    async def record(self, observer: ReplyObserver) -> None:
        """Take note of it."""
        assert observer.reply()
        self.done.append("recorded")


def reply_to(body: "Body", headers: dict[str, str], acts: Acts) -> ObservedReply:
    """The reply to a request that is managed."""
    asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    parsed = parse_request(CHAT, {"x-infold-session": "s"}, msgspec.json.encode(asked))
    assert isinstance(parsed, ParsedRequest)
    observer = ReplyObserver(parsed, 200, headers["content-type"])
    return ObservedReply(httpx2.Response(200, headers=headers, stream=body), observer=observer, record=acts.record)


async def passed_on(body: Body, headers: dict[str, str], *, managed: bool = True) -> Acts:
    """What is passed on of a reply and what is done, in order, up to where it would wait."""
    acts = Acts()
    reply = reply_to(body, headers, acts)
    if not managed:
        reply = ObservedReply(httpx2.Response(200, headers=headers, stream=body))
    await reply.read_opening()
    try:
        async for chunk in reply.chunks():
            acts.done.append(chunk)
    except httpx2.HTTPError as error:
        acts.done.append(type(error).__name__)
    await reply.aclose()
    return acts


def test_the_end_of_a_stream_waits_until_it_was_recorded() -> None:
    """What is said goes on at once; what ends it comes after the session knows it."""
    acts = asyncio.run(passed_on(Body(ROLE, WORD, WORD, END, DONE), STREAM))

    assert acts.done == [ROLE, WORD, WORD, "recorded", END, DONE]


def test_a_stream_in_one_piece_is_recorded_first() -> None:
    """However it was cut up on its way."""
    acts = asyncio.run(passed_on(Body(ROLE + WORD + END + DONE), STREAM))

    assert acts.done == ["recorded", ROLE + WORD + END + DONE]


def test_a_whole_reply_is_recorded_first() -> None:
    """It is of no use to a client before it is whole."""
    pieces = (b'{"choices": [{"message": {"role": "assistant",', b' "content": "yes"}, "finish_reason": "stop"}]}')
    acts = asyncio.run(passed_on(Body(*pieces), {"content-type": "application/json"}))

    assert acts.done == ["recorded", *pieces]


def test_a_compressed_reply_is_recorded_and_passed_on_as_it_came() -> None:
    """An upstream may compress though it was asked not to; what cannot be read is passed on without a record."""
    packed = gzip.compress(ROLE + WORD + END + DONE)
    known, unknown = ({**STREAM, "content-encoding": name} for name in ("gzip", "zip"))

    assert asyncio.run(passed_on(Body(packed), known)).done == ["recorded", packed]
    assert asyncio.run(passed_on(Body(packed), unknown)).done == [packed]


def test_what_is_not_managed_is_passed_on_as_it_comes() -> None:
    """Nobody listens."""
    acts = asyncio.run(passed_on(Body(ROLE, b"\x00\xff", END), STREAM, managed=False))

    assert acts.done == [ROLE, b"\x00\xff", END]


def test_a_break_is_passed_on_after_what_came() -> None:
    """A client is told that a reply broke off; what ended before that was recorded."""
    broken = asyncio.run(passed_on(Body(ROLE, WORD, httpx2.ReadError("gone")), STREAM))
    ended = asyncio.run(passed_on(Body(ROLE, WORD, END, httpx2.ReadError("gone")), STREAM))

    assert broken.done == [ROLE, WORD, "ReadError"]
    assert ended.done == [ROLE, WORD, "recorded", END, "ReadError"]


def test_a_refusal_is_known_before_anything_is_passed_on() -> None:
    """B7: the opening is held until it is known what follows."""

    async def opening() -> bool:
        reply = reply_to(Body(ROLE, REFUSED, None), STREAM, Acts())
        await reply.read_opening()
        await reply.aclose()
        return reply.overflow is not None

    assert asyncio.run(opening())


@pytest.mark.slow
def test_an_upstream_that_lingers_is_not_waited_for() -> None:
    """A reply that has ended is recorded after a moment, though its connection stays open."""

    async def lingering() -> list[bytes | str]:
        acts, body = Acts(), Body(ROLE, WORD, END, None)
        reply = reply_to(body, STREAM, acts)
        await reply.read_opening()
        pieces = reply.chunks()
        acts.done += [await anext(pieces) for _ in range(2)]
        acts.done.append(await anext(pieces))
        await reply.aclose()
        return acts.done

    assert asyncio.run(lingering()) == [ROLE, WORD, "recorded", END]


def test_the_last_word_is_not_waited_after() -> None:
    """A stream that has said its last word is passed on to its end at once, though its connection stays open."""

    async def lingering(*pieces: bytes) -> list[bytes | str]:
        acts, body = Acts(), Body(*pieces, None)
        reply = reply_to(body, STREAM, acts)
        await reply.read_opening()
        coming = reply.chunks()
        async with asyncio.timeout(LINGER_SECONDS / 2):
            for _ in pieces:
                piece = await anext(coming)
                acts.done.append(piece)
        await reply.aclose()
        return acts.done

    assert asyncio.run(lingering(ROLE, WORD, END, DONE)) == [ROLE, WORD, "recorded", END, DONE]
    assert asyncio.run(lingering(ROLE + WORD + END + DONE)) == ["recorded", ROLE + WORD + END + DONE]


def test_a_break_names_the_host(caplog: pytest.LogCaptureFixture) -> None:
    """The log tells which upstream broke off, and nothing of what it said."""

    async def answer() -> None:
        body = Body(b"half", httpx2.ReadError("gone: half"))
        reply = ObservedReply(httpx2.Response(200, stream=body), host="api.test")

        async def nothing(_: Message) -> None:
            pass

        await reply.pass_on(nothing, ())

    asyncio.run(answer())

    assert [record.getMessage() for record in caplog.records] == [
        "api.test broke off in the middle of its answer (ReadError)"
    ]


def test_a_client_that_leaves_lets_the_upstream_go() -> None:
    """The connection is closed whether the client leaves at once or in the middle."""

    async def leave(after: int) -> bool:
        body = Body(ROLE, WORD, None)
        reply = reply_to(body, STREAM, Acts())
        await reply.read_opening()
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

        await cancel_on_disconnect(receive, reply.pass_on(send, ()))
        return body.closed.is_set()

    assert asyncio.run(leave(0))
    assert asyncio.run(leave(2))


def test_a_reply_that_broke_off_has_no_end() -> None:
    """No last word is sent, so that the server cuts the client's connection as the upstream cut ours."""
    sent: list[Message] = []

    async def answer() -> None:
        reply = ObservedReply(httpx2.Response(200, stream=Body(b"half", httpx2.ReadError("gone"))))

        async def send(message: Message) -> None:
            sent.append(message)

        await reply.pass_on(send, ((b"x-a", b"1"), (b"x-a", b"2")))

    asyncio.run(answer())

    assert sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1"), (b"x-a", b"2")]},
        {"type": "http.response.body", "body": b"half", "more_body": True},
    ]
