"""One request and its reply, from the client's side and from the upstream's."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from decimal import Decimal
from time import monotonic
from typing import Any

import brotli
import httpx2
import msgspec
import pytest
import zstandard

from infold.core.events import Compacted, FailedOpen, NotManaged, Rejected, WindowFound
from infold.errors import StoreBroken
from infold.gateway.event_hub import EventHub
from infold.gateway.request_body import GatewayLimits
from infold.gateway.tenants import TenantSessions
from infold.gateway.upstream import Upstreams
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Say, in_turn
from infold.testing.scripted_server import ScriptedServer

from .raw_upstream import Pause, RawRequest, RawUpstream, begun, whole
from .stage import CHAT, WINDOW, Item, Stage, chat, said, settings

REPLY = b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}'
ODD = b'{ "model":"gpt-x",  "messages":[{"content":"caf\\u00e9 \xc3\xa9","role":"user"}], "x": [1.50, 1e2] }'
OVERFLOW = {"error": {"message": "maximum context length is 3000 tokens", "code": "context_length_exceeded"}}


def asked(stage: Stage, *requests: tuple[str, str, bytes | Item], **headers: str) -> list[httpx2.Response]:
    """What is answered to requests of one client, one after the other."""

    async def ask() -> list[httpx2.Response]:
        async with stage.client(headers=headers) as client:
            return [await client.request(method, path, content=_bytes(body)) for method, path, body in requests]

    return asyncio.run(ask())


def _bytes(body: bytes | Item) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def turns(count: int) -> list[Item]:
    """A history of so many turns, and the person's next words."""
    told: list[Item] = []
    for number in range(count):
        told += [{"role": "user", "content": said(number)}, {"role": "assistant", "content": f"yes {number}"}]
    return [*told, {"role": "user", "content": "go on"}]


class Broken(MemoryStore):
    """A store that is out of order."""

    def append(self, *_: Any, **__: Any) -> int:
        """Fail."""
        raise StoreBroken("secret/place.db", "the disk is full", remedy="free some space")


class Odd(MemoryStore):
    """A store with an error of its own, whose words hold what was said."""

    def append(self, *given: Any, **_: Any) -> int:
        """Fail."""
        raise RuntimeError(f"cannot keep {given}")


def test_below_the_trigger_the_bytes_are_the_clients() -> None:
    """B29: odd spacing, escapes and fields nobody knows arrive as they were sent, and the reply comes back so."""
    with RawUpstream(lambda _: [whole(REPLY, headers=[(b"x-request-id", b"req_1")])]) as upstream:
        [answer] = asked(Stage(upstream.url), ("POST", CHAT, ODD))

        assert upstream.requests[0].body == ODD
        assert answer.content == REPLY
        assert answer.headers["x-request-id"] == "req_1"
        assert answer.headers["x-infold"] == "managed"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "POST", "PURGE"])
def test_what_is_no_conversation_is_passed_through(method: str) -> None:
    """Any method and path, its query and its escapes, and whatever bytes come back."""
    answer = whole(b"\x00\xff", status=b"418 I'm a teapot", headers=[(b"x-odd", b"caf\xe9")])
    with RawUpstream(lambda _: [answer]) as upstream:
        [reply] = asked(Stage(upstream.url), (method, "/v1/files/a%2Fb?x=%20y", b"\x01\xfe"))
        [request] = upstream.requests

        assert (request.method, request.target, request.body) == (method, "/v1/files/a%2Fb?x=%20y", b"\x01\xfe")
        assert (reply.status_code, reply.content) == (418, b"\x00\xff")
        assert dict(reply.headers.raw)[b"x-odd"] == b"caf\xe9"
        assert reply.headers["x-infold"].startswith("relayed; ")


def test_a_head_has_no_body() -> None:
    """Its headers are the upstream's."""
    with RawUpstream(lambda _: [whole(b"")]) as upstream:
        [reply] = asked(Stage(upstream.url), ("HEAD", "/v1/models", b""))

        assert (reply.status_code, upstream.requests[0].method) == (200, "HEAD")


