"""What a gateway must never do: tell what was said, keep a credential, or speak to whom nobody named."""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx2
import pytest

from infold.testing.script import Fail, Say, in_turn
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.raw_upstream import RawRequest, RawUpstream, whole  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252
from .gateway_stage import ended, serving, worker
from .wrap_scenes import CHAT, MESSAGES, Item

pytestmark = pytest.mark.slow

SAID, ANSWERED, KEY = "the-lighthouse-is-teal", "the-answer-is-ochre", "sk-planted-credential"
TOKEN, PAGE_TOKEN = "the-token-of-all-clients", "the-token-of-the-operator"
GEMINI = "/v1beta/models/gemini-x:generateContent"
OVERFLOW = {"error": {"message": "maximum context length is 900 tokens", "code": "context_length_exceeded"}}


def spoken(url: str) -> None:
    """Requests of every kind, all of which hold what must not be told."""
    bearer, key = {"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}
    messages: list[Item] = [{"role": "user", "content": SAID}, {"role": "assistant", "content": SAID}] * 8
    asked = [*messages, {"role": "user", "content": SAID}]
    with httpx2.Client(base_url=url, timeout=60) as client:
        for stream in (False, True):
            client.post("/v1/chat/completions", json={**CHAT, "messages": asked, "stream": stream}, headers=bearer)
            client.post("/v1/messages", json={**MESSAGES, "messages": asked, "stream": stream}, headers=key)
        contents = [{"role": "user", "parts": [{"text": SAID}]}]
        client.post(f"{GEMINI}?key={KEY}", json={"contents": contents})
        client.post("/v1/chat/completions", content=f'{{"messages": "{SAID}'.encode(), headers=bearer)
        client.post(f"/t/{KEY}/v1/chat/completions", json={"messages": [SAID]}, headers=bearer)
        client.get(f"/v1/files/{SAID}", headers=bearer)


def test_nothing_that_was_said_is_logged_and_no_credential_is_kept(tmp_path: Path) -> None:
    """With every logger at its loudest neither content nor credential is told, and no file holds the credential."""
    script = in_turn(Say(ANSWERED), Say(ANSWERED), Fail(400, OVERFLOW), Say(ANSWERED), Fail(500), Say(ANSWERED))
    variables = {"GATEWAY_DEBUG": "1", "INFOLD_WINDOW": "6000"}
    with ScriptedServer(script) as upstream, worker(str(tmp_path / "log.db"), upstream.url, **variables) as gateway:
        spoken(gateway.url)
        assert len(upstream.requests) + len(upstream.lookups) >= 8
        gateway.terminate()
        _, out, errors = ended(gateway.process)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    assert "DEBUG" in errors
    for secret in (SAID, ANSWERED, KEY):
        assert secret not in out + errors
    assert any(SAID.encode() in content for content in files.values())
    assert [name for name, content in files.items() if KEY.encode() in content] == []


def test_a_broken_upstream_leaves_no_traceback(tmp_path: Path) -> None:
    """What goes wrong behind the gateway is no fault of its own, and is not told as one."""
    cut = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n" + (
        b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n' % ANSWERED.encode()
    )
    body = {**CHAT, "messages": [{"role": "user", "content": SAID}], "stream": True}
    with RawUpstream(lambda _: [cut]) as upstream, worker(str(tmp_path / "log.db"), upstream.url) as gateway:
        with pytest.raises(httpx2.RemoteProtocolError):
            httpx2.post(f"{gateway.url}/v1/chat/completions", json=body)
        gateway.terminate()
        _, out, errors = ended(gateway.process)

    assert "Traceback" not in errors
    assert ANSWERED not in out + errors


@pytest.fixture
def elsewhere() -> Iterator[RawUpstream]:
    """A server that nobody named."""
    with RawUpstream(lambda _: [whole(b"{}")]) as server:
        yield server


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[str, RawUpstream]]:
    """A gateway with both tokens, whose upstream has a base path."""
    with RawUpstream(lambda _: [whole(b"{}")]) as upstream:
        app = Stage(f"{upstream.url}/team-a/llm", token=TOKEN, page_token=PAGE_TOKEN).app
        with serving(app) as url:
            yield url, upstream


