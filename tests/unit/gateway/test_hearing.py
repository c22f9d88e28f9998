"""What is known of a reply while it comes."""

import asyncio
import gzip

import msgspec
import pytest

from infold.api.exchanges import Exchange, opened
from infold.api.passage import AsyncPassage
from infold.api.passages import AsyncPassages
from infold.api.session_settings import SessionSettings
from infold.core.messages import AssistantMessage, text_of
from infold.gateway.hearing import MOST_OPENING_BYTES, MOST_REFUSAL_BYTES, Hearing
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, StreamEvent, WireReply, count_usage
from infold.testing.scripted_server import MODEL
from infold.testing.wire_replies import REPLY_WRITERS

from .stage import Item

STREAM = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}

REQUESTS: dict[str, tuple[str, Item]] = {
    "openai-chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    "openai-responses": ("/v1/responses", {"input": "hi"}),
    "anthropic-messages": ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}]}),
    "gemini": ("/v1beta/models/g:streamGenerateContent", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
}
ERRORS: dict[str, StreamEvent] = {
    "openai-chat": StreamEvent({"error": {"message": "too long", "code": "context_length_exceeded"}}),
    "openai-responses": StreamEvent(
        {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "no"}}},
        "response.failed",
    ),
    "anthropic-messages": StreamEvent(
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 5"}},
        "error",
    ),
    "gemini": StreamEvent({"error": {"code": 400, "message": "The input token count (9) exceeds the maximum (5)."}}),
}
OPENINGS = {"openai-chat": 1, "openai-responses": 2, "anthropic-messages": 2, "gemini": 0}
"""How many events open a stream before anything is said in it."""

each_format = pytest.mark.parametrize("name", REQUESTS)


def exchange(name: str, *, stream: bool = True) -> Exchange:
    """A request in that format, which asks for a stream."""
    path, body = REQUESTS[name]
    found = opened(path, {"x-infold-session": "s"}, msgspec.json.encode({"model": "m", "stream": stream, **body}))
    assert isinstance(found, Exchange)
    return found


def events(name: str, say: Say) -> list[bytes]:
    """A streamed reply, event by event."""
    reply = WireReply(say, count_usage(say, 10, 1.0), 1, MODEL)
    return [event.encode() for event in REPLY_WRITERS[name].events(reply)]


def passage(asked: Exchange) -> AsyncPassage:
    """The passage of a request."""

    async def nobody(_: bytes) -> object:
        raise AssertionError("nobody is asked")

    passages = AsyncPassages(MemoryStore(), SessionSettings(window=8_000))
    return asyncio.run(passages.begin(asked, nobody))  # type: ignore[arg-type]  # it is never awaited


def replies(made: AsyncPassage) -> list[str]:
    """What the session holds of replies."""
    return [text_of(one.message) for one in made.session.log.live if isinstance(one.message, AssistantMessage)]


@each_format
def test_a_stream_is_held_until_something_is_said(name: str) -> None:
    """Opening events wait; the first word, of whatever kind, does not."""
    for say in (Say("hello there"), Say(calls=(("bash", {"command": "ls"}),)), Say("x", reasoning="well then")):
        hearing = Hearing(200, STREAM, exchange(name))
        held = 0
        for event in events(name, say):
            if not hearing.is_held:
                break
            hearing.hear(event)
            held += hearing.is_held

        assert held == OPENINGS[name]
        assert hearing.overflow is None


@each_format
def test_a_refusal_in_a_stream_is_heard(name: str) -> None:
    """B7: a stream that began well and then says that the request was too large is a refusal for size."""
    hearing = Hearing(200, STREAM, exchange(name))
    for event in (*events(name, Say("hello"))[: OPENINGS[name]], ERRORS[name].encode()):
        hearing.hear(event)

    assert not hearing.is_held
    assert hearing.overflow is not None


@each_format
def test_a_stream_is_taken_in(name: str) -> None:
    """What was said is recorded once the stream has said why it ended; compressed or not."""
    for headers, pieces in (
        (STREAM, events(name, Say("hello there"))),
        ({**STREAM, "content-encoding": "gzip"}, [gzip.compress(b"".join(events(name, Say("hello there"))))]),
    ):
        made = passage(exchange(name))
        hearing = Hearing(200, headers, made.exchange)
        for piece in pieces:
            hearing.hear(piece)

        assert hearing.has_ended()
        asyncio.run(hearing.record(made))
        assert replies(made) == ["hello there"]


@each_format
def test_a_stream_that_broke_off_is_not(name: str) -> None:
    """Half a reply is the client's to ask for again."""
    made = passage(exchange(name))
    hearing = Hearing(200, STREAM, made.exchange)
    for event in events(name, Say("hello there, all of you"))[: OPENINGS[name] + 1]:
        hearing.hear(event)
    asyncio.run(hearing.record(made))

    assert not hearing.has_ended()
    assert replies(made) == []