def test_headers_pass_both_ways() -> None:
    """The client's own credential and marks arrive; doubles come back as doubles."""
    cookies = [(b"set-cookie", b"a=1; Path=/"), (b"set-cookie", b"b=2")]
    with RawUpstream(lambda _: [whole(REPLY, headers=cookies)]) as upstream:
        [reply] = asked(Stage(upstream.url), ("POST", CHAT, chat(turns(0))), authorization="Bearer k", x_mark="1")
        [request] = upstream.requests

        assert request.header("authorization") == "Bearer k"
        assert request.header("x_mark") == "1"
        assert reply.headers.get_list("set-cookie") == ["a=1; Path=/", "b=2"]


def test_the_gateways_own_headers_stay() -> None:
    """The session's name and the token are not for the upstream."""
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        headers = {"x-infold-session": "mine", "x-infold-token": "t", "cookie": "infold-token=t"}
        [reply] = asked(Stage(upstream.url), ("POST", CHAT, chat(turns(0))), **headers)

        assert not {"x-infold-session", "x-infold-token", "cookie"} & {
            name.lower() for name, _ in upstream.requests[0].headers
        }
        assert reply.headers["x-infold-session"] == "mine"


def test_a_name_may_be_in_any_script() -> None:
    """The bytes that came come back, and the session is called what they say."""
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        stage = Stage(upstream.url)

        async def ask() -> httpx2.Response:
            async with stage.client() as client:
                named = {b"x-infold-session": "Fähre à".encode()}
                return await client.post(CHAT, json=chat(turns(0)), headers=named)

        reply = asyncio.run(ask())

    assert dict(reply.headers.raw)[b"x-infold-session"] == "Fähre à".encode()
    assert [name for _, name, _ in stage.sessions()] == ["Fähre à"]


def test_numbers_beyond_a_double_stay_numbers() -> None:
    """Once something was cut, a number that no double and no 64 bits hold goes out as the same number."""
    odd = b'"big":123456789012345678901234567890,"e":-1e400,'
    body = msgspec.json.encode(chat(turns(90))).replace(b"{", b"{" + odd, 1)
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        [reply] = asked(Stage(upstream.url), ("POST", CHAT, body))
        sent = upstream.requests[0].body

    assert reply.headers["x-infold"] == "managed"
    assert len(sent) < len(body)
    told = json.loads(sent, parse_float=Decimal, parse_int=Decimal)
    assert (told["big"], told["e"]) == (Decimal("123456789012345678901234567890"), Decimal("-1e400"))


def test_an_unasked_encoding_is_passed_on_and_heard() -> None:
    """A reply that was compressed all the same reaches the client as it came, and the session as text."""
    packed = whole(gzip.compress(REPLY), headers=[(b"content-encoding", b"gzip")])
    with RawUpstream(lambda _: [packed]) as upstream:
        stage = Stage(upstream.url)
        [reply] = asked(stage, ("POST", CHAT, chat(turns(0))), **{"x-infold-session": "s"})

        assert reply.headers["content-encoding"] == "gzip"
        assert reply.content == REPLY
        assert [entries for _, _, entries in stage.sessions()] == [2]


@pytest.mark.parametrize("status", [401, 404, 429, 500, 529])
def test_errors_are_the_upstreams(status: int) -> None:
    """Status, body and headers as they came."""
    body = {"error": {"message": "a rate limit of tokens per minute", "odd": 1}}
    with ScriptedServer(lambda _: Fail(status, body, {"retry-after": "7"})) as upstream:
        [reply] = asked(Stage(upstream.url), ("POST", CHAT, chat(turns(0))))

    assert (reply.status_code, reply.json(), reply.headers["retry-after"]) == (status, body, "7")


def test_a_refusal_for_size_is_recovered_inside_the_request() -> None:
    """B7: the client sees an answer; the window that was learned holds for its next request."""
    with ScriptedServer(window_tokens=3_000) as upstream:
        stage = Stage(upstream.url, window=None)
        history = turns(40)
        reply, later = asked(
            stage,
            ("POST", CHAT, chat(history)),
            ("POST", CHAT, chat([*history, {"role": "assistant", "content": "All is well."}, history[0]])),
            **{"x-infold-session": "s", "idempotency-key": "one"},
        )
        sizes = [request.tokens for request in upstream.requests]

        assert (reply.status_code, reply.headers["x-infold"]) == (200, "managed")
        assert later.status_code == 200
        assert len(sizes) == 3
        assert sizes[0] > 3_000 >= max(sizes[1:])
        assert [request.headers.get("idempotency-key") for request in upstream.requests] == ["one", None, "one"]
    assert [type(event) for event in stage.events][:2] == [Rejected, Compacted]


