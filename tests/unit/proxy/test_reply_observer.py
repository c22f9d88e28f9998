"""What is known of a reply while it comes."""

from typing import Any

import msgspec
import pytest

from infold.core.messages import AssistantMessage, text_of
from infold.formats.codec import MalformedError
from infold.proxy.managed_request import MOST_OPENING_BYTES, MOST_REFUSAL_BYTES, ManagedRequest, ReplyObserver
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, StreamEvent, WireReply, count_usage
from infold.testing.scripted_server import MODEL
from infold.testing.wire_replies import REPLY_WRITERS

from .talks import no_model, record

STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
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


def parsed(name: str, *, stream: bool = True) -> ParsedRequest:
    """A request in that format, which asks for a stream."""
    path, body = REQUESTS[name]
    found = parse_request(
        path, {"x-infold-session": "s"}, msgspec.json.encode({"model": "m", "stream": stream, **body})
    )
    assert isinstance(found, ParsedRequest)
    return found


def events(name: str, say: Say) -> list[bytes]:
    """A streamed reply, event by event."""
    reply = WireReply(say, count_usage(say, 10, 1.0), 1, MODEL)
    return [event.encode() for event in REPLY_WRITERS[name].events(reply)]


def managed(request: ParsedRequest) -> ManagedRequest:
    """A request that was prepared."""
    return SessionPool(MemoryStore(), SessionSettings(window=8_000)).begin(request, no_model)


def replies(made: ManagedRequest) -> list[str]:
    """What the session holds of replies."""
    return [text_of(one.message) for one in made.session.log.live if isinstance(one.message, AssistantMessage)]


@each_format
def test_a_stream_is_held_until_something_is_said(name: str) -> None:
    """Opening events wait; the first word, of whatever kind, does not."""
    for say in (Say("hello there"), Say(calls=(("bash", {"command": "ls"}),)), Say("x", reasoning="well then")):
        observer = ReplyObserver(parsed(name), 200, STREAM)
        held = 0
        for event in events(name, say):
            if not observer.is_held:
                break
            observer.observe(event)
            held += observer.is_held

        assert held == OPENINGS[name]
        assert observer.overflow is None


@each_format
def test_a_refusal_in_a_stream_is_heard(name: str) -> None:
    """B7: a stream that began well and then says that the request was too large is a refusal for size."""
    observer = ReplyObserver(parsed(name), 200, STREAM)
    for event in (*events(name, Say("hello"))[: OPENINGS[name]], ERRORS[name].encode()):
        observer.observe(event)

    assert not observer.is_held
    assert observer.overflow is not None


@each_format
def test_a_stream_is_recorded(name: str) -> None:
    """What was said is recorded once the stream has reported why it ended."""
    made = managed(parsed(name))
    observer = ReplyObserver(made.parsed, 200, STREAM)
    for event in events(name, Say("hello there")):
        observer.observe(event)

    assert observer.has_ended
    made.record(observer)
    assert replies(made) == ["hello there"]


@each_format
def test_a_stream_that_broke_off_is_not(name: str) -> None:
    """Half a reply is the client's to ask for again."""
    made = managed(parsed(name))
    observer = ReplyObserver(made.parsed, 200, STREAM)
    for event in events(name, Say("hello there, all of you"))[: OPENINGS[name] + 1]:
        observer.observe(event)
    made.record(observer)

    assert not observer.has_ended
    assert replies(made) == []


@each_format
def test_a_whole_reply_is_held_and_taken_in(name: str) -> None:
    """It is of no use to a client before it is whole."""
    asked = parsed(name, stream=False) if name != "gemini" else unstreamed_gemini()
    made = managed(asked)
    say = Say("hello there")
    body = msgspec.json.encode(REPLY_WRITERS[name].body(WireReply(say, count_usage(say, 10, 1.0), 1, MODEL)))
    observer = ReplyObserver(asked, 200, JSON)
    for at in range(0, len(body), 100):
        assert observer.is_held
        observer.observe(body[at : at + 100])

    assert not observer.is_stream
    assert observer.overflow is None
    made.record(observer)
    assert replies(made) == ["hello there"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai-chat", b'{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}}'),
        (
            "openai-responses",
            b'{"output": [], "status": "completed", "usage": {"input_tokens": 9, "output_tokens": 0}}',
        ),
        ("anthropic-messages", b'{"content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 9}}'),
        ("gemini", b'{"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": {"promptTokenCount": 9}}'),
    ],
)
def test_a_reply_that_says_nothing_is_recorded(name: str, body: bytes) -> None:
    """B13: models may answer with nothing; what the request cost is known all the same."""
    made = managed(unstreamed_gemini() if name == "gemini" else parsed(name, stream=False))
    record(made, body)

    assert replies(made) == [""]
    assert made.usage is not None
    assert made.usage.prompt == 9


