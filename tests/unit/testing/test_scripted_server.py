"""The scripted server without an SDK: Gemini, its log, its trouble, and its end."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, IncompleteRead, RemoteDisconnected
from time import monotonic
from typing import Any

import pytest

from infold.core.messages import text_of
from infold.formats.overflow import recognise
from infold.formats.registry import GEMINI, builder_for
from infold.testing.script import Fail, Hang, Say, ScriptedAnswer, ScriptedRequest, Trouble, in_turn
from infold.testing.scripted_server import ScriptedServer

CHAT = "/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**ASKED, "stream": True}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "List the files."}]}]}
CALLING = Say("I will look. ☕", calls=(("bash", {"command": "ls"}),), reasoning="Which folder?")


def connect(server: ScriptedServer) -> HTTPConnection:
    """A connection to the server."""
    return HTTPConnection(server.url.removeprefix("http://"), timeout=10)


def ask(server: ScriptedServer, path: str, body: object, **headers: str) -> tuple[int, bytes]:
    """One request on a connection of its own: the status and the body."""
    connection = connect(server)
    try:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, content, headers)
        with connection.getresponse() as response:
            return response.status, response.read()
    finally:
        connection.close()


def read_stream(server: ScriptedServer, path: str, body: object) -> tuple[bytes, bool]:
    """What came of a stream, and whether it came to its end."""
    connection = connect(server)
    connection.request("POST", path, json.dumps(body).encode())
    with connection.getresponse() as response:
        try:
            return response.read(), True
        except IncompleteRead as cut:
            return cut.partial, False
        finally:
            connection.close()


# Gemini.


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse"])
def test_gemini_is_spoken(method: str) -> None:
    """A reply comes whole, as an array or as events, with thoughts, calls and usage."""
    with ScriptedServer(in_turn(CALLING)) as server:
        status, content = ask(server, f"/v1beta/models/flash:{method}", CONTENTS)
        request = server.requests[0]
    builder = builder_for("gemini")
    builder.feed(content)
    body: Any = builder.reply() if request.stream else json.loads(content)

    assert status == 200
    assert content[:1] == {"generateContent": b"{", "streamGenerateContent": b"["}.get(method, b"d")
    assert body["modelVersion"] == "flash"
    assert GEMINI.finish(body) == "tool-calls"
    usage = GEMINI.usage(body)
    assert usage is not None
    assert usage.prompt == request.tokens
    items = GEMINI.reply_items(body)
    assert [getattr(part, "text", "") for part in GEMINI.decode(items).messages[0].parts] == [
        "Which folder?",
        "I will look. ☕",
        "",
    ]


def test_gemini_refuses_what_is_too_large() -> None:
    """The refusal has the service's own words, in a stream too; a count is given all the same."""
    with ScriptedServer(window_tokens=5) as server:
        for method in ("generateContent", "streamGenerateContent?alt=sse"):
            status, content = ask(server, f"/v1beta/models/m:{method}", CONTENTS)
            overflow = recognise(status, content)
            assert overflow is not None
            assert (overflow.family, overflow.prompt_tokens, overflow.limit_tokens) == (
                "gemini",
                server.requests[0].tokens,
                5,
            )
        _, counted = ask(server, "/v1beta/models/m:countTokens", CONTENTS)
        assert json.loads(counted) == {"totalTokens": server.requests[0].tokens}


def test_gemini_lists_its_model() -> None:
    """The list has the service's own shape."""
    with ScriptedServer() as server:
        connection = connect(server)
        connection.request("GET", "/v1beta/models")
        with connection.getresponse() as response:
            assert json.loads(response.read()) == {"models": [{"name": "models/scripted"}]}
        connection.close()
        assert server.lookups[0].format == ""


# The log.