def test_what_cannot_be_recovered_is_the_upstreams() -> None:
    """The refusal itself reaches the client, and a header says why."""
    with ScriptedServer(lambda _: Fail(400, OVERFLOW)) as upstream:
        stage = Stage(upstream.url)
        [reply] = asked(stage, ("POST", CHAT, chat(turns(0))))

    assert (reply.status_code, reply.json()) == (400, OVERFLOW)
    assert reply.headers["x-infold"].startswith("managed; not recovered: WindowExceeded")
    assert any(isinstance(event, FailedOpen) for event in stage.events)


def test_a_tiny_request_that_is_refused_blames_no_window() -> None:
    """A status without a word may mean anything; the header says that the provider refused it."""
    with ScriptedServer(lambda _: Fail(400, b"")) as upstream:
        [reply] = asked(Stage(upstream.url), ("POST", CHAT, chat(turns(0))))

    assert (reply.status_code, reply.content) == (400, b"")
    assert "the provider refused a view of" in reply.headers["x-infold"]


def test_a_second_refusal_is_the_upstreams() -> None:
    """One more try is all there is (B8)."""
    with ScriptedServer(lambda _: Fail(400, OVERFLOW)) as upstream:
        [reply] = asked(Stage(upstream.url, window=None), ("POST", CHAT, chat(turns(40))))

        assert (reply.status_code, reply.json(), len(upstream.requests)) == (400, OVERFLOW, 2)


@pytest.mark.parametrize(
    ("store", "note"),
    [(Broken, "managed; not stored: StoreBroken"), (Odd, "relayed; RuntimeError")],
)
def test_it_fails_open(store: type[MemoryStore], note: str) -> None:
    """Whatever is wrong on our side, the client's bytes go out; header and event say so, without what was said."""
    body = msgspec.json.encode(chat(turns(0)))
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        stage = Stage(upstream.url, store=store())
        [reply] = asked(stage, ("POST", CHAT, body), **{"x-infold-session": "s"})

        assert (reply.status_code, reply.content) == (200, REPLY)
        assert upstream.requests[0].body == body
    assert reply.headers["x-infold"] == note
    assert "x-infold-session" not in reply.headers
    [event] = stage.events
    assert isinstance(event, FailedOpen)
    assert (event.session_id, "go on" in event.problem) == ("s", False)


def test_a_broken_store_is_no_reason_to_outgrow_the_window(caplog: pytest.LogCaptureFixture) -> None:
    """B7, B13: while nothing can be stored, a long history is made to fit, request after request; the log says why, once."""
    with ScriptedServer(in_turn(Say("yes")), window_tokens=WINDOW) as upstream:
        stage = Stage(upstream.url, store=Broken())
        bodies = [chat(turns(count)) for count in (60, 61, 62)]
        replies = asked(stage, *(("POST", CHAT, body) for body in bodies))
        sent = [request.body["messages"] for request in upstream.requests]

    assert [reply.status_code for reply in replies] == [200, 200, 200]
    assert {reply.headers["x-infold"] for reply in replies} == {"managed; not stored: StoreBroken"}
    assert [len(messages) < 60 for messages in sent] == [True, True, True]
    assert [messages[: len(sent[0]) - 1] for messages in sent] == [sent[0][:-1]] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "sessions are not stored: secret/place.db: the disk is full; free some space"
    ]


def test_a_window_that_cannot_hold_it_fails_open() -> None:
    """The provider decides; the header tells that infold could not make it fit."""
    with ScriptedServer() as upstream:
        stage = Stage(upstream.url, window=1_900)
        [reply] = asked(stage, ("POST", CHAT, chat([{"role": "system", "content": "rule " * 2_000}, *turns(0)])))

    assert reply.status_code == 200
    assert reply.headers["x-infold"].startswith("relayed; WindowExceeded")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff\xfe", b'{"messages": 7}', b'{"messages": [[]]}', b"[" * 5_000, b'{"a":' * 5_000]
)
def test_what_is_no_request_is_the_upstreams_to_refuse(body: bytes) -> None:
    """B25: garbage goes out byte for byte; where it is no request at all, that is no failure of the gateway's."""
    with RawUpstream(lambda _: [whole(b"{}", status=b"400 Bad Request")]) as upstream:
        stage = Stage(upstream.url)
        [reply] = asked(stage, ("POST", CHAT, body))

        assert upstream.requests[0].body == body
        assert reply.status_code == 400
        assert reply.headers["x-infold"].startswith("relayed; ")
        assert bool(stage.events) == (b"[[]]" in body)