@each_format
def test_a_stream_that_says_nothing_is_recorded(name: str) -> None:
    """B13: a stream may report its end and its usage, and nothing else."""
    made = managed(parsed(name))
    observer = ReplyObserver(made.parsed, 200, STREAM)
    for event in events(name, Say("")):
        observer.observe(event)
    made.record(observer)

    assert replies(made) == [""]
    assert made.usage is not None


@pytest.mark.parametrize("body", [b"{}", b'{"error": {"message": "busy"}}', b'{"data": []}'])
@each_format
def test_what_is_no_reply_is_not_recorded(name: str, body: bytes) -> None:
    """B13: some servers report failures with status 200; those are not empty replies."""
    made = managed(unstreamed_gemini() if name == "gemini" else parsed(name, stream=False))
    record(made, body)

    assert replies(made) == []


def unstreamed_gemini() -> ParsedRequest:
    """The one format whose path tells whether it streams."""
    _, body = REQUESTS["gemini"]
    found = parse_request("/v1beta/models/g:generateContent", {"x-infold-session": "s"}, msgspec.json.encode(body))
    assert isinstance(found, ParsedRequest)
    return found


def test_geminis_array_is_a_stream() -> None:
    """Without events the pieces are the objects of one array, and are heard as they come."""
    observer = ReplyObserver(parsed("gemini"), 200, JSON)
    observer.observe(b'[{"candidates": [{"content": {"parts": [{"text": "hello"}]}}]}')

    assert observer.is_stream
    assert not observer.is_held


@pytest.mark.parametrize(("status", "is_overflow"), [(400, True), (413, True), (429, False), (500, True)])
def test_a_refusal_is_heard_by_its_status(status: int, *, is_overflow: bool) -> None:
    """B7: a refusal for going too fast is none for size."""
    observer = ReplyObserver(parsed("openai-chat"), status, JSON)
    observer.observe(b'{"error": {"message": "prompt is too long: 9 tokens > 5 maximum"}}')

    assert (observer.overflow is not None) is is_overflow


def test_an_error_under_a_good_status_is_heard() -> None:
    """Some services answer 200 and tell of the error in the body."""
    observer = ReplyObserver(parsed("openai-chat", stream=False), 200, JSON)
    observer.observe(b'{"error": {"message": "maximum context length is 5 tokens", "code": 400}}')
    other = ReplyObserver(parsed("openai-chat", stream=False), 200, JSON)
    other.observe(
        b'{"choices": [{"message": {"content": "an \\"error\\": maximum context length is 5"}}], "x": "error"}'
    )

    assert observer.overflow is not None
    assert other.overflow is None


def test_what_is_too_large_is_passed_on_unheard() -> None:
    """A refusal or an opening without end is not held for ever."""
    refusal = ReplyObserver(parsed("openai-chat"), 400, JSON)
    opening = ReplyObserver(parsed("openai-chat"), 200, STREAM)
    for _ in range(3):
        refusal.observe(b" " * (MOST_REFUSAL_BYTES // 2))
        opening.observe(b": still busy\n\n" * (MOST_OPENING_BYTES // 20))

    assert not refusal.is_held
    assert not opening.is_held
    assert refusal.overflow is None


def test_a_reply_that_is_not_json_is_an_error() -> None:
    """What a server's front sends in place of a reply is not recorded, and raises."""
    with pytest.raises(MalformedError):
        record(managed(parsed("openai-chat", stream=False)), b"<html>")


@pytest.mark.parametrize("content_type", [STREAM, JSON])
def test_what_cannot_be_read_is_not_held(content_type: str) -> None:
    """A reply that cannot be decompressed is passed on, and nothing is recorded."""
    made = managed(parsed("openai-chat"))
    observer = ReplyObserver(made.parsed, 200, content_type)
    observer.observe(b"\x00\x01")
    observer.give_up()
    made.record(observer)

    assert not observer.is_held
    assert replies(made) == []


@pytest.mark.parametrize("garbage", [b"data: {broken\n\n", b"data: \xff\xfe\n\n", b"data: [1, 2]\n\n"])
def test_garbage_is_not_held(garbage: bytes) -> None:
    """What nobody understands is the client's to make something of."""
    observer = ReplyObserver(parsed("openai-chat"), 200, STREAM)
    observer.observe(garbage)

    assert not observer.is_held