def raw(url: str, *lines: str) -> bytes:
    """What a gateway answers to these very lines."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    with socket.create_connection((host, port or 0), timeout=20) as connection:
        connection.sendall("\r\n".join([*lines, "connection: close", "", ""]).encode())
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return answer


def test_requests_go_nowhere_but_to_the_settings_upstream(elsewhere: RawUpstream) -> None:
    """No form of a target, no header and no redirect leads to another host."""
    other = urlsplit(elsewhere.url).netloc
    moved = whole(b"", status=b"307 Moved", headers=[(b"location", elsewhere.url.encode() + b"/v1/models")])
    with RawUpstream(lambda _: [moved]) as upstream, serving(Stage(upstream.url).app) as url:
        answers = [
            raw(url, f"GET http://{other}/v1/models HTTP/1.1", f"host: {other}"),
            raw(url, f"GET //{other}/v1/models HTTP/1.1", f"host: {other}"),
            raw(url, f"GET /@{other}/v1/models HTTP/1.1", "host: 127.0.0.1"),
            raw(url, f"GET @{other}/v1/models HTTP/1.1", "host: 127.0.0.1"),
            raw(url, f"GET /v1/models?url=http://{other} HTTP/1.1", "host: 127.0.0.1", f"x-forwarded-host: {other}"),
            raw(url, f"GET /t/x/http://{other}/v1/models HTTP/1.1", "host: 127.0.0.1"),
            raw(url, f"CONNECT {other} HTTP/1.1", f"host: {other}"),
        ]
        hosts = {request.header("host") for request in upstream.requests}

        assert elsewhere.requests == ()
        assert hosts == {urlsplit(upstream.url).netloc}
    assert {answer.split()[1] for answer in answers} <= {b"307", b"400", b"403", b"404"}
    assert b"307" in answers[4]


def test_a_redirect_is_the_clients_to_follow(elsewhere: RawUpstream) -> None:
    """A request for a summary, with a client's credential, does not follow one either."""
    moved = whole(b"", status=b"302 Found", headers=[(b"location", elsewhere.url.encode())])
    body = {**CHAT, "messages": [{"role": "user", "content": "hi"}]}
    with RawUpstream(lambda _: [moved]) as upstream, serving(Stage(upstream.url).app) as url:
        answer = httpx2.post(f"{url}/v1/chat/completions", json=body)

    assert (answer.status_code, answer.headers["location"]) == (302, elsewhere.url)
    assert elsewhere.requests == ()


DOTS = [
    *("/v1/../../../admin", "/v1/..", "/..", "/./v1/models", "/v1/%2e%2e/admin", "/v1/.%2E/admin", "/v1/%2E/models"),
    *("/v1/..%2f..%2fadmin", "/v1/..%5cadmin", "/v1/..\\admin", "/v1/%252e%252e/admin", "/v1/..;x=1/admin"),
    *(f"/t/{TOKEN}/../admin", f"/t/{TOKEN}/v1/%2e%2e/%2e%2e/admin"),
]


@pytest.mark.parametrize("target", DOTS)
def test_no_path_leaves_the_upstreams_base(shared: tuple[str, RawUpstream], target: str) -> None:
    """B23: dot segments are refused however they are written, with an error that SDKs read; nothing is sent."""
    url, upstream = shared
    before = len(upstream.requests)
    answer = raw(url, f"GET {target} HTTP/1.1", "host: 127.0.0.1", f"x-infold-token: {TOKEN}")

    assert answer.split()[1] == b"400"
    assert b"infold_gateway_error" in answer
    assert b"dot segment" in answer
    assert len(upstream.requests) == before


@pytest.mark.parametrize(
    "target", ["/v1/files/a%2Fb%20c", "/v1/models/gpt-4.1", "/v1/...", "/v1/.well-known/x", "/v1//x"]
)
def test_other_paths_arrive_as_they_were_written(shared: tuple[str, RawUpstream], target: str) -> None:
    """B30: what is escaped stays escaped, and dots inside a segment are no dot segments."""
    url, upstream = shared
    raw(url, f"GET {target} HTTP/1.1", "host: 127.0.0.1", f"x-infold-token: {TOKEN}")

    assert upstream.requests[-1].target == f"/team-a/llm{target}"


ENCODED = "".join(f"%{ord(character):02x}" for character in TOKEN)
CARRIED = [
    (f"/%74/{TOKEN}/v1/models", ()),
    (f"/t/{ENCODED}/v1/models", ()),
    (f"/%74/{ENCODED}/v1/models", ()),
    (f"/t/{TOKEN}/t/{TOKEN}/v1/models", ()),
    (f"/t/{TOKEN}/%74/{ENCODED}/v1/models", ()),
    (f"/t/{TOKEN}/v1/models?a=1&token={TOKEN}&b=2", ()),
    (f"/t/{TOKEN}/v1/models?a=1&{ENCODED}=x&b=2", ()),
    (f"/t/{TOKEN}/v1/models", (f"referer: http://gateway/t/{TOKEN}/v1/models",)),
    (f"/t/{TOKEN}/v1/models", (f"referer: http://gateway/%74/{ENCODED}/",)),
    (f"/t/{TOKEN}/v1/models", (f"x-original-uri: /t/{TOKEN}/v1/models", f"x-forwarded-path: /t/{ENCODED}/")),
    (f"/t/{TOKEN}/v1/models", (f"cookie: a=1; infold-token={TOKEN}; b=2; other={TOKEN}",)),
    (f"/t/{TOKEN}/v1/models", (f"authorization: Bearer {TOKEN}", f"x-api-key: {TOKEN}")),
    (f"/t/{TOKEN}/v1/models", (f"X-Infold-Token: {TOKEN}", f"x-infold-anything: {TOKEN}", f"x-other: {PAGE_TOKEN}")),
    (f"/t/{TOKEN}/v1/models", (f"cookie: infold-token={PAGE_TOKEN}",)),
]