def test_why_a_body_is_not_read() -> None:
    """The header names it in plain words; a path that takes no messages is named before anything is unpacked."""
    notes = {b"": "the body is empty", b"\xff": "the body is not a readable JSON object"}
    with RawUpstream(lambda _: [whole(b"{}")]) as upstream:
        for body, note in notes.items():
            [reply] = asked(Stage(upstream.url), ("POST", CHAT, body))
            assert reply.headers["x-infold"] == f"relayed; {note}"
        [files] = asked(Stage(upstream.url), ("POST", "/v1/files", b"x"), **{"content-encoding": "zstd"})
        [packed] = asked(Stage(upstream.url), ("POST", CHAT, b"x"), **{"content-encoding": "zip"})

    assert files.headers["x-infold"] == "relayed; the path takes no messages"
    assert packed.headers["x-infold"] == "relayed; the body is compressed (zip)"


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress), ("zstd", zstandard.compress)],
)
def test_a_compressed_request_is_managed(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """B29: below the trigger the compressed bytes go out as they came; what was cut, and a summary's request, goes out plain."""
    small, large = pack(msgspec.json.encode(chat(turns(1)))), pack(msgspec.json.encode(chat(turns(90))))
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        replies = asked(
            Stage(upstream.url), ("POST", CHAT, small), ("POST", CHAT, large), **{"content-encoding": encoding}
        )
        first, second = upstream.requests

        assert [reply.headers["x-infold"] for reply in replies] == ["managed", "managed"]
        assert (first.body, first.header("content-encoding")) == (small, encoding)
        assert second.header("content-encoding") is None
        assert len(msgspec.json.decode(second.body)["messages"]) < 181


def test_a_compressed_request_that_is_refused_goes_out_plain_and_smaller() -> None:
    """B7: the second try is a body of our own."""
    packed = gzip.compress(msgspec.json.encode(chat(turns(40))))

    def script(request: RawRequest) -> list[bytes]:
        is_small = request.header("content-encoding") is None
        return [
            whole(REPLY if is_small else msgspec.json.encode(OVERFLOW), status=b"200 OK" if is_small else b"400 Bad")
        ]

    with RawUpstream(script) as upstream:
        [reply] = asked(Stage(upstream.url, window=None), ("POST", CHAT, packed), **{"content-encoding": "gzip"})

        sent = [
            request.body
            for request in upstream.requests
            if request.header("content-encoding") or len(request.body) > 99
        ]
        assert (reply.status_code, sent[0], len(sent)) == (200, packed, 2)


def test_what_is_too_large_to_read_is_relayed() -> None:
    """Above what infold reads itself, a request goes out as it came."""
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        [reply] = asked(Stage(upstream.url, limits=GatewayLimits(managed_bytes=100)), ("POST", CHAT, chat(turns(1))))

        assert len(upstream.requests[0].body) > 100
        assert reply.headers["x-infold"] == "relayed; larger than the 100 bytes that infold reads"


def test_history_that_a_provider_holds_is_let_be() -> None:
    """B22, B30: what is not all there cannot be cut; an event says so, and none is told for paths that take no messages."""
    body = {"model": "gpt-x", "previous_response_id": "resp_1", "input": "go on"}
    with ScriptedServer() as upstream:
        stage = Stage(upstream.url)
        [reply, _] = asked(stage, ("POST", "/v1/responses", body), ("POST", "/v1/embeddings", {"input": "x"}))

    assert (reply.status_code, "previous_response_id" in reply.headers["x-infold"]) == (200, True)
    assert [(type(event), "previous_response_id" in str(event)) for event in stage.events] == [(NotManaged, True)]


def test_a_request_that_is_too_large_is_refused() -> None:
    """In the shape that SDKs read errors from; the upstream never hears of it."""
    with ScriptedServer() as upstream:
        [reply] = asked(Stage(upstream.url, limits=GatewayLimits(body_bytes=10)), ("POST", CHAT, chat(turns(0))))

        assert upstream.requests == ()
    assert (reply.status_code, reply.json()["error"]["type"]) == (413, "infold_gateway_error")
    assert reply.headers["x-infold"] == "refused"


def test_an_upstream_that_is_not_set_is_told() -> None:
    """The answer says how to set it."""
    stage = Stage("", upstreams=Upstreams({"anthropic": "http://127.0.0.1:9"}))
    [reply] = asked(stage, ("POST", CHAT, chat(turns(0))))

    assert (reply.status_code, "--upstream openai=URL" in reply.json()["error"]["message"]) == (503, True)


def test_an_upstream_that_is_away_is_told() -> None:
    """Nobody listens there."""
    with RawUpstream(lambda _: [b""]) as gone:
        address = gone.url
    [away] = asked(Stage(address), ("POST", CHAT, chat(turns(0))))

    assert (away.status_code, away.json()["error"]["code"]) == (502, 502)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ([b""], 502),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncontent-type: application/json\r\n\r\n{"], 502),
        ([b"garbage\r\n\r\n"], 502),
        ([Pause(5)], 504),
        ([begun(), Pause(5)], 504),
    ],
)
def test_an_upstream_in_trouble_is_told(script: list[bytes | Pause], status: int) -> None:
    """Before anything was passed on, trouble is an answer and not a broken connection."""
    limits = GatewayLimits(upstream_seconds=1)
    with RawUpstream(lambda _: script) as upstream:
        [reply] = asked(Stage(upstream.url, limits=limits), ("POST", CHAT, chat(turns(0), stream=True)))

    assert (reply.status_code, reply.json()["error"]["code"]) == (status, status)


