"""What a gateway must never do: tell what was said, keep a credential, or speak to whom nobody named."""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from infold.testing.script import Fail, Say, in_turn
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.raw_upstream import RawUpstream, whole  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252
from .gateway_stage import ended, serving, worker
from .wrap_scenes import CHAT, MESSAGES, Item

pytestmark = pytest.mark.slow

SAID, ANSWERED, KEY = "the-lighthouse-is-teal", "the-answer-is-ochre", "sk-planted-credential"
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
