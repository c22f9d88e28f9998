"""Clients and upstreams that mean harm: bounded time and memory, answers that can be read, and nobody else disturbed."""

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from urllib.parse import urlsplit

import httpx2
import pytest

from ..unit.gateway.raw_upstream import Pause, RawRequest, RawUpstream, begun, whole  # noqa: TID252 - no package to name
from .gateway_stage import Worker, worker
from .wrap_scenes import CHAT, Item

pytestmark = pytest.mark.slow

PATH = "/v1/chat/completions"
MEGABYTE = 2**20
LIMITS = {"body_seconds": 3.0, "upstream_seconds": 3.0, "body_bytes": 64 * MEGABYTE}
MOST_MEGABYTES = 900
"""What a gateway may ever hold: itself, and a request of sixty-four megabytes read and measured."""

LONGEST_ANSWER = 20.0
"""Seconds in which anything is answered; a few times what it takes on two idle cores."""

REPLY = b'{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}]}'
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "hello"}}]}\n\n'
END = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
FALSE_LENGTH = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: 100000\r\n\r\n"

SCRIPTS: dict[str, Iterable[bytes | Pause]] = {
    "fine": [whole(REPLY)],
    "hangs": [Pause(60)],
    "hangs-after-headers": [begun(), Pause(60)],
    "hangs-after-a-word": [begun(), EVENT, Pause(60)],
    "lies-whole": [FALSE_LENGTH % b"application/json" + REPLY],
    "lies-streamed": [FALSE_LENGTH % b"text/event-stream" + EVENT + EVENT],
    "garbage-events": [
        begun(),
        b"data: {broken\n\n",
        b"\x00\xff\xfe: x\ndata\n\n",
        b"event: \n\ndata: [1]\n\n",
        EVENT,
        END,
    ],
    "garbage-whole": [whole(b"\x00\xff{not json")],
    "garbage-http": [b"\x00\x01\x02\r\n\r\n"],
    "closes-in-a-stream": [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
    ],
    "many-headers": [b"HTTP/1.1 200 OK\r\n" + b"x-a: 1\r\n" * 20_000 + b"content-length: 2\r\n\r\n{}"],
    "endless-whole": [begun(media_type=b"application/json"), *repeat(b" " * MEGABYTE, 256)],
    "endless-stream": [begun(), EVENT, *repeat(b"data: {}\n\n" * (MEGABYTE // 10), 4), *repeat(b"x" * MEGABYTE, 1_020)],
    "late-whole": [Pause(2.0), begun(media_type=b"application/json"), Pause(0.5), b" ", Pause(0.5), REPLY],
    "endless-opening": [begun(), *repeat(b": still busy\n\n" * (MEGABYTE // 16), 8), EVENT, END],
}
"""What an upstream does for the model of that name."""


def script(request: RawRequest) -> Iterable[bytes | Pause]:
    """Whatever the request's model is named for."""
    return next((told for name, told in SCRIPTS.items() if f'"{name}"'.encode() in request.body[:200]), SCRIPTS["fine"])


@pytest.fixture(scope="module")
def upstream() -> Iterator[RawUpstream]:
    """An upstream that may do anything."""
    with RawUpstream(script) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(upstream: RawUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One gateway for all of this; at the end it still answers, and has never held much."""
    place = str(tmp_path_factory.mktemp("hostile") / "log.db")
    with worker(place, upstream.url, GATEWAY_LIMITS=json.dumps(LIMITS), INFOLD_WINDOW="8000") as made:
        yield made
        assert asked(made, "fine").status_code == 200
        if Path("/proc/self/status").exists():
            assert made.most_megabytes < MOST_MEGABYTES


def body(model: str, *, stream: bool = False, content: object = "hi") -> Item:
    """A request for what that model does."""
    return {**CHAT, "model": model, "stream": stream, "messages": [{"role": "user", "content": content}]}


def asked(gateway: Worker, model: str, *, stream: bool = False) -> httpx2.Response:
    """The answer to one request, which must come soon."""
    return posted(gateway, json.dumps(body(model, stream=stream)).encode())


def posted(gateway: Worker, content: bytes | Iterable[bytes]) -> httpx2.Response:
    """The answer to these bytes."""
    began = monotonic()
    answer = httpx2.post(f"{gateway.url}{PATH}", content=content, timeout=LONGEST_ANSWER)
    assert monotonic() - began < LONGEST_ANSWER
    return answer


@contextmanager
def others_served(gateway: Worker) -> Iterator[None]:
    """While the block runs, another client is answered again and again, and never waits long."""
    done, slowest, failures = Event(), [0.0], []

    def ask() -> None:
        with httpx2.Client(base_url=gateway.url, headers={"authorization": "Bearer other"}, timeout=60) as client:
            while not done.wait(0.05):
                began = monotonic()
                answer = client.post(PATH, json=body("fine"))
                slowest[0] = max(slowest[0], monotonic() - began)
                if answer.status_code != 200:
                    failures.append(answer.status_code)

    thread = Thread(target=ask, name="another client")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert failures == []
    assert slowest[0] < LONGEST_ANSWER


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """An answer of the gateway's own: its status, and the type that SDKs read."""
    return answer.status_code, answer.json()["error"]["type"]


def test_a_hundred_megabytes_are_refused(gateway: Worker) -> None:
    """The client is told, whether it said how much would come or not; nothing of it reaches the upstream."""
    with others_served(gateway):
        told = posted(gateway, b"x" * (100 * MEGABYTE))
        untold = posted(gateway, iter([b"x" * MEGABYTE] * 100))

    assert problem(told) == problem(untold) == (413, "infold_gateway_error")


def test_a_client_without_end_is_cut_off(gateway: Worker) -> None:
    """It may send a few times what is taken, and no more; that it sees the answer cannot be promised."""
    with suppress(httpx2.TransportError):
        assert problem(posted(gateway, repeat(b"x" * MEGABYTE))) == (413, "infold_gateway_error")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"model":"fine","messages":' + b"[" * 200_000 + b"]" * 200_000 + b"}", id="deep"),
        pytest.param(
            b'{"model":"fine","messages":[' + b'{"content":' * 900 + b"1" + b"}" * 900 + b"]}", id="rather deep"
        ),
        pytest.param(b'{"model":"fine","messages":[{"role":"user","content":"\xff\xfe\xed\xa0\x80"}]}', id="no UTF-8"),
        pytest.param(
            b'{"model":"fine","messages":[{"role":"user","content":"\\ud800\\udfff \\ud800"}]}', id="surrogates"
        ),
        pytest.param(b'{"model":"fine","n":' + b"9" * 5_000_000 + b',"messages":[]}', id="long number"),
        pytest.param(b'{"model":"fine","n":1e999999999,"messages":[{"role":"user","content":"x"}]}', id="large number"),
        pytest.param(b'{"model":"fine","messages":[' + b"{}," * 1_000_000 + b"{}]}", id="many messages"),
        pytest.param(b'{"model":"fine",' + b'"messages":[],' * 300_000 + b'"messages":[]}', id="one field many times"),
        pytest.param(b"\x1f\x8b\x08\x00" + bytes(1_000_000), id="no JSON"),
        pytest.param(b"\x00" * 10_000_000, id="nothing"),
    ],
)
def test_a_body_made_to_hurt_is_relayed(gateway: Worker, content: bytes) -> None:
    """What cannot be read is the upstream's to refuse; it is sent on in bounded time, and nobody waits for it."""
    with others_served(gateway):
        assert posted(gateway, content).status_code == 200


def test_a_long_message_is_worked_on_aside(gateway: Worker) -> None:
    """Twenty megabytes of text are read and made to fit while others go on."""
    text = "The tide tables of this harbour are long. " * (20 * MEGABYTE // 42)
    with others_served(gateway):
        answer = httpx2.post(f"{gateway.url}{PATH}", json=body("fine", content=text), timeout=120)

    assert (answer.status_code, answer.headers["x-infold"]) == (200, "managed")


@pytest.mark.long
@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"type": "text", "text": "The tide turns at six. " * 4}, id="text"),
        pytest.param({"type": "image_url", "image_url": {"url": "https://example.com/tide.png"}}, id="pictures"),
    ],
)
def test_a_hundred_thousand_parts_cost_seconds(gateway: Worker, part: Item) -> None:
    """B17: one message of very many parts over the window is made to fit in linear time, while others go on."""
    with others_served(gateway):
        answer = httpx2.post(f"{gateway.url}{PATH}", json=body("fine", content=[part] * 100_000), timeout=60)

    assert (answer.status_code, answer.headers["x-infold"]) == (200, "managed")


def test_a_slow_client_is_let_go(gateway: Worker) -> None:
    """Who sends half a request and waits is answered in time, and holds up nobody."""
    address = urlsplit(gateway.url)
    head = f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n".encode()
    with others_served(gateway):
        connections = [socket.create_connection((address.hostname, address.port or 0), timeout=30) for _ in range(50)]
        for connection in connections:
            connection.sendall(head + b'{"model": ')
        answers = [connection.recv(65_536) for connection in connections]
        for connection in connections:
            connection.close()

    assert {answer.split(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 408 Request Timeout"}


@pytest.mark.parametrize(
    ("model", "status"),
    [("hangs", 504), ("hangs-after-headers", 504), ("lies-whole", 502), ("garbage-http", 502), ("many-headers", 502)],
)
def test_an_upstream_in_trouble_is_told(gateway: Worker, model: str, status: int) -> None:
    """Before anything was passed on, its trouble is an answer that an SDK can read."""
    with others_served(gateway):
        assert problem(asked(gateway, model, stream=True)) == (status, "infold_gateway_error")


@pytest.mark.parametrize("model", ["hangs-after-a-word", "lies-streamed", "closes-in-a-stream"])
def test_a_stream_that_breaks_off_breaks_off(gateway: Worker, model: str) -> None:
    """What came is passed on, and then the connection ends as the upstream's did: never as if all were well."""
    with others_served(gateway):
        heard, is_whole = listened(gateway, model)

    assert not is_whole
    assert heard.startswith(EVENT)


def listened(gateway: Worker, model: str) -> tuple[bytes, bool]:
    """What is heard of a stream, and whether it came to its end."""
    heard = b""
    with httpx2.stream("POST", f"{gateway.url}{PATH}", json=body(model, stream=True), timeout=LONGEST_ANSWER) as answer:
        try:
            for piece in answer.iter_raw():
                heard += piece
        except httpx2.RemoteProtocolError:
            return heard, False
    return heard, True


def test_garbage_is_passed_on_as_it_is(gateway: Worker) -> None:
    """What nobody understands is the client's to make something of."""
    events, told = asked(gateway, "garbage-events", stream=True), asked(gateway, "garbage-whole")

    assert (
        events.content
        == b"".join(piece for piece in SCRIPTS["garbage-events"] if isinstance(piece, bytes)).partition(b"\r\n\r\n")[2]
    )
    assert (told.status_code, told.content) == (200, b"\x00\xff{not json")


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "megabytes"), [("endless-whole", 256), ("endless-stream", 1_024), ("endless-opening", 7)]
)
def test_a_reply_without_end_is_passed_on_piece_by_piece(gateway: Worker, model: str, megabytes: int) -> None:
    """A gigabyte goes through without ever being held; the client that asked for it may have it."""
    before, heard = gateway.most_megabytes, 0
    with (
        others_served(gateway),
        httpx2.stream("POST", f"{gateway.url}{PATH}", json=body(model, stream=True), timeout=60) as answer,
    ):
        for piece in answer.iter_raw():
            heard += len(piece)

    assert heard >= megabytes * MEGABYTE * 0.9
    assert gateway.most_megabytes - before < 200


def test_a_client_that_leaves_ends_its_request(gateway: Worker, upstream: RawUpstream) -> None:
    """The upstream's connection is let go, so that nobody pays for what nobody hears."""
    before = upstream.lost
    with httpx2.stream("POST", f"{gateway.url}{PATH}", json=body("endless-stream", stream=True), timeout=60) as answer:
        next(answer.iter_raw())
    wait_until_lost(upstream, before, gateway)


def test_a_client_that_leaves_before_an_answer_ends_its_request(gateway: Worker, upstream: RawUpstream) -> None:
    """Also one that asked for a whole reply, of which nothing has come yet."""
    before = upstream.lost
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{gateway.url}{PATH}", json=body("late-whole"), timeout=httpx2.Timeout(LONGEST_ANSWER, read=1.0))
    wait_until_lost(upstream, before, gateway)


def wait_until_lost(upstream: RawUpstream, before: int, gateway: Worker) -> None:
    """Wait until one more connection to the upstream went away; other clients are served meanwhile."""
    until = monotonic() + LONGEST_ANSWER
    while upstream.lost == before:
        assert monotonic() < until
        asked(gateway, "fine")