def test_a_title_never_joins_a_coding_session() -> None:
    """A request without tools that brings a session's very messages is another session."""
    tool = {"type": "function", "function": {"name": "bash", "parameters": {}}}
    with ScriptedServer(in_turn(Say("yes"))) as upstream:
        stage = Stage(upstream.url)
        coding, title = asked(stage, ("POST", CHAT, chat(turns(2), tools=[tool])), ("POST", CHAT, chat(turns(2))))

    assert coding.headers["x-infold-session"] != title.headers["x-infold-session"]
    assert len(stage.sessions()) == 2


def test_a_title_stays_out_of_the_session_it_is_named_after() -> None:
    """With one name for all of a client's requests, one without tools has a session beside; the last step belongs."""
    tool = {"type": "function", "function": {"name": "bash", "parameters": {}}}
    with ScriptedServer(in_turn(Say("yes"))) as upstream:
        stage = Stage(upstream.url)
        step = [*turns(2), {"role": "assistant", "content": "yes"}, *turns(3)[-1:]]
        replies = asked(
            stage,
            ("POST", CHAT, chat(turns(2), tools=[tool])),
            ("POST", CHAT, chat(turns(2))),
            ("POST", CHAT, chat(step)),
            **{"x-infold-session": "mine"},
        )

    assert [reply.headers["x-infold-session"] for reply in replies] == ["mine", "mine~1", "mine"]


def test_a_history_without_a_reply_has_no_name_yet() -> None:
    """Nothing is stored of it, and the client is told no name."""
    with ScriptedServer() as upstream:
        stage = Stage(upstream.url)
        [reply] = asked(stage, ("POST", CHAT, chat(turns(0))))

    assert (reply.headers["x-infold"], "x-infold-session" in reply.headers) == ("managed", False)
    assert stage.sessions() == []


def test_a_rotated_credential_keeps_its_sessions() -> None:
    """B28: with the old credential in `x-infold-tenant` the new one goes on in its session; without it, in another."""
    history, old = turns(3), "sk-the-old-one-of-ada"
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        stage = Stage(upstream.url)
        asked(stage, ("POST", CHAT, chat(history)), authorization=f"Bearer {old}")
        before = stage.sessions()
        longer = [*history, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "and now?"}]
        carried = {"authorization": "Bearer sk-the-new-one", "x-infold-tenant": old}
        [reply] = asked(stage, ("POST", CHAT, chat(longer)), **carried)
        after = stage.sessions()
        asked(stage, ("POST", CHAT, chat(longer)), authorization="Bearer sk-the-new-one")
        sent = upstream.requests[1]

    assert [tenant for tenant, _, _ in before] == [tenant for tenant, _, _ in after]
    assert after[0][2] > before[0][2]
    assert reply.headers["x-infold-session"] == before[0][1]
    assert len(stage.sessions()) == 2
    assert (sent.header("authorization"), sent.header("x-infold-tenant")) == ("Bearer sk-the-new-one", None)