def test_requests_are_kept_as_they_came() -> None:
    """Path, headers with credentials, body, messages, tokens: all a test may want to know, in the order of arrival."""
    with ScriptedServer() as server:
        ask(server, "/v1/chat/completions?x=1", STREAM, Authorization="Bearer secret")
        ask(server, "/v1/responses", {"model": "m", "input": "hello"})
        first, second = server.requests
    assert first.path == "/v1/chat/completions?x=1"
    assert first.headers["authorization"] == "Bearer secret"
    assert (first.body, first.format, first.stream, second.stream) == (STREAM, "openai-chat", True, False)
    assert [text_of(message) for message in second.messages] == ["hello"]
    assert 0 < first.tokens < 20


def test_instructions_and_tools_count() -> None:
    """What a request sends beside its messages is part of its tokens."""
    with ScriptedServer() as server:
        for beside in ({}, {"system": "Be brief. " * 50}, {"tools": [{"name": "bash", "description": "words " * 50}]}):
            ask(server, "/v1/messages", ASKED | beside)
        plain, instructed, armed = (request.tokens for request in server.requests)
    assert instructed > plain + 50
    assert armed > plain + 50


def test_a_script_sees_the_request_it_answers() -> None:
    """An answer can depend on the messages and on all that was asked before."""

    def echo(request: ScriptedRequest) -> ScriptedAnswer:
        return Say(f"{len(server.requests)}: {text_of(request.messages[-1])}")

    with ScriptedServer(echo) as server:
        said = [json.loads(ask(server, CHAT, ASKED)[1])["choices"][0]["message"]["content"] for _ in range(2)]
    assert said == ["1: hi", "2: hi"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (CHAT, b"{broken", 400),
        (CHAT, b"[]", 400),
        (CHAT, {"messages": 3}, 400),
        (CHAT, {"messages": [3]}, 400),
        ("/v1/embeddings", {}, 404),
    ],
)
def test_what_no_provider_takes_is_refused(path: str, body: object, status: int) -> None:
    """A body that cannot be read and a path that leads nowhere are errors of the client, and are kept too."""
    with ScriptedServer() as server:
        answered, content = ask(server, path, body)
        assert len(server.requests) == 1
    assert answered == status
    assert json.loads(content)["error"]["message"]
    assert recognise(answered, content) is None


def test_a_body_may_come_in_chunks() -> None:
    """A client that does not know its request's length is understood."""
    with ScriptedServer() as server:
        connection = connect(server)
        content = json.dumps(ASKED).encode()
        connection.request("POST", CHAT, iter([content[:9], content[9:]]), encode_chunked=True)
        with connection.getresponse() as response:
            assert response.status == 200
            response.read()
        connection.request("POST", CHAT, content)
        with connection.getresponse() as response:
            assert response.status == 200
            response.read()
        connection.close()
        assert server.requests[0].body == server.requests[1].body == ASKED


# Trouble.


def test_a_stream_is_cut_after_so_many_events() -> None:
    """The connection breaks where it is told to, without an end."""
    with ScriptedServer(in_turn(CALLING), trouble=Trouble(cut_after_events=3)) as server:
        content, is_whole = read_stream(server, CHAT, STREAM)
    assert content.count(b"data: ") == 3
    assert not is_whole


@pytest.mark.parametrize("body", [ASKED, STREAM])
def test_a_length_can_be_a_lie(body: dict[str, Any]) -> None:
    """More is promised than comes, whole or streamed."""
    with ScriptedServer(trouble=Trouble(false_length=True)) as server:
        content, is_whole = read_stream(server, CHAT, body)
    assert content
    assert not is_whole


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        (CHAT, STREAM, "openai-chat"),
        ("/v1/responses", {"input": "hi", "stream": True}, "openai-responses"),
        ("/v1/messages", STREAM, "anthropic-messages"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", CONTENTS, "gemini"),
    ],
)
def test_garbage_hides_a_reply_that_is_whole(path: str, body: dict[str, Any], name: str) -> None:
    """What nobody can read stands between the events; a builder finds the reply all the same."""
    builder, plain = builder_for(name), builder_for(name)
    with ScriptedServer(in_turn(CALLING), trouble=Trouble(garbage=True)) as server:
        builder.feed(read_stream(server, path, body)[0])
    with ScriptedServer(in_turn(CALLING)) as server:
        plain.feed(read_stream(server, path, body)[0])
    assert builder.reply() == plain.reply()
    assert builder.skipped > 2