@pytest.mark.parametrize(("target", "lines"), CARRIED)
def test_no_token_reaches_an_upstream(shared: tuple[str, RawUpstream], target: str, lines: tuple[str, ...]) -> None:
    """B23: in whatever place and spelling a token comes, the request arrives without it."""
    url, upstream = shared
    before = len(upstream.requests)
    answer = raw(url, f"GET {target} HTTP/1.1", "host: 127.0.0.1", "x-kept: yes", *lines)
    [seen] = upstream.requests[before:]

    assert answer.split()[1] == b"200"
    assert seen.target.partition("?")[0] == "/team-a/llm/v1/models"
    assert seen.target.partition("?")[2] in ("", "a=1&b=2")
    assert seen.header("x-kept") == "yes"
    assert not [secret for secret in (TOKEN, PAGE_TOKEN) if secret in unquote(str(seen))]
    assert not [name for name, _ in seen.headers if name.lower().startswith("x-infold")]
    if lines and "a=1" in lines[0]:
        assert seen.header("cookie") == "a=1; b=2"


@pytest.mark.parametrize(
    "target", [f"/v1/{TOKEN}/x", f"/v1/x%2F{ENCODED}", f"/t%2F{TOKEN}/v1/models", f"/%2574/{TOKEN}/v1"]
)
def test_a_token_elsewhere_in_the_path_is_refused(shared: tuple[str, RawUpstream], target: str) -> None:
    """B23: what cannot be sent without the token is not sent; the error does not repeat it."""
    url, upstream = shared
    before = len(upstream.requests)
    answer = raw(url, f"GET {target} HTTP/1.1", "host: 127.0.0.1", f"x-infold-token: {TOKEN}")

    assert answer.split()[1] == b"400"
    assert b"token" in answer
    assert TOKEN.encode() not in answer
    assert len(upstream.requests) == before


FRAMED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
    b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions"])
def test_a_reply_with_two_framings_is_a_502(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """B23: no two programs may differ about where a reply ends; the client gets an error it can read, the log no traceback."""
    with RawUpstream(lambda _: [FRAMED]) as upstream, serving(Stage(upstream.url).app) as url:
        body = {**CHAT, "messages": [{"role": "user", "content": "hi"}]}
        answer = httpx2.request("POST" if "chat" in path else "GET", f"{url}{path}", json=body)

    assert answer.status_code == 502
    assert answer.headers["x-infold"] == "refused"
    assert "both content-length and transfer-encoding" in answer.json()["error"]["message"]
    assert "Traceback" not in caplog.text


def test_an_upstream_does_not_speak_for_the_gateway() -> None:
    """B23: its own `x-infold…` headers and its cookie of the pages' name are left out; its other headers and cookies are not."""
    claimed = [
        (b"x-infold", b"trust me, managed"),
        (b"X-Infold-Session", b"another"),
        (b"x-infold-more", b"1"),
        (b"set-cookie", b"infold-token=x; Path=/"),
        (b"Set-Cookie", b" Infold-Token =x"),
        (b"set-cookie", b"infold-token"),
        (b"set-cookie", b"theirs=1; Path=/"),
        (b"request-id", b"req_1"),
    ]
    with RawUpstream(lambda _: [whole(b"{}", headers=claimed)]) as upstream, serving(Stage(upstream.url).app) as url:
        answer = httpx2.get(f"{url}/v1/models")

    ours = [pair for pair in answer.headers.multi_items() if pair[0].startswith("x-infold")]
    assert ours == [("x-infold", "relayed; not a conversation")]
    assert answer.headers.get_list("set-cookie") == ["theirs=1; Path=/"]
    assert answer.headers["request-id"] == "req_1"


def test_probes_carry_nothing_of_the_clients_request() -> None:
    """B23: a local server is asked for its window at its own address, without the client's headers, query or path."""

    def answer(request: RawRequest) -> list[bytes]:
        return [whole(b"{}" if request.method == "POST" and "chat" in request.target else b"[]")]

    lines = {
        "authorization": f"Bearer {KEY}",
        "cookie": "a=1",
        "x-mine": SAID,
        "referer": "http://x.test/",
        "user-agent": "me",
    }
    body = {**CHAT, "model": "my-own-model", "messages": [{"role": "user", "content": SAID}]}
    with RawUpstream(answer) as upstream, serving(Stage(f"{upstream.url}/llm/v1", window=None).app) as url:
        httpx2.post(f"{url}/elsewhere/v1/chat/completions?key={KEY}&q={SAID}", json=body, headers=lines)
        asked = [request for request in upstream.requests if not request.target.startswith("/llm/v1/elsewhere/v1")]

    assert [(request.method, request.target) for request in asked] == [
        ("GET", "/llm/props"),
        ("GET", "/llm/api/ps"),
        ("POST", "/llm/api/show"),
        ("GET", "/llm/api/v0/models"),
    ]
    for request in asked:
        names = {name.lower() for name, _ in request.headers}
        assert names <= {"host", "accept-encoding", "connection", "content-length", "content-type"}
        assert not [secret for secret in (KEY, SAID, "elsewhere") if secret in str(request)]