def test_a_tenant_that_can_be_guessed_is_refused() -> None:
    """B28: nobody takes over sessions by a short name; the request is not sent on."""
    with RawUpstream(lambda _: [whole(REPLY)]) as upstream:
        [reply] = asked(Stage(upstream.url), ("POST", CHAT, chat(turns(0))), **{"x-infold-tenant": "ada"})
        assert upstream.requests == ()

    assert reply.status_code == 400
    assert "16 or more" in reply.json()["error"]["message"]


def test_a_server_is_asked_for_its_window() -> None:
    """B11: a local upstream that reports its window is sent no more than that; it is asked once, with the client's key."""
    with ScriptedServer(window_tokens=3_000, served_tokens=3_000) as upstream:
        stage = Stage(upstream.url, window=None)
        history = turns(40)
        replies = asked(
            stage, *[("POST", CHAT, chat(history))] * 2, **{"x-infold-session": "s", "authorization": "Bearer mine"}
        )

        assert [reply.status_code for reply in replies] == [200, 200]
        assert max(request.tokens for request in upstream.requests) <= 3_000
        assert [(one.path, one.headers["authorization"]) for one in upstream.lookups] == [("/v1/models", "Bearer mine")]
    found = [event for event in stage.events if isinstance(event, WindowFound)]
    assert [(event.session_id, event.window_tokens) for event in found] == [("s", 3_000)]
    assert not any(isinstance(event, Rejected) for event in stage.events)


def test_a_stated_window_is_not_asked_for() -> None:
    """B11: a window of the settings always wins, and the server is not asked."""
    with ScriptedServer(served_tokens=3_000) as upstream:
        asked(Stage(upstream.url), ("POST", CHAT, chat(turns(1))))

        assert upstream.lookups == ()


@pytest.mark.slow
def test_a_server_that_does_not_answer_holds_no_request_up() -> None:
    """B11: a server that never answers a question is given up after two seconds, once; the request then goes out."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST /v1"):
            body = b'{"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}'
            opening = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(opening.encode() + body)
            await writer.drain()
            writer.close()
        else:
            await reader.read()  # until the gateway gives up
            writer.close()

    async def main() -> list[float]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        stage = Stage(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", window=None)
        taken = []
        async with stage.client() as client:
            for _ in range(2):
                began = monotonic()
                reply = await client.post(CHAT, content=_bytes(chat(turns(0))))
                assert reply.status_code == 200
                taken.append(monotonic() - began)
        server.close()
        return taken

    first, second = asyncio.run(main())
    assert 1.5 < first < 4.0
    assert second < 1.0


def test_tools_are_deferred_where_that_is_allowed() -> None:
    """B8: with `defer_tools` the gateway sends fewer definitions, and what the provider's search replies passes through."""
    tools = [{"name": f"t{n}", "input_schema": {"type": "object"}} for n in range(12)]
    search = {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_bm25", "input": {"query": "deploy"}}
    found = {
        "type": "tool_search_tool_result",
        "tool_use_id": "s1",
        "content": {"type": "tool_search_tool_search_result"},
    }
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 99,
        "tools": tools,
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [search, found, {"type": "text", "text": "found"}]},
            {"role": "user", "content": "go on"},
        ],
    }
    sent: list[Item] = []
    choices: list[dict[str, str]] = [{"INFOLD_DEFER_TOOLS": "true"}, {}]
    for variables in choices:
        with ScriptedServer() as upstream:
            sessions = TenantSessions(MemoryStore(), settings(INFOLD_WINDOW="6000", **variables), EventHub())
            stage = Stage(upstream.url, sessions=sessions)
            [reply] = asked(stage, ("POST", "/v1/messages", body))
            assert reply.status_code == 200
            sent.append(dict(upstream.requests[0].body))

    assert sent[0]["messages"] == sent[1]["messages"] == body["messages"]
    assert sent[1]["tools"] == tools
    assert [tool.get("defer_loading", False) for tool in sent[0]["tools"]] == [False] * 4 + [True] * 9