@each_format
def test_a_whole_reply_is_held_and_taken_in(name: str) -> None:
    """It is of no use to a client before it is whole."""
    asked = exchange(name, stream=False) if name != "gemini" else unstreamed_gemini()
    made = passage(asked)
    say = Say("hello there")
    body = msgspec.json.encode(REPLY_WRITERS[name].body(WireReply(say, count_usage(say, 10, 1.0), 1, MODEL)))
    hearing = Hearing(200, JSON, asked)
    for at in range(0, len(body), 100):
        assert hearing.is_held
        hearing.hear(body[at : at + 100])

    assert not hearing.is_stream
    assert hearing.overflow is None
    asyncio.run(hearing.record(made))
    assert replies(made) == ["hello there"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai-chat", b'{"choices": []}'),
        ("openai-responses", b'{"output": [], "status": "completed"}'),
        ("anthropic-messages", b'{"content": [], "stop_reason": "end_turn"}'),
        ("openai-chat", b"no JSON"),
    ],
)
def test_a_reply_that_says_nothing_adds_nothing(name: str, body: bytes) -> None:
    """Models may answer with nothing; that is no failure of ours."""
    made = passage(exchange(name, stream=False))
    hearing = Hearing(200, JSON, made.exchange)
    hearing.hear(body)
    asyncio.run(hearing.record(made))

    assert replies(made) == []


def unstreamed_gemini() -> Exchange:
    """The one format whose path tells whether it streams."""
    _, body = REQUESTS["gemini"]
    found = opened("/v1beta/models/g:generateContent", {"x-infold-session": "s"}, msgspec.json.encode(body))
    assert isinstance(found, Exchange)
    return found


def test_geminis_array_is_a_stream() -> None:
    """Without events the pieces are the objects of one array, and are heard as they come."""
    hearing = Hearing(200, JSON, exchange("gemini"))
    hearing.hear(b'[{"candidates": [{"content": {"parts": [{"text": "hello"}]}}]}')

    assert hearing.is_stream
    assert not hearing.is_held


@pytest.mark.parametrize(("status", "is_overflow"), [(400, True), (413, True), (429, False), (500, True)])
def test_a_refusal_is_heard_by_its_status(status: int, *, is_overflow: bool) -> None:
    """B7: a refusal for going too fast is none for size."""
    hearing = Hearing(status, JSON, exchange("openai-chat"))
    hearing.hear(b'{"error": {"message": "prompt is too long: 9 tokens > 5 maximum"}}')

    assert (hearing.overflow is not None) is is_overflow


def test_an_error_under_a_good_status_is_heard() -> None:
    """Some services answer 200 and tell of the error in the body."""
    hearing = Hearing(200, JSON, exchange("openai-chat", stream=False))
    hearing.hear(b'{"error": {"message": "maximum context length is 5 tokens", "code": 400}}')
    other = Hearing(200, JSON, exchange("openai-chat", stream=False))
    other.hear(b'{"choices": [{"message": {"content": "an \\"error\\": maximum context length is 5"}}], "x": "error"}')

    assert hearing.overflow is not None
    assert other.overflow is None


def test_what_is_too_large_is_passed_on_unheard() -> None:
    """A refusal or an opening without end is not held for ever."""
    refusal = Hearing(400, JSON, exchange("openai-chat"))
    opening = Hearing(200, STREAM, exchange("openai-chat"))
    for _ in range(3):
        refusal.hear(b" " * (MOST_REFUSAL_BYTES // 2))
        opening.hear(b": still busy\n\n" * (MOST_OPENING_BYTES // 20))

    assert not refusal.is_held
    assert not opening.is_held
    assert refusal.overflow is None


@pytest.mark.parametrize("headers", [{**STREAM, "content-encoding": "zip"}, {**JSON, "content-encoding": "zstd"}])
def test_what_cannot_be_read_is_not_held(headers: dict[str, str]) -> None:
    """A reply in an encoding nobody asked for is passed on, and nothing is recorded."""
    made = passage(exchange("openai-chat"))
    hearing = Hearing(200, headers, made.exchange)
    hearing.hear(b"\x00\x01")
    asyncio.run(hearing.record(made))

    assert not hearing.is_held
    assert replies(made) == []


@pytest.mark.parametrize("garbage", [b"data: {broken\n\n", b"data: \xff\xfe\n\n", b"data: [1, 2]\n\n"])
def test_garbage_is_not_held(garbage: bytes) -> None:
    """What nobody understands is the client's to make something of."""
    hearing = Hearing(200, STREAM, exchange("openai-chat"))
    hearing.hear(garbage)

    assert not hearing.is_held