@pytest.mark.parametrize("method", ["streamGenerateContent", "streamGenerateContent?alt=sse"])
def test_an_error_event_ends_either_form_of_stream(method: str) -> None:
    """The stream reports it in its own form and then ends properly."""
    trouble = Trouble(cut_after_events=1, error_event={"error": {"code": 500, "message": "x"}})
    builder = builder_for("gemini")
    with ScriptedServer(in_turn(CALLING), trouble=trouble) as server:
        content, is_whole = read_stream(server, f"/v1beta/models/m:{method}", CONTENTS)
    builder.feed(content)

    assert is_whole
    assert builder.error() == trouble.error_event
    assert not builder.is_finished


def test_events_are_sent_one_by_one() -> None:
    """A reader has the first event while the next is still to come."""
    trouble = Trouble(chunk_delay_seconds=600)
    with ScriptedServer(trouble=trouble) as server:
        connection = connect(server)
        connection.request("POST", CHAT, json.dumps(STREAM).encode())
        response = connection.getresponse()
        assert response.readline().startswith(b"data: {")
        response.close()
        connection.close()


def test_a_plain_body_may_be_no_json() -> None:
    """A refusal without a body, or with text, is sent as it is."""
    with ScriptedServer(in_turn(Fail(502, b""), Fail(503, "busy"))) as server:
        assert ask(server, CHAT, ASKED) == (502, b"")
        assert ask(server, CHAT, ASKED) == (503, b"busy")


# The end.


def open_idle(server: ScriptedServer) -> HTTPConnection:
    """A connection that was used and stays open."""
    connection = connect(server)
    connection.request("POST", CHAT, json.dumps(ASKED).encode())
    connection.getresponse().read()
    return connection


def open_hanging(server: ScriptedServer) -> HTTPConnection:
    """A connection that waits for an answer."""
    connection = connect(server)
    connection.request("POST", CHAT, json.dumps(ASKED).encode())
    return connection


@pytest.mark.parametrize(("answer", "leave"), [(Say("x"), open_idle), (Hang(600), open_hanging)])
def test_nothing_is_left_behind(answer: ScriptedAnswer, leave: Callable[[ScriptedServer], HTTPConnection]) -> None:
    """A server stops at once and ends its threads, whatever its clients still wait for."""
    before = set(threading.enumerate())
    with ScriptedServer(in_turn(answer)) as server:
        connections = [leave(server) for _ in range(3)]
        begun = monotonic()
    assert monotonic() - begun < 30
    assert set(threading.enumerate()) == before
    for connection in connections:
        connection.close()


def test_silence_ends_without_a_word() -> None:
    """After its time a hanging server closes the connection."""
    with ScriptedServer(in_turn(Hang(0.01))) as server, pytest.raises(RemoteDisconnected):
        ask(server, CHAT, ASKED)


def test_a_failing_script_fails_the_test() -> None:
    """What a script raises is raised when the server ends, unless the test failed first."""

    def broken(_: ScriptedRequest) -> ScriptedAnswer:
        raise LookupError("no such answer")

    with (
        pytest.raises(LookupError, match="no such answer"),
        ScriptedServer(broken) as server,
        suppress(RemoteDisconnected),
    ):
        ask(server, CHAT, ASKED)
    with pytest.raises(RemoteDisconnected), ScriptedServer(broken) as server:
        ask(server, CHAT, ASKED)


def test_a_client_that_leaves_is_no_failure() -> None:
    """Closing a connection in the middle of a stream harms nobody."""
    with ScriptedServer(in_turn(Say("word " * 5_000))) as server:
        connection = connect(server)
        connection.request("POST", CHAT, json.dumps(STREAM).encode())
        connection.getresponse().close()
        connection.close()
        assert ask(server, CHAT, ASKED)[0] == 200
